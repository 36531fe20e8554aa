"""The IR as objects to walk: modules, functions, ops, values, types, attributes, locations, regions.

The objects are a picture of a text: changing them changes nothing else. The grammar and the ops are on the page
docs/ir.md of the project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, Union

from . import _core

__all__ = ["Attribute", "Dim", "Function", "Ident", "Location", "Module", "Op", "Region", "Type", "Value", "parse"]


class Ident(str):
    """An attribute that is a name, such as ``tanh``; quoted text is a plain ``str``."""

    __slots__ = ()


#: The value of an attribute.
Attribute: TypeAlias = Union[bool, int, float, str, Ident, "list[Attribute]", "dict[str, Attribute]"]


@dataclass(frozen=True)
class Location:
    """A place in a file, counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Dim:
    """A size that is known when the module runs, within bounds that are known before: ``dim T : 1..1024``."""

    name: str
    min: int
    max: int


@dataclass(frozen=True)
class Type:
    """A tensor type, ``f32[B,T,256]``. An extent is a number, or the name of a dim."""

    dtype: str
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(eq=False)
class Value:
    """A weight, a state, an argument of a function, or a result of an op."""

    name: str  #: without the ``%``
    type: Type
    location: Location | None
    source: str | None = None  #: of a weight: the tensor of the checkpoint that it is made of
    op: Op | None = None  #: whose result it is; None for weights, states and arguments
    users: list[Op] = field(default_factory=list)  #: once per use; an op of a region, and the op that has the region

    def __str__(self) -> str:
        return f"%{self.name} : {self.type}"

    def __repr__(self) -> str:
        return f"<Value {self}>"


@dataclass(eq=False)
class Region:
    """The ops inside a fused op; the last one yields its results."""

    ops: tuple[Op, ...]


@dataclass(eq=False)
class Op:
    """An operation. The operands of a fused op are the values that its region reads from outside."""

    name: str  #: ``matmul``
    symbol: str | None  #: of a fused op: its name, without the ``@``
    text: str  #: its line, without types; of a fused op the first one
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attributes: Mapping[str, Attribute]
    location: Location | None
    regions: tuple[Region, ...]
    parent: Op | Function | None = None  #: the fused op or the function that it is in

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Op {self.text}>"

    def walk(self) -> Iterator[Op]:
        """This op, then those of its regions."""
        yield self
        for region in self.regions:
            for op in region.ops:
                yield from op.walk()


@dataclass(eq=False)
class Function:
    """A function of a module, such as ``@prefill``."""

    name: str  #: without the ``@``
    arguments: tuple[Value, ...]
    results: tuple[Type, ...]
    ops: tuple[Op, ...]  #: the last one returns the results
    attributes: Mapping[str, Attribute]
    location: Location | None

    def __repr__(self) -> str:
        return f"<Function @{self.name}, {len(self.ops)} ops>"

    def walk(self) -> Iterator[Op]:
        """Every op in the order of the text, those of regions behind the op that has them."""
        for op in self.ops:
            yield from op.walk()


@dataclass(eq=False)
class Module:
    """A module: dims, weights, states and functions. ``str(module)`` is its text."""

    name: str
    text: str = field(repr=False)
    attributes: Mapping[str, Attribute] = field(repr=False)
    dims: tuple[Dim, ...] = field(repr=False)
    weights: tuple[Value, ...] = field(repr=False)
    states: tuple[Value, ...] = field(repr=False)
    functions: tuple[Function, ...]

    def __str__(self) -> str:
        return self.text

    def function(self, name: str) -> Function:
        """The function of that name, with or without ``@``. Raises KeyError."""
        for function in self.functions:
            if function.name == name.removeprefix("@"):
                return function
        raise KeyError(f"no function @{name.removeprefix('@')} in @{self.name}: {[f.name for f in self.functions]}")

    def walk(self) -> Iterator[Op]:
        """Every op of every function."""
        for function in self.functions:
            yield from function.walk()


def parse(text: str, name: str = "<text>") -> Module:
    """Parses and verifies the text of one module. `name` stands for the text in locations and messages.

    Raises :class:`kiln.Error` with the place of the first mistake."""
    description = json.loads(_core.describe_ir(name, text.encode()))
    return _Builder().module(description, text)


class _Builder:
    """Makes the objects of a description in JSON, as docs/c-api.md has it."""

    def __init__(self) -> None:
        self.values: dict[int, Value] = {}

    def module(self, data: dict[str, Any], text: str) -> Module:
        return Module(
            name=data["name"],
            text=text,
            attributes=_attributes(data["attributes"]),
            dims=tuple(Dim(**dim) for dim in data["dims"]),
            weights=self.add_values(data["weights"]),
            states=self.add_values(data["states"]),
            functions=tuple(self.function(function) for function in data["functions"]),
        )

    def add_values(self, listed: list[dict[str, Any]], op: Op | None = None) -> tuple[Value, ...]:
        made = []
        for data in listed:
            value = Value(data["name"], _type(data["type"]), _location(data), data.get("source"), op)
            self.values[data["id"]] = value
            made.append(value)
        return tuple(made)

    def function(self, data: dict[str, Any]) -> Function:
        function = Function(
            name=data["name"],
            arguments=self.add_values(data["arguments"]),
            results=tuple(map(_type, data["results"])),
            ops=tuple(map(self.op, data["ops"])),
            attributes=_attributes(data["attributes"]),
            location=_location(data),
        )
        for op in function.ops:
            op.parent = function
        return function

    def op(self, data: dict[str, Any]) -> Op:
        op = Op(
            name=data["op"],
            symbol=data.get("symbol"),
            text=data["text"],
            operands=tuple(self.values[number] for number in data["operands"]),
            results=(),
            attributes=_attributes(data["attributes"]),
            location=_location(data),
            regions=tuple(Region(tuple(map(self.op, region["ops"]))) for region in data.get("regions", [])),
        )
        op.results = self.add_values(data["results"], op)
        for operand in op.operands:
            operand.users.append(op)
        for region in op.regions:
            for inner in region.ops:
                inner.parent = op
        return op


def _type(data: dict[str, Any]) -> Type:
    return Type(data["dtype"], tuple(data["shape"]))


def _location(data: dict[str, Any]) -> Location | None:
    return Location(**data["location"]) if "location" in data else None


def _attributes(data: dict[str, Any]) -> dict[str, Attribute]:
    return {name: _attribute(kind, value) for name, (kind, value) in data.items()}


def _attribute(kind: str, value: Any) -> Attribute:
    if kind == "list":
        return [_attribute(*element) for element in value]
    if kind == "dict":
        return _attributes(value)
    made: Attribute = {"int": int, "float": float, "bool": bool, "ident": Ident, "text": str}[kind](value)
    return made
