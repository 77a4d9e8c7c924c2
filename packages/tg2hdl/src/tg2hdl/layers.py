"""Layers of the model that a kernel computes, from the names of its weights and the lines of the program."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations

from tg2hdl_ir import KernelCall, ProgramIR

__all__ = ["layers_of", "sources_of", "weight_origins"]

_NO_NAME = re.compile(r"temp\d+(_\d+)?|.*_prepared(_\d+)?")
"""Buffers that have no name in the model."""
_PART = re.compile(r"\.k\d+\.\d+$|_(kept|sums)(_\d+)?$")
"""Suffix of a tile, of the channels that are left, or of sums of the others, after the name of the weight."""
_SUMS = re.compile(r"sums\d+")
_NODES = re.compile(r"[^()]+ \(\w+\)(, [^()]+ \(\w+\))*")
"""Nodes of a file as the origin of a kernel, such as ``/fc1/Gemm (Gemm), /relu (Relu)``."""
_PARAMETER = re.compile(r"\.(weight|bias|running_|num_batches)[^.]*$")
"""Parameters of tinygrad's modules, whose names say nothing beyond the module."""


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


def sources_of(program: ProgramIR) -> tuple[str, ...]:
    """Of each kernel, its methods and lines in the user's program, such as ``conv2d (cnn.py:8)``.

    Parameters
    ----------
    program : ProgramIR
    """
    return tuple(call.source or call.kernel.source for call in program.calls)


def layers_of(program: ProgramIR, origins: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Of each kernel, the modules whose weights it reads, such as ``first, norm``; else its place in the program.

    Where kernels read different weights of one dict or list, the key is part of the name: ``W.q``.  Weights of a file
    that belong to no module, such as ``onnx::MatMul_12``, leave the name to the nodes that read them.

    Parameters
    ----------
    program : ProgramIR
    origins : dict of str to tuple of str
        Of `weight_origins`.
    """
    read = [_weights_read(call, program, origins) for call in program.calls]
    # A tensor with parts, and a module with weights, are one layer.
    whole = {_module(n) for names in read for n in names if n == _module(n) or _PARAMETER.search(n)}
    users: dict[str, list[set[str]]] = {}
    for names in read:
        for module in {_module(name) for name in names} - whole:
            users.setdefault(module, []).append({n for n in names if _module(n) == module})
    shared = {m for m, sets in users.items() if any(a.isdisjoint(b) for a, b in combinations(sets, 2))}
    found: list[str] = []
    writer: dict[int, str] = {}
    for call, names, source in zip(program.calls, read, sources_of(program), strict=True):
        if names and all(n == _module(n) for n in names) and _NODES.fullmatch(source):
            names = ()  # The nodes of a file say more than its names of tensors.
        kept = (n if _module(n) in shared else _module(n) for n in names)
        reads, writes = call.accesses()
        # A kernel that goes on with sums is of the layer that began them.
        begun = (writer[n] for n in reads if n in writer and _SUMS.fullmatch(program.buffers[n].name))
        found.append(", ".join(dict.fromkeys(kept)) or next(begun, source))
        writer |= dict.fromkeys(writes, found[-1])
    return tuple(found)


def _weights_read(
    call: KernelCall, program: ProgramIR, origins: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    buffers = (program.buffers[n] for n in call.buffers)
    weights = [_PART.sub("", b.name) for b in buffers if b.role in ("weight", "external")]
    return tuple(_PART.sub("", name) for weight in weights for name in origins.get(weight, (weight,)))


def _module(name: str) -> str:
    return name.rpartition(".")[0] or name
