"""A host that sends and takes packets of AXI4-Stream one after the other, in a simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import SimulationError
from tg2hdl_top.design import Design
from tg2hdl_top.ports.axi_stream import streamed
from tg2hdl_top.streaming import Ports, simulate_host

__all__ = ["PacketHost", "Packets", "stream_packets"]

_Pattern = Callable[[int], bool]


class Packets(NamedTuple):
    """Outputs of each packet, and the cycles in which the last elements of packets went in and out."""

    outputs: list[list[npt.NDArray[Any]]]
    taken: list[int]
    sent: list[int]


def stream_packets(
    design: Design,
    inputs: Sequence[Mapping[str, npt.NDArray[Any]]],
    offers: _Pattern = lambda cycle: True,
    takes: _Pattern = lambda cycle: True,
    limit: int = 100_000,
) -> Packets:
    """Send packets one after the other on Amaranth's simulator; parameters as of `PacketHost`.

    Parameters
    ----------
    limit : int
        Cycles until all results must be there.

    Raises
    ------
    SimulationError
        When they are not.
    """
    host = PacketHost(design, inputs, offers, takes)
    simulate_host(design, host, limit)
    return host.packets()


class PacketHost:
    """Sends all inputs, and takes all results; `drive` is called once in each cycle.

    Parameters
    ----------
    design : Design
        Its first host port is ``axi-stream``.
    inputs : sequence of mapping of str to ndarray
        For each packet, by buffer name.
    offers, takes : callable
        Whether an element is offered, and one is taken, in a cycle; in each unless given.
    """

    def __init__(
        self,
        design: Design,
        inputs: Sequence[Mapping[str, npt.NDArray[Any]]],
        offers: _Pattern = lambda cycle: True,
        takes: _Pattern = lambda cycle: True,
    ) -> None:
        self.inputs = inputs
        self.offers, self.takes = offers, takes
        sources, self._results = streamed(design.ports[0].serves)
        self._beats: list[tuple[int, bool]] = []
        for given in inputs:
            arrays = [np.ascontiguousarray(given[b.title or b.name]).reshape(-1) for b in sources]
            bits = [
                v for b, a in zip(sources, arrays, strict=True) for v in b.dtype.array_to_bits(a).tolist()
            ]
            self._beats += [(v, n == len(bits) - 1) for n, v in enumerate(bits)]
        self._place = 0
        self._found: list[int] = []
        self.outputs: list[list[npt.NDArray[Any]]] = []
        self.taken: list[int] = []
        self.sent: list[int] = []

    @property
    def is_done(self) -> bool:
        """Whether all results are there."""
        return len(self.outputs) == len(self.inputs)

    def packets(self) -> Packets:
        """The results so far."""
        return Packets(self.outputs, self.taken, self.sent)

    def drive(self, ports: Ports, cycle: int) -> None:
        """Set the ports for this cycle, and note the beats that it transfers.

        Parameters
        ----------
        ports : Ports
            Of the simulated design, an AXI4-Stream in each direction.
        cycle : int
            Cycles since the first call, from 0; pauses and the time of each packet are counted in them.
        """
        left = self._place < len(self._beats)
        element, last = self._beats[self._place] if left else (0, False)
        offered, taking = left and self.offers(cycle), self.takes(cycle)
        ports.set("s_axis__tvalid", int(offered))
        ports.set("s_axis__tdata", element)
        ports.set("s_axis__tlast", int(last))
        ports.set("m_axis__tready", int(taking))
        if offered and ports.get("s_axis__tready"):
            self._place += 1
            if last:
                self.taken.append(cycle)
        if taking and ports.get("m_axis__tvalid"):
            self._found.append(ports.get("m_axis__tdata"))
            self._end_packet(bool(ports.get("m_axis__tlast")), cycle)

    def _end_packet(self, last: bool, cycle: int) -> None:
        sizes = [b.layout.depth for b in self._results]
        if last != (len(self._found) == sum(sizes)):
            raise SimulationError(
                f"TLAST of element {len(self._found) - 1} is {int(last)}",
                hint="please report this with the design: the simulated port is wrong",
            )
        if not last:
            return
        parts = np.split(np.array(self._found, np.uint64), np.cumsum(sizes)[:-1])
        self.outputs.append([b.dtype.bits_to_array(p) for b, p in zip(self._results, parts, strict=True)])
        self.sent.append(cycle)
        self._found = []
