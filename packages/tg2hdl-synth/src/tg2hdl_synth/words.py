"""Contents of RTLIL before any synthesis: bits of adders, multiplexers, registers; multipliers; memories."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tg2hdl_synth.rtlil import Cell, Module

__all__ = ["WordMemory", "Words", "count_words", "is_of_port"]

_FACTOR = 18
_KINDS = {
    **dict.fromkeys(("$lt", "$le", "$gt", "$ge"), "compare"),
    **dict.fromkeys(("$eq", "$ne"), "equal"),
    **dict.fromkeys(("$and", "$or", "$xor", "$xnor"), "logic"),
    **dict.fromkeys(("$reduce_and", "$reduce_or", "$reduce_xor", "$reduce_bool", "$logic_not"), "reduce"),
    **dict.fromkeys(("$shl", "$shr", "$sshr", "$shift", "$shiftx"), "shift"),
}
_ADDERS = ("$add", "$sub", "$neg")


@dataclass
class WordMemory:
    """A memory: its shape, the requested style, its ports, and whether its reads are synchronous."""

    width: int
    depth: int
    style: str
    reads: int = 0
    synchronous: bool = True
    written: bool = False


@dataclass
class Words:
    """Contents of a module without its submodules.

    Parameters
    ----------
    bits : Counter
        Bits of results by kind: ``add`` (of sums, also those of wide products), ``inner`` (of sums that only feed
        another sum), ``compare equal logic reduce mux``, ``gating`` (a multiplexer with a constant input),
        ``shift`` (times the levels) and ``register``.
    products : list of (int, int)
        Widths of the factors of multiplications by a variable.
    blocks : int
        Instances of hard multipliers.
    choices : int
        Bits that processes assign inside of a switch: inputs of multiplexers.
    children : list of str
    """

    bits: Counter[str] = field(default_factory=Counter)
    products: list[tuple[int, int]] = field(default_factory=list)
    blocks: int = 0
    choices: int = 0
    memories: dict[str, WordMemory] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)


def count_words(modules: Mapping[str, Module]) -> dict[str, Words]:
    """Contents of each module by name."""
    return {name: _words(module) for name, module in modules.items()}


def is_of_port(name: str) -> bool:
    """Whether a module of a `TopModule` is a host port, or a part of one."""
    return re.match(r"\w+\.port\d+(\.|$)", name) is not None


def _words(module: Module) -> Words:
    words, sums = Words(choices=module.choices), _Sums()
    for name, memory in module.memories.items():
        style = str(memory.attributes.get("ram_style", ""))
        words.memories[name] = WordMemory(memory.width, memory.depth, style)
    for cell in module.cells:
        _cell(words, sums, cell)
    for target, source in module.connections:
        if not (target.startswith("{") or source.startswith("{")):
            sums.alias[_net(target)] = _net(source)
    words.bits["inner"] += sums.inner()
    return words


@dataclass
class _Sums:
    """Sums of a module and their readers."""

    width: dict[str, int] = field(default_factory=dict)
    operands: list[str] = field(default_factory=list)
    uses: Counter[str] = field(default_factory=Counter)
    alias: dict[str, str] = field(default_factory=dict)

    def inner(self) -> int:
        uses: Counter[str] = Counter()
        for name, count in self.uses.items():
            uses[self._origin(name)] += count
        origins = (self._origin(name) for name in self.operands)
        return sum(self.width[name] for name in origins if name in self.width and uses[name] == 1)

    def _origin(self, name: str) -> str:
        seen = set()
        while name in self.alias and name not in seen:
            seen.add(name)
            name = self.alias[name]
        return name


def _net(signal: str) -> str:
    """A signal without its slice."""
    return signal.split(" ", 1)[0]


def _cell(words: Words, sums: _Sums, cell: Cell) -> None:
    kind = cell.kind
    pins = {pin: _net(signal) for pin, signal in cell.pins.items()}
    width = {name: value for name, value in cell.parameters.items() if isinstance(value, int)}
    sums.uses.update(source for pin, source in pins.items() if pin not in ("Y", "Q"))
    constant = any(pins.get(pin, "$")[0].isdigit() for pin in "AB")
    if not kind.startswith("$"):
        words.blocks += kind == "MULT18X18D"
        words.children.append(kind)
    elif kind in _ADDERS:
        bits = min(width["Y_WIDTH"], max(width["A_WIDTH"], width.get("B_WIDTH", 0)))
        words.bits["add"] += bits
        sums.width[pins["Y"]] = bits
        sums.operands += [pins[pin] for pin in "AB" if pin in pins]
    elif kind == "$mul":
        if constant or min(width["A_WIDTH"], width["B_WIDTH"]) < 2:
            words.bits["add"] += 2 * width["Y_WIDTH"]
        else:
            product = width["A_WIDTH"], width["B_WIDTH"]
            words.products.append(product)
            words.bits["add"] += (blocks_of(product) - 1) * width["Y_WIDTH"] // 2
    elif kind == "$mux":
        words.bits["gating" if constant else "mux"] += width["WIDTH"]
    elif kind in ("$dff", "$adff"):
        words.bits["register"] += width["WIDTH"]
    elif kind in ("$memrd_v2", "$memwr_v2"):
        _port(words, cell)
    elif _KINDS.get(kind) == "shift":
        levels = min(width["B_WIDTH"], math.ceil(math.log2(max(2, width["Y_WIDTH"]))))
        words.bits["shift"] += 0 if pins["B"][0].isdigit() else width["Y_WIDTH"] * levels
    elif kind in _KINDS and not (constant and _KINDS[kind] == "equal"):
        sized = (
            width["Y_WIDTH"] if _KINDS[kind] == "logic" else max(width["A_WIDTH"], width.get("B_WIDTH", 0))
        )
        words.bits[_KINDS[kind]] += sized


def _port(words: Words, cell: Cell) -> None:
    memory = words.memories[str(cell.parameters["MEMID"]).removeprefix("\\")]
    if cell.kind == "$memwr_v2":
        memory.written = True
    else:
        memory.reads += 1
        memory.synchronous &= cell.parameters["CLK_ENABLE"] == 1


def blocks_of(product: tuple[int, int]) -> int:
    """Hard multipliers of 18x18 bits that a product takes."""
    return math.ceil(product[0] / _FACTOR) * math.ceil(product[1] / _FACTOR)
