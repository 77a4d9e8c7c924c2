"""State of a register map: runs, cycles, events, the first refused access, and what the host sets for a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value

from tg2hdl_lower import HostLoop
from tg2hdl_top.register_map import AccessCode, RegisterMap

__all__ = ["RunState"]


class RunState:
    """Registers about the runs of a design, and about accesses that were refused.

    Parameters
    ----------
    m : Module
        Gets the statements.
    design : interface
        As in `RegisterFile`.
    registers : RegisterMap
    """

    def __init__(self, m: Module, design: Any, registers: RegisterMap) -> None:
        serves = registers.serves
        self._design, self._serves, self._places = design, serves, registers.places
        self.error, self.partial = Signal(3), Signal(max(1, len(registers.windows)))
        self.enabled, self.pending = Signal(2, name="irq_enable"), Signal(2, name="irq_pending")
        self.result, self.starting, self.occupied = Signal(), Signal(), Signal()
        # A controller of external memory may be slower than its model, by which the longest run is known.
        longest = serves.longest_start.bit_length()
        waits = any(buffer.waits for buffer in serves.buffers)
        self.cycles = Signal(32 if waits or not longest else min(32, longest + 1))
        ended = Signal(8)
        self.status = Cat(self.occupied, self.result, self.partial.any(), Const(0, 5), ended)
        m.d.comb += self.occupied.eq(design.start | design.busy)
        m.d.sync += [
            design.start.eq(self.starting),
            self.cycles.eq(self.cycles + design.busy),
            ended.eq(ended + Cat(design.kernel_done).any()),
        ]
        order = serves.order
        self.ends = [Signal(max(1, longest), name=f"end{n}") for n in range(len(order))]
        done: list[Value] = list(design.kernel_done)
        if len(done) < len(order):  # cores run several times, one run after the other
            done = [Cat(*done).any() & (ended == n) for n in range(len(order))]
        for pulse, end in zip(done, self.ends, strict=True):
            with m.If(pulse):
                m.d.sync += end.eq(self.cycles + 1)
        with m.If(design.done):
            m.d.sync += self.result.eq(1)
        with m.If(self.starting):
            m.d.sync += [self.cycles.eq(0), ended.eq(0), self.result.eq(0)]
        if serves.loop is not None:
            with m.If(design.loop.begins):
                m.d.sync += ended.eq(0)
            self._limit = Signal(len(design.loop.limit), name="limit", init=1)
            self._generates = Signal(name="generates")
            m.d.comb += [
                design.loop.limit.eq(Mux(self._generates, self._limit, 0)),
                design.loop.results.ready.eq(1),
            ]

    @property
    def values(self) -> dict[str, Value]:
        """Registers whose values change, by name."""
        found: dict[str, Value] = {"STATUS": self.status, "CYCLES": self.cycles, "ERROR": self.error}
        for variable in self._serves.variables:
            found[f"VARIABLE_{variable.name}"] = getattr(self._design.variables, variable.name)
        found |= {f"KERNEL_{n}_END": end for n, end in enumerate(self.ends)}
        if self._serves.loop is not None:
            control = self._design.loop
            found |= {"LIMIT": self._limit, "STOPS": control.stops, "RESULTS": control.count}
            found |= {"STOP": control.stop[:32], "STOP_HIGH": control.stop[32:]}
        return found

    def refuse(self, m: Module, code: int | Value) -> None:
        """Keep the code of the first refused access.

        Parameters
        ----------
        m : Module
        code : int or Value
            Of `AccessCode`; an int of OK keeps nothing.
        """
        if not isinstance(code, int) or code != AccessCode.OK:
            m.d.sync += self.pending[1].eq(1)
            with m.If(self.error == 0):
                m.d.sync += self.error.eq(code)

    def starts(self, address: Value) -> Value:
        """Whether a write to this address starts a run.

        Parameters
        ----------
        address : Value
        """
        names = [name for name in ("START", "GO", "GENERATE") if name in self._places]
        return Cat(address == self._places[name] for name in names).any()

    def counts(self, address: Value) -> Value:
        """Whether a write to this address must have the number of runs.

        Parameters
        ----------
        address : Value
        """
        return self.starts(address) & (address != self._places.get("GO", -1))

    def write(
        self,
        m: Module,
        address: Value,
        word: Callable[[Value], Value],
        stale: Value,
        answer: Callable[[int], None],
    ) -> None:
        """Write a register.

        Parameters
        ----------
        m : Module
        address : Value
        word : callable
            The value of a register after the write, from its value before.
        stale : Value
            Whether the word is another number than that of runs.
        answer : callable
            Adds the statements that give the host a code.
        """
        places = self._places
        with m.If(self.starts(address)):
            with m.If(self.partial.any()):
                answer(AccessCode.INCOMPLETE)
            with m.Elif(stale & self.counts(address)):
                answer(AccessCode.STALE)
            with m.Else():
                m.d.comb += self.starting.eq(1)
                if self._serves.loop is not None:
                    m.d.sync += self._generates.eq(address == places["GENERATE"])
                answer(AccessCode.OK)
        with m.Elif(address == places["ERROR"]):
            answer(AccessCode.OK)
            m.d.sync += self.error.eq(0)
        if "IRQ_ENABLE" in places:
            with m.Elif(address == places["IRQ_ENABLE"]):
                answer(AccessCode.OK)
                m.d.sync += self.enabled.eq(word(self.enabled))
            with m.Elif(address == places["IRQ_PENDING"]):
                answer(AccessCode.OK)
                m.d.sync += self.pending.eq(self.pending & ~word(Const(0, 2)))
        for variable in self._serves.variables:
            with m.Elif(address == places[f"VARIABLE_{variable.name}"]):
                held = getattr(self._design.variables, variable.name)
                given = word(held).as_signed() if held.shape().signed else word(held)
                with m.If((given < variable.low) | (given > variable.high)):
                    answer(AccessCode.RANGE)
                with m.Else():
                    m.d.sync += held.eq(word(held))
                    answer(AccessCode.OK)
        if self._serves.loop is not None:
            self._write_loop(m, self._serves.loop, address, word, answer)
        with m.Else():
            answer(AccessCode.ADDRESS)

    def _write_loop(
        self,
        m: Module,
        loop: HostLoop,
        address: Value,
        word: Callable[[Value], Value],
        answer: Callable[[int], None],
    ) -> None:
        control, stop = self._design.loop, self._design.loop.stop
        with m.Elif(address == self._places["LIMIT"]):
            limit = word(self._limit)
            with m.If((limit == 0) | (limit > loop.most)):
                answer(AccessCode.RANGE)
            with m.Else():
                m.d.sync += self._limit.eq(limit)
                answer(AccessCode.OK)
        held = {"STOPS": control.stops, "STOP": stop[:32], "STOP_HIGH": stop[32:]}
        for name, register in held.items():
            with m.Elif(address == self._places[name]):
                m.d.sync += register.eq(word(register)) if len(register) else []
                answer(AccessCode.OK)
