"""The differences between the runs of a core, as columns of a table with a row for each run, and its hardware."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from amaranth import Module, Signal
from amaranth.hdl import Const, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from tg2hdl_ir import KernelCall
from tg2hdl_lower import Component, HardwarePlan, MemoryArray, MemoryPlan, Slot

__all__ = ["Column", "RunColumns", "RunTable", "run_columns"]

Column = tuple[int | None, ...]
"""A value for each run of the design; None where its core does not use it."""


@dataclass(frozen=True)
class RunColumns:
    """Columns that differ, and constants where the runs agree.

    Parameters
    ----------
    variables : dict of (core, name) to Column
        Values of the kernel's variables.
    regions : dict of (core, buffer) to Column
        Region of an array, by slot of the core.
    active : dict of (core, buffer, memory name) to Column
        1 where the run writes the memory, of those that the slot has in some run; only where they are several.
    variants : dict of core to Column
        Number of the plan's variant, where there are several.
    """

    variables: dict[tuple[int, str], Column]
    regions: dict[Slot, Column]
    active: dict[tuple[int, int, str], Column]
    variants: dict[int, Column]

    def format(self, run: int, core: int, call: KernelCall, memories: Mapping[int, MemoryPlan]) -> str:
        """One line for a run: its core and its buffers.

        Parameters
        ----------
        run : int
            Number of the run.
        core : int
            Number of its core.
        call : KernelCall
        memories : mapping of int to MemoryPlan
            By the number of the buffer.
        """
        parts = [f"variant {self.variants[core][run]}"] if core in self.variants else []
        parts += [f"{name}={c[run]}" for (of, name), c in self.variables.items() if of == core]
        parts += [f"b{idx}={memories[n].name}" for idx, n in call.slots.items()]
        return f"run {run}: core {core}, {', '.join(parts)}"


def run_columns(
    cores: Sequence[int],
    calls: Sequence[KernelCall],
    memories: Mapping[int, MemoryPlan],
    arrays: Sequence[MemoryArray],
    kernels: Sequence[HardwarePlan],
    followers: Collection[int] = (),
) -> RunColumns:
    """The table of a design, from the core, the call and the plan of each run.

    Parameters
    ----------
    followers : collection of int
        Runs that begin before the one before them is done, which keeps its values.
    """
    place = {name: (array.memory.name, array.region(name)) for array in arrays for name in array.members}
    variables: dict[tuple[int, str], dict[int, int]] = {}
    regions: dict[Slot, dict[int, int]] = {}
    reached: dict[Slot, dict[int, str]] = {}
    plans: dict[int, list[HardwarePlan]] = {}
    variants: dict[int, dict[int, int]] = {}
    for run, (core, call, plan) in enumerate(zip(cores, calls, kernels, strict=True)):
        known = plans.setdefault(core, [])
        if plan not in known:
            known.append(plan)
        variants.setdefault(core, {})[run] = known.index(plan)
        for name, value in call.values:
            variables.setdefault((core, name), {})[run] = value
        for idx, buffer in call.slots.items():
            name = memories[buffer].name
            memory, region = place.get(name, (name, 0))
            reached.setdefault((core, idx), {})[run] = memory
            if name in place:
                regions.setdefault((core, idx), {})[run] = region
    active = {
        (core, idx, memory): {run: int(each == memory) for run, each in used.items()}
        for (core, idx), used in reached.items()
        if len(set(used.values())) > 1
        for memory in dict.fromkeys(used.values())
    }
    runs = len(cores)

    def column(values: dict[int, int]) -> Column:
        return tuple(
            values.get(run, values.get(run - 1) if run in followers else None) for run in range(runs)
        )

    return RunColumns(
        {key: column(values) for key, values in variables.items()},
        {key: column(values) for key, values in regions.items()},
        {key: column(values) for key, values in active.items()},
        {core: column(values) for core, values in variants.items() if len(plans[core]) > 1},
    )


class RunTable(Component):
    """Values of the present run.

    The row of the following run is read ahead, so that the values change in the cycle after `advance`, from registers.

    Parameters
    ----------
    runs : int

    Members
    -------
    following : In
        Number of the run that begins with the next `advance`.
    advance : In(1)
    """

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self._columns: list[tuple[list[int | None], Signal]] = []
        members: dict[str, wiring.Member] = {
            "following": In(max(1, (runs - 1).bit_length())),
            "advance": In(1),
        }
        super().__init__(members)

    def add(self, column: Column) -> Value:
        """Value of a column; columns that no run contradicts are one register."""
        known = {value for value in column if value is not None}
        width = max(1, max(known).bit_length())
        if len(known) == 1:
            return Const(known.pop(), width)
        for entries, signal in self._columns:
            if len(signal) == width and _agree(entries, column):
                entries[:] = [a if b is None else b for a, b in zip(entries, column, strict=True)]
                return signal
        signal = Signal(width, name=f"column{len(self._columns)}", reset_less=True)
        self._columns.append((list(column), signal))
        return signal

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        for entries, signal in self._columns:
            ahead = Signal(len(signal), name=f"{signal.name}_ahead", init=entries[0] or 0)
            with m.Switch(self.following):
                for run, value in enumerate(entries):
                    with m.Case(run):
                        m.d.sync += ahead.eq(value or 0)
            with m.If(self.advance):
                m.d.sync += signal.eq(ahead)
        return m


def _agree(a: Iterable[int | None], b: Iterable[int | None]) -> bool:
    return all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))
