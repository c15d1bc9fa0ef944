"""A replay as one self-contained HTML file."""
