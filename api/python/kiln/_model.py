"""A model on a device: text, tokens, logits."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from . import _core
from ._arguments import (
    IdArray,
    Prompt,
    StrPath,
    Tokens,
    id_array,
    is_prompt,
    path_bytes,
    rows_or_default,
    text_or_none,
    texts,
)
from ._errors import UsageError
from ._plan import NoteCallback, ProgressCallback, log_note
from ._stream import Generation, Request, Stream, Worker

Logits: TypeAlias = npt.NDArray[np.float32]
_OVERFLOWS = ("error", "stop", "slide")  # in the order of KilnOverflow

#: For :meth:`Model.decode`: this row takes no part in the step.
IDLE_ROW = -1


class Model:
    """A model or a plan with its weights and vocabulary, on a device.

    The device is opened by the first call that needs it, which loads the weights and compiles the kernels; `tokenize`
    needs none. A model may be used by one thread at a time, except for `tokenize` and `detokenize`; a second call
    meanwhile raises :class:`BusyError`. For several threads, open several models.

    V is the vocabulary's size, T a number of tokens. Arrays are NumPy's, which other libraries take by DLPack
    (``torch.from_dlpack(model.logits("ROMEO:"))``); each is a copy of its own."""

    def __init__(
        self,
        path: StrPath,
        *,
        device: str = "auto",
        batch: int = 1,
        weights: StrPath | None = None,
        random_weights: int | None = None,
        dtype: str | None = None,
        matmul: str | None = None,
        decode: str | None = None,
        strategy: str | None = None,
        tuning: StrPath | None = None,
        batch_invariant: int | None = None,
        can_score: bool = True,
        on_progress: ProgressCallback | None = None,
        on_note: NoteCallback | None = None,
    ) -> None:
        """As :func:`kiln.open`."""
        self._path = path  # a Plan without a directory of its own lives as long as the model
        self._can_score = can_score
        self._on_progress = on_progress
        self._on_note = on_note or log_note
        self._lock = threading.Lock()
        self._session: _core.Session | None = None
        self._is_closed = False
        self._workers: list[Worker] = []  # of streams that may still be at work
        self._model = _core.Model(
            path_bytes(path, "path"),
            device=text_or_none(device, "device"),
            batch=batch,
            weights=None if weights is None else path_bytes(weights, "weights"),
            random_weights=random_weights,
            dtype=text_or_none(dtype, "dtype"),
            matmul=text_or_none(matmul, "matmul"),
            decode=text_or_none(decode, "decode"),
            strategy=text_or_none(strategy, "strategy"),
            tuning=None if tuning is None else text_or_none(os.fspath(tuning), "tuning"),
            batch_invariant=rows_or_default(batch_invariant),
        )

    def __repr__(self) -> str:
        return f"<Model {self.name} on {self.device}>"

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees the memory of the device. A call or stream that is running ends first, and gives it back then."""
        with self._lock:
            self._is_closed = True
            if self._session is not None:
                self._session.close()

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    @property
    def device(self) -> str:
        """``cpu``, ``emulate`` or ``cuda:N``."""
        return self._model.device

    @property
    def vocabulary_size(self) -> int:
        """V: the logits of a row, and the bound of token ids."""
        return self._model.vocabulary_size

    @property
    def context_length(self) -> int:
        """The most tokens of a sequence."""
        return self._model.context_length

    @property
    def layers(self) -> int:
        """The number of layers."""
        return self._model.layers

    @property
    def batch(self) -> int:
        """The most sequences at once."""
        return self._model.batch

    @property
    def eos_tokens(self) -> tuple[int, ...]:
        """The ids that end a sequence."""
        return tuple(self._model.eos_tokens)

    def open_device(self) -> Model:
        """Loads weights and kernels now instead of at the first call that needs them. Returns the model."""
        self._opened()
        return self

    # Text

    def tokenize(self, text: str | bytes, *, special: bool = False) -> IdArray:
        """The token ids of a text, int32 of shape [T]. With `special`, special tokens in the text become their ids."""
        return self._model.tokenize(text.encode() if isinstance(text, str) else text, special)

    def detokenize(self, tokens: Tokens) -> str:
        """The text that token ids, of shape [T], stand for. Bytes that are no UTF-8 become U+FFFD."""
        return self.detokenize_bytes(tokens).decode(errors="replace")

    def detokenize_bytes(self, tokens: Tokens) -> bytes:
        """The bytes that token ids, of shape [T], stand for."""
        return self._model.detokenize(id_array(tokens, "tokens"))

    # A str is also a sequence of str; the first overload counts.
    @overload
    def generate(  # type: ignore[overload-overlap]
        self,
        prompt: Prompt,
        *,
        max_new_tokens: int = ...,
        greedy: bool = ...,
        temperature: float = ...,
        top_k: int = ...,
        top_p: float = ...,
        min_p: float = ...,
        seed: int = ...,
        stop: str | Sequence[str] = ...,
        ignore_eos: bool = ...,
        overflow: Literal["error", "stop", "slide"] = ...,
        slide_keep: int = ...,
        keep_logits: bool = ...,
    ) -> Stream[Generation]: ...

    @overload
    def generate(
        self,
        prompt: Sequence[Prompt],
        *,
        max_new_tokens: int = ...,
        greedy: bool = ...,
        temperature: float = ...,
        top_k: int = ...,
        top_p: float = ...,
        min_p: float = ...,
        seed: int = ...,
        stop: str | Sequence[str] = ...,
        ignore_eos: bool = ...,
        overflow: Literal["error", "stop", "slide"] = ...,
        slide_keep: int = ...,
        keep_logits: bool = ...,
    ) -> Stream[list[Generation]]: ...

    def generate(
        self,
        prompt: Prompt | Sequence[Prompt],
        *,
        max_new_tokens: int = 128,
        greedy: bool = False,
        temperature: float = 1.0,
        top_k: int = 50,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int = 0,
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
        overflow: Literal["error", "stop", "slide"] = "error",
        slide_keep: int = 0,
        keep_logits: bool = False,
    ) -> Stream[Generation] | Stream[list[Generation]]:
        """Continues a prompt, or each of a list of prompts, in batches of the model's size. Returns at once a stream to
        iterate over::

            for token in model.generate("ROMEO:", max_new_tokens=40):
                print(token.text, end="", flush=True)

        The tokens are those of ``kiln run`` with the same options; drafts, penalties and biases are that program's alone.
        ``stream.result()`` waits for the whole; with
        `keep_logits` it has logits, [N, V], and log-probabilities, [N], of the N new tokens.

        Raises :class:`kiln.Error`, when the first token is taken, for prompts and options that do not fit the model."""
        if overflow not in _OVERFLOWS:
            raise ValueError(f"overflow: expected one of {', '.join(_OVERFLOWS)}, got {overflow!r}")
        prompts = [prompt] if is_prompt(prompt) else prompt
        settings = _core.Settings(
            max_new_tokens=max_new_tokens,
            greedy=greedy,
            ignore_eos=ignore_eos,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            seed=seed,
            overflow=_OVERFLOWS.index(overflow),
            slide_keep=slide_keep,
            keep_logits=keep_logits,
        )
        ids = [self._ids(one) for one in prompts]  # type: ignore[arg-type]
        stream: Stream[Generation] | Stream[list[Generation]]
        stream = Stream(Request(self._opened(), ids, settings, texts(stop, "stop")), is_prompt(prompt))
        self._workers = [*self._workers, stream.worker]
        return stream

    # Numbers

    def logits(self, prompt: Prompt, *, every_position: bool = False) -> Logits:
        """The logits that follow a prompt of T tokens, float32 of shape [V].

        With `every_position` those that follow each of its tokens, [T, V]; this takes T steps."""
        ids = self._ids(prompt)
        if every_position and ids.size:
            return np.concatenate(list(self._steps([ids])))
        last: Logits = self.prefill([ids])[0]
        return last

    def log_probabilities(self, prompt: Prompt) -> npt.NDArray[np.float64]:
        """The natural logarithm of the probability of each token but the first, given those before it: float64 of shape
        [T - 1]. T is at least 2."""
        if not self._can_score:
            raise UsageError("log_probabilities: expected a model that was opened with can_score, got one without")
        return self._opened().score(self._ids(prompt))

    def prefill(self, prompts: Sequence[Prompt]) -> Logits:
        """Evaluates a prompt for each of R rows, from 1 to `batch`, for a sampler of your own. Returns the logits that
        follow each, [R, V]. `generate` forgets the rows."""
        return self._opened().prefill([self._ids(prompt) for prompt in prompts])

    def decode(self, tokens: Tokens) -> Logits:
        """Appends a token to each row of `prefill`, or nothing where it is IDLE_ROW: tokens of shape [R]. Returns the
        logits that follow each, [R, V]."""
        return self._opened().decode(id_array(tokens, "tokens"))

    def _steps(self, rows: Sequence[IdArray]) -> Iterator[Logits]:
        """The logits behind token 0 of each row, behind token 1, and so on: [R, V] each. Rows that have ended are
        idle, with the logits of their last token."""
        yield self.prefill([row[:1] for row in rows])
        for position in range(1, max(row.size for row in rows)):
            yield self.decode([int(row[position]) if position < row.size else IDLE_ROW for row in rows])

    def _ids(self, prompt: Prompt) -> IdArray:
        if not isinstance(prompt, str):
            return id_array(prompt, "prompt")
        begin = self._model.begin_token
        return id_array([begin], "prompt") if not prompt and begin >= 0 else self.tokenize(prompt)

    def _opened(self) -> _core.Session:
        self._workers = [worker for worker in self._workers if worker.settle()]
        with self._lock:
            if self._is_closed:
                raise ValueError("model: expected an open one, got one that was closed")
            if self._session is None:
                self._session = _core.Session(
                    self._model, can_score=self._can_score, on_progress=self._on_progress, on_note=self._on_note
                )
            return self._session


