"""Reader of RTLIL, Yosys' text format, in which Amaranth writes designs.

Yosys itself writes a design as JSON only once `proc` has turned processes into multiplexers, and estimates must not
need Yosys.  Names are as in its JSON: ``\\data`` is ``data``, and ``$mul`` stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tg2hdl_ir import InputError

__all__ = ["Cell", "Module", "RtlilMemory", "edited", "read_rtlil", "top_name"]

Constant = int | str
"""An integer, the text of a string, or the bits of a sized constant, the first one the most significant."""


@dataclass(frozen=True)
class Cell:
    """An instance of a primitive or of a module.

    Parameters
    ----------
    kind, name : str
        ``$mul`` and the like for primitives of Yosys, else the name of a module.
    parameters : dict
    pins : dict of str to str
        The signal of each port as the text has it, e.g. ``\\a [7:0]``.
    span : (int, int)
        Where its lines are in the text.
    """

    kind: str
    name: str
    parameters: dict[str, Constant]
    pins: dict[str, str]
    span: tuple[int, int]

    def width(self, name: str) -> int:
        """An integer parameter, such as ``A_WIDTH``."""
        value = self.parameters[name]
        assert isinstance(value, int), f"{name} of {self.kind} is {value!r}"
        return value


@dataclass(frozen=True)
class RtlilMemory:
    """A memory: bits of a word, number of words."""

    name: str
    width: int
    depth: int
    attributes: dict[str, Constant]


@dataclass
class Module:
    """A module: the declarations of the text, in its order, without the contents of processes.

    `choices` are the bits that processes assign inside of a switch: each becomes an input of a multiplexer.
    """

    name: str
    attributes: dict[str, Constant]
    wires: dict[str, int] = field(default_factory=dict)
    initial: dict[str, str] = field(default_factory=dict)
    memories: dict[str, RtlilMemory] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    connections: list[tuple[str, str]] = field(default_factory=list)
    choices: int = 0
    span: tuple[int, int] = (0, 0)


def read_rtlil(text: str) -> dict[str, Module]:
    """Modules of a design by name."""
    return {module.name: module for module in _RtlilReader(text).modules()}


def top_name(modules: dict[str, Module]) -> str:
    """Name of the module that is marked as the top."""
    for name, module in modules.items():
        if module.attributes.get("top") == 1:
            return name
    raise InputError(
        "no module of the design is marked as the top", hint="give an Amaranth component, or RTLIL of one"
    )


def edited(text: str, edits: Iterable[tuple[tuple[int, int], str]]) -> str:
    """The text with other text in these spans, which do not overlap.

    Parameters
    ----------
    text : str
    edits : iterable of ((int, int), str)
        First and last position (exclusive) in the text, and the new text.
    """
    parts, done = [], 0
    for (start, end), new in sorted(edits):
        parts += [text[done:start], new]
        done = end
    return "".join((*parts, text[done:]))


def plain(name: str) -> str:
    """An identifier without the backslash of public names."""
    return name.removeprefix("\\")


class _RtlilReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def lines(self) -> Iterator[tuple[str, str]]:
        """Keyword and the rest of each line; `position` is the end of the line."""
        for line in self.text.split("\n"):
            self.start, self.position = self.position, min(self.position + len(line) + 1, len(self.text))
            keyword, _, rest = line.strip().partition(" ")
            if keyword and not keyword.startswith("#"):
                yield keyword, rest

    def modules(self) -> Iterator[Module]:
        lines = self.lines()
        attributes: dict[str, Constant] = {}
        for keyword, rest in lines:
            if keyword == "attribute":
                attributes.update([_named(rest)])
            elif keyword == "module":
                module = Module(plain(rest), attributes)
                start, attributes = self.start, {}
                self.contents(module, lines)
                module.span = start, self.position
                yield module

    def contents(self, module: Module, lines: Iterator[tuple[str, str]]) -> None:
        attributes: dict[str, Constant] = {}
        for keyword, rest in lines:
            if keyword == "end":
                return
            if keyword == "attribute":
                attributes.update([_named(rest)])
                continue
            if keyword == "wire":
                *options, name = rest.split()
                module.wires[plain(name)] = _option(options, "width")
                if "init" in attributes:
                    module.initial[plain(name)] = str(attributes["init"])
            elif keyword == "memory":
                *options, name = rest.split()
                shape = _option(options, "width"), _option(options, "size")
                module.memories[plain(name)] = RtlilMemory(plain(name), *shape, attributes)
            elif keyword == "cell":
                module.cells.append(self.cell(rest, lines))
            elif keyword == "process":
                module.choices += sum(_width(target, module.wires) for target in _chosen(lines))
            elif keyword == "connect":
                target, source = _signals(rest)
                module.connections.append((target, source))
            attributes = {}

    def cell(self, header: str, lines: Iterator[tuple[str, str]]) -> Cell:
        kind, name = header.split()
        start = self.start
        parameters: dict[str, Constant] = {}
        pins: dict[str, str] = {}
        for keyword, rest in lines:
            if keyword == "end":
                break
            if keyword == "parameter":
                parameters.update([_named(rest.removeprefix("signed "))])
            else:
                pin, _, signal = rest.partition(" ")
                pins[plain(pin)] = signal
        return Cell(plain(kind), plain(name), parameters, pins, (start, self.position))


def _chosen(lines: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Targets of the assignments inside of the switches of a process, which is read to its end."""
    open_blocks = 1
    for keyword, rest in lines:
        open_blocks += (keyword == "switch") - (keyword == "end")
        if not open_blocks:
            return
        if keyword == "assign" and open_blocks > 1:
            yield _signals(rest)[0]


def _width(signal: str, wires: dict[str, int]) -> int:
    """Bits of a wire, or of a slice of it."""
    name, *slices = signal.split()
    if not slices:
        return wires[plain(name)]
    first, _, last = slices[-1].strip("[]").partition(":")
    return int(first) - int(last or first) + 1


def _named(text: str) -> tuple[str, Constant]:
    name, _, value = text.partition(" ")
    if value.startswith('"'):
        return plain(name), value[1:-1].replace("\\\\", "\\")
    if value.removeprefix("-").isdecimal():
        return plain(name), int(value)
    width, _, bits = value.partition("'")
    # A constant without bits is written with one.
    return plain(name), bits[: int(width)]


def _option(options: list[str], name: str) -> int:
    return int(options[options.index(name) + 1]) if name in options else 1


def _signals(text: str) -> list[str]:
    """Signals one after the other: names, constants and concatenations in braces, each with its slices."""
    found: list[list[str]] = []
    depth = 0
    for token in text.split():
        if depth or (token.startswith("[") and found):
            found[-1].append(token)
        else:
            found.append([token])
        depth += (token == "{") - (token == "}")
    return [" ".join(tokens) for tokens in found]
