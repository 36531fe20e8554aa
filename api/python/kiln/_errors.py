"""What the package raises."""

from __future__ import annotations

import enum


class ErrorCode(enum.IntEnum):
    """What kind of error it is, as ``KilnErrorCode`` of kiln.h."""

    FAILED = 1
    USAGE = 2
    MISUSE = 3
    BUSY = 4
    OUT_OF_MEMORY = 5
    INTERNAL = 6


class Error(Exception):
    """An error of the library. Its text is what the program ``kiln`` would print:
    ``FILE:LINE:COLUMN: error: what: expected X, got Y``."""

    code: ErrorCode = ErrorCode.FAILED


class UsageError(Error, ValueError):
    """An argument that is wrong, or that the model or the device cannot honour."""

    code = ErrorCode.USAGE


class BusyError(Error):
    """A model was used while another call or stream of it was running."""

    code = ErrorCode.BUSY


class OutOfMemoryError(Error, MemoryError):
    """The host has no memory left. (That of a device is an :class:`Error`, with sizes.)"""

    code = ErrorCode.OUT_OF_MEMORY


_CLASSES: dict[int, type[Error]] = {
    ErrorCode.USAGE: UsageError,
    ErrorCode.MISUSE: UsageError,
    ErrorCode.BUSY: BusyError,
    ErrorCode.OUT_OF_MEMORY: OutOfMemoryError,
}


def make_error(code: int, message: str) -> Error:
    """The error for a code of kiln.h; the extension calls it."""
    error = _CLASSES.get(code, Error)(message)
    error.code = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.FAILED
    return error
