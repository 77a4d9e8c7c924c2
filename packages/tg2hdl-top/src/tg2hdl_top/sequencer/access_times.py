"""When a kernel reads and writes each word of its buffers, and when it needs ports and shared hardware.

All times are clock cycles after the kernel's start pulse, found by going through its steps: nothing is estimated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan import LeafPlan
from tg2hdl_lower.plan.accesses import Load, Replay, Store
from tg2hdl_lower.plan.graph import bound_value, variables_of
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import DesignProduct, SharedUnitOp
from tg2hdl_lower.plan.registers import RegisterWrite
from tg2hdl_top.sequencer.step_values import StepValues, steps_of

__all__ = [
    "MOST_CASES",
    "NEVER",
    "AccessTimes",
    "CycleRange",
    "WordTimes",
    "access_times",
    "bounds_of",
    "cases_of",
]

NEVER = 1 << 60
"""Time of the first access to a word without any; that of its last one is the negative of it."""

_FIRST_STEP = 1
"""Cycles from the start pulse to the first step."""

MOST_CASES = 1 << 10
"""Values of run-time variables up to which kernels with run-time bounds are gone through."""

_Array = npt.NDArray[Any]


class CycleRange(NamedTuple):
    """First and last cycle of something."""

    first: int
    last: int

    def with_both(self, other: CycleRange) -> CycleRange:
        """The least interval that contains this one and another."""
        return CycleRange(min(self.first, other.first), max(self.last, other.last))

    def after(self, start: int) -> CycleRange:
        """The same for a kernel that starts in this cycle."""
        return CycleRange(self.first + start, self.last + start)

    def meets(self, other: CycleRange) -> bool:
        """Whether there is a cycle in both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, eq=False)
class WordTimes:
    """First and last cycle in which each word of a buffer is read or written."""

    first: _Array
    last: _Array

    @classmethod
    def none(cls, words: int) -> WordTimes:
        """No access yet."""
        return cls(np.full(words, NEVER, np.int64), np.full(words, -NEVER, np.int64))

    def add(self, words: _Array, early: _Array, late: _Array) -> None:
        """Count accesses that may take place from an early to a late cycle.

        Parameters
        ----------
        words : _Array
            Addresses.
        early, late : _Array
            Cycles after the start of the kernel, one for each address.
        """
        np.minimum.at(self.first, words, early)
        np.maximum.at(self.last, words, late)

    def add_all(self, early: int, late: int) -> None:
        """Count an access that may be to any word.

        Parameters
        ----------
        early, late : int
            Cycles after the start of the kernel.
        """
        np.minimum(self.first, early, out=self.first)
        np.maximum(self.last, late, out=self.last)


def bounds_of(plan: HardwarePlan, variables: Mapping[str, int]) -> tuple[int, ...]:
    """Iterations of the loops of a kernel, for values of its run-time variables.

    Parameters
    ----------
    plan : HardwarePlan
    variables : mapping of str to int
        Values by name.
    """
    return tuple(bound_value(loop.bound, variables) for loop in plan.kernel.loop_tree.walk())


def cases_of(plans: Sequence[HardwarePlan]) -> list[dict[str, int]] | None:
    """Values of run-time variables, one for each of the combinations of loop bounds that kernels may have.

    Returns
    -------
    list of dict of str to int, or None
        A single empty one for constant bounds, None for more than `MOST_CASES` values.
    """
    bounds = [loop.bound for plan in plans for loop in plan.kernel.loop_tree.walk()]
    used = {v.name: range(v.low, v.high + 1) for bound in bounds for v in variables_of(bound)}
    if math.prod(map(len, used.values())) > MOST_CASES:
        return None
    found: dict[tuple[tuple[int, ...], ...], dict[str, int]] = {}
    for values in product(*used.values()):
        case = dict(zip(used, values, strict=True))
        found[tuple(bounds_of(plan, case) for plan in plans)] = case
    return list(found.values())


@dataclass(frozen=True, eq=False)
class AccessTimes:
    """Times of a kernel's accesses.

    Parameters
    ----------
    cycles : int
        From the start pulse to the done pulse.
    reads, writes : dict of int to WordTimes
        By buffer.
    read_ports : dict of (buffer, port) to CycleRange
        From the first to the last address at a port; for a word that no register keeps, the whole run.
    write_ports : dict of int to CycleRange
    shared : dict of str to CycleRange
        From the first to the last operand, by pools of multipliers and of arithmetic units that kernels share.
    """

    cycles: int
    reads: dict[int, WordTimes] = field(default_factory=dict)
    writes: dict[int, WordTimes] = field(default_factory=dict)
    read_ports: dict[tuple[int, int], CycleRange] = field(default_factory=dict)
    write_ports: dict[int, CycleRange] = field(default_factory=dict)
    shared: dict[str, CycleRange] = field(default_factory=dict)


def access_times(
    plan: HardwarePlan, sampled: Mapping[int, CycleRange], variables: Mapping[str, int] | None = None
) -> AccessTimes:
    """Go through all steps of a kernel.

    Parameters
    ----------
    sampled : mapping of int to CycleRange
        Cycles from an address at the memory of a buffer until the memory takes the word; see `MemoryKind.sampled`.
    variables : mapping of str to int, optional
        Values of the run-time variables of its loop bounds.
    """
    return _Enumeration(plan, sampled, dict(variables or {})).run()


