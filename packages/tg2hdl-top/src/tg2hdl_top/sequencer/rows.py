"""Each row is a run, which starts when its elements are there and its results have room.

A run takes the cycles that its plan says; a host that is late delays starts, and changes no bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import UnsupportedError
from tg2hdl_lower import HardwarePlan, MemoryPlan
from tg2hdl_top.sequencer.base import Arrangement, Sequencer, SequencerComponent, Timeline
from tg2hdl_top.sequencer.ledgers import HOST, Ledger, Steps, row_ledgers
from tg2hdl_top.sequencer.plan import SequencerPlan, Sharing
from tg2hdl_top.sequencer.row_times import row_times

__all__ = ["RowSequencer", "RowSequencerComponent"]


class RowSequencer(Sequencer):
    """The policy ``rows``."""

    def arrange(
        self, policy: str, plans: Sequence[HardwarePlan], memories: Sequence[MemoryPlan], sharing: Sharing
    ) -> Arrangement:
        """Find what each row waits for."""
        if not all(plan.rows for plan in plans):
            raise UnsupportedError(
                "a kernel does not run row by row",
                hint="compile the program with compile_program",
            )
        rows = tuple(plan.rows for plan in plans)
        return Arrangement(
            SequencerPlan(policy, rows=rows, ledgers=row_ledgers(plans, memories)), tuple(memories)
        )

    def predict(self, cycles: Sequence[int], plan: SequencerPlan) -> Timeline:
        """Times of the first frame from its first element on, and the interval of frames that follow each other."""
        each = [count // rows for count, rows in zip(cycles, plan.rows, strict=True)]
        found = row_times(plan.rows, each, plan.ledgers)
        return Timeline(found.starts, found.ends, found.interval)

    def component(self, kernels: int, plan: SequencerPlan) -> SequencerComponent:
        """A counter for each ledger, and one of the runs of each kernel."""
        return RowSequencerComponent(kernels, plan)


class RowSequencerComponent(SequencerComponent):
    """Starts the row of the last kernel that may run.

    Members
    -------
    open_NAME : Out(1)
        The host may move an element of this buffer.
    moves_NAME : In(1)
        It does.
    """

    def __init__(self, kernels: int, plan: SequencerPlan) -> None:
        self.plan = plan
        buffers = [ledger.buffer for ledger in plan.ledgers if HOST in (ledger.giver, ledger.taker)]
        members = {f"open_{name}": Out(1) for name in buffers} | {f"moves_{name}": In(1) for name in buffers}
        super().__init__(kernels, more=members)

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m, plan = Module(), self.plan
        given = [_Runs(m, f"given{k}", rows, done) for k, (rows, done) in self._kernels(self.kernel_done)]
        taken = [_Runs(m, f"taken{k}", rows, start) for k, (rows, start) in self._kernels(self.kernel_start)]
        may = [Signal(name=f"may{k}") for k in range(len(plan.rows))]
        waits: dict[int | str, list[Value]] = {}
        for number, ledger in enumerate(plan.ledgers):
            count = self._count(m, number, ledger, given, taken)
            waits.setdefault(ledger.buffer if ledger.taker == HOST else ledger.taker, []).append(count >= 0)
        for kernel, flag in enumerate(may):
            m.d.comb += flag.eq(_all(waits[kernel]))
        for name in {ledger.buffer for ledger in plan.ledgers if HOST in (ledger.giver, ledger.taker)}:
            m.d.comb += getattr(self, f"open_{name}").eq(_all(waits[name]))
        idle: Value = ~_any(self.kernel_busy) | _any(self.kernel_done)
        for kernel in reversed(range(len(may))):
            m.d.comb += self.kernel_start[kernel].eq(may[kernel] & idle)
            idle = idle & ~may[kernel]
        m.d.comb += [
            self.done.eq(self.kernel_done[len(may) - 1] & given[-1].last),
            self.busy.eq(_any(self.kernel_busy)),
        ]
        return m

    def _kernels(self, pulses: Sequence[Value]) -> list[tuple[int, tuple[int, Value]]]:
        return [*enumerate(zip(self.plan.rows, pulses, strict=True))]

    def _count(
        self, m: Module, number: int, ledger: Ledger, given: Sequence[_Runs], taken: Sequence[_Runs]
    ) -> Signal:
        low, high = ledger.extremes
        count = Signal(range(low, high + 1), init=ledger.initial, name=f"ledger{number}_{ledger.buffer}")
        moves = getattr(self, f"moves_{ledger.buffer}", None)
        more = moves if ledger.giver == HOST else given[ledger.giver].amount(m, ledger.given)
        less = moves if ledger.taker == HOST else taken[ledger.taker].amount(m, ledger.taken)
        m.d.sync += count.eq(count + more - less)
        return count


class _Runs:
    """Counts the runs of a kernel in a frame, by a pulse of each."""

    def __init__(self, m: Module, name: str, rows: int, pulse: Value) -> None:
        self.number = Signal(range(max(2, rows)), name=f"{name}_row")
        self.pulse = pulse
        self.last = self.number == rows - 1
        with m.If(pulse):
            m.d.sync += self.number.eq(Mux(self.last, 0, self.number + 1))

    def amount(self, m: Module, steps: Steps) -> Value:
        """The amount of this run in the cycle of its pulse, otherwise 0."""
        most = max(steps)[1]
        amounts = [amount for _, amount in steps]
        value = Signal(range(min(0, *amounts), max(amounts) + 1))
        m.d.comb += value.eq(most)
        first = 0
        for runs, amount in steps:
            if amount != most:
                with m.If((self.number >= first) & (self.number < first + runs)):
                    m.d.comb += value.eq(amount)
            first += runs
        return Mux(self.pulse, value, 0)


def _all(flags: Sequence[Value]) -> Value:
    found: Value = flags[0]
    for flag in flags[1:]:
        found = found & flag
    return found


def _any(flags: Sequence[Value]) -> Value:
    found: Value = flags[0]
    for flag in [*flags][1:]:
        found = found | flag
    return found
