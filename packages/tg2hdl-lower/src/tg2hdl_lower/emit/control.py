"""Counters and control: one step every II cycles through all leaves of the loop tree, without a cycle in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from amaranth import Const, Module, Mux, Signal
from amaranth.hdl import Value

from tg2hdl_ir import IRConst, IRCounter, IROp, IRValue, IRVariable, LoopIR, RangeAnalysis, UnsupportedError
from tg2hdl_lower.emit.choice import VariantChoice
from tg2hdl_lower.plan.emission import CounterSignals
from tg2hdl_lower.plan.graph import LeafPlan
from tg2hdl_lower.plan.hardware_plan import HardwarePlan

__all__ = ["Advance", "Control", "build_control", "create_counters", "run_time_bound"]


@dataclass
class Control:
    """Signals at stage 0, and their delayed copies.

    Parameters
    ----------
    valid : list of Signal
        Per leaf: a step of this leaf is issued in this cycle.
    advances : list of Advance
        Per leaf: the loop that advances after this step.
    """

    counters: dict[int, CounterSignals]
    valid: list[Signal]
    advances: list[Advance]
    busy: Signal
    done: Signal
    finish: Signal
    _delayed: dict[tuple[int, int], Signal] = field(default_factory=dict)

    def valid_at(self, m: Module, leaf: int, stage: int) -> Signal:
        """Issue flag of a leaf, `stage` cycles later.

        Parameters
        ----------
        m : Module
        leaf : int
            Number of the leaf loop.
        stage : int
            In cycles, from 0.
        """
        if stage == 0:
            return self.valid[leaf]
        if (leaf, stage) not in self._delayed:
            flag = Signal(name=f"valid{leaf}_s{stage}")
            m.d.sync += flag.eq(self.valid_at(m, leaf, stage - 1))
            self._delayed[leaf, stage] = flag
        return self._delayed[leaf, stage]


def run_time_bound(bound: IRValue, variables: dict[str, Value]) -> Value:
    """Expression of a loop bound over the ports of the variables.

    Parameters
    ----------
    bound : IRValue
    variables : dict of str to Value
        Ports, by the name of the variable.

    Raises
    ------
    UnsupportedError
        For an op other than sums, products, minimum and maximum.
    """
    match bound:
        case IRConst():
            return Const(int(bound.value))
        case IRVariable():
            return variables[bound.name]
        case IROp():
            a, *rest = (run_time_bound(s, variables) for s in bound.srcs)
            match bound.op:
                case "cast":
                    return a
                case "add":
                    return a + rest[0]
                case "sub":
                    return a - rest[0]
                case "mul":
                    return a * rest[0]
                case "max":
                    return Mux(a < rest[0], rest[0], a)
                case "min":
                    return Mux(a < rest[0], a, rest[0])
                case "and":
                    return a & rest[0]
                case "shl" if isinstance(rest[0], Const):
                    return a.shift_left(rest[0].value)
                case "shr" if isinstance(rest[0], Const):
                    return a.shift_right(rest[0].value)
    raise UnsupportedError(
        "a run-time loop bound is computed with an operation that control does not have",
        where=f"op {bound.op}" if isinstance(bound, IROp) else None,
        hint="bind the variable to a number",
    )


def create_counters(m: Module, plan: HardwarePlan) -> dict[int, CounterSignals]:
    """Registers for the counters of all loops, by axis.

    Parameters
    ----------
    m : Module
        Gets the registers.
    plan : HardwarePlan
    """
    counters: dict[int, CounterSignals] = {}
    plans = plan.variants or (plan,)
    for loop, *others in zip(*(each.kernel.loop_tree.walk() for each in plans), strict=True):
        if loop.counter is None:
            continue
        axis = loop.counter.axis
        limit = max(_largest(each.counter) for each in (loop, *others) if each.counter is not None)
        counters[axis] = CounterSignals(
            Signal(range(max(limit, 2)), name=f"i{axis}"),
            Signal(name=f"i{axis}_first", init=1),
            Signal(name=f"i{axis}_last", init=int(loop.bound == 1)),
        )
    return counters


def _largest(counter: IRCounter) -> int:
    return RangeAnalysis().of(counter)[1] + 1


def build_control(
    m: Module,
    plan: HardwarePlan,
    start: Value,
    variables: dict[str, Value] | None = None,
    variant: Value | None = None,
) -> Control:
    """Add the step sequencer; `start` is a one-cycle pulse while idle, `variant` as of `KernelCore`.

    Parameters
    ----------
    m : Module
        Gets the sequencer.
    plan : HardwarePlan
    start : Value
        A one-cycle pulse while idle.
    variables : dict of str to Value, optional
        Run-time scalars.
    variant : Value, optional
        Number of the plan's variant that runs.
    """
    counters = create_counters(m, plan)
    running = Signal()
    busy = Signal()
    finish = Signal()
    step = Signal()
    if plan.ii > 1:
        phase = Signal(range(plan.ii))
        m.d.comb += step.eq(running & (phase == 0))
        m.d.sync += phase.eq(Mux(running & (phase != plan.ii - 1), phase + 1, 0))
    else:
        m.d.comb += step.eq(running)
    valid = [Signal(name=f"valid{leaf.number}") for leaf in plan.leaves]
    select = [Signal(name=f"leaf{leaf.number}", init=int(leaf.number == 0)) for leaf in plan.leaves]
    if len(plan.leaves) == 1:
        m.d.comb += valid[0].eq(step)
    else:
        m.d.comb += [v.eq(step & s) for v, s in zip(valid, select, strict=True)]
    last = {axis: signals.last for axis, signals in counters.items()}
    early = plan.control_registers.advances
    advances = [Advance(m, leaf, last, registered=leaf.number in early) for leaf in plan.leaves]
    sequence = _Sequence(m, plan, counters, advances, select, finish, variables or {}, variant)
    sequence.run(valid)
    with m.If(start):
        sequence.begin()
    m.d.sync += running.eq((running & ~finish) | start)
    done = _delay(m, finish, plan.drain)
    m.d.sync += busy.eq((busy & ~done) | start)
    return Control(counters, valid, advances, busy, done, finish)


def _delay(m: Module, flag: Signal, cycles: int) -> Signal:
    chain = Signal(cycles, name="finish_delay")
    m.d.sync += chain.eq((chain << 1) | flag)
    done = Signal(name="done_flag")
    m.d.comb += done.eq(chain[-1])
    return done


class _Sequence:
    """Next-state logic: one loop advances, and those inside start again."""

    def __init__(
        self,
        m: Module,
        plan: HardwarePlan,
        counters: dict[int, CounterSignals],
        advances: list[Advance],
        select: list[Signal],
        finish: Signal,
        variables: dict[str, Value],
        variant: Value | None = None,
    ) -> None:
        self.m = m
        self.plan = plan
        self.choice = VariantChoice(plan, variant)
        self.bounds: dict[int, list[int]] = {}
        for loop in (loop for each in self.choice.plans for loop in each.kernel.loop_tree.walk()):
            if loop.counter is not None and isinstance(loop.bound, int):
                self.bounds.setdefault(loop.counter.axis, []).append(loop.bound)
        self.counters = counters
        self.advances = advances
        self.select = select
        self.finish = finish
        self.variables = variables
        self.leaf_number = {id(leaf.path[-1]) if leaf.path else 0: leaf.number for leaf in plan.leaves}

    def run(self, valid: list[Signal]) -> None:
        for leaf in self.plan.leaves:
            with self.m.If(valid[leaf.number]):
                self._advance(leaf)

    def begin(self) -> None:
        """Compare the run-time bounds, which may be others than in the run before."""
        for loop in self.plan.kernel.loop_tree.walk():
            if loop.counter is not None and not isinstance(loop.bound, int):
                self._rewind(loop, self._signals(loop))

    def _advance(self, leaf: LeafPlan) -> None:
        m, advance = self.m, self.advances[leaf.number]
        for level in range(len(leaf.path) - 1, -1, -1):
            with m.If(advance.at(level)):
                if level == 0 and self.plan.rows:
                    m.d.comb += self.finish.eq(1)
                self._count(leaf.path[level], self._signals(leaf.path[level]))
                self._restart(leaf.path[level + 1 :])
                self._goto(leaf.number, self._first_leaf(leaf.path[level]))
            after = self._sibling_after(leaf, level)
            if after is not None:
                with m.If(advance.wraps(level)):
                    self._restart(leaf.path[level:])
                    self._goto(leaf.number, self._first_leaf(after))
                return
        with m.If(advance.wraps(0)):
            m.d.comb += self.finish.eq(1)
            self._restart(leaf.path)
            self._goto(leaf.number, self._first_leaf(self.plan.kernel.loop_tree))

    def _sibling_after(self, leaf: LeafPlan, level: int) -> LoopIR | None:
        """The loop that follows the one at `level` in its parent."""
        parent = leaf.path[level - 1] if level else self.plan.kernel.loop_tree
        at = next(n for n, loop in enumerate(parent.loops) if loop is leaf.path[level])
        return parent.loops[at + 1] if at + 1 < len(parent.loops) else None

    def _restart(self, loops: tuple[LoopIR, ...]) -> None:
        for loop in loops:
            self._rewind(loop, self._signals(loop))

    def _signals(self, loop: LoopIR) -> CounterSignals:
        assert loop.counter is not None, "only the root has no counter"
        return self.counters[loop.counter.axis]

    def _count(self, loop: LoopIR, signals: CounterSignals) -> None:
        m, value = self.m, signals.value
        m.d.sync += [value.eq(value + 1), signals.first.eq(0)]
        if isinstance(loop.bound, int):
            assert loop.counter is not None, "only the root has no counter"
            before = self.choice.of([bound - 2 for bound in self.bounds[loop.counter.axis]])
            m.d.sync += signals.last.eq(value == before)
        else:
            m.d.sync += signals.last.eq(value + 2 == run_time_bound(loop.bound, self.variables))

    def _rewind(self, loop: LoopIR, signals: CounterSignals) -> None:
        m = self.m
        m.d.sync += [signals.value.eq(0), signals.first.eq(1)]
        if isinstance(loop.bound, int):
            m.d.sync += signals.last.eq(int(loop.bound == 1))
        else:
            m.d.sync += signals.last.eq(run_time_bound(loop.bound, self.variables) == 1)

    def _first_leaf(self, loop: LoopIR) -> int:
        while loop.loops:
            loop = loop.loops[0]
        return self.leaf_number[id(loop) if loop.counter is not None else 0]

    def _goto(self, leaf: int, target: int) -> None:
        if leaf != target:
            self.m.d.sync += [self.select[leaf].eq(0), self.select[target].eq(1)]


class Advance:
    """Flags at stage 0 of one leaf.

    Parameters
    ----------
    last : mapping of int to Signal
        By axis: the counter has its last value.
    registered : bool
        Whether the flags of the outer loops come from registers.
    """

    def __init__(self, m: Module, leaf: LeafPlan, last: Mapping[int, Signal], *, registered: bool) -> None:
        self._last = [last[_axis(loop)] for loop in leaf.path]
        advance: list[Value] = []
        wrap: list[Value] = []
        outer_last: Value = Const(1, 1)
        for signal in self._last[-2::-1]:
            advance.append(outer_last & ~signal)
            outer_last = outer_last & signal
            wrap.append(outer_last)
        self._advance = [
            _kept(m, v, f"leaf{leaf.number}_advance{n}", registered) for n, v in enumerate(advance)
        ]
        self._wrap = [_kept(m, v, f"leaf{leaf.number}_wrap{n}", registered) for n, v in enumerate(wrap)]

    def at(self, level: int) -> Value:
        """The loop at `level` counts on, and all inner ones start again."""
        outward = len(self._last) - 1 - level
        return self._last[-1] & self._advance[outward - 1] if outward else ~self._last[-1]

    def wraps(self, level: int) -> Value:
        """The loop at `level` and all inner ones have their last values."""
        if not self._last:
            return Const(1, 1)
        outward = len(self._last) - 1 - level
        return self._last[-1] & self._wrap[outward - 1] if outward else self._last[-1]


def _kept(m: Module, value: Value, name: str, registered: bool) -> Value:
    if not registered:
        return value
    register = Signal(name=name, reset_less=True)
    m.d.sync += register.eq(value)
    return register


def _axis(loop: LoopIR) -> int:
    assert loop.counter is not None, "only the root has no counter"
    return loop.counter.axis
