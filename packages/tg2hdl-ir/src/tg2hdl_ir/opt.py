"""Rewrites on printed IR, each without the compiler around it: the command ``tg2hdl ir-opt``, and tests of rewrites."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tg2hdl_ir.analysis.affine import Affine
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.analysis.ranges import Interval
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import IRBufLoad, KernelIR
from tg2hdl_ir.parser import parse_kernel, parse_program
from tg2hdl_ir.passes import cut_kernel as kernel_cuts
from tg2hdl_ir.passes import cut_products as products
from tg2hdl_ir.passes.balance import balance
from tg2hdl_ir.passes.clearing import clear_with_last
from tg2hdl_ir.passes.constant_taps import with_constant_taps
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.follow import Turn, in_order, with_idle_steps
from tg2hdl_ir.passes.forward_stores import forward_stores
from tg2hdl_ir.passes.interleave import interleave
from tg2hdl_ir.passes.lead_in import lead_in
from tg2hdl_ir.passes.pack_products import pack_products
from tg2hdl_ir.passes.partial_sums import find_sum, split_sum
from tg2hdl_ir.passes.phases import phase_forms
from tg2hdl_ir.passes.rows import with_row_loop_first, with_stored_order
from tg2hdl_ir.passes.split import split_axis
from tg2hdl_ir.passes.sum_turns import sum_in_turns
from tg2hdl_ir.passes.unroll import unroll
from tg2hdl_ir.pipeline import all_rewrites, pass_names
from tg2hdl_ir.printer import format_program
from tg2hdl_ir.program import ProgramIR
from tg2hdl_ir.verifier import verify

__all__ = ["PARAMETERS", "alone", "rewrite_text", "rewritten_forms", "rewritten_program", "with_contents"]

Options: TypeAlias = Mapping[str, Sequence[int]]
Forms: TypeAlias = list[tuple[KernelIR, ...]]

PARAMETERS: dict[str, dict[str, str]] = {}
"""Parameters of each rewrite that has any, with the default in words."""

_ADAPTERS: dict[str, Callable[[Any, Options], Any]] = {}
"""How the parameters of a rewrite are made of the options; the others take a kernel or a program."""

_F = TypeVar("_F", bound=Callable[[Any, Options], Any])


def alone(name: str, **parameters: str) -> Callable[[_F], _F]:
    """Enter a function that runs a rewrite without the compiler around it.

    The function is ``(kernel, options) -> list of tuples of KernelIR``, or ``(program, options) -> ProgramIR``.

    Parameters
    ----------
    name : str
        Of the rewrite.
    parameters : str
        Parameters that it reads from the options, with the default in words.
    """

    def mark(function: _F) -> _F:
        _ADAPTERS[name] = function
        if parameters:
            PARAMETERS[name] = parameters
        return function

    return mark


def rewrite_text(text: str, names: Sequence[str], options: Options | None = None, form: int = 1) -> str:
    """Printed IR after some rewrites, one after the other.

    Parameters
    ----------
    text : str
        A kernel or a program, as `format` prints it; the weights of a program hold 1, 2, ..., 7, 1, 2, ...
    names : sequence of str
        Rewrites, of this package or of plugins.
    options : mapping of str to sequence of int, optional
        Parameters of the rewrites, see `PARAMETERS`; a rewrite takes those that it has.
    form : int
        Of several candidates the one that is taken, from 1.

    Raises
    ------
    InputError
        For an unknown rewrite, parameter or form, and for one that takes a program where there is a kernel.
    """
    options = dict(options or {})
    _check(names, options)
    if text.lstrip().startswith("program"):
        program = with_contents(parse_program(text))
        for name in names:
            program = rewritten_program(name, program, options)
        return format_program(program)
    kernels = [parse_kernel(text)]
    for name in names:
        made: list[KernelIR] = []
        for kernel in kernels:
            forms = rewritten_forms(name, kernel, options) or [(kernel,)]
            if not 1 <= form <= len(forms):
                raise InputError(
                    f"{name} has {len(forms)} form{'' if len(forms) == 1 else 's'} of kernel {kernel.name}",
                    hint=f"give a form from 1 to {len(forms)}",
                )
            made += forms[form - 1]
        kernels = made
    return "\n".join(kernel.format().rstrip("\n") + "\n" for kernel in kernels)


def _check(names: Sequence[str], options: Options) -> None:
    known = pass_names()
    for name in names:
        if name not in known:
            raise InputError(f"there is no rewrite {name!r}", hint=f"choose one of {', '.join(known)}")
    allowed = {key for name in names for key in PARAMETERS.get(name, {})}
    for key in options:
        if key not in allowed and not ("bN" in allowed and key[:1] == "b" and key[1:].isdigit()):
            hint = f"choose one of {', '.join(sorted(allowed))}" if allowed else "leave it out"
            raise InputError(f"{', '.join(names)} has no parameter {key!r}", hint=hint)


def with_contents(program: ProgramIR) -> ProgramIR:
    """The program whose weights have contents, which its text does not have: 1, 2, 3, ..., 7, 1, 2, ..."""
    buffers = [
        replace(b, initial=(1 + np.arange(b.depth) % 7).astype(b.dtype.numpy()).reshape(b.shape))
        if b.role == "weight" and b.initial is None
        else b
        for b in program.buffers
    ]
    return replace(program, buffers=tuple(buffers))


def rewritten_program(name: str, program: ProgramIR, options: Options) -> ProgramIR:
    """The result of a rewrite of a program, whose weights have contents.

    Parameters
    ----------
    options : mapping of str to sequence of int
        See `PARAMETERS`.

    Raises
    ------
    InputError
        When the rewrite is one of kernels.
    """
    rewrite = all_rewrites().get(name)
    if rewrite is None or rewrite.scope != "program":
        raise InputError(f"{name} is run on kernels", hint="give a kernel, or a rewrite of programs")
    made = _ADAPTERS[name](program, options) if name in _ADAPTERS else rewrite.run(program)
    found: ProgramIR = made[0] if isinstance(made, tuple) else made
    for kernel in {call.kernel: None for call in found.calls}:
        verify(kernel)
    return found


def rewritten_forms(name: str, kernel: KernelIR, options: Options) -> Forms:
    """The results of a rewrite of a kernel: one form, several candidates, or none where it does not apply.

    Parameters
    ----------
    options : mapping of str to sequence of int
        See `PARAMETERS`.

    Raises
    ------
    InputError
        When the rewrite is one of programs, or of the search.
    """
    verify(kernel)
    rewrite = all_rewrites().get(name)
    if rewrite is None or rewrite.scope != "kernel":
        raise InputError(f"{name} is run on programs", hint="give a program, or a rewrite of kernels")
    forms: Forms = _ADAPTERS[name](kernel, options) if name in _ADAPTERS else rewrite.candidates(kernel)
    for form in forms:
        for part in form:
            verify(part)
    return forms


def _one(options: Options, key: str, default: int) -> int:
    return options[key][0] if key in options else default


def _innermost(kernel: KernelIR, options: Options) -> int:
    axes = [loop.counter.axis for loop in kernel.loop_tree.walk() if loop.counter is not None]
    if not axes and "axis" not in options:
        raise InputError(f"kernel {kernel.name} has no loop", hint="give a kernel with a loop")
    return _one(options, "axis", axes[-1] if axes else 0)


@alone("split-axis", axis="the innermost one", inner="2")
def _split(kernel: KernelIR, options: Options) -> Forms:
    return [(split_axis(kernel, _innermost(kernel, options), _one(options, "inner", 2)),)]


@alone("unroll", axis="the innermost one", lanes="2")
def _unroll(kernel: KernelIR, options: Options) -> Forms:
    axis, lanes = _innermost(kernel, options), _one(options, "lanes", 2)
    return [(unroll(flatten(kernel), analyze_axes(kernel), {axis: lanes}),)]


@alone("interleave", axis="an independent one above a sum", tile="2")
def _interleave(kernel: KernelIR, options: Options) -> Forms:
    info, flat = analyze_axes(kernel), flatten(kernel)
    axes = [
        loop.counter.axis
        for loop in flat.loop_tree.walk()
        if loop.counter is not None and loop.loops and loop.counter.axis in info.independent
    ]
    if not axes:
        return []
    return [(interleave(flat, info, _one(options, "axis", axes[-1]), _one(options, "tile", 2)),)]


@alone("sum-in-turns", turns="4")
def _sum_in_turns(kernel: KernelIR, options: Options) -> Forms:
    flat = flatten(kernel)
    made = sum_in_turns(flat, _one(options, "turns", 4))
    return [] if made is flat else [(made,)]


@alone("forward-stores", steps="2")
def _forward(kernel: KernelIR, options: Options) -> Forms:
    return [(forward_stores(flatten(kernel), _one(options, "steps", 2)),)]


@alone("lead-in", axis="the innermost one", count="1")
def _lead_in(kernel: KernelIR, options: Options) -> Forms:
    flat = flatten(kernel)
    loads = [s for s in flat.loop_tree.statements() if isinstance(s, IRBufLoad)]
    return [(lead_in(flat, {_innermost(kernel, options): _one(options, "count", 1)}, loads),)]


@alone("follow", buffer="the last one", lanes="2 of the outermost loop, 1 of others")
def _follow(kernel: KernelIR, options: Options) -> Forms:
    buffer = _one(options, "buffer", kernel.buffers[-1].idx)
    loops = [loop.bound for loop in kernel.loop_tree.walk() if loop.counter is not None]
    bounds = [bound for bound in loops if isinstance(bound, int)]
    lanes = [*options.get("lanes", (2,)), *(1 for _ in bounds)]
    strides = [math.prod(bounds[n + 1 :]) for n in range(len(bounds))]
    made = in_order(kernel, {buffer}, [Turn(*turn) for turn in zip(strides, bounds, lanes, strict=False)])
    return [] if made is None else [(made,)]


@alone("idle-steps", level="1", steps="2")
def _idle(kernel: KernelIR, options: Options) -> Forms:
    return [(with_idle_steps(flatten(kernel), _one(options, "level", 1), _one(options, "steps", 2)),)]


@alone("rows-first", buffers="all that are read")
def _rows_first(kernel: KernelIR, options: Options) -> Forms:
    streamed = options.get("buffers", [b.idx for b in kernel.buffers if not b.is_output])
    made = with_row_loop_first(kernel, streamed)
    return [] if made is kernel else [(made,)]


@alone("rows-order", buffers="all", inner="2")
def _rows_order(kernel: KernelIR, options: Options) -> Forms:
    """The buffers are matrices with rows of `inner` elements, and are stored column by column."""
    slots, inner = options.get("buffers", [b.idx for b in kernel.buffers]), _one(options, "inner", 2)
    depth = kernel.buffer(slots[0]).depth
    if inner < 1 or any(b.depth != depth or depth % inner for b in map(kernel.buffer, slots)):
        raise InputError(
            f"the buffers are not matrices of one size with rows of {inner} elements",
            hint="give buffers of one depth, and a divisor of it as inner",
        )

    def transposed(form: Affine, interval: Callable[[Affine], Interval]) -> Affine | None:
        column = Affine(form.const % inner, tuple(t for t in form.terms if t[1] % inner))
        low, high = interval(column)
        if low < 0 or high >= inner:
            return None
        row = Affine(form.const // inner, tuple((s, n // inner) for s, n in form.terms if n % inner == 0))
        return row.plus(column, depth // inner)

    return [(with_stored_order(kernel, slots, transposed),)]


@alone("pack-products", limit="1")
def _pack(kernel: KernelIR, options: Options) -> Forms:
    ranges = {b.idx: (b.dtype.min_value, b.dtype.max_value) for b in kernel.buffers if not b.dtype.is_float}
    return [(pack_products(kernel, _one(options, "limit", 1), ranges),)]


@alone("constant-taps", bN="contents of buffer N")
def _taps(kernel: KernelIR, options: Options) -> Forms:
    contents = {
        b.idx: np.array(options[f"b{b.idx}"], b.dtype.numpy())
        for b in kernel.buffers
        if f"b{b.idx}" in options
    }
    made = with_constant_taps(kernel, contents)
    return [] if made is kernel else [(made,)]


@alone("phases", joined="0")
def _phases(kernel: KernelIR, options: Options) -> Forms:
    finite = frozenset(b.idx for b in kernel.buffers)
    return phase_forms(kernel, finite, joined=bool(_one(options, "joined", 0)))


@alone("cut-kernel", place="0")
def _cut_kernel(kernel: KernelIR, options: Options) -> Forms:
    places = list(kernel_cuts.cut_places(kernel))
    return [kernel_cuts.cut_kernel(kernel, p)[:2] for p in places[_one(options, "place", 0) :][:1]]


@alone("cut-products", place="0")
def _cut_products(kernel: KernelIR, options: Options) -> Forms:
    places = list(products.product_cuts(kernel))
    return [products.cut_products(kernel, p)[:2] for p in places[_one(options, "place", 0) :][:1]]


@alone("split-sum", parts="4")
def _split_sum(kernel: KernelIR, options: Options) -> Forms:
    found = find_sum(kernel)
    return [] if found is None else [split_sum(kernel, found, _one(options, "parts", 4))[:2]]


@alone("balance", floats="0")
def _balance(kernel: KernelIR, options: Options) -> Forms:
    return [(balance(kernel, regroup_floats=bool(_one(options, "floats", 0))),)]


@alone("clear-with-last", floats="1")
def _clear(kernel: KernelIR, options: Options) -> Forms:
    return [(clear_with_last(kernel, floats=bool(_one(options, "floats", 1))),)]
