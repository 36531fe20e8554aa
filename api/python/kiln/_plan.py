"""Compiling, and what a plan contains."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, Union

from . import _core
from . import ir as _ir
from ._arguments import StrPath, path_bytes, rows_or_default, text_or_none, texts

#: Called with the number of kernels compiled, of all, and the last one's name; perhaps on another thread.
ProgressCallback: TypeAlias = Callable[[int, int, str], object]
#: Called with a message about something that went on but could be better.
NoteCallback: TypeAlias = Callable[[str], object]
#: A number, or a formula of dims, like ``ceildiv(B*T,64)``.
Formula: TypeAlias = Union[int, str]

#: Where notes go without a callback of the caller's.
log_note: NoteCallback = logging.getLogger("kiln").info


@dataclass(frozen=True)
class KernelOp:
    """An op that a kernel computes, and the lines of the CUDA that do it."""

    value: str  #: the name of the result, in the IR and in the CUDA
    op: str  #: ``add %fc_mm, %fc_b``
    lines: tuple[int, ...]  #: counted from 1

    def __str__(self) -> str:
        return f"%{self.value} = {self.op}"


@dataclass(frozen=True)
class Resources:
    """What the assembler says that a kernel needs."""

    registers: int  #: of a thread
    shared_bytes: int  #: static, of a block
    stack_bytes: int
    spill_stores: int  #: bytes
    spill_loads: int  #: bytes


@dataclass(frozen=True)
class Kernel:
    """A kernel of a plan."""

    name: str
    family: str  #: the template that it is made of
    title: str  #: the name of the op or fused region that it computes
    cuda: str = field(repr=False)  #: its source
    ops: tuple[KernelOp, ...] = field(repr=False)  #: what it computes, in order; empty: no ops of the IR
    resources: Mapping[str, Resources] = field(repr=False)  #: by target; only those with cubins

    @property
    def computes(self) -> str:
        """What it computes, as IR, a line for each op."""
        return "\n".join(map(str, self.ops))


@dataclass(frozen=True)
class Launch:
    """How a step launches a kernel, or calls a library."""

    kernel: str  #: a kernel's name, or ``cublaslt.matmul``
    grid: tuple[Formula, ...]  #: blocks in x, y and z
    threads: int  #: of a block
    dynamic_shared_bytes: int
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """A launch that replaces a step's where that has few rows."""

    rows: int  #: the most of the step
    tokens: int  #: the most of a sequence; 0: any number
    launch: Launch


@dataclass(frozen=True)
class Step:
    """A step of a function."""

    launch: Launch
    variants: tuple[Variant, ...]  #: the first with enough rows and tokens replaces the launch
    location: str  #: ``file:line`` of the model
    bytes: Formula  #: the least that it must move
    flops: Formula  #: the least that it must compute


@dataclass(frozen=True)
class Tensor:
    """An argument of a function."""

    name: str
    dtype: str
    shape: tuple[Formula, ...]

    def __str__(self) -> str:
        return f"%{self.name} : {self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Cost:
    """The least that a kernel's launches, or a whole call, must move and compute, and the time that this takes."""

    launches: int
    bytes: int
    flops: int
    limit_seconds: float  #: the target's memory and arithmetic rates allow no less
    seconds: float | None  #: measured, if a profile has it


@dataclass(frozen=True)
class CallCost:
    """The cost of a call of a function: in total, and of each kernel."""

    label: str  #: ``@prefill, B = 1, T = 64``
    dims: Mapping[str, int]
    total: Cost
    kernels: Mapping[str, Cost]  #: by name


@dataclass(frozen=True)
class Entry:
    """A function of a plan that a program calls: @prefill, @decode, @score."""

    name: str  #: without the ``@``
    arguments: tuple[Tensor, ...]
    results: tuple[str, ...]
    arena_bytes: Formula  #: memory for intermediate values
    steps: tuple[Step, ...] = field(repr=False)
    cost: CallCost = field(repr=False)  #: of one sequence of 64 tokens; Plan.costs has others


class Plan:
    """A plan: a directory that :func:`compile` or ``kiln compile`` has written.

    A plan is code: its CUDA is compiled and run. Open only plans of people whose programs you would run."""

    path: pathlib.Path
    name: str  #: of the model
    context_length: int  #: most tokens of a sequence
    vocabulary_size: int
    layers: int
    target: str  #: the GPU that tiles were chosen for
    targets: tuple[str, ...]  #: those with cubins
    dtype: str  #: of matrices and activations
    dims: Mapping[str, tuple[int, int]]  #: bounds, by name
    kernels: tuple[Kernel, ...]
    entries: tuple[Entry, ...]

    def __init__(self, path: StrPath) -> None:
        """Reads a plan. Raises :class:`kiln.Error` where it is damaged, or of another version."""
        self.path = pathlib.Path(path)
        data = self._describe(0, 0, None)
        self.name = data["name"]
        self.context_length = data["context"]
        self.vocabulary_size = data["vocabulary"]
        self.layers = data["layers"]
        self.target = data["target"]
        self.targets = tuple(data["cubins"])
        self.dtype = data["dtype"]
        self.dims = {name: (low, high) for name, (low, high) in data["dims"].items()}
        self.kernels = tuple(map(_kernel, data["kernels"]))
        self.entries = tuple(map(_entry, data["functions"]))

    def __repr__(self) -> str:
        return f"<Plan {self.name} for {self.target}, {len(self.kernels)} kernels, in {self.path}>"

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name. Raises KeyError."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(f"no kernel {name} in {self.path}")

    def entry(self, name: str) -> Entry:
        """The function of that name, with or without ``@``. Raises KeyError."""
        for entry in self.entries:
            if entry.name == name.removeprefix("@"):
                return entry
        raise KeyError(f"no function @{name.removeprefix('@')} in {self.path}: {[e.name for e in self.entries]}")

    def ir(self, stage: str = "plan") -> str:
        """The text of the IR: ``graph`` (as the front end wrote it), ``fused`` or ``plan`` (with kernels)."""
        if stage not in ("graph", "fused", "plan"):
            raise ValueError(f"stage: expected graph, fused or plan, got {stage!r}")
        return (self.path / "ir" / f"{stage}.kiln").read_text(encoding="utf-8")

    def module(self, stage: str = "plan") -> _ir.Module:
        """The same IR as objects."""
        return _ir.parse(self.ir(stage), str(self.path / "ir" / f"{stage}.kiln"))

    def costs(
        self, *, batch: int | None = None, length: int | None = None, profile: StrPath | None = None
    ) -> Mapping[str, CallCost]:
        """What a call of each function costs, by its name, for `batch` sequences of `length` tokens (default: those
        of the profile, else one of 64). A decode has `length` tokens before it. `profile`: a file of measured times, from
        ``kiln bench PLAN --what kernels -o json``."""
        for name, size in (("batch", batch), ("length", length)):
            if size is not None and size < 1:
                raise ValueError(f"{name}: expected 1 or more, got {size}")
        data = self._describe(batch or 0, length or 0, profile)
        return {function["name"]: _call_cost(function["cost"]) for function in data["functions"]}

    def _describe(self, batch: int, length: int, profile: StrPath | None) -> dict[str, Any]:
        measured = None if profile is None else path_bytes(profile, "profile")
        text = _core.describe_plan(path_bytes(self.path, "path"), batch, length, measured)
        described: dict[str, Any] = json.loads(text)
        return described


