"""What the command's exit codes mean."""

from __future__ import annotations

__all__ = ["EPILOG", "EXIT_FINDINGS", "EXIT_INTERRUPTED", "EXIT_OK", "EXIT_PARTIAL", "EXIT_USAGE"]

EXIT_OK = 0
"""Everything was read."""
EXIT_USAGE = 2
"""Wrong arguments or configuration, or nothing at all could be read."""
EXIT_PARTIAL = 3
"""Something was read, and something could not be; it is counted and named on standard error."""
EXIT_FINDINGS = 4
"""A finding of the severity given by ``--fail-on`` or worse."""
EXIT_INTERRUPTED = 130
"""Stopped from the keyboard, as shells count it: 128 and the number of the signal."""

EPILOG = """exit codes:
  0  everything was read
  2  wrong arguments or configuration, or nothing could be read
  3  some of the input could not be read (counted and named on standard error)
  4  a finding of the severity of --fail-on or worse, even where 3 holds too
130  interrupted
"""
