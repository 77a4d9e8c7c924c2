"""Which lines of the user's program made the ops of a kernel.

Kernels carry no trace of it.  In the graph before scheduling, tinygrad 0.13 with ``TRACEMETA=2`` notes the tensor
method and the line that called it; 0.14 notes the names of some methods only, which tell less than the op itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from tinygrad import Tensor, tensor
from tinygrad.uop.ops import UOp

from tg2hdl_backend.tinygrad_adapter.dialect import scalar_dtype

__all__ = ["Origins", "describe_origins", "forget_unfinished", "origins_of"]

Origins: TypeAlias = Mapping[tuple[Any, Any], tuple[str, ...]]
"""Methods and lines by the op and the dtype that they made."""


def forget_unfinished() -> None:
    """Let the next method note its own line: tinygrad keeps that of a method that raised."""
    tensor._METADATA.set(None)


def origins_of(tensors: Iterable[Tensor]) -> Origins:
    """Methods that made the ops of tensors that are not scheduled yet, in program order."""
    found: dict[tuple[Any, Any], dict[str, None]] = {}
    for result in tensors:
        makers: dict[UOp, str] = {}
        for uop in reversed(list(result.uop.toposort())):
            maker = _describe(uop) or makers.get(uop)
            if maker is None:
                continue
            found.setdefault((uop.op, scalar_dtype(uop)), {})[maker] = None
            for source in uop.src:
                # An op without a note of its own was made inside of the method that used it.
                makers.setdefault(source, maker)
    return {key: tuple(reversed(makers)) for key, makers in found.items()}


def describe_origins(uops: Iterable[UOp], origins: Origins) -> str:
    """Methods that made a kernel, as far as its ops tell: those ops that one method alone made in the program."""
    names: dict[str, None] = {}
    for uop in uops:
        makers = origins.get((uop.op, scalar_dtype(uop)), ())
        if len(makers) == 1:
            names[makers[0]] = None
    return ", ".join(names)


def _describe(uop: UOp) -> str | None:
    notes = uop.metadata
    caller = getattr(notes[0], "caller", "") if notes else ""
    return f"{notes[0].name} ({caller})" if notes and caller else None
