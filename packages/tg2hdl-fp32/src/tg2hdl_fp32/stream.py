"""Valid/ready streams around any core, with backpressure."""

__all__ = ["StreamCore"]

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .core import Core
from .errors import FloatTypeError
from .iterative import IterativeDiv, IterativeSqrt


class StreamCore(wiring.Component):
    """A core between an input stream of operands and an output stream of results.

    A pipelined core accepts a set of operands in every cycle unless the output is stalled, which stalls the whole
    pipeline. A core with `ii` above 1 (which has a port ``start``) works on one set at a time.

    Parameters
    ----------
    core : Core
        The core; it becomes a submodule.

    Members
    -------
    i : In(stream.Signature)
        Payload is a struct with a field for each operand (and ``rm``, when the core has it).
    o : Out(stream.Signature)
        Payload is a struct with ``result`` (and ``flags``, when the core has them).
    """

    def __init__(self, core: Any) -> None:
        if not isinstance(core, Core | IterativeDiv | IterativeSqrt):
            raise FloatTypeError(f"core must be a core, such as Add(FP32), not {core!r}")
        self.core = core
        inputs: dict[str, Any] = dict(zip(core.operands, map(Shape.cast, core.operand_shapes()), strict=True))
        if core.dynamic:
            inputs["rm"] = 3
        outputs: dict[str, Any] = {"result": Shape.cast(core.result_shape())}
        if core.has_flags:
            outputs["flags"] = core.flags.shape()
        super().__init__(
            {
                "i": In(stream.Signature(data.StructLayout(inputs))),
                "o": Out(stream.Signature(data.StructLayout(outputs))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Connect the core and track which of its stages hold operands."""
        m = Module()
        m.submodules.core = core = self.core
        for name in self.i.payload.shape().members:
            m.d.comb += getattr(core, name).eq(self.i.payload[name])
        for name in self.o.payload.shape().members:
            m.d.comb += self.o.payload[name].eq(getattr(core, name))
        if core.ii > 1:
            self._one_at_a_time(m)
        elif core.latency == 0:
            m.d.comb += [self.o.valid.eq(self.i.valid), self.i.ready.eq(self.o.ready)]
        else:
            valid = Signal(core.latency)
            advance = self.o.ready | ~self.o.valid
            m.d.comb += [self.o.valid.eq(valid[-1]), self.i.ready.eq(advance), core.en.eq(advance)]
            with m.If(advance):
                m.d[core.domain] += valid.eq(Cat(self.i.valid, valid))
        return m

    def _one_at_a_time(self, m: Module) -> None:
        core = self.core
        left = Signal(range(core.latency + 1))
        busy = Signal()
        taken = self.o.valid & self.o.ready
        accept = self.i.valid & self.i.ready
        m.d.comb += [
            self.i.ready.eq(~busy),
            core.en.eq(1),
            core.start.eq(accept),
            self.o.valid.eq(busy & (left == 0)),
        ]
        with m.If(accept):
            m.d[core.domain] += [busy.eq(1), left.eq(core.latency - 1)]
        with m.Elif(busy):
            m.d[core.domain] += [left.eq(Mux(left == 0, 0, left - 1)), busy.eq(~taken)]
