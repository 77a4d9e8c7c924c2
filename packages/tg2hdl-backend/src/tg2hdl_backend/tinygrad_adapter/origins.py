"""Origins of kernels in the user's program: methods with their lines, or nodes of a file.

Kernels carry no trace of it, but the graph before scheduling does: tinygrad notes at each op the tensor method that
made it.  0.13 adds the line that called the method; `noting` adds it to the notes of 0.14, and `made_by` puts a name
in their place.  A kernel is found again by the inputs and weights that its result is computed from, with the loops of
its reduction, and by its last op.
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
from typing import Any, NamedTuple, TypeAlias, cast

import tinygrad
from tinygrad import Tensor, tensor
from tinygrad.helpers import Metadata
from tinygrad.uop.ops import GroupOp, Ops, UOp

from tg2hdl_backend.tinygrad_adapter.contents import single_buffer
from tg2hdl_backend.tinygrad_adapter.memory_views import ViewKernel

__all__ = ["Origins", "made_by", "noting", "origins_of"]

_Loops: TypeAlias = tuple[int, int]
"""Elements of a result, and terms of each."""
_Memories: TypeAlias = frozenset[int]
"""Keys of the inputs and weights that a result is computed from, through whatever comes between."""
_Result: TypeAlias = tuple[int, _Memories, int]
"""Elements and memories of a result, and the most reductions one after the other that it needs."""
_LIBRARIES = (str(Path(tinygrad.__file__).parent), str(Path(__file__).parents[1]))
_NOTES_CALLER = "caller" in Metadata.__dataclass_fields__


class _Notes(tensor._ContextVar[Metadata | None]):
    """The notes of tinygrad at new ops, with the line of the user's program that called the method if `lines`."""

    def __init__(self, lines: bool) -> None:
        super().__init__(default=None)
        self._lines = lines

    def set(self, x: Metadata | None) -> Metadata | None:
        if self._lines and x is not None and self.state is None and not _NOTES_CALLER:
            x = replace(x, name=f"{x.name.strip('_')} ({_line()})")
        return super().set(x)


@contextmanager
def noting(*, lines: bool = True) -> Iterator[None]:
    """`made_by` names ops; a note that a failed method left behind is forgotten.

    Parameters
    ----------
    lines : bool
        Tinygrad's notes of methods carry the user's lines.
    """
    before, tensor._METADATA = tensor._METADATA, _Notes(lines)
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


class _Maker(NamedTuple):
    """What made an op, and the most reductions that it follows one after the other, itself included."""

    name: str
    depth: int


@dataclass(frozen=True)
class Origins:
    """Makers of the ops of tensors that are not scheduled yet, by what their results are computed from.

    Parameters
    ----------
    reductions : mapping
        By the loops of the reduction and its memories, in the order in which they must be computed; none where other
        orders are possible and the makers differ.
    results : mapping
        By number of elements, memories and depth: the maker of the last op of these; none where two are not in order.
    """

    reductions: Mapping[tuple[_Loops, _Memories], tuple[_Maker, ...]] = field(default_factory=dict)
    results: Mapping[_Result, str] = field(default_factory=dict)

    def describe(self, steps: Sequence[ViewKernel]) -> list[str]:
        """Makers of each kernel: of its reductions, and of its last op."""
        memories = _read_by(steps)
        loops = [_loops_of(step.uops) for step in steps]
        keys = [self._reduction(*pair) for pair in zip(loops, memories, strict=True)]
        counts, seen = Counter(keys), Counter[Any]()
        left = {key: makers for key, makers in self.reductions.items() if key not in counts}
        depths: dict[int, int] = {}
        found: list[list[str]] = []
        last: dict[_Result, int] = {}
        for number, (step, key) in enumerate(zip(steps, keys, strict=True)):
            pairs = list(zip(step.views, step.writes, strict=True))
            before = max((depths.get(v.key, 0) for v, writes in pairs if not writes), default=0)
            makers = () if key is None else self.reductions[key]
            names: list[_Maker] = []
            if len(set(makers)) == 1 or len(makers) == counts[key]:
                names.append(makers[min(seen[key], len(makers) - 1)])
            elif key is None and loops[number] is not None:
                # Several reductions in one kernel.
                own = [k for k in reversed(left) if k[1] and k[1] <= memories[number]]
                names += [maker for k in own for maker in left.pop(k)]
            seen[key] += 1
            depth = max((maker.depth for maker in names), default=before + (loops[number] is not None))
            found.append([maker.name for maker in names])
            for view in (v for v, writes in pairs if writes and step.uops and not step.once):
                depths[view.key] = depth
                last[view.size, memories[number], depth] = number
        for result, number in last.items():
            found[number] += filter(None, [self.results.get(result)])
        return [_joined(dict.fromkeys(names)) for names in found]

    def _reduction(self, loops: _Loops | None, memories: _Memories) -> tuple[_Loops, _Memories] | None:
        """Key of the reduction of a kernel that also needs the memories of what follows in it, such as a bias."""
        within = [key for key in self.reductions if key[0] == loops and key[1] <= memories]
        largest = max(within, key=lambda key: len(key[1]), default=None)
        return largest if largest is not None and all(key[1] <= largest[1] for key in within) else None


