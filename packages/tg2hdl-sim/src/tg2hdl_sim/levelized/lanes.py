"""Lanes: nodes that do the same to different words."""

from __future__ import annotations

from collections.abc import Sequence

from tg2hdl_sim.levelized.nodes import Design

__all__ = ["find_lanes", "memory_groups"]


def memory_groups(design: Design, groups: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return segments that are read together, and all the others alone."""
    taken = {segment for group in groups for segment in group}
    return [list(group) for group in groups] + [
        [segment] for segment in range(len(design.segments)) if segment not in taken
    ]


def find_lanes(design: Design, order: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the groups of nodes and of memory segments."""
    return [[n] for n in order], memory_groups(design, [])
