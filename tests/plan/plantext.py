"""Finds the position of every key and value in a plan.toml, so that tests can change one of them.

Reads the TOML of plans: tables, arrays of tables, strings, integers, booleans, arrays, inline tables.
"""

import re
from dataclasses import dataclass


@dataclass
class Site:
    """A member `key = value`, or an element of an array, which has the array's key."""

    path: tuple  # names, and integers for indices in arrays: ("functions", 0, "buffers", 2, "offset")
    key_start: int
    start: int  # of the value in the text
    end: int

    @property
    def key(self):
        return next(part for part in reversed(self.path) if isinstance(part, str))

    @property
    def pattern(self):
        """The path without indices, which all buffers' offsets share, for example."""
        return tuple(part if isinstance(part, str) else "*" for part in self.path)

    @property
    def is_member(self):
        return isinstance(self.path[-1], str)


class Scanner:
    def __init__(self, text):
        self.text = text
        self.at = 0
        self.sites = []

    def take(self, pattern):
        match = re.compile(pattern).match(self.text, self.at)
        if not match:
            raise ValueError(f"expected {pattern} at {self.text[self.at:self.at + 40]!r}")
        self.at = match.end()
        return match.group()

    def has(self, text):
        return self.text.startswith(text, self.at)

    def space(self):
        self.take(r"(?:\s|#[^\n]*)*")

    def document(self):
        prefix, counts = (), {}
        self.space()
        while self.at < len(self.text):
            if self.has("[["):
                name = self.take(r"\[\[\w+\]\]")[2:-2]
                counts[name] = counts.get(name, -1) + 1
                prefix = (name, counts[name])
            elif self.has("["):
                prefix = (self.take(r"\[\w+\]")[1:-1],)
            else:
                self.member(prefix)
            self.space()
        return self.sites

    def member(self, prefix):
        key_start = self.at
        path = prefix + tuple(self.take(r"[\w.]+").split("."))
        self.take(" = ")
        self.value(path, key_start)

    def value(self, path, key_start=None):
        start = self.at
        if self.has("["):
            self.items("[", "]", lambda place: self.value(path + (place,)))
        elif self.has("{"):
            self.items("{", "}", lambda place: self.member(path))
        else:
            self.take(r'"(?:\\.|[^"\\])*"|[\w.+-]+')
        self.sites.append(Site(path, start if key_start is None else key_start, start, self.at))

    def items(self, opening, closing, item):
        self.at += len(opening)
        self.space()
        place = 0
        while not self.has(closing):
            item(place)
            place += 1
            self.take(r"\s*,?\s*")
        self.at += len(closing)


def scan(text):
    return Scanner(text).document()


def position(text, offset):
    """`LINE:COLUMN`, as in messages."""
    return f"{text.count(chr(10), 0, offset) + 1}:{offset - text.rfind(chr(10), 0, offset)}"


def replace(text, site, value):
    return text[: site.start] + value + text[site.end :]


def remove(text, site):
    """The text without a member and the comma next to it."""
    before, after = text[: site.key_start], text[site.end :]
    if after.startswith(", "):
        return before + after[2:]
    return (before[:-2] if before.endswith(", ") else before) + after
