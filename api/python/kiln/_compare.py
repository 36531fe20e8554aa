"""How much two models differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._arguments import IdArray, StrPath, Tokens, id_array
from ._model import Logits, Model, open
from ._plan import Plan


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found, A being the model to measure against."""

    perplexity_a: float
    perplexity_b: float
    kl_divergence: float  #: of B from A, in nats: the mean of sum p_A (ln p_A - ln p_B) over positions; 0 if equal
    top1_agreement: float  #: the share of positions at which both have the same most probable token
    largest_difference: float  #: of a logit
    tokens_scored: int

    def __str__(self) -> str:
        return (
            f"perplexity {self.perplexity_a:.4f} and {self.perplexity_b:.4f}, KL divergence {self.kl_divergence:.3g}, "
            f"top-1 agreement {self.top1_agreement:.2%}, largest difference of logits {self.largest_difference:.3g}, "
            f"over {self.tokens_scored} tokens"
        )


class _Sums:
    """Adds up what is compared, position by position."""

    def __init__(self) -> None:
        self.nll = np.zeros(2)
        self.divergence = 0.0
        self.agreements = 0
        self.largest = 0.0
        self.count = 0

    def add(self, a: npt.NDArray[np.float32], b: npt.NDArray[np.float32], targets: npt.NDArray[np.int32]) -> None:
        """Adds R positions: logits of shape [R, V], the tokens that followed, [R]."""
        log_a, log_b = _log_softmax(a), _log_softmax(b)
        rows = np.arange(targets.size)
        self.nll -= [log_a[rows, targets].sum(), log_b[rows, targets].sum()]
        self.divergence += float((np.exp(log_a) * (log_a - log_b)).sum())
        self.agreements += int((a.argmax(axis=1) == b.argmax(axis=1)).sum())
        self.largest = max(self.largest, float(np.abs(a.astype(np.float64) - b).max()))
        self.count += targets.size

    def result(self) -> Comparison:
        perplexities = np.exp(self.nll / self.count)
        return Comparison(
            perplexity_a=float(perplexities[0]),
            perplexity_b=float(perplexities[1]),
            kl_divergence=max(0.0, self.divergence / self.count),
            top1_agreement=self.agreements / self.count,
            largest_difference=self.largest,
            tokens_scored=self.count,
        )


def compare(
    a: Model | Plan | StrPath,
    b: Model | Plan | StrPath,
    *,
    text: str | None = None,
    tokens: Tokens | Sequence[Tokens] | None = None,
    window: int | None = None,
    device: str = "auto",
) -> Comparison:
    """Compares two models, or plans, of one vocabulary on a text, or on token ids ([T], or a list of such sequences):
    perplexity of each, KL divergence, top-1 agreement, and the largest difference of a logit.

    Every sequence is cut into windows of `window` tokens (default: the shorter context of the two), each of which is
    evaluated by itself; all tokens but the first of a sequence are scored. What is not an open :class:`Model` is opened
    on `device`. Each position takes a step of both models; as many windows as both models have rows go together."""
    if (text is None) == (tokens is None):
        raise TypeError("compare: expected either text or tokens")
    with ExitStack() as stack:
        first, second = (
            one if isinstance(one, Model) else stack.enter_context(open(one, device=device)) for one in (a, b)
        )
        if first.vocabulary_size != second.vocabulary_size:
            sizes = f"{first.vocabulary_size} and {second.vocabulary_size}"
            raise ValueError(f"compare: expected models of one vocabulary, got {sizes} tokens")
        most = min(first.context_length, second.context_length)
        size = most if window is None else window
        if not 1 <= size <= most:
            raise ValueError(f"window: expected 1 to {most} tokens, got {size}")
        windows = [part for sequence in _sequences(first, text, tokens) for part in _windows(sequence, size)]
        sums = _Sums()
        rows = min(first.batch, second.batch)
        for start in range(0, len(windows), rows):
            _add_windows(sums, first, second, windows[start : start + rows])
        return sums.result()


def _sequences(model: Model, text: str | None, tokens: Tokens | Sequence[Tokens] | None) -> list[IdArray]:
    if text is not None:
        sequences = [model.tokenize(text)]
    elif isinstance(tokens, np.ndarray) or all(isinstance(one, (int, np.integer)) for one in tokens or ()):
        sequences = [id_array(tokens, "tokens")]  # type: ignore[arg-type]
    else:
        sequences = [id_array(one, "tokens") for one in tokens or ()]  # type: ignore[arg-type]
    for sequence in sequences:
        if sequence.size < 2:
            raise ValueError(f"compare: expected sequences of at least 2 tokens, got one of {sequence.size}")
        if sequence.min() < 0 or sequence.max() >= model.vocabulary_size:
            raise ValueError(f"compare: expected token ids in 0..{model.vocabulary_size - 1}")
    return sequences


def _windows(sequence: IdArray, size: int) -> list[IdArray]:
    """Parts of `size` tokens, each with the token behind it."""
    return [sequence[start : start + size + 1] for start in range(0, sequence.size - 1, size)]


def _add_windows(sums: _Sums, first: Model, second: Model, windows: list[IdArray]) -> None:
    inputs = [part[:-1] for part in windows]
    both: Iterable[tuple[Logits, Logits]] = zip(first._steps(inputs), second._steps(inputs), strict=True)
    if first is second:  # it has one set of rows
        both = ((logits, logits) for logits in first._steps(inputs))
    for position, (a, b) in enumerate(both):
        live = [row for row, part in enumerate(inputs) if position < part.size]
        targets = np.array([windows[row][position + 1] for row in live], np.int32)
        sums.add(a[live], b[live], targets)


def _log_softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    made: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return made
