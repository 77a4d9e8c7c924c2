"""Independent outputs that are interleaved under a reduction, so that its unit starts every cycle."""

from __future__ import annotations

from tg2hdl_ir.analysis.axes import AxisInfo
from tg2hdl_ir.nodes import KernelIR

__all__ = ["independent_axes", "turn_choices"]


def turn_choices(flat: KernelIR, info: AxisInfo, distance: int) -> list[tuple[tuple[int, int], ...]]:
    """Tiles of one axis or two nested axes that interleave `distance` outputs, fewest idle slots first."""
    axes = independent_axes(flat, info)
    choices: list[tuple[float, int, tuple[tuple[int, int], ...]]] = []
    for n, (axis, bound) in enumerate(axes):
        tile, waste = _best_tile(bound, distance)
        choices.append((waste, tile, ((axis, tile),)))
        if bound < distance:
            for outer, outer_bound in axes[n + 1 :]:
                tile, waste = _best_tile(outer_bound, -(-distance // bound))
                choices.append((waste, tile * bound, ((axis, bound), (outer, tile))))
    return [turns for _, _, turns in sorted(choices)]


def _best_tile(bound: int, least: int) -> tuple[int, float]:
    """Tile of at least `least` slots with the fewest idle ones, and slots per used slot."""
    tiles = range(least, max(least, min(bound, 4 * least)) + 1)
    tile = min(tiles, key=lambda t: (-(-bound // t) * t, t))
    return tile, -(-bound // tile) * tile / bound


def independent_axes(flat: KernelIR, info: AxisInfo) -> list[tuple[int, int]]:
    """Independent axes above other loops, with their bounds, innermost first."""
    axes = []
    for loop in flat.loop_tree.walk():
        counter = loop.counter
        if counter is None or not isinstance(loop.bound, int) or loop.bound < 2 or not loop.loops:
            continue
        if counter.axis in info.independent:
            axes.append((counter.axis, loop.bound))
    return axes[::-1]
