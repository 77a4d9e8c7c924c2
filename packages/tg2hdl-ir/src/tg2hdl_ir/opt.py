"""Rewrites on printed IR, each without the compiler around it: the command ``tg2hdl ir-opt``, and tests of rewrites."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import IRBufLoad, KernelIR
from tg2hdl_ir.parser import parse_kernel, parse_program
from tg2hdl_ir.passes import cut_kernel as kernel_cuts
from tg2hdl_ir.passes import cut_products as products
from tg2hdl_ir.passes.constant_taps import with_constant_taps
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.follow import Turn, in_order, with_idle_steps
from tg2hdl_ir.passes.instrument import known_passes
from tg2hdl_ir.passes.interleave import interleave
from tg2hdl_ir.passes.lead_in import lead_in
from tg2hdl_ir.passes.pack_products import pack_products
from tg2hdl_ir.passes.partial_sums import find_sum, split_sum
from tg2hdl_ir.passes.phases import phase_forms
from tg2hdl_ir.passes.split import split_axis
from tg2hdl_ir.passes.unroll import unroll
from tg2hdl_ir.pipeline import PIPELINE, pass_names, proposed_forms, rewrite_kernel
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_ir.printer import format_program
from tg2hdl_ir.program import ProgramIR
from tg2hdl_ir.verifier import verify

__all__ = ["PARAMETERS", "rewrite_text", "rewritten_forms"]

Options: TypeAlias = Mapping[str, Sequence[int]]
Forms: TypeAlias = list[tuple[KernelIR, ...]]

PARAMETERS: dict[str, dict[str, str]] = {
    "split-axis": {"axis": "the innermost one", "inner": "2"},
    "unroll": {"axis": "the innermost one", "lanes": "2"},
    "interleave": {"axis": "an independent one above a sum", "tile": "2"},
    "lead-in": {"axis": "the innermost one", "count": "1"},
    "follow": {"buffer": "the last one", "lanes": "2 of the outermost loop, 1 of others"},
    "idle-steps": {"level": "1", "steps": "2"},
    "pack-products": {"limit": "1"},
    "balance": {"floats": "0"},
    "clear-with-last": {"floats": "1"},
    "constant-taps": {"bN": "contents of buffer N"},
    "phases": {"joined": "0"},
    "cut-kernel": {"place": "0"},
    "cut-products": {"place": "0"},
    "split-sum": {"parts": "4"},
}
"""Parameters of each rewrite that has any, with the default in words."""


def rewrite_text(text: str, names: Sequence[str], options: Options | None = None, form: int = 1) -> str:
    """Printed IR after some rewrites, one after the other.

    Parameters
    ----------
    text : str
        A kernel or a program, as `format` prints it.
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
        program = parse_program(text)
        for name in names:
            program = _rewritten_program(name, program)
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


def _rewritten_program(name: str, program: ProgramIR) -> ProgramIR:
    rewrite = known_passes().get(name)
    if rewrite is None or rewrite.scope != "program" or rewrite not in PIPELINE:
        raise InputError(
            f"{name} is run on kernels, or needs the planner", hint="give a kernel, or another rewrite"
        )
    made = rewrite.run(program)
    found: ProgramIR = made[0] if isinstance(made, tuple) else made
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
    for definition in registry().passes():
        if definition.name == name:
            if definition.proposes:
                return proposed_forms(kernel, definition)
            return [(rewrite_kernel(kernel, [definition]),)]
    forms: Forms
    if name in _ADAPTERS:
        forms = _ADAPTERS[name](kernel, options)
    else:
        rewrite = known_passes()[name]
        if rewrite.scope != "kernel" or rewrite not in PIPELINE:
            raise InputError(f"{name} is run on programs", hint="give a program, or a rewrite of kernels")
        made = rewrite.run(kernel)
        forms = made if isinstance(made, list) else [(made,)]
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


def _split(kernel: KernelIR, options: Options) -> Forms:
    return [(split_axis(kernel, _innermost(kernel, options), _one(options, "inner", 2)),)]