def open(
    model: StrPath,
    *,
    device: str = "auto",
    batch: int = 1,
    weights: StrPath | None = None,
    random_weights: int | None = None,
    dtype: str | None = None,
    matmul: str | None = None,
    decode: str | None = None,
    strategy: str | None = None,
    tuning: StrPath | None = None,
    batch_invariant: int | None = None,
    can_score: bool = True,
    on_progress: ProgressCallback | None = None,
    on_note: NoteCallback | None = None,
) -> Model:
    """Opens a model, or a plan (a :class:`Plan` or its directory), with its weights and vocabulary, which are found as
    ``kiln run MODEL`` finds them.

    `device` is ``auto``, ``cpu``, ``emulate`` or ``cuda:N``; `batch` the most sequences at once; `weights` where weights
    and vocabulary are if they are not in the model; `random_weights` a seed to make weights from instead. Without
    `can_score` there is no memory, and on ``emulate`` no kernels, for `log_probabilities`. The other options are those
    of ``kiln run``. `on_progress` tells of kernels that are compiled, `on_note` of things that could be better; without
    it, they go to the logger ``kiln``.

    Raises :class:`kiln.Error` with the program's message."""
    return Model(
        model,
        device=device,
        batch=batch,
        weights=weights,
        random_weights=random_weights,
        dtype=dtype,
        matmul=matmul,
        decode=decode,
        strategy=strategy,
        tuning=tuning,
        batch_invariant=batch_invariant,
        can_score=can_score,
        on_progress=on_progress,
        on_note=on_note,
    )
