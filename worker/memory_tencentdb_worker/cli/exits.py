"""Exit codes (CONTRACT section 5) and the errors that end a command with one of them."""

from __future__ import annotations

DONE = 0
WRONG_USE = 1
REFUSED = 2
CONFIGURATION = 3
UNREACHABLE = 4
TIMED_OUT = 5
DEGRADED = 6


class CommandError(Exception):
    """Ends the command: what happened and why, and in `hint` what to do next."""

    exit_code = WRONG_USE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class WrongUseError(CommandError):
    exit_code = WRONG_USE


class RefusedError(CommandError):
    """Not found, or the worker declined."""

    exit_code = REFUSED


class ConfigurationError(CommandError):
    exit_code = CONFIGURATION


class UnreachableError(CommandError):
    exit_code = UNREACHABLE


class TimedOutError(CommandError):
    exit_code = TIMED_OUT
