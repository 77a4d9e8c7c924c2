"""Warm-up iterations, whose results are discarded: they fill the line buffers of windows that start inside the data."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator

from tg2hdl_ir import Affine, AffineAnalysis, IRBufLoad, IRBufStore, IRCounter, KernelIR
from tg2hdl_ir.analysis.axes import AxisInfo
from tg2hdl_ir.passes.lead_in import lead_in
from tg2hdl_ir.passes.leaves import leaf_paths
from tg2hdl_lower.dataflow.replay import FARTHEST, periods

__all__ = ["with_warm_up"]


def with_warm_up(flat: KernelIR, info: AxisInfo) -> Iterator[tuple[dict[int, int], KernelIR]]:
    """Kernels with so many warm-up iterations, by axis, that each word of a window is fetched once.

    Parameters
    ----------
    flat : KernelIR
        With its lanes.
    info : AxisInfo
    """
    windows = _Windows(flat, info)
    axes = list(windows.early)
    for count in range(1, len(axes) + 1):
        for chosen in itertools.combinations(axes, count):
            early = {counter.axis: windows.early[counter] for counter in chosen}
            yield early, lead_in(flat, early, windows.reading(chosen))


class _Windows:
    def __init__(self, flat: KernelIR, info: AxisInfo) -> None:
        stored = {s.buf_idx for s in flat.loop_tree.statements() if isinstance(s, IRBufStore)}
        affine = AffineAnalysis()
        self.early: dict[IRCounter, int] = {}
        """Iterations from the first to the last one that reads the same element, where there is more than one."""
        self.groups: list[dict[int, list[IRBufLoad]]] = []
        """Loads by the constant of their address, of those that differ in nothing else."""
        self.terms: list[Affine] = []
        for path in leaf_paths(flat.loop_tree):
            groups: dict[tuple[int, Affine], dict[int, list[IRBufLoad]]] = defaultdict(dict)
            for load in path[-1].statements():
                if isinstance(load, IRBufLoad) and load.buf_idx not in stored:
                    form = affine.of(load.addr)
                    if form is not None:
                        group = groups[load.buf_idx, form.offset(-form.const)]
                        group.setdefault(form.const, []).append(load)
            self.groups += groups.values()
            self.terms += [terms for _, terms in groups]
            for counter in periods(path[1:]):
                if counter.axis not in info.independent or not isinstance(counter.bound, int):
                    continue
                longest = max((_chain(g, t, counter) for (_, t), g in groups.items()), default=0)
                if longest:
                    self.early[counter] = longest

    def reading(self, chosen: tuple[IRCounter, ...]) -> set[IRBufLoad]:
        """Loads that read, in a warm-up iteration, words that another load would read later."""
        found: set[IRBufLoad] = set()
        for group, terms in zip(self.groups, self.terms, strict=True):
            ahead = set(group)
            for counter in chosen:
                step = terms.coefficient(counter)
                columns = _columns(group, terms, step)
                ahead -= {c for c, column in columns.items() if column < step * self.early[counter]}
            found.update(load for const in ahead for load in group[const])
        return found


def _chain(group: Collection[int], terms: Affine, counter: IRCounter) -> int:
    """Iterations between the first and the last load of the same element, whose places in a row have the same one."""
    step = terms.coefficient(counter)
    if step <= 0:
        return 0
    columns = _columns(group, terms, step)
    found: dict[int, int] = {}
    for const in sorted(group, reverse=True):
        later = ((n, const + n * step) for n in range(1, FARTHEST + 1))
        same_row = (n for n, other in later if columns.get(other) == columns[const] + n * step)
        nearest = next(same_row, 0)
        found[const] = nearest + found[const + nearest * step] if nearest else 0
    return max(found.values())


def _columns(group: Collection[int], terms: Affine, step: int) -> dict[int, int]:
    """Places in the row along which a counter goes by `step`, counted from the leftmost one, by the constant."""
    row = min((abs(c) for _, c in terms.terms if abs(c) > step), default=0)
    if not row:
        return {const: const - min(group) for const in group}
    places = sorted({const % row for const in group})
    # The window is the row without its widest gap.
    gaps = [(place - before) % row for before, place in zip((places[-1], *places), places, strict=False)]
    left = places[max(range(len(gaps)), key=gaps.__getitem__)]
    return {const: (const - left) % row for const in group}
