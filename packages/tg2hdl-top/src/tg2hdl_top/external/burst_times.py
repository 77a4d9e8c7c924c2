"""Times of beats that come in bursts from a memory that behaves as a `MemoryModel`."""

from __future__ import annotations

from tg2hdl_top.external.memory_model import MemoryModel
from tg2hdl_top.external.memory_port import BeatTimes

__all__ = ["BurstTimes"]


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
        """Cycle of a beat that could come from `first` on, and that is taken from `begin` on."""
        raise NotImplementedError

    def finish(self) -> None:
        """The last beat of a burst was taken."""
