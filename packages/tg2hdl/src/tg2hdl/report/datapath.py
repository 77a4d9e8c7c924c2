"""A drawing of a kernel's datapath: nodes in columns by cycle, equal lanes drawn once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan.accesses import Load, Store
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import SharedOperation, UnitOp
from tg2hdl_lower.plan.registers import RegisterRead, RegisterWrite

__all__ = ["Group", "datapath_groups", "draw_datapath"]

LARGEST = 120
"""Boxes of a drawing; larger ones are unreadable."""

_LETTER, _HEIGHT, _GAP, _ROW, _MARGIN, _TOP = 6.7, 24, 50, 34, 24, 34


@dataclass(eq=False)
class Group:
    """Nodes of several lanes that do the same in the same cycle."""

    label: str
    detail: str
    kind: str
    stage: int
    width: int
    members: list[int] = field(default_factory=list)
    sources: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Caption of the box."""
        times = f"{len(self.members)} x " if len(self.members) > 1 else ""
        return f"{times}{self.detail or self.label}"


def datapath_groups(plan: HardwarePlan, names: Mapping[int, str] = {}) -> list[Group]:
    """The nodes on the paths from loads to stores, without the arithmetic of addresses.

    Parameters
    ----------
    plan : HardwarePlan
    names : mapping of int to str, optional
        Names of buffers by their slot in the kernel.
    """
    kept = _datapath(plan)
    groups: list[Group] = []
    by_key: dict[object, int] = {}
    of: dict[int, int] = {}
    for node in plan.live():
        if node.number not in kept:
            continue
        sources = tuple(sorted({of[n] for n in _data(node) if n in of}))
        detail = node.detail.format(port="")
        at = plan.placement(node.number)
        key = (type(node), re.sub(r"%?\d+", "", detail), at.stage, node.width, sources, node.leaf)
        if key not in by_key:
            by_key[key] = len(groups)
            text = re.sub(r" \w+=%\d+", "", detail)
            if isinstance(node, Load | Store) and node.buffer in names:
                text = f"{'read' if isinstance(node, Load) else 'write'} {names[node.buffer]}"
            groups.append(Group(node.label, text, _kind(node), at.stage, node.width, sources=sources))
        of[node.number] = by_key[key]
        groups[of[node.number]].members.append(node.number)
    return groups


def draw_datapath(plan: HardwarePlan, names: Mapping[int, str] = {}) -> Markup:
    """SVG in the colours of the page, or a sentence when the datapath is too large to be drawn.

    Parameters
    ----------
    plan : HardwarePlan
    names : mapping of int to str, optional
        Names of buffers by their slot in the kernel.
    """
    groups = datapath_groups(plan, names)
    if len(groups) > LARGEST:
        text = "The datapath has {} different nodes, which is too many for a drawing; the printed plan lists them."
        return Markup("<p>" + text + "</p>").format(len(groups))
    stages = sorted({g.stage for g in groups})
    widths = [14 + _LETTER * max(len(g.text) for g in groups if g.stage == stage) for stage in stages]
    left = {stage: _MARGIN + sum(widths[:n]) + n * _GAP for n, stage in enumerate(stages)}
    box = dict(zip(stages, widths, strict=True))
    rows = dict.fromkeys(stages, 0)
    places = []
    for group in groups:
        places.append((left[group.stage], _TOP + rows[group.stage] * _ROW, box[group.stage]))
        rows[group.stage] += 1
    width = round(2 * _MARGIN + sum(widths) + (len(stages) - 1) * _GAP)
    height = _TOP + max(rows.values(), default=1) * _ROW + _MARGIN
    lines = [
        f'<svg class="datapath" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="datapath">'
    ]
    lines += [f'<text class="stage" x="{x:.0f}" y="18">cycle {stage}</text>' for stage, x in left.items()]
    for group, place in zip(groups, places, strict=True):
        lines += [_wire(places[source], place) for source in group.sources]
    for group, (x, y, size) in zip(groups, places, strict=True):
        title = f"{group.text}: {group.label}, {group.width} bits, result in cycle {group.stage}"
        lines.append(
            f'<g class="node {group.kind}"><title>{escape(title)}</title><rect x="{x:.0f}" y="{y}" '
            f'width="{size:.0f}" height="{_HEIGHT}" rx="4"/>'
            f'<text x="{x + 6:.0f}" y="{y + 16}">{escape(group.text)}</text></g>'
        )
    return Markup("\n".join([*lines, "</svg>"]))


def _datapath(plan: HardwarePlan) -> set[int]:
    """Numbers of the nodes whose value reaches a store or an accumulator as data."""
    ends = [n for n in plan.live() if isinstance(n, Store | RegisterWrite)]
    found, stack = set(), [n.number for n in ends]
    while stack:
        number = stack.pop()
        if number in found or plan.nodes[number].is_fixed:
            continue
        found.add(number)
        stack += _data(plan.nodes[number])
    return found


def _data(node: Node) -> tuple[int, ...]:
    """Operands that carry data: no address, gate or index."""
    if isinstance(node, Load):
        return ()
    if isinstance(node, Store):
        return tuple(lane.value for lane in node.lanes)
    if isinstance(node, RegisterWrite):
        return (node.value,)
    return () if isinstance(node, RegisterRead) else node.operands


def _kind(node: Node) -> str:
    if isinstance(node, Load | Store):
        return "memory"
    if isinstance(node, SharedOperation | UnitOp):
        return "unit"
    return "register" if isinstance(node, RegisterRead | RegisterWrite) else "logic"


def _wire(start: tuple[float, int, float], end: tuple[float, int, float]) -> str:
    x0, y0, x1, y1 = start[0] + start[2], start[1] + _HEIGHT // 2, end[0], end[1] + _HEIGHT // 2
    if x1 <= start[0]:  # in the same column
        x0, bend, back = start[0], 18.0, -1
    else:
        bend, back = max(20.0, (x1 - x0) / 2), 1
    curve = f"C{x0 + back * bend:.0f} {y0} {x1 - bend:.0f} {y1} {x1:.0f} {y1}"
    return f'<path class="wire" d="M{x0:.0f} {y0} {curve}"/>'
