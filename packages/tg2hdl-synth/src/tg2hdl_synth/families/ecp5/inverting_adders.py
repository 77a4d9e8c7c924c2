"""Sums whose second word is inverted on a condition, as cells of Yosys that invert it in the carry chain.

A cell of an ECP5's carry chain has inputs to spare, but Yosys inverts with a LUT for each bit.
"""

from __future__ import annotations

import re

from tg2hdl_synth.rtlil import Cell, edited, read_rtlil

__all__ = ["ATTRIBUTE", "with_inverting_adders"]

ATTRIBUTE = "inverts"
"""Attribute of a signal that is ``Cat(c, a) + Cat(c, b ^ condition.replicate(len(b)))``, with a and b of one width."""

_MARKED = re.compile(rf"attribute \\{ATTRIBUTE} 1\s+(?:attribute .*\s+)*wire (?:.* )?\\(\S+)")
_PARTS = re.compile(r"\d+'[01x]+|\S+(?: \[\d+(?::\d+)?\])?")


def with_inverting_adders(rtlil: str) -> str:
    """Replace the marked sums of a design; marked cells of another form stay."""
    edits = []
    for module in read_rtlil(rtlil).values():
        marked = set(_MARKED.findall(rtlil[slice(*module.span)]))
        sums = {f"\\{name}" for name in marked}
        sums |= {source.split()[0] for target, source in module.connections if target.lstrip("\\") in marked}
        cells = {cell.pins["Y"].split()[0]: cell for cell in module.cells if "Y" in cell.pins}
        for y in sorted(sums & set(cells)):
            text = _inverting(cells[y], cells)
            edits += [] if text is None else [(cells[y].span, text)]
    return edited(rtlil, edits)


def _parts(signal: str) -> list[str]:
    return _PARTS.findall(signal.strip("{} "))


def _inverting(cell: Cell, cells: dict[str, Cell]) -> str | None:
    *a, carry = _parts(cell.pins["A"])
    *b, other = _parts(cell.pins["B"])
    source = cells.get(b[0].split()[0]) if len(b) == 1 else None
    width = cell.width("A_WIDTH") - 1
    conditions = set(_parts(source.pins["B"])) if source is not None and source.kind == "$xor" else set()
    plain = cell.kind == "$add" and carry == other and cell.width("B_WIDTH") == width + 1
    whole = source is not None and source.width("Y_WIDTH") == width
    if source is None or not (
        plain and whole and len(conditions) == 1 and cell.width("Y_WIDTH") == width + 2
    ):
        return None
    y, name = cell.pins["Y"].split()[0], f"$inverting${cell.name.lstrip('$')}"
    return f"""  wire width {width} {name}x
  wire width {width} {name}co
  cell $alu {name}
    parameter \\A_SIGNED 0
    parameter \\B_SIGNED 0
    parameter \\A_WIDTH {width}
    parameter \\B_WIDTH {width}
    parameter \\Y_WIDTH {width}
    connect \\A {{ {" ".join(a)} }}
    connect \\B {{ {" ".join(_parts(source.pins["A"]))} }}
    connect \\BI {conditions.pop()}
    connect \\CI {carry}
    connect \\X {name}x
    connect \\CO {name}co
    connect \\Y {y} [{width}:1]
  end
  connect {y} [0] 1'0
  connect {y} [{width + 1}] {name}co [{width - 1}]
"""
