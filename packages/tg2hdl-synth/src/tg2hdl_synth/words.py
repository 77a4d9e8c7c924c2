"""Contents of RTLIL before any synthesis: bits of adders, multiplexers, registers; multipliers; memories."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

__all__ = ["WordMemory", "Words", "count_words"]

_FACTOR = 18
_ITEM = re.compile(
    r"^module \\(?P<module>\S+)$"
    r"|^  cell (?P<kind>\S+) (?P<name>\S+)\n(?P<body>(?:    .*\n)*)"
    r'|(?:^  attribute \\ram_style "(?P<style>\w+)"\n)?'
    r"^  memory width (?P<width>\d+) size (?P<depth>\d+) \\(?P<memory>\S+)$"
    r"|^  connect (?P<to>\S+)(?: \[[\d:]+\])? (?P<source>\S+)(?: \[[\d:]+\])?$",
    re.MULTILINE,
)
_PARAMETER = re.compile(r"parameter \\(\w*WIDTH|CLK_ENABLE) (\d+)$", re.MULTILINE)
_PIN = re.compile(r"connect \\(\w+) (\S+)")
_MEMORY = re.compile(r'MEMID "\\\\(\S+)"')
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
        another sum), ``compare equal logic reduce mux``, ``choice`` (a multiplexer with a constant), ``shift`` (times
        the levels) and ``register``.
    products : list of (int, int)
        Widths of the factors of multiplications by a variable.
    blocks : int
        Instances of hard multipliers.
    children : list of str
    """

    bits: Counter[str] = field(default_factory=Counter)
    products: list[tuple[int, int]] = field(default_factory=list)
    blocks: int = 0
    memories: dict[str, WordMemory] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)


def count_words(rtlil: str) -> dict[str, Words]:
    """Contents of each module by name."""
    modules: dict[str, Words] = {}
    sums = _Sums()
    words = Words()
    for match in _ITEM.finditer(rtlil):
        if match["module"]:
            words.bits["inner"] += sums.inner()
            words, sums = Words(), _Sums()
            modules[match["module"]] = words
        elif match["kind"]:
            _cell(words, sums, match["kind"], match["body"])
        elif match["memory"]:
            shape = int(match["width"]), int(match["depth"])
            words.memories[match["memory"]] = WordMemory(*shape, match["style"] or "")
        else:
            sums.alias[match["to"]] = match["source"]
    words.bits["inner"] += sums.inner()
    return modules


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


def _cell(words: Words, sums: _Sums, kind: str, body: str) -> None:
    pins = dict(_PIN.findall(body))
    width = {name: int(value) for name, value in _PARAMETER.findall(body)}
    sums.uses.update(source for pin, source in pins.items() if pin not in ("Y", "Q"))
    constant = any(pins.get(pin, "$")[0].isdigit() for pin in "AB")
    if kind.startswith("\\"):
        words.blocks += kind == "\\MULT18X18D"
        words.children.append(kind[1:])
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
        words.bits["choice" if constant else "mux"] += width["WIDTH"]
    elif kind in ("$dff", "$adff"):
        words.bits["register"] += width["WIDTH"]
    elif kind in ("$memrd_v2", "$memwr_v2"):
        _port(words, kind, body, width)
    elif _KINDS.get(kind) == "shift":
        levels = min(width["B_WIDTH"], math.ceil(math.log2(max(2, width["Y_WIDTH"]))))
        words.bits["shift"] += 0 if pins["B"][0].isdigit() else width["Y_WIDTH"] * levels
    elif kind in _KINDS and not (constant and _KINDS[kind] == "equal"):
        sized = (
            width["Y_WIDTH"] if _KINDS[kind] == "logic" else max(width["A_WIDTH"], width.get("B_WIDTH", 0))
        )
        words.bits[_KINDS[kind]] += sized


def _port(words: Words, kind: str, body: str, width: dict[str, int]) -> None:
    found = _MEMORY.search(body)
    assert found is not None, "a port names its memory"
    memory = words.memories[found[1]]
    if kind == "$memwr_v2":
        memory.written = True
    else:
        memory.reads += 1
        memory.synchronous &= width["CLK_ENABLE"] == 1


def blocks_of(product: tuple[int, int]) -> int:
    """Hard multipliers of 18x18 bits that a product takes."""
    return math.ceil(product[0] / _FACTOR) * math.ceil(product[1] / _FACTOR)
