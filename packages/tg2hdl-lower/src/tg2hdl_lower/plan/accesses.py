"""Nodes that reach memories: loads and stores of words, and the lanes of a word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tg2hdl_ir.dtype import DType
from tg2hdl_lower.plan.node import Node, present
from tg2hdl_lower.plan.placement import Placement, Ready, StageRules

__all__ = ["FixedLane", "LaneChoice", "Load", "PickedLane", "Replay", "Store", "StoredLane"]


@dataclass(frozen=True, eq=False)
class Load(Node):
    """Read a word."""

    buffer: int
    address: int
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


class LaneChoice(NamedTuple):
    """For one value of a position: which of the words, and which lane of it."""

    position: int
    word: int
    lane: int


@dataclass(frozen=True, eq=False)
class PickedLane(Node):
    """An element of one or two words, picked by a computed position; `storage` is its type in the memory."""

    words: tuple[int, ...]
    position: int
    choices: tuple[LaneChoice, ...]
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


class StoredLane(NamedTuple):
    """An element of a stored word, and when it is written; always without a gate."""

    lane: int
    value: int
    gate: int | None


@dataclass(frozen=True, eq=False)
class Store(Node):
    """Write elements of a word; the lane of a single one may be picked by a computed position."""

    buffer: int
    address: int
    lanes: tuple[StoredLane, ...]
    position: int | None = None
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
