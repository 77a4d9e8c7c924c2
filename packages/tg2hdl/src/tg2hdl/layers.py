"""Layers of the model that a kernel computes, from the names of its weights."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tg2hdl_ir.program import KernelCall, ProgramIR

__all__ = ["layer_of", "weight_origins"]

_NO_NAME = re.compile(r"temp\d+(_\d+)?|.*_prepared(_\d+)?")
"""Buffers that have no name in the model."""
_PART = re.compile(r"\.k\d+\.\d+$|_(kept|sums)(_\d+)?$")
"""Suffix of a tile, of the channels that are left, or of sums of the others, after the name of the weight."""


def weight_origins(preparations: Iterable[ProgramIR | None]) -> dict[str, tuple[str, ...]]:
    """Names of the model's weights from which each prepared one is computed."""
    origins: dict[str, tuple[str, ...]] = {}
    for program in preparations:
        if program is None:
            continue
        names = [b.name for b in program.buffers]
        roles = [b.role for b in program.buffers]
        found: dict[int, dict[str, None]] = {}
        for call in program.calls:
            reads, writes = call.accesses()
            sources: dict[str, None] = {}
            for number in sorted(reads):
                known = origins.get(names[number], (names[number],)) if roles[number] == "weight" else ()
                sources |= dict.fromkeys(known) | found.get(number, {})
            for number in writes:
                found.setdefault(number, {}).update(sources)
        nameless = (n for n in program.outputs if _NO_NAME.fullmatch(names[n]))
        origins |= {names[n]: tuple(found.get(n, {})) for n in nameless}
    return origins


def layer_of(call: KernelCall, program: ProgramIR, origins: dict[str, tuple[str, ...]]) -> str:
    """Modules whose weights a kernel reads, such as ``first, norm``; else its place in the user's program."""
    buffers = [program.buffers[n] for n in call.buffers]
    weights = [_PART.sub("", b.name) for b in buffers if b.role in ("weight", "external")]
    names = [_PART.sub("", name) for weight in weights for name in origins.get(weight, (weight,))]
    modules = dict.fromkeys(name.rpartition(".")[0] or name for name in names)
    return ", ".join(modules) or call.kernel.source