def _unroll(kernel: KernelIR, options: Options) -> Forms:
    axis, lanes = _innermost(kernel, options), _one(options, "lanes", 2)
    return [(unroll(flatten(kernel), analyze_axes(kernel), {axis: lanes}),)]


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


def _lead_in(kernel: KernelIR, options: Options) -> Forms:
    flat = flatten(kernel)
    loads = [s for s in flat.loop_tree.statements() if isinstance(s, IRBufLoad)]
    return [(lead_in(flat, {_innermost(kernel, options): _one(options, "count", 1)}, loads),)]


def _follow(kernel: KernelIR, options: Options) -> Forms:
    buffer = _one(options, "buffer", kernel.buffers[-1].idx)
    loops = [loop.bound for loop in kernel.loop_tree.walk() if loop.counter is not None]
    bounds = [bound for bound in loops if isinstance(bound, int)]
    lanes = [*options.get("lanes", (2,)), *(1 for _ in bounds)]
    strides = [math.prod(bounds[n + 1 :]) for n in range(len(bounds))]
    made = in_order(kernel, {buffer}, [Turn(*turn) for turn in zip(strides, bounds, lanes, strict=False)])
    return [] if made is None else [(made,)]


def _idle(kernel: KernelIR, options: Options) -> Forms:
    return [(with_idle_steps(flatten(kernel), _one(options, "level", 1), _one(options, "steps", 2)),)]


def _pack(kernel: KernelIR, options: Options) -> Forms:
    ranges = {b.idx: (b.dtype.min_value, b.dtype.max_value) for b in kernel.buffers if not b.dtype.is_float}
    return [(pack_products(kernel, _one(options, "limit", 1), ranges),)]


def _taps(kernel: KernelIR, options: Options) -> Forms:
    contents = {
        b.idx: np.array(options[f"b{b.idx}"], b.dtype.numpy())
        for b in kernel.buffers
        if f"b{b.idx}" in options
    }
    made = with_constant_taps(kernel, contents)
    return [] if made is kernel else [(made,)]


def _phases(kernel: KernelIR, options: Options) -> Forms:
    finite = frozenset(b.idx for b in kernel.buffers)
    return phase_forms(kernel, finite, joined=bool(_one(options, "joined", 0)))


def _cut_kernel(kernel: KernelIR, options: Options) -> Forms:
    places = list(kernel_cuts.cut_places(kernel))
    return [kernel_cuts.cut_kernel(kernel, p)[:2] for p in places[_one(options, "place", 0) :][:1]]


def _cut_products(kernel: KernelIR, options: Options) -> Forms:
    places = list(products.product_cuts(kernel))
    return [products.cut_products(kernel, p)[:2] for p in places[_one(options, "place", 0) :][:1]]


def _split_sum(kernel: KernelIR, options: Options) -> Forms:
    found = find_sum(kernel)
    return [] if found is None else [split_sum(kernel, found, _one(options, "parts", 4))[:2]]


def _balance(kernel: KernelIR, options: Options) -> Forms:
    return [(known_passes()["balance"].run(kernel, regroup_floats=bool(_one(options, "floats", 0))),)]


def _clear(kernel: KernelIR, options: Options) -> Forms:
    return [(known_passes()["clear-with-last"].run(kernel, floats=bool(_one(options, "floats", 1))),)]


_ADAPTERS: dict[str, Callable[[KernelIR, Options], Any]] = {
    "split-axis": _split,
    "unroll": _unroll,
    "interleave": _interleave,
    "lead-in": _lead_in,
    "follow": _follow,
    "idle-steps": _idle,
    "pack-products": _pack,
    "balance": _balance,
    "clear-with-last": _clear,
    "constant-taps": _taps,
    "phases": _phases,
    "cut-kernel": _cut_kernel,
    "cut-products": _cut_products,
    "split-sum": _split_sum,
}
"""How the parameters of a rewrite are made of the options; the others take a kernel."""