class _Enumeration:
    def __init__(
        self, plan: HardwarePlan, sampled: Mapping[int, CycleRange], variables: dict[str, int]
    ) -> None:
        self.plan = plan
        self.sampled = sampled
        self.variables = variables
        words = {buffer: layout.words for buffer, layout in plan.layouts.items()}
        loads = {load.buffer for load in plan.live() if isinstance(load, Load)}
        stores = {store.buffer for store in plan.live() if isinstance(store, Store)}
        self.reads = {b: WordTimes.none(words[b]) for b in sorted(loads)}
        self.writes = {b: WordTimes.none(words[b]) for b in sorted(stores)}
        self.ports: dict[tuple[int, int], CycleRange] = {}
        self.write_ports: dict[int, CycleRange] = {}
        self.shared: dict[str, CycleRange] = {}

    def run(self) -> AccessTimes:
        for leaf in self.plan.leaves:
            for steps in steps_of(self.plan, leaf, self.variables):
                self._leaf(leaf, steps)
        for load in self._run_constant_loads():
            port = load.buffer, self.plan.placement(load.number).port
            self.ports[port] = _joined(
                self.ports.get(port), CycleRange(0, self.plan.cycles(self.variables) - 1)
            )
            self._used_all_along(load)
        return AccessTimes(
            self.plan.cycles(self.variables),
            self.reads,
            self.writes,
            self.ports,
            self.write_ports,
            self.shared,
        )

    def _leaf(self, leaf: LeafPlan, steps: StepValues) -> None:
        plan = self.plan
        began = _FIRST_STEP + steps.steps * plan.ii
        span = CycleRange(int(began[0]), int(began[-1]))
        for node in (plan.nodes[n] for n in leaf.nodes):
            at = plan.placement(node.number)
            match node:
                case Load() if node.number not in plan.run_constant:
                    self._load(node, steps, began + at.issue + plan.port_registers.delay(node))
                case Store():
                    self._store(node, steps, began + at.issue + plan.port_registers.delay(node))
                case DesignProduct():
                    pool = plan.products[at.port].pool
                    self.shared[pool] = _joined(self.shared.get(pool), span.after(at.issue))
                case SharedUnitOp():
                    pool = plan.shared_units[at.port].pool
                    operands = span.after(at.issue)
                    busy = CycleRange(operands.first, operands.last + node.unit.ii - 1)
                    self.shared[pool] = _joined(self.shared.get(pool), busy)

    def _load(self, node: Load, steps: StepValues, times: _Array) -> None:
        port = node.buffer, self.plan.placement(node.number).port
        span = CycleRange(int(times[0]), int(times[-1]))
        self.ports[port] = _joined(self.ports.get(port), span)
        early, late = self.sampled[node.buffer]
        address, found = steps.of(node.address), self.reads[node.buffer]
        if address is None:
            found.add_all(span.first + early, span.last + late)
            return
        # Words read outside of a buffer or of a padded window are not used.
        inside = (address >= 0) & (address < len(found.first))
        found.add(address[inside], times[inside] + early, times[inside] + late)

    def _store(self, node: Store, steps: StepValues, times: _Array) -> None:
        enabled = np.zeros(len(times), dtype=bool)
        for gate in {entry.gate for entry in node.lanes}:
            flag = None if gate is None else steps.of(gate)
            enabled |= True if flag is None else flag.astype(bool)
        if not enabled.any():
            return
        times = times[enabled]
        span = CycleRange(int(times[0]), int(times[-1]))
        self.write_ports[node.buffer] = _joined(self.write_ports.get(node.buffer), span)
        address, found = steps.of(node.address), self.writes[node.buffer]
        if address is None:
            found.add_all(*span)
        else:
            found.add(address[enabled], times, times)

    def _run_constant_loads(self) -> Iterable[Load]:
        return (n for n in self.plan.live() if isinstance(n, Load) and n.number in self.plan.run_constant)

    def _used_all_along(self, load: Load) -> None:
        """Count the reads of a word that no register holds: one in each step of each user."""
        plan = self.plan
        latency = plan.latencies[load.buffer]
        early, late = self.sampled[load.buffer]
        for use in self._uses(load.number, {load.number}):
            self.reads[load.buffer].add_all(use.first - latency + early, use.last - latency + late)

    def _uses(self, number: int, seen: set[int]) -> Iterable[CycleRange]:
        plan = self.plan
        for user in plan.live():
            if number not in _operands(user) or user.number in seen:
                continue
            if user.number in plan.run_constant:
                yield from self._uses(user.number, seen | {user.number})
                continue
            at = plan.placement(user.number)
            used = at.stage if user.takes_operands_late else at.issue
            steps = CycleRange(_FIRST_STEP, _FIRST_STEP + (plan.steps(self.variables) - 1) * plan.ii)
            yield (
                CycleRange(0, plan.cycles(self.variables)) if isinstance(user, Replay) else steps.after(used)
            )


def _operands(node: Node) -> tuple[int, ...]:
    if isinstance(node, RegisterWrite) and node.clear is not None:
        return (*node.operands, node.clear.otherwise)
    return node.operands


def _joined(before: CycleRange | None, more: CycleRange) -> CycleRange:
    return more if before is None else before.with_both(more)
