"""Turns arguments into what the extension takes, and refuses wrong ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

StrPath: TypeAlias = Union[str, "os.PathLike[str]"]
IdArray: TypeAlias = npt.NDArray[np.int32]
#: Token ids: a list of integers, or an array of shape [T] of any integer type.
Tokens: TypeAlias = Union[Sequence[int], npt.NDArray[np.integer[Any]]]
#: A text, or its token ids.
Prompt: TypeAlias = Union[str, Tokens]

_INT32 = np.iinfo(np.int32)


def path_bytes(path: StrPath, name: str) -> bytes:
    """A path as the file system has it."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError(f"{name}: expected a path, got one with a zero byte")
    return encoded


def text_or_none(text: str | None, name: str) -> str | None:
    """A text without zero bytes, at which C would end it."""
    if text is not None and not isinstance(text, str):
        raise TypeError(f"{name}: expected a str, got {type(text).__name__}")
    if text is not None and "\0" in text:
        raise ValueError(f"{name}: expected a text without zero bytes, got {text!r}")
    return text


def rows_or_default(rows: int | None) -> int:
    """`batch_invariant` as the library takes it: 0 is the default."""
    if rows == 0:
        raise ValueError("batch_invariant: expected 1 or more, got 0")
    return 0 if rows is None else rows


def texts(values: str | Sequence[str], name: str) -> list[str]:
    """One text or several, as a list."""
    listed = [values] if isinstance(values, str) else list(values)
    return [text_or_none(text, name) or "" for text in listed]


def id_array(tokens: Tokens, name: str) -> IdArray:
    """Token ids as an int32 array of shape [T]."""
    array = np.asarray(tokens)
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.int32)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected token ids, which are integers, got {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name}: expected token ids of shape [T], got shape {list(array.shape)}")
    if array.min() < _INT32.min or array.max() > _INT32.max:
        raise ValueError(f"{name}: expected token ids of 32 bits, got {array.min()} to {array.max()}")
    return np.ascontiguousarray(array, np.int32)


def is_prompt(value: object) -> bool:
    """Whether it is one prompt, and not a sequence of them."""
    if isinstance(value, (str, np.ndarray)):
        return True
    return isinstance(value, Sequence) and all(isinstance(item, (int, np.integer)) for item in value)
