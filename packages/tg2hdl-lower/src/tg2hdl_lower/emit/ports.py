"""Ports of a kernel to memories and shared resources.

Each port has widths of its own, so a kernel keeps interface objects in order, as `amaranth.lib.memory.Memory` does.
"""

from __future__ import annotations

from amaranth import Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower.plan.hardware_plan import BufferPort
from tg2hdl_lower.plan.resources import SharedResource, Word

__all__ = ["ReadPort", "ResourcePort", "WritePort"]


class ReadPort(wiring.PureInterface):
    """Reads words of a memory.

    Members
    -------
    addr : Out
    en : Out(1)
    data : In
        A word, the buffer's latency after its address.
    """

    addr: Signal
    en: Signal
    data: Signal

    def __init__(self, port: BufferPort) -> None:
        self.element_width = port.dtype.bit_width
        members = {"addr": Out(port.layout.address_width), "en": Out(1), "data": In(port.word_width)}
        super().__init__(wiring.Signature(members), path=("read", port.buffer, port.number))


class WritePort(wiring.PureInterface):
    """Writes words of a memory.

    Parameters
    ----------
    port : BufferPort
    one_element : bool
        Whether all lanes get the same element.

    Members
    -------
    addr : Out
    data : Out
        A word, or the element of all lanes.
    en : Out
        A bit per lane.
    """

    addr: Signal
    en: Signal
    data: Signal

    def __init__(self, port: BufferPort, one_element: bool = False) -> None:
        self.element_width = port.dtype.bit_width
        width = self.element_width if one_element else port.word_width
        members = {
            "addr": Out(port.layout.address_width),
            "en": Out(port.layout.lanes),
            "data": Out(width),
        }
        super().__init__(wiring.Signature(members), path=("write", port.buffer, port.number))


class ResourcePort(wiring.PureInterface):
    """Uses a multiplier or unit outside.

    Members
    -------
    a, b, c : Out
        As many operands as the resource has.
    result : In
        The resource's latency after the operands.
    """

    result: Signal

    def __init__(self, resource: SharedResource, slot: int) -> None:
        operands = {name: Out(_shape(word)) for name, word in resource.operands.items()}
        signature = wiring.Signature({**operands, "result": In(_shape(resource.result))})
        super().__init__(signature, path=(resource.port, slot))

    def operand(self, name: str) -> Signal:
        """The port of an operand."""
        operand: Signal = getattr(self, name)
        return operand


def _shape(word: Word) -> Shape:
    return Shape(word.width, word.signed)
