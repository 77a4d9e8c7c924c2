"""When tiles arrive and runs start; exact for a memory that behaves like its model."""

from __future__ import annotations

from collections.abc import Sequence

from tg2hdl_top.external.memory_port import beat_times
from tg2hdl_top.external.plan import ExternalPlan
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
    stream = beat_times(plan)
    starts: list[int] = []
    ends: list[int] = []
    tiles = list(plan.tiles)
    for run, count in enumerate(cycles):
        start = max(ends[-1], starts[-1] + SETTLE) if starts else 0
        while tiles and tiles[0].run == run:
            tile = tiles.pop(0)
            free = ends[tile.after - 1] + 1 if tile.after else 0
            begin = max(stream.latest + 1, free) + 1
            start = max(start, stream.take(tile.words * tile.beats, begin) + SETTLE)
        starts.append(start)
        ends.append(start + count)
    return Timeline(tuple(starts), tuple(ends), interval=ends[-1])
