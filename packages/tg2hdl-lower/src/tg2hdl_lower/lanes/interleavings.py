"""Independent outputs that are interleaved under a reduction, so that its unit starts every cycle."""

from __future__ import annotations

from tg2hdl_ir import KernelIR
from tg2hdl_ir.analysis.axes import AxisInfo

__all__ = ["Tiles", "best_tile", "independent_axes", "interleavings"]

Tiles = tuple[tuple[int, int], ...]
"""Axes with the outputs of each that are interleaved."""


def interleavings(flat: KernelIR, info: AxisInfo, distance: int) -> list[Tiles]:
    """Tiles of one axis or two nested axes that interleave `distance` outputs, fewest idle slots first.

    Parameters
    ----------
    flat : KernelIR
        With its lanes.
    info : AxisInfo
    distance : int
        Outputs needed to hide the latency of the reduction (steps).
    """
    axes = independent_axes(flat, info)
    found: list[tuple[float, int, Tiles]] = []
    for n, (axis, bound) in enumerate(axes):
        tile, waste = best_tile(bound, distance)
        found.append((waste, tile, ((axis, tile),)))
        if bound < distance:
            for outer, outer_bound in axes[n + 1 :]:
                tile, waste = best_tile(outer_bound, -(-distance // bound))
                found.append((waste, tile * bound, ((axis, bound), (outer, tile))))
    return [tiles for _, _, tiles in sorted(found)]


def best_tile(bound: int, least: int) -> tuple[int, float]:
    """Tile of at least `least` slots with the fewest idle ones, and slots per used slot.

    Parameters
    ----------
    bound : int
        Slots that are used.
    least : int
    """
    tiles = range(least, max(least, min(bound, 4 * least)) + 1)
    tile = min(tiles, key=lambda t: (-(-bound // t) * t, t))
    return tile, -(-bound // tile) * tile / bound


def independent_axes(flat: KernelIR, info: AxisInfo) -> list[tuple[int, int]]:
    """Independent axes above other loops, with their bounds, innermost first.

    Parameters
    ----------
    flat : KernelIR
        With its lanes.
    info : AxisInfo
    """
    axes = []
    for loop in flat.loop_tree.walk():
        counter = loop.counter
        if counter is None or not isinstance(loop.bound, int) or loop.bound < 2 or not loop.loops:
            continue
        if counter.axis in info.independent:
            axes.append((counter.axis, loop.bound))
    return axes[::-1]
