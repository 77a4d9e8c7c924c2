"""Memory outside the chip as a `MemoryModel` behaves: times of its beats, and hardware only to simulate it."""

from __future__ import annotations

from amaranth import Module, Signal
from amaranth.hdl import Mux, Value, unsigned
from amaranth.lib.memory import Memory

from tg2hdl_top.external.memory_model import MemoryModel
from tg2hdl_top.external.memory_port import BeatTimes, SimulatedMemory

__all__ = ["BurstTimes", "ModelledMemory"]


class ModelledMemory(SimulatedMemory):
    """The parts that memories behind different buses have in common; refreshes are counted from `restart`."""

    model: MemoryModel

    def _timing(self, m: Module) -> tuple[Value, Signal]:
        """Whether the memory refreshes, and cycles until the next beat may come; both in this cycle."""
        model = self.model
        phase = Signal(range(max(model.refresh_every, 2)))
        m.d.sync += phase.eq(Mux(phase == model.refresh_every - 1, 0, phase + 1))
        with m.If(self.restart):
            m.d.sync += phase.eq(1 % model.refresh_every)
        gap = Signal(range(model.cycles_per_beat + 1))
        with m.If(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        pauses: Value = phase >= model.refresh_every - model.refresh_cycles
        return pauses if model.refresh_cycles else pauses & 0, gap

    def _array(self, m: Module) -> tuple[Signal, Signal]:
        """Address and data of the words."""
        m.submodules.array = array = Memory(
            shape=unsigned(self.model.bits), depth=len(self.words), init=self.words
        )
        port = array.read_port(domain="comb")
        address = Signal(range(max(len(self.words), 2)))
        m.d.comb += port.addr.eq(address)
        return address, port.data


class BurstTimes(BeatTimes):
    """Beats in bursts; when a burst is requested and a beat accepted is a matter of the bus."""

    model: MemoryModel

    def __init__(self, model: MemoryModel, beats: int) -> None:
        super().__init__(model, beats)
        self.burst = 0
        """Beats to come of the burst that was requested last."""

    def take(self, beats: int, begin: int) -> int:
        """Cycle of the last of the next beats."""
        while beats:
            if not self.burst:
                self.burst = min(self.model.burst, self.left)
                first = self.request(begin)
            else:
                first = self.latest + self.model.cycles_per_beat
            cycle = self.accepted(first, begin)
            count = min(beats, self.burst, self._until_refresh(cycle))
            self.latest = cycle + (count - 1) * self.model.cycles_per_beat
            beats, self.burst, self.left = beats - count, self.burst - count, self.left - count
            if not self.burst:
                self.finish()
        return self.latest

    def _until_refresh(self, cycle: int) -> int:
        """Beats that follow each other from a cycle on before the memory refreshes."""
        model = self.model
        if not model.refresh_cycles:
            return self.left
        pause = (cycle // model.refresh_every + 1) * model.refresh_every - model.refresh_cycles
        return max(1, -(-(pause - cycle) // model.cycles_per_beat))

    def request(self, begin: int) -> int:
        """First cycle in which the memory could give the first beat of the next burst."""
        raise NotImplementedError

    def accepted(self, first: int, begin: int) -> int:
        """Cycle of a beat that could come from `first` on, and that is taken from `begin` on.

        Parameters
        ----------
        first : int
            In cycles after the start of the run.
        begin : int
            In cycles after the start of the run.
        """
        raise NotImplementedError

    def finish(self) -> None:
        """The last beat of a burst was taken."""
