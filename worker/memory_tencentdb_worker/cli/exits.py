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
    """Ends the command: what happened and why, and in `hint` what to do next. `code` is the public name of the
    problem, the worker's own where it has one."""

    exit_code = WRONG_USE
    code = "wrong_use"

    def __init__(self, message: str, hint: str = "", *, code: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code or self.code


class WrongUseError(CommandError):
    exit_code = WRONG_USE


class RefusedError(CommandError):
    """Not found, or the worker declined."""

    exit_code = REFUSED
    code = "refused"


class ConfigurationError(CommandError):
    exit_code = CONFIGURATION
    code = "configuration"


class UnreachableError(CommandError):
    exit_code = UNREACHABLE
    code = "unreachable"


class TimedOutError(CommandError):
    exit_code = TIMED_OUT
    code = "timed_out"
