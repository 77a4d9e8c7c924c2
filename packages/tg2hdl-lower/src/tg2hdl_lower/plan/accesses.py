"""Nodes that reach memories: loads and stores of words, and the lanes of a word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from amaranth import Signal
from amaranth.hdl import Value

from tg2hdl_ir import DType
from tg2hdl_ir.records import OPTIONAL
from tg2hdl_lower.plan.emission import Emission
from tg2hdl_lower.plan.node import Node, present
from tg2hdl_lower.plan.placement import Placement, Ready, StageRules

__all__ = ["FixedLane", "Load", "PickedLane", "Replay", "Store", "StoredLane", "WordLane"]


@dataclass(frozen=True, eq=False)
class Load(Node):
    """Read a word.

    Parameters
    ----------
    forwarded : int
        So many steps before this one may still be writing: their elements come from registers.
    """

    buffer: int
    address: int
    forwarded: int = field(default=0, metadata=OPTIONAL)
    label: ClassVar[str] = "load"

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.address,)

    @property
    def detail(self) -> str:
        return f"buffer{self.buffer}.r{{port}}"

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        issue = ready.stage + (1 if ready.level else 0)
        level = rules.levels if self.buffer in rules.multiplexed_reads else rules.memory_level
        return Placement(issue, issue + rules.read_latency[self.buffer], level)

    def emit(self, d: Emission) -> Value:
        return d.word(self, self.buffer)


@dataclass(frozen=True, eq=False)
class Replay(Node):
    """The word that another load has read some steps before, from a delay line."""

    source: int
    steps: int
    label: ClassVar[str] = "replay"

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source,)

    @property
    def detail(self) -> str:
        return f"steps={self.steps}"

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        return Placement(ready.stage, ready.stage)

    def emit(self, d: Emission) -> Value:
        return d.replayed(self, self.source)


@dataclass(frozen=True, eq=False)
class FixedLane(Node):
    """An element of a word; `storage` is its type in the memory."""

    word: int
    lane: int
    storage: DType
    label: ClassVar[str] = "lane"
    takes_operands_late: ClassVar[bool] = True

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.word,)

    @property
    def detail(self) -> str:
        return f"[{self.lane}]"

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        return Placement(ready.stage, ready.stage, ready.level)

    def emit(self, d: Emission) -> Value:
        word = d.at(self.word, d.placement(self).stage)
        return _element(self, d, word.word_select(self.lane, self.storage.bit_width))


class WordLane(NamedTuple):
    """For one value of a position: which of the words, and which lane of it."""

    position: int
    word: int
    lane: int


@dataclass(frozen=True, eq=False)
class PickedLane(Node):
    """An element of one or two words, picked by a computed position; `storage` is its type in the memory."""

    words: tuple[int, ...]
    position: int
    choices: tuple[WordLane, ...]
    storage: DType
    label: ClassVar[str] = "lane"
    takes_operands_late: ClassVar[bool] = True

    @property
    def operands(self) -> tuple[int, ...]:
        return (*self.words, self.position)

    @property
    def detail(self) -> str:
        return f"[1 of {len(self.choices)}]"

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        return Placement(ready.stage, ready.stage, ready.level + 2)

    def emit(self, d: Emission) -> Value:
        stage, width = d.placement(self).stage, self.storage.bit_width
        words = [d.at(n, stage) for n in self.words]
        position = d.at(self.position, stage)
        # Not word_select, which multiplies the number of the lane by its width.
        lane = Signal(width, name=f"v{self.number}_selected")
        with d.m.Switch(position.as_unsigned()):
            for value, word, number in self.choices:
                if value >> len(position):
                    continue  # No step reads it: the range of the position says so.
                with d.m.Case(value):
                    d.m.d.comb += lane.eq(words[word].word_select(number, width))
        return _element(self, d, lane)


class StoredLane(NamedTuple):
    """An element of a stored word, and when it is written; always without a gate."""

    lane: int
    value: int
    gate: int | None


@dataclass(frozen=True, eq=False)
class Store(Node):
    """Write elements of a word; the lane of a single one may be picked by a computed position.

    Parameters
    ----------
    places : tuple of int
        Positions of several elements: each then goes to its own lane beyond the position.
    """

    buffer: int
    address: int
    lanes: tuple[StoredLane, ...]
    position: int | None = None
    places: tuple[int, ...] = ()
    label: ClassVar[str] = "store"

    @property
    def operands(self) -> tuple[int, ...]:
        lanes = (n for entry in self.lanes for n in (entry.value, entry.gate))
        return present(self.address, *lanes, self.position)

    @property
    def detail(self) -> str:
        return f"buffer{self.buffer}.w{{port}}"

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        issue = ready.stage + (1 if ready.level else 0)
        return Placement(issue, issue)

    def emit(self, d: Emission) -> None:
        """Nothing: the write ports collect all stores."""


def _element(node: FixedLane | PickedLane, d: Emission, lane: Value) -> Value:
    return d.named(node, lane.as_signed() if node.storage.kind == "int" else lane, "lane")
