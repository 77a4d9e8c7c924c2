"""Cores whose ports have formats."""

__all__ = ["Typed", "connect"]

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .core import Core
from .errors import FloatTypeError
from .format import Format
from .iterative import IterativeDiv, IterativeSqrt


class Typed(wiring.Component):
    """A core whose floating-point ports have their `Format` as shape, so that a wire of another format is refused.

    Parameters
    ----------
    core : Core
        Such as ``Add(FP32)``; `latency` and `ii` are its own.

    Members
    -------
    operands, rm, start, en, result, flags
        Those of the core.
    """

    def __init__(self, core: Any) -> None:
        if not isinstance(core, Core | IterativeDiv | IterativeSqrt):
            raise FloatTypeError(f"core must be a core, such as Add(FP32), not {core!r}")
        self.core, self.latency, self.ii = core, core.latency, core.ii
        shapes = dict(zip(core.operands, core.operand_shapes(), strict=True))
        members: dict[str, Any] = {}
        for name, member in core.signature.members.items():
            if name in shapes:
                members[name] = In(shapes[name])
            elif name == "result":
                members[name] = Out(core.result_shape())
            else:
                members[name] = member
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        """Connect the core."""
        m = Module()
        m.submodules.core = self.core
        for name, member in self.signature.members.items():
            outer, inner = getattr(self, name), getattr(self.core, name)
            m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
        return m


def connect(m: Module, *components: Any) -> None:
    """Connect interfaces as ``amaranth.lib.wiring.connect`` does, which compares only widths.

    Raises
    ------
    FloatTypeError
        Where ports of two formats meet.
    """
    formats: dict[tuple[Any, ...], Format] = {}
    for component in components:
        for path, member, _ in component.signature.flatten(component):
            if isinstance(member.shape, Format) and formats.setdefault(path, member.shape) != member.shape:
                raise FloatTypeError(
                    f"port {'.'.join(map(str, path))} is {formats[path]} and {member.shape}; "
                    "convert it with FloatToFloat"
                )
    wiring.connect(m, *components)
