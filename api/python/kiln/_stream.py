"""Streams of tokens: generating runs on a thread of its own, and the iterator takes tokens as they come."""

from __future__ import annotations

import enum
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, Union

import numpy as np
import numpy.typing as npt

from . import _core
from ._arguments import IdArray


class FinishReason(str, enum.Enum):
    """Why a sequence ended."""

    LENGTH = "length"
    STOP = "stop"
    EOS = "eos"
    CANCELLED = "cancelled"

    def __str__(self) -> str:
        return self.value


_REASONS = tuple(FinishReason)  # in the order of KilnFinishReason


@dataclass(frozen=True)
class Token:
    """A token that was generated."""

    sequence: int  #: index of its prompt
    id: int
    text: str  #: that has become certain; the texts of a sequence, joined, are its text


@dataclass(frozen=True)
class Generation:
    """A sequence that was generated, of N new tokens."""

    tokens: IdArray  #: [N], up to and including what ended the sequence
    text: str  #: without a final end-of-text token, up to a stop string
    finish_reason: FinishReason
    prompt_ms: float  #: time to evaluate the prompts of its batch
    token_ms: npt.NDArray[np.float64] = field(repr=False)  #: [N], time of the step that gave each token
    #: [N, V], from which each token was chosen; None without ``keep_logits``
    logits: npt.NDArray[np.float32] | None = field(default=None, repr=False)
    #: [N], of the tokens that were chosen, by the model itself; None without ``keep_logits``
    log_probabilities: npt.NDArray[np.float32] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Request:
    """What the thread generates."""

    session: _core.Session
    prompts: list[IdArray]
    settings: _core.Settings
    stop: list[str]


@dataclass(frozen=True)
class _End:
    """The last item of the queue."""

    generations: list[Generation]
    failure: BaseException | None = None


_Items: TypeAlias = "queue.SimpleQueue[Union[Token, _End]]"
Results = TypeVar("Results")


class Worker:
    """The thread of a stream. The model keeps it: what was cancelled still ends its step, and the model's next call
    waits for that."""

    def __init__(self, request: Request, items: _Items) -> None:
        self._cancellation = _core.Cancellation()
        self._is_cancelled = False
        # The thread must not refer to the stream, which cancels when it is dropped.
        self.thread = threading.Thread(
            target=_generate, args=(request, items, self._cancellation), name="kiln-generate"
        )
        self.thread.start()

    def cancel(self) -> None:
        """Ends the sequences after the step that they are at."""
        self._is_cancelled = True
        self._cancellation.cancel()

    def settle(self) -> bool:
        """Waits for the end of a stream that was cancelled. Whether the thread still works."""
        if self._is_cancelled:
            self.thread.join()
        return self.thread.is_alive()


class Stream(Generic[Results]):
    """An iterator over the tokens of a generation, as they come; :meth:`Model.generate` makes it.

    Ctrl-C while it waits cancels the generation. So do leaving ``with stream:`` and dropping the stream, as by a
    ``break`` out of a loop over it. Until it has ended, or was cancelled, the model can do nothing else
    (:class:`BusyError`). A stream belongs to one thread at a time; only :meth:`cancel` may be called from any."""

    def __init__(self, request: Request, is_single: bool) -> None:
        self._items: _Items = queue.SimpleQueue()
        self._end: _End | None = None
        self._is_single = is_single
        self.worker = Worker(request, self._items)

    def __iter__(self) -> Iterator[Token]:
        return self

    def __next__(self) -> Token:
        if self._end is None:
            item = self._take()
            if isinstance(item, Token):
                return item
            self._end = item
            self.worker.thread.join()
            if item.failure is not None:
                raise item.failure
        raise StopIteration

    def __enter__(self) -> Stream[Results]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
        self.worker.thread.join()

    def __del__(self) -> None:
        if hasattr(self, "worker"):
            self.cancel()

    def cancel(self) -> None:
        """Ends the sequences after the step that they are at. Tokens until then still come. From any thread."""
        self.worker.cancel()

    def result(self) -> Results:
        """Takes all tokens that are left, and returns the :class:`Generation` of the prompt, or a list of them if
        `generate` was given a list of prompts."""
        for _ in self:
            pass
        assert self._end is not None
        if self._end.failure is not None:
            raise self._end.failure
        generations: Any = self._end.generations
        made: Results = generations[0] if self._is_single else generations
        return made

    def _take(self) -> Token | _End:
        try:
            return self._items.get()
        except BaseException:  # KeyboardInterrupt above all
            self.cancel()
            self.worker.thread.join()
            raise


def _generate(request: Request, items: _Items, cancellation: _core.Cancellation) -> None:
    main = threading.main_thread()

    def on_token(sequence: int, token: int, text: bytes) -> bool:
        items.put(Token(sequence, token, text.decode(errors="replace")))
        return not main.is_alive()  # the interpreter waits for this thread: end soon

    try:
        made = request.session.generate(request.prompts, request.settings, request.stop, on_token, cancellation)
        items.put(_End([_generation(one) for one in made]))
    except BaseException as error:
        items.put(_End([], error))


def _generation(data: dict[str, Any]) -> Generation:
    return Generation(
        tokens=data["tokens"],
        text=data["text"].decode(errors="replace"),
        finish_reason=_REASONS[data["finish_reason"]],
        prompt_ms=data["prompt_ms"],
        token_ms=data["token_ms"],
        logits=data.get("logits"),
        log_probabilities=data.get("log_probabilities"),
    )
