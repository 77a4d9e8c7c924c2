"""Address generators: affine values kept in registers and advanced by one addition a step."""

from __future__ import annotations

from amaranth import Module, Signal
from amaranth.hdl import Const, Value, signed, unsigned

from tg2hdl_ir.nodes import IRCounter, LoopIR
from tg2hdl_ir.passes.affine import Affine
from tg2hdl_lower.control import Control, run_time_bound
from tg2hdl_lower.plan import LeafPlan, PlanNode

__all__ = ["AddressGenerators"]


class AddressGenerators:
    """All affine values of a kernel, as registers at stage 1 of their leaf."""

    def __init__(self, m: Module, control: Control, start: Value, variables: dict[str, Value]) -> None:
        self.m = m
        self.control = control
        self.start = start
        self.variables = variables
        self._level_flags: dict[int, list[Signal]] = {}

    def add(self, node: PlanNode, leaf: LeafPlan) -> Signal:
        """Register that holds the value of an ``address`` node at stage 1."""
        assert node.form is not None, "an address node has a form"
        form = node.form
        shape = signed(node.width) if node.signed else unsigned(node.width)
        register = Signal(shape, name=f"a{node.number}")
        jumps = [self._jump(form, leaf.path, level) for level in range(len(leaf.path))]
        delta = Signal(signed(node.width + 1), name=f"a{node.number}_step")
        self._select(delta, jumps, leaf)
        valid = self.control.valid_at(self.m, leaf.number, 1)
        with self.m.If(self.start):
            self.m.d.sync += register.eq(self._initial(form))
        with self.m.Elif(valid):
            self.m.d.sync += register.eq(register + delta)
        return register

    def _initial(self, form: Affine) -> Value:
        value: Value = Const(form.const)
        for symbol, coefficient in form.terms:
            if not isinstance(symbol, IRCounter):
                value = value + self.variables[symbol.name] * coefficient
        return value

    def _jump(self, form: Affine, path: tuple[LoopIR, ...], level: int) -> Value | int:
        """Change when the loop at `level` advances and all inner ones start again."""
        counter = path[level].counter
        assert counter is not None, "only the root has no counter"
        jump: Value | int = form.coefficient(counter)
        for loop in path[level + 1 :]:
            assert loop.counter is not None, "only the root has no counter"
            coefficient = form.coefficient(loop.counter)
            if not coefficient:
                continue
            if isinstance(loop.bound, int):
                jump = jump - coefficient * (loop.bound - 1)
            else:
                jump = jump - coefficient * (run_time_bound(loop.bound, self.variables) - 1)
        return jump

    def _select(self, delta: Signal, jumps: list[Value | int], leaf: LeafPlan) -> None:
        if not jumps:
            return
        if all(isinstance(j, int) and j == jumps[0] for j in jumps):
            self.m.d.comb += delta.eq(jumps[0])
            return
        flags = self._levels(leaf)
        for level, jump in enumerate(jumps):
            if isinstance(jump, int) and jump == 0:
                continue
            with self.m.If(flags[level]):
                self.m.d.comb += delta.eq(jump)

    def _levels(self, leaf: LeafPlan) -> list[Signal]:
        """One-hot at stage 1: which loop of the path advances after this step."""
        if leaf.number not in self._level_flags:
            flags = []
            inner_last: Value = Const(1, 1)
            for loop in reversed(leaf.path):
                assert loop.counter is not None, "only the root has no counter"
                last = self.control.counters[loop.counter.axis].last
                flag = Signal(name=f"advance{leaf.number}_i{loop.counter.axis}")
                self.m.d.sync += flag.eq(inner_last & ~last)
                flags.append(flag)
                inner_last = inner_last & last
            self._level_flags[leaf.number] = flags[::-1]
        return self._level_flags[leaf.number]