def _read_by(steps: Sequence[ViewKernel]) -> list[_Memories]:
    """Memories that are there before a run, and that each step needs, itself or through earlier steps."""
    made: dict[int, _Memories] = {}
    found = []
    for step in steps:
        pairs = list(zip(step.views, step.writes, strict=True))
        needed = frozenset[int]().union(*(made.get(v.key, {v.key}) for v, writes in pairs if not writes))
        if not step.once:
            made |= {view.key: needed for view, writes in pairs if writes}
        found.append(needed)
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
    results: dict[_Result, list[tuple[UOp, str]]] = {}
    reductions: dict[UOp, _Maker] = {}
    memories: dict[UOp, _Memories] = {}
    depths: dict[UOp, int] = {}
    for result in tensors:
        order = list(result.uop.toposort())
        for uop in order:
            memories[uop] = _memories_of(uop, memories)
            depths[uop] = max((depths[s] for s in uop.src), default=0) + _reduces(uop)
        names: dict[UOp, str] = {}
        for uop in reversed(order):
            name = _describe(uop) or names.get(uop)
            if name is None:
                continue
            maker = _Maker(name, depths[uop])
            if _reduces(uop):
                reductions.setdefault(uop, maker)
            if _reduces(uop) or uop.op in GroupOp.ALU:
                results.setdefault((_elements(uop), memories[uop], depths[uop]), []).append((uop, name))
            for source in uop.src:
                # An op without a note of its own was made inside of the method that used it.
                names.setdefault(source, name)
    groups: dict[tuple[_Loops, _Memories], list[UOp]] = {}
    for uop in reductions:
        elements, read = _elements(uop), _elements(uop.src[0])
        loops = elements, read // max(elements, 1)
        groups.setdefault((loops, memories[uop]), []).insert(0, uop)
    return Origins(
        {
            key: tuple(reductions[u] for u in group)
            for key, group in groups.items()
            if len({reductions[u] for u in group}) == 1 or _has_one_order(group)
        },
        {key: made[0][1] for key, made in results.items() if _is_last(made)},
    )


def _is_last(made: Sequence[tuple[UOp, str]]) -> bool:
    """Whether the first of the ops is computed from all others, or one maker made them all."""
    if len({name for _, name in made}) == 1:
        return True
    before = set(made[0][0].toposort())
    return all(uop in before for uop, _ in made)


def _reduces(uop: UOp) -> bool:
    return uop.op.name.startswith("REDUCE")


def _memories_of(uop: UOp, known: Mapping[UOp, _Memories]) -> _Memories:
    if uop.op is Ops.BUFFER and not isinstance(uop.device, tuple):
        return frozenset({id(single_buffer(uop).base)})
    sources = {known[s] for s in uop.src}
    return next(iter(sources)) if len(sources) == 1 else frozenset[int]().union(*sources)


def _elements(uop: UOp) -> int:
    return prod(int(s) for s in uop.shape if isinstance(s, int))


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
