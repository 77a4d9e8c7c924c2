"""Deep ROMs in a few pieces with a power of two of words each, where slices over the whole depth take too many blocks.

Yosys would take rows of equal depth: of 2,304 words of 128 bits, 5 rows of 512 words in 18 block RAMs, with a
multiplexer of 5.  A piece of 2,048 words and one of 256 are 19 block RAMs, with a multiplexer of 2.
"""

from __future__ import annotations

import math

from tg2hdl_synth.families.ecp5.memory_shapes import SlicedMemory
from tg2hdl_synth.rtlil import Cell, Memory, Module, edited, read_rtlil, top_name

__all__ = ["pieces", "with_pieces"]

_WIDEST, _WIDEST_WORDS = 36, 512
"""Bits and words of a block RAM of the widest words."""
_SPARED = 16
"""A piece more must spare more than one of so many blocks."""


def pieces(width: int, depth: int) -> list[int]:
    """Words of each piece of a memory; all but the last are powers of two, the largest first."""
    return _cut(width, depth)[1]


def with_pieces(rtlil: str) -> tuple[str, list[SlicedMemory]]:
    """The design with the deep ROMs of its top in pieces, and those of them that are deeper than the widest block."""
    modules = read_rtlil(rtlil)
    top = modules[top_name(modules)]
    found: list[SlicedMemory] = []
    edits: list[tuple[tuple[int, int], str]] = []
    for memory in top.memories.values():
        sizes = pieces(memory.width, memory.depth)
        cells = [c for c in top.cells if c.parameters.get("MEMID") == f"\\{memory.name}"]
        if memory.depth <= _WIDEST_WORDS or not _is_rom(cells, memory):
            continue
        starts = [sum(sizes[:n]) for n in range(len(sizes))]
        names = [memory.name if start == 0 else f"{memory.name}.from{start}" for start in starts]
        found += [
            SlicedMemory(top.name, name, memory.width, size)
            for name, size in zip(names, sizes, strict=True)
            if size > _WIDEST_WORDS
        ]
        if len(sizes) > 1:
            parts = list(zip(names, starts, sizes, strict=True))
            edits.append(_declared(rtlil, top, memory, parts))
            edits += [(cell.span, _split(cell, memory, parts)) for cell in cells]
    return edited(rtlil, edits), found


_Part = tuple[str, int, int]
"""Name of a piece, its first word and its words."""


def _cut(width: int, depth: int) -> tuple[int, list[int]]:
    """Fewest block RAMs, and the words of their pieces."""
    whole = _blocks(width, depth)
    if depth <= _WIDEST_WORDS:
        return whole, [depth]
    size = 1 << ((depth - 1).bit_length() - 1)
    blocks, rest = _cut(width, depth - size)
    blocks += _blocks(width, size)
    spares = (whole - blocks) * _SPARED > whole * len(rest)
    return (blocks, [size, *rest]) if spares else (whole, [depth])


def _blocks(width: int, depth: int) -> int:
    """Block RAMs of a memory without a multiplexer."""
    if depth <= _WIDEST_WORDS:
        return math.ceil(width / _WIDEST)
    sliced = SlicedMemory("", "", width, depth)
    return math.ceil(width / sliced.slice_width) * math.ceil(depth / 16384)


def _is_rom(cells: list[Cell], memory: Memory) -> bool:
    """Whether a memory has contents and only synchronous reads, without enables and resets."""
    contents = [c for c in cells if c.kind == "$meminit_v2"]
    reads = [c for c in cells if c.kind == "$memrd_v2"]
    return (
        len(contents) == 1
        and len(contents) + len(reads) == len(cells)
        and contents[0].parameters["WORDS"] == memory.depth
        and contents[0].pins["DATA"].startswith(f"{memory.depth * memory.width}'")
        and all(
            c.parameters["CLK_ENABLE"] == 1
            and c.pins["EN"] == "1'1"
            and c.pins["SRST"] == c.pins["ARST"] == "1'0"
            and c.width("ABITS") == (memory.depth - 1).bit_length()
            for c in reads
        )
    )


def _declared(rtlil: str, top: Module, memory: Memory, parts: list[_Part]) -> tuple[tuple[int, int], str]:
    line = f"  memory width {memory.width} size {memory.depth} \\{memory.name}\n"
    start = rtlil.index(line, *top.span)
    style = memory.attributes.get("ram_style")
    attribute = "" if style is None else f'  attribute \\ram_style "{style}"\n'
    text = [f"  memory width {memory.width} size {size} \\{name}\n" for name, _, size in parts]
    return (start, start + len(line)), attribute.join(text)


def _split(cell: Cell, memory: Memory, parts: list[_Part]) -> str:
    name, width = f"$pieces{cell.name}", memory.width
    if cell.kind == "$meminit_v2":
        data = cell.pins["DATA"].partition("'")[2]
        texts = []
        for n, (part, start, size) in enumerate(parts):
            end = len(data) - start * width
            contents = data[end - size * width : end]
            texts.append(f"""  cell $meminit_v2 {name}${n}
    parameter \\MEMID "\\\\{part}"
    parameter \\ABITS 0
    parameter \\WIDTH {width}
    parameter \\WORDS {size}
    parameter \\PRIORITY 0
    connect \\ADDR {{  }}
    connect \\DATA {len(contents)}'{contents}
    connect \\EN {cell.pins["EN"]}
  end
""")
        return "".join(texts)
    address, chosen = f"{name}$address", f"{name}$chosen"
    abits, undefined = cell.width("ABITS"), f"{width}'{'x' * width}"
    text = f"""  wire width {abits} {address}
  wire width {abits} {chosen}
  connect {address} {cell.pins["ADDR"]}
  cell $dff {name}$dff
    parameter \\WIDTH {abits}
    parameter \\CLK_POLARITY {cell.parameters["CLK_POLARITY"]}
    connect \\D {address}
    connect \\CLK {cell.pins["CLK"]}
    connect \\Q {chosen}
  end
"""
    word = ""
    for n, (part, _, words) in reversed(list(enumerate(parts))):
        bits = max(1, (words - 1).bit_length())
        text += f"""  wire width {width} {name}$word{n}
  cell $memrd_v2 {name}$read{n}
    parameter \\MEMID "\\\\{part}"
    parameter \\ABITS {bits}
    parameter \\WIDTH {width}
    parameter \\TRANSPARENCY_MASK 0'0
    parameter \\COLLISION_X_MASK 0'0
    parameter \\ARST_VALUE {undefined}
    parameter \\SRST_VALUE {undefined}
    parameter \\INIT_VALUE {undefined}
    parameter \\CE_OVER_SRST 0
    parameter \\CLK_ENABLE 1
    parameter \\CLK_POLARITY {cell.parameters["CLK_POLARITY"]}
    connect \\ADDR {address} [{bits - 1}:0]
    connect \\DATA {name}$word{n}
    connect \\ARST 1'0
    connect \\SRST 1'0
    connect \\EN 1'1
    connect \\CLK {cell.pins["CLK"]}
  end
"""
        if not word:
            word = f"{name}$word{n}"
            continue
        text += f"""  wire width {width} {name}$from{n}
  cell $mux {name}$mux{n}
    parameter \\WIDTH {width}
    connect \\A {name}$word{n}
    connect \\B {word}
    connect \\S {chosen} [{bits}]
    connect \\Y {name}$from{n}
  end
"""
        word = f"{name}$from{n}"
    return f"{text}  connect {cell.pins['DATA']} {word}\n"
