"""The loops, lanes and pace of a kernel that follows another one."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tg2hdl_ir import KernelCall, KernelIR
from tg2hdl_ir.passes.follow import Turn, adds_in_order, in_order, turns_of
from tg2hdl_lower import HardwarePlan
from tg2hdl_top.lane_choice import KernelLanes

__all__ = ["FollowerForm", "follower_form"]


class FollowerForm(NamedTuple):
    """A kernel in the order of another one, with the fewest lanes that keep its pace.

    Attributes
    ----------
    kernel : KernelIR
    lanes : dict of int to int
        By axis.
    level : int
        Loops over words; those in them are over the elements of a word.
    pace : int
        Cycles of a word.
    why : str
        For a reader of the plan.
    tile : (int, int), optional
        Axis and number of interleaved outputs, of a kernel that sums its input.
    """

    kernel: KernelIR
    lanes: dict[int, int]
    level: int
    pace: int
    why: str
    tile: tuple[int, int] | None = None


def follower_form(
    pair: tuple[KernelCall, KernelCall], between: Collection[int], choice: KernelLanes, plan: HardwarePlan
) -> FollowerForm | None:
    """The form of the second of two calls; None where it does not read in the order in which the first one writes.

    Parameters
    ----------
    between : collection of int
        Program buffers that the first call writes and the second one reads.
    choice, plan : KernelLanes, HardwarePlan
        Of the first call.
    """
    first, second = ([idx for idx, n in call.slots.items() if n in between] for call in pair)
    turns, *others = [turns_of(choice.kernel, buffer, choice.lanes) for buffer in first]
    if turns is None or any(other != turns for other in others):
        return None
    kernel = in_order(pair[1].kernel, second, turns)
    axes = adds_in_order(pair[1].kernel, second, turns) if kernel is None else []
    if axes is None:
        return None
    words = math.prod(turn.steps for turn in turns)
    pace = plan.steps() * plan.ii // words
    level = sum(turn.steps > 1 for turn in turns)
    if not level:
        return None
    size = math.prod(turn.lanes for turn in turns)
    count, lanes = next((count, lanes) for count, lanes in _lanes(turns) if size // count <= pace)
    why = f"keeps the pace of {plan.kernel.name}: {size} elements in {pace} cycles, {count} at once"
    if kernel is None:
        lanes = {axis: count for axis in axes if count > 1}
        tile = next(((axis, size // count) for axis in axes if size > count), None)
        return FollowerForm(pair[1].kernel, lanes, level, pace, why, tile)
    return FollowerForm(kernel, lanes, level, pace, why)


def _lanes(turns: Sequence[Turn]) -> Iterator[tuple[int, dict[int, int]]]:
    """Lanes along the elements of a word, fewest first: how many, and by axis as `in_order` numbers them."""
    size = math.prod(turn.lanes for turn in turns)
    for count in range(1, size + 1):
        rest, lanes = count, {}
        for number in range(len(turns) - 1, -1, -1):
            part = math.gcd(rest, turns[number].lanes)
            rest //= part
            if part > 1:
                lanes[len(turns) + number] = part
        if rest == 1 and size % count == 0:
            yield count, lanes
