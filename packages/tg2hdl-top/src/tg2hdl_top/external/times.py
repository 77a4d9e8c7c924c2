"""When tiles arrive and runs start; exact for a memory that behaves like its model."""

from __future__ import annotations

from collections.abc import Sequence

from tg2hdl_top.external.memory_model import MemoryModel
from tg2hdl_top.external.plan import ExternalPlan, StreamedTile
from tg2hdl_top.sequencer.base import Timeline

__all__ = ["SETTLE", "waiting_timeline"]

SETTLE = 3
"""Cycles from the last beat of a tile, or from the start of a run, to the first start that depends on it."""


def waiting_timeline(cycles: Sequence[int], plan: ExternalPlan) -> Timeline:
    """Start and end of each run, in cycles after `start`.

    Parameters
    ----------
    cycles : sequence of int
        Of each run, once it has started.
    """
    stream: _Stream = _Wishbone(plan) if plan.port == "wishbone" else _Axi(plan)
    starts: list[int] = []
    ends: list[int] = []
    tiles = list(plan.tiles)
    for run, count in enumerate(cycles):
        start = max(ends[-1], starts[-1] + SETTLE) if starts else 0
        while tiles and tiles[0].run == run:
            tile = tiles.pop(0)
            free = ends[tile.after - 1] + 1 if tile.after else 0
            start = max(start, stream.loaded(tile, free) + SETTLE)
        starts.append(start)
        ends.append(start + count)
    return Timeline(tuple(starts), tuple(ends), interval=ends[-1])


class _Stream:
    """Beats of all tiles in order."""

    def __init__(self, plan: ExternalPlan) -> None:
        self.model: MemoryModel = plan.model
        self.left = plan.beats
        self.latest = 0
        """Cycle of the latest beat."""
        self.burst = 0
        """Beats to come of the burst that was requested last."""

    def loaded(self, tile: StreamedTile, free: int) -> int:
        """Cycle of the last beat of the next tile; its region of the memory is free from the cycle `free` on."""
        begin = max(self.latest + 1, free) + 1
        beats = tile.words * tile.beats
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


class _Axi(_Stream):
    """Several bursts are requested ahead; the memory holds a beat until it is taken."""

    def __init__(self, plan: ExternalPlan) -> None:
        super().__init__(plan)
        self.asked = 0
        self.ends: list[int] = []

    def request(self, begin: int) -> int:
        model = self.model
        asked = self.asked + 1
        if len(self.ends) >= model.outstanding:
            asked = max(asked, self.ends[-model.outstanding] + 1)
        self.asked = asked
        previous = self.latest + model.cycles_per_beat if self.ends else 0
        return max(asked + model.latency, previous)

    def accepted(self, first: int, begin: int) -> int:
        return max(self.model.after_refresh(first), begin)

    def finish(self) -> None:
        self.ends.append(self.latest)


class _Wishbone(_Stream):
    """A burst is requested when its first word is wanted."""

    def request(self, begin: int) -> int:
        gap = self.latest + self.model.cycles_per_beat if self.latest else 0
        return max(max(self.latest + 1, begin) + self.model.latency, gap)

    def accepted(self, first: int, begin: int) -> int:
        return self.model.after_refresh(max(first, begin))
