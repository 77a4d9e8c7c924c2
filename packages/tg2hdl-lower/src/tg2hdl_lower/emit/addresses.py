"""Address generators: affine values kept in registers and advanced by one addition a step."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Module, Mux, Signal
from amaranth.hdl import Const, Shape, Value, signed, unsigned

from tg2hdl_ir import Affine, IRCounter, LoopIR
from tg2hdl_lower.emit.choice import VariantChoice
from tg2hdl_lower.emit.control import Control, run_time_bound
from tg2hdl_lower.plan.graph import LeafPlan
from tg2hdl_lower.plan.values import Address, DigitSplit, WordPosition

__all__ = ["AddressGenerators"]


class AddressGenerators:
    """All affine values of a kernel, as registers at stage 1 of their leaf."""

    def __init__(
        self, m: Module, control: Control, start: Value, variables: dict[str, Value], choice: VariantChoice
    ) -> None:
        self.choice = choice
        self.m = m
        self.control = control
        # The first values are needed at stage 1, a cycle after the first step begins.
        self.started = Signal()
        for loop in choice.plans[0].kernel.loop_tree.loops:
            if loop.counter is not None and loop.axis_type == "rows":
                # A row goes on where the one before it has stopped.
                start = start & control.counters[loop.counter.axis].first
        m.d.sync += self.started.eq(start)
        self.variables = variables
        self._remainders: dict[tuple[int, int], Signal] = {}
        self._positions: dict[tuple[int, tuple[Affine, ...], int], tuple[Signal, Value]] = {}

    def add(self, node: Address, leaf: LeafPlan) -> Signal:
        """Register that holds the value of an address at stage 1.

        Parameters
        ----------
        node : Address
        leaf : LeafPlan
            Loop whose steps advance the address.
        """
        register = Signal(signed(node.width) if node.signed else unsigned(node.width), name=f"a{node.number}")
        found = [plan.nodes[node.number] for plan in self.choice.plans]
        versions = [each for each in found if isinstance(each, Address)]
        paths = [plan.leaves[leaf.number].path for plan in self.choice.plans]
        levels = range(len(leaf.path))
        moves = [
            [self._jump(each.form, path, n) for n in levels]
            for each, path in zip(versions, paths, strict=True)
        ]
        initial = self._initial([each.form for each in versions])
        carries: list[tuple[Value, int | Value]] = []
        last = [0] * len(versions)
        for at in range(len(node.digits)):
            digits = [each.digits[at] for each in versions]
            steps = [
                [divmod(self._jump(digit.form, path, n), digit.split) for n in levels]
                for digit, path in zip(digits, paths, strict=True)
            ]
            last = [digit.stride for digit in digits]
            moves = [
                [move + digit.stride * quotient for move, (quotient, _) in zip(row, step, strict=True)]
                for row, digit, step in zip(moves, digits, steps, strict=True)
            ]
            offsets = [digit.stride * (digit.form.const // digit.split) for digit in digits]
            initial = initial + self.choice.of(offsets)
            carry = self._remainder(node, at, digits, [[r for _, r in step] for step in steps], leaf)
            carries.append((carry, self.choice.of(last)))
        shape = signed(node.width + 2)
        jumps = [self.choice.of(column) for column in zip(*moves, strict=True)]
        delta = self._select(f"a{node.number}_step", shape, jumps, leaf)
        if carries:
            # Both sums are known a stage before the carry that chooses between them.
            carry, stride = carries.pop()
            beyond = [
                self.choice.of([move + stride for move, stride in zip(column, last, strict=True)])
                for column in zip(*moves, strict=True)
            ]
            delta = Mux(carry, self._select(f"a{node.number}_carry_step", shape, beyond, leaf, stride), delta)
        following = sum((Mux(carry, stride, 0) for carry, stride in carries), register + delta)
        self._advance(register, initial, following, leaf)
        return register

    def position(self, node: WordPosition) -> Signal:
        """Register with the position in the word, of an address that was added before."""
        return self._remainders[node.address, node.digit]

    def _advance(self, register: Signal, initial: Value, following: Value, leaf: LeafPlan) -> None:
        valid = self.control.valid_at(self.m, leaf.number, 1)
        with self.m.If(self.started):
            self.m.d.sync += register.eq(initial)
        with self.m.Elif(valid):
            self.m.d.sync += register.eq(following)

    def _remainder(
        self, node: Address, at: int, digits: Sequence[DigitSplit], rests: Sequence[list[int]], leaf: LeafPlan
    ) -> Value:
        """Add the register ``form % split``; returns whether this step carries into the next word."""
        split = digits[0].split
        key = (leaf.number, tuple(digit.form for digit in digits), split)
        if key in self._positions:
            self._remainders[node.number, at], carry = self._positions[key]
            return carry
        name = f"a{node.number}_lane{at}"
        register = Signal(range(split), name=name)
        columns = list(zip(*rests, strict=True))
        steps = [self.choice.of(column) for column in columns]
        step = self._select(f"{name}_step", unsigned((split - 1).bit_length()), steps, leaf)
        room = [self.choice.of([split - rest for rest in column]) for column in columns]
        threshold = self._select(f"{name}_room", unsigned(split.bit_length()), room, leaf, split)
        carry = Signal(name=f"{name}_carry")
        self.m.d.comb += carry.eq(register >= threshold)
        following = Mux(carry, register - threshold, register + step)
        first = self.choice.of([digit.form.const % split for digit in digits])
        self._advance(register, Const(first) if isinstance(first, int) else first, following, leaf)
        self._remainders[node.number, at] = register
        self._positions[key] = register, carry
        return carry

    def _initial(self, forms: Sequence[Affine]) -> Value:
        first = self.choice.of([form.const for form in forms])
        value: Value = Const(first) if isinstance(first, int) else first
        for symbol, coefficient in forms[0].terms:
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

    def _select(
        self,
        name: str,
        shape: Shape,
        jumps: Sequence[Value | int],
        leaf: LeafPlan,
        otherwise: int | Value = 0,
    ) -> Value:
        """At stage 1 the entry of the loop that advances after this step, `otherwise` when none does."""
        if all(isinstance(j, int) and j == jumps[0] for j in jumps):
            return Const(jumps[0] if jumps else otherwise, shape)
        register = Signal(shape, name=name, reset_less=True)
        self.m.d.sync += register.eq(otherwise)
        advance = self.control.advances[leaf.number]
        for level, jump in enumerate(jumps):
            with self.m.If(advance.at(level)):
                self.m.d.sync += register.eq(jump)
        return register
