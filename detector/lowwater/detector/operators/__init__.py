"""Keyed state machines: an operator holds settings, the runtime holds its states, time and keys."""
