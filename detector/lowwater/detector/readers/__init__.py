"""Readers of files: one module per format, detected by content."""
