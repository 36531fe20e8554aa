"""Kiln: an ahead-of-time graph compiler for GPT-2 that emits fused CUDA.

    import kiln
    plan = kiln.compile(kiln.GRAPHS / "gpt2-124m.toml", cubins=False)
    print(plan.kernels[0].cuda)
    with kiln.open(kiln.GRAPHS / "shakespeare-5m") as model:
        for token in model.generate("ROMEO:", max_new_tokens=40):
            print(token.text, end="", flush=True)

The page docs/python.md of the project is an introduction.
"""

from __future__ import annotations

import pathlib

from . import ir
from ._compare import Comparison, compare
from ._core import library_version
from ._errors import BusyError, Error, ErrorCode, OutOfMemoryError, UsageError
from ._model import IDLE_ROW, Model, open
from ._plan import CallCost, Cost, Entry, Kernel, KernelOp, Launch, Plan, Resources, Step, Tensor, Variant, compile
from ._stream import FinishReason, Generation, Stream, Token

__all__ = [
    "GRAPHS",
    "IDLE_ROW",
    "TEMPLATES",
    "BusyError",
    "CallCost",
    "Comparison",
    "Cost",
    "Entry",
    "Error",
    "ErrorCode",
    "FinishReason",
    "Generation",
    "Kernel",
    "KernelOp",
    "Launch",
    "Model",
    "OutOfMemoryError",
    "Plan",
    "Resources",
    "Step",
    "Stream",
    "Tensor",
    "Token",
    "UsageError",
    "Variant",
    "compare",
    "compile",
    "ir",
    "library_version",
    "open",
]

#: GPT-2's configurations, and the embedded model `shakespeare-5m`.
GRAPHS = pathlib.Path(__file__).parent / "graphs"
#: The loops of the kernels, to read, or for ``nvcc -I``; the library has its own copy inside.
TEMPLATES = pathlib.Path(__file__).parent / "templates"

__version__: str = library_version()