def compile(
    model: StrPath,
    output: StrPath | None = None,
    *,
    targets: str | Sequence[str] = (),
    max_batch: int = 64,
    dtype: str | None = None,
    matmul: str | None = None,
    decode: str | None = None,
    strategy: str | None = None,
    tuning: StrPath | None = None,
    passes: str | None = None,
    draft_tokens: int = 0,
    batch_invariant: int | None = None,
    cubins: bool = True,
    cache: bool = True,
    on_progress: ProgressCallback | None = None,
    on_note: NoteCallback | None = None,
) -> Plan:
    """Compiles a model into a plan, as ``kiln compile MODEL -o PLAN`` does. Needs no GPU.

    `model` is a configuration (``.toml``), a directory with ``config.json``, or a checkpoint in one file. The plan is
    written to `output`, or, without one, to a temporary directory that lives as long as the plan. `targets` are the GPUs
    to compile for (default ``sm_90a``); with ``cubins=False`` the plan has CUDA only, and NVRTC is not needed. The
    other options are those of ``kiln compile``, which also has ``--ranks`` and ``--dump-dir``.

    Raises :class:`kiln.Error` with the program's message; then nothing has been written."""
    folder = tempfile.mkdtemp(prefix="kiln-plan-") if output is None else None
    try:
        path = pathlib.Path(folder or "", "plan" if output is None else output)
        _core.compile(
            path_bytes(model, "model"),
            path_bytes(path, "output"),
            targets=texts(targets, "targets"),
            max_batch=max_batch,
            dtype=text_or_none(dtype, "dtype"),
            matmul=text_or_none(matmul, "matmul"),
            decode=text_or_none(decode, "decode"),
            strategy=text_or_none(strategy, "strategy"),
            tuning=None if tuning is None else text_or_none(os.fspath(tuning), "tuning"),
            passes=text_or_none(passes, "passes"),
            draft_tokens=draft_tokens,
            batch_invariant=rows_or_default(batch_invariant),
            cubins=cubins,
            cache=cache,
            on_progress=on_progress,
            on_note=on_note or log_note,
        )
        plan = Plan(path)
    except BaseException:
        if folder:
            shutil.rmtree(folder)
        raise
    if folder:
        weakref.finalize(plan, shutil.rmtree, folder, ignore_errors=True)
    return plan


def _kernel(data: dict[str, Any]) -> Kernel:
    return Kernel(
        name=data["name"],
        family=data["family"],
        title=data["title"],
        cuda=data["cuda"],
        ops=tuple(KernelOp(op["value"], op["op"], tuple(op["lines"])) for op in data["ops"]),
        resources={target: Resources(**resources) for target, resources in data["resources"].items()},
    )


def _entry(data: dict[str, Any]) -> Entry:
    return Entry(
        name=data["name"],
        arguments=tuple(Tensor(one["name"], one["dtype"], tuple(one["shape"])) for one in data["arguments"]),
        results=tuple(data["results"]),
        arena_bytes=data["arena_bytes"],
        steps=tuple(map(_step, data["steps"])),
        cost=_call_cost(data["cost"]),
    )


def _step(data: dict[str, Any]) -> Step:
    return Step(
        launch=_launch(data["launch"]),
        variants=tuple(Variant(one["rows"], one["tokens"], _launch(one)) for one in data["variants"]),
        location=data["location"],
        bytes=data["bytes"],
        flops=data["flops"],
    )


def _launch(data: dict[str, Any]) -> Launch:
    return Launch(
        kernel=data["kernel"],
        grid=tuple(data["grid"]),
        threads=data["threads"],
        dynamic_shared_bytes=data["dynamic_shared_bytes"],
        arguments=tuple(data["arguments"]),
    )


def _cost(data: dict[str, Any]) -> Cost:
    return Cost(data["launches"], data["bytes"], data["flops"], data["limit_seconds"], data["seconds"])


def _call_cost(data: dict[str, Any]) -> CallCost:
    kernels = {kernel["kernel"]: _cost(kernel) for kernel in data["kernels"]}
    return CallCost(data["label"], data["dims"], _cost(data), kernels)
