"""A ring that drops nothing: every node sends to every other."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

__all__ = ["Ring", "RingLink"]


class RingLink(wiring.Signature):
    """A packet for a node; it moves when `valid` and `ready` are high.

    Parameters
    ----------
    nodes, width : int
        Nodes of the ring, and bits of a packet.
    """

    def __init__(self, nodes: int, width: int) -> None:
        super().__init__({"valid": Out(1), "ready": In(1), "target": Out(range(nodes)), "data": Out(width)})


class Ring(wiring.Component):
    """Packets move from node to node, in one direction, and wait where the next node has no room.

    Packets between two nodes keep their order.  A node sends only to a neighbour that holds nothing, which has room for
    two packets, so that one place in the ring is always free: the ring moves as long as each node takes its packets.

    Parameters
    ----------
    nodes, width : int
        Nodes, and bits of a packet.

    Members
    -------
    send0, send1, ... : In(RingLink)
    receive0, receive1, ... : Out(RingLink)
    empty : Out(1)
        No packet is in the ring.
    """

    def __init__(self, nodes: int, width: int) -> None:
        self.nodes, self.width = nodes, width
        link = RingLink(nodes, width)
        super().__init__(
            {f"send{n}": In(link) for n in range(nodes)}
            | {f"receive{n}": Out(link) for n in range(nodes)}
            | {"empty": Out(1)}
        )

    def elaborate(self, platform: Any) -> Module:
        """Build two places for each node."""
        m = Module()
        bits = (self.nodes - 1).bit_length()
        places = [SyncFIFO(width=self.width + bits, depth=2) for _ in range(self.nodes)]
        for n, place in enumerate(places):
            m.submodules[f"place{n}"] = place
            following = places[(n + 1) % self.nodes]
            send, receive = getattr(self, f"send{n}"), getattr(self, f"receive{n}")
            target = place.r_data[self.width :]
            passes = place.r_rdy & (target != n)
            m.d.comb += [
                receive.valid.eq(place.r_rdy & (target == n)),
                receive.target.eq(target),
                receive.data.eq(place.r_data[: self.width]),
                send.ready.eq(~passes & (following.level == 0)),
                following.w_en.eq(passes | (send.valid & send.ready)),
                following.w_data.eq(Mux(passes, place.r_data, Cat(send.data, send.target))),
                place.r_en.eq(Mux(passes, following.w_rdy, receive.ready)),
            ]
        m.d.comb += self.empty.eq(~Cat(place.r_rdy for place in places).any())
        return m
