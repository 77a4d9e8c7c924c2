"""A plain SVG drawing of a module: cells in columns by logic depth; registers and memories start a new path."""

from __future__ import annotations

import html
from collections import defaultdict
from typing import Any

__all__ = ["draw_module"]

_BOX, _ROW, _COLUMN, _MARGIN = 150, 34, 230, 20
_STATE = ("dff", "mem", "TRELLIS_FF", "DP16KD", "adff", "sdff")

Point = tuple[float, float]


def draw_module(module: dict[str, Any]) -> str:
    """SVG of a module in yosys' JSON form."""
    cells: dict[str, Any] = module["cells"]
    ports: dict[str, Any] = module["ports"]
    drivers: dict[int, str] = {}
    for name, port in ports.items():
        if port["direction"] == "input":
            drivers.update({bit: f"port {name}" for bit in port["bits"] if isinstance(bit, int)})
    sources: dict[str, set[str]] = defaultdict(set)
    for name, cell in cells.items():
        for pin, bits in cell["connections"].items():
            if _direction(cell, pin) == "output":
                drivers.update({bit: name for bit in bits if isinstance(bit, int)})
    for name, cell in cells.items():
        for pin, bits in cell["connections"].items():
            if _direction(cell, pin) == "input" and pin not in ("CLK", "CLKA", "CLKB"):
                sources[name] |= {drivers[bit] for bit in bits if bit in drivers}
    for name, port in ports.items():
        if port["direction"] == "output":
            sources[f"port {name}"] |= {drivers[bit] for bit in port["bits"] if bit in drivers}
    labels = {f"port {n}": n for n in ports} | {n: _label(n, c) for n, c in cells.items()}
    columns = _columns(labels, sources, cells)
    last = max(columns.values(), default=0) + 1
    for name, port in ports.items():
        columns[f"port {name}"] = 0 if port["direction"] == "input" else last
    return _svg(labels, sources, columns, cells)


def _direction(cell: dict[str, Any], pin: str) -> str:
    return str(cell.get("port_directions", {}).get(pin, "output" if pin in ("Y", "Q", "Z") else "input"))


def _label(name: str, cell: dict[str, Any]) -> str:
    kind = str(cell["type"]).removeprefix("$").removeprefix("\\")
    return kind if name.startswith("$") else f"{kind} {name}"


def _columns(labels: dict[str, str], sources: dict[str, set[str]], cells: dict[str, Any]) -> dict[str, int]:
    columns: dict[str, int] = {}
    for start in labels:
        stack, active = [start], set()
        while stack:
            name = stack[-1]
            if name in columns:
                stack.pop()
                continue
            state = name in cells and any(s in cells[name]["type"] for s in _STATE)
            waiting = [] if state else [s for s in sources[name] if s not in columns and s not in active]
            if waiting and name not in active:
                active.add(name)
                stack += waiting
                continue
            known = [] if state else [columns[s] for s in sources[name] if s in columns]
            columns[name] = 1 + max(known, default=0)
            stack.pop()
    return columns


def _svg(
    labels: dict[str, str], sources: dict[str, set[str]], columns: dict[str, int], cells: dict[str, Any]
) -> str:
    rows: dict[int, int] = defaultdict(int)
    places: dict[str, Point] = {}
    for name in sorted(labels, key=lambda n: (columns[n], labels[n])):
        column = columns[name]
        places[name] = (_MARGIN + column * _COLUMN, _MARGIN + rows[column] * _ROW)
        rows[column] += 1
    width = _MARGIN * 2 + max(columns.values(), default=0) * _COLUMN + _BOX
    height = _MARGIN * 2 + max(rows.values(), default=1) * _ROW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="monospace" '
        'font-size="10">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for name, found in sources.items():
        for source in sorted(found):
            lines.append(_wire(places[source], places[name]))
    for name, (x, y) in places.items():
        state = name in cells and any(s in cells[name]["type"] for s in _STATE)
        fill = "#fde9c8" if state else "#e8eef8" if name in cells else "#ffffff"
        text = html.escape(labels[name])
        lines += [
            f'<g><title>{html.escape(name)}</title><rect x="{x}" y="{y}" width="{_BOX}" height="22" rx="3" '
            f'fill="{fill}" stroke="#445"/>',
            f'<text x="{x + 5}" y="{y + 15}">{text[:23]}</text></g>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _wire(start: Point, end: Point) -> str:
    x0, y0, x1, y1 = start[0] + _BOX, start[1] + 11, end[0], end[1] + 11
    bend = max(30.0, abs(x1 - x0) / 2)
    return (
        f'<path d="M{x0} {y0} C{x0 + bend:.0f} {y0} {x1 - bend:.0f} {y1} {x1} {y1}" fill="none" '
        'stroke="#889" stroke-width="0.7"/>'
    )
