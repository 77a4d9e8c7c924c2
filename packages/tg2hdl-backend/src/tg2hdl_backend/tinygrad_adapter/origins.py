"""Origins of kernels in the user's program: methods with their lines, or nodes of a file.

Kernels carry no trace of it, but the graph before scheduling does: tinygrad notes at each op the tensor method that
made it.  0.13 adds the line that called the method; `noting` adds it to the notes of 0.14, and `made_by` puts a name
in their place.  A kernel is found again by the loops of its reduction, and by ops that only one method made.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, TypeAlias, cast

import tinygrad
from tinygrad import Tensor, tensor
from tinygrad.helpers import Metadata
from tinygrad.uop.ops import GroupOp, Ops, UOp

from tg2hdl_backend.tinygrad_adapter.dialect import scalar_dtype

__all__ = ["Origins", "made_by", "noting", "origins_of"]

_Loops: TypeAlias = tuple[int, int]
"""Elements of a result, and terms of each."""
_LIBRARIES = (str(Path(tinygrad.__file__).parent), str(Path(__file__).parents[1]))
_NOTES_CALLER = "caller" in Metadata.__dataclass_fields__


class _Notes(tensor._ContextVar[Metadata | None]):
    """The notes of tinygrad at new ops, with the line of the user's program that called the method."""

    def set(self, x: Metadata | None) -> Metadata | None:
        if x is not None and self.state is None and not _NOTES_CALLER:
            x = replace(x, name=f"{x.name.strip('_')} ({_line()})")
        return super().set(x)


@contextmanager
def noting() -> Iterator[None]:
    """Tinygrad's notes carry the user's lines; a note that a failed method left behind is forgotten."""
    before, tensor._METADATA = tensor._METADATA, _Notes(default=None)
    before.set(None)
    try:
        yield
    finally:
        tensor._METADATA = before


@contextmanager
def made_by(name: str) -> Iterator[None]:
    """All new ops are noted as made by `name`, within `noting`."""
    notes = tensor._METADATA
    before = notes.state
    if isinstance(notes, _Notes):
        note = cast("Any", Metadata)
        notes.state = note(name, "") if _NOTES_CALLER else note(name)
    try:
        yield
    finally:
        notes.state = before


@dataclass(frozen=True)
class Origins:
    """Makers of the ops of tensors that are not scheduled yet.

    Parameters
    ----------
    ops : mapping
        By op and dtype, in program order.
    reductions : mapping
        By the loops of the reduction, in the order in which the reductions must be computed; none where other orders
        are possible.
    """

    ops: Mapping[tuple[Any, Any], tuple[str, ...]] = field(default_factory=dict)
    reductions: Mapping[_Loops, tuple[str, ...]] = field(default_factory=dict)

    def describe(self, kernels: Sequence[Sequence[UOp]]) -> list[str]:
        """Makers of each kernel, as far as its loops and ops tell."""
        loops = [_loops_of(uops) for uops in kernels]
        counts, seen = Counter(loops), Counter[_Loops | None]()
        found = []
        for uops, own in zip(kernels, loops, strict=True):
            names: dict[str, None] = {}
            makers = () if own is None else self.reductions.get(own, ())
            if len(makers) == counts[own]:
                names[makers[seen[own]]] = None
            seen[own] += 1
            for uop in uops:
                alone = self.ops.get((uop.op, scalar_dtype(uop)), ())
                if len(alone) == 1:
                    names[alone[0]] = None
            found.append(_joined(names))
        return found


def _joined(makers: Iterable[str]) -> str:
    """Makers such as ``conv2d (model.py:8)``, with the place of several of one line once."""
    places: dict[str, list[str]] = {}
    for maker in makers:
        name, bracket, place = maker.partition(" (")
        places.setdefault(bracket + place, []).append(name)
    return ", ".join(", ".join(names) + place for place, names in places.items())


def origins_of(tensors: Iterable[Tensor]) -> Origins:
    """Makers of the ops of tensors that are not scheduled yet."""
    ops: dict[tuple[Any, Any], dict[str, None]] = {}
    reductions: dict[UOp, str] = {}
    for result in tensors:
        makers: dict[UOp, str] = {}
        for uop in reversed(list(result.uop.toposort())):
            maker = _describe(uop) or makers.get(uop)
            if maker is None:
                continue
            op = uop.op
            if op.name.startswith("REDUCE"):
                op = uop.arg[0]
                reductions.setdefault(uop, maker)
            if op in GroupOp.ALU:
                ops.setdefault((op, scalar_dtype(uop)), {})[maker] = None
            for source in uop.src:
                # An op without a note of its own was made inside of the method that used it.
                makers.setdefault(source, maker)
    groups: dict[_Loops, list[UOp]] = {}
    for uop in reductions:
        results, read = (prod(int(s) for s in u.shape if isinstance(s, int)) for u in (uop, uop.src[0]))
        groups.setdefault((results, read // max(results, 1)), []).insert(0, uop)
    return Origins(
        {key: tuple(reversed(makers)) for key, makers in ops.items()},
        {
            loops: tuple(reductions[u] for u in group)
            for loops, group in groups.items()
            if _has_one_order(group)
        },
    )


def _has_one_order(uops: Sequence[UOp]) -> bool:
    return all(before in after.toposort() for before, after in pairwise(uops))


def _loops_of(uops: Iterable[UOp]) -> _Loops | None:
    """Elements and terms of a kernel's reduction; None without a reduction, or where a size is a variable."""
    sizes = [(u.arg[-1].name == "REDUCE", u.src[0]) for u in uops if u.op is Ops.RANGE]
    if any(size.vmin != size.vmax for _, size in sizes) or not any(reduces for reduces, _ in sizes):
        return None
    results, terms = (prod(int(s.vmax) for r, s in sizes if r is reduces) for reduces in (False, True))
    return results, terms


def _describe(uop: UOp) -> str | None:
    if not uop.metadata:
        return None
    note = uop.metadata[0]
    caller = getattr(note, "caller", "")
    return f"{note.name.strip('_')} ({_place(caller)})" if caller else str(note.name)


def _place(caller: str) -> str:
    """``model.py:8`` for tinygrad's ``module:8::function``."""
    module, _, line = caller.partition("::")[0].rpartition(":")
    file = getattr(sys.modules.get(module), "__file__", None)
    return f"{Path(file).name if file else module}:{line}"


def _line() -> str:
    """File and line of the innermost frame outside of tinygrad and this package, such as ``model.py:8``."""
    frame: Any = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
