"""Integer products on hardware multipliers between registers, which kernels can share."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from amaranth import Module, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower.dataflow import Dataflow
from tg2hdl_lower.dependences import recurrent_nodes
from tg2hdl_lower.plan import PlanNode

__all__ = [
    "Multiplier18",
    "bind_products",
    "pool_widths",
    "product_signature",
    "product_slots",
]

_WIDEST = 18
_NARROWEST = 3


def bind_products(flow: Dataflow, latency: int) -> None:
    """Turn the products that one hardware multiplier computes into ``product`` nodes.

    Products of a recurrence stay combinational, since more cycles there would raise the II.
    """
    recurrent = recurrent_nodes(flow.nodes)
    for node in flow.nodes:
        if node.kind != "op" or node.op != "mul" or node.number in recurrent or node.dtype.is_bool:
            continue
        factors = [flow.nodes[n] for n in node.operands]
        widths = [_signed_width(f) for f in factors]
        if any(f.kind == "const" for f in factors) or max(widths) > _WIDEST or min(widths) < _NARROWEST:
            continue
        node.kind, node.latency, node.levels, node.lowering = "product", latency, 0, None


def _signed_width(node: PlanNode) -> int:
    return node.width + (not node.signed)


def product_slots(nodes: Iterable[PlanNode]) -> tuple[tuple[int, int], ...]:
    """Widths of the operands of each multiplier of a scheduled kernel (bits, as signed numbers)."""
    by_number = list(nodes)
    slots: dict[int, tuple[int, int]] = {}
    for node in by_number:
        if node.kind == "product":
            widths = (_signed_width(by_number[node.operands[0]]), _signed_width(by_number[node.operands[1]]))
            before = slots.get(node.port, (1, 1))
            slots[node.port] = (max(before[0], widths[0]), max(before[1], widths[1]))
    return tuple(slots[n] for n in sorted(slots))


def pool_widths(kernels: Iterable[tuple[tuple[int, int], ...]]) -> list[tuple[int, int]]:
    """Operand widths of the multipliers that serve several kernels, of which one runs at a time."""
    return [
        (max(w[0] for w in slot), max(w[1] for w in slot)) for slot in zip_longest(*kernels, fillvalue=(1, 1))
    ]


def product_signature(widths: tuple[int, int]) -> wiring.Signature:
    """Port of a kernel to a multiplier: `a` and `b` out, `result` in after the product latency of the plan."""
    a, b = widths
    return wiring.Signature({"a": Out(signed(a)), "b": Out(signed(b)), "result": In(signed(a + b))})


class Multiplier18(wiring.Component):
    """Signed product of at most 18 x 18 bits with the registers that hard multipliers have.

    Parameters
    ----------
    widths : (int, int)
        Bits of `a` and `b`.
    latency : int
        Cycles: a register behind the multiplier, one at its operands, a third in front of these, the others behind.

    Members
    -------
    a, b : In(signed)
        Factors.
    result : Out(signed)
        Product, `latency` cycles later.
    """

    def __init__(self, widths: tuple[int, int], latency: int) -> None:
        self._MustUse__silence = True
        self.latency = latency
        a, b = widths
        super().__init__({"a": In(signed(a)), "b": In(signed(b)), "result": Out(signed(a + b))})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        a: Value = self.a
        b: Value = self.b
        for stage in range(min(self.latency - 1, 2)):
            next_a = Signal.like(self.a, name=f"a_{stage}", reset_less=True)
            next_b = Signal.like(self.b, name=f"b_{stage}", reset_less=True)
            m.d.sync += [next_a.eq(a), next_b.eq(b)]
            a, b = next_a, next_b
        product: Value = a * b
        for stage in range(max(1, self.latency - 2)):
            register = Signal.like(self.result, name=f"product_{stage}", reset_less=True)
            m.d.sync += register.eq(product)
            product = register
        m.d.comb += self.result.eq(product)
        return m
