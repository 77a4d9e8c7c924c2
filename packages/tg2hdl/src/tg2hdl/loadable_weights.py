"""New contents of loadable weights, with those that are computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tg2hdl_backend import CapturedProgram
from tg2hdl_ir import InputError, evaluate_program
from tg2hdl_ir.errors import model_place
from tg2hdl_top import Design

__all__ = ["check_weights", "loaded_buffers"]


def check_weights(
    captured: CapturedProgram, design: Design, given: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The given weights, flat, if all of them can be loaded.

    Parameters
    ----------
    captured : CapturedProgram
    design : Design
        With ``weights="loadable"``.
    given : mapping of str to Any
        By name of the weight.

    Raises
    ------
    InputError
        For weights that are read-only, unknown, frozen or of another shape or dtype, or no mapping.
    """
    where = model_place(captured.program.name)
    if not isinstance(given, Mapping):
        raise InputError(
            f"weights are a {type(given).__name__}",
            where=where,
            hint="give a mapping of names to arrays: {name: array}",
        )
    if design.options.weights != "loadable":
        external = design.options.weights == "external"
        raise InputError(
            "the weights are fixed: on the chip, and in the image that was made with the design"
            if external
            else "the weights are contents of read-only memories",
            where=where,
            hint='compile with weights="loadable"',
        )
    programs = [p for p in (captured.preparation, captured.program) if p is not None]
    known = {b.name: b for p in reversed(programs) for b in p.buffers if b.role == "weight"}
    result = {}
    for name, value in given.items():
        if name in captured.frozen:
            raise InputError(
                f"weight {name!r} cannot be loaded: others were computed from it when the model was captured",
                where=where,
                hint="compile the model again with the new contents",
            )
        if name not in known:
            names = ", ".join(sorted(known.keys() - captured.frozen))
            raise InputError(f"no weight is named {name!r}", where=where, hint=f"the weights are {names}")
        buffer, array = known[name], np.asarray(value)
        if array.size != buffer.depth or array.dtype != buffer.dtype.numpy():
            raise InputError(
                f"weight {name!r} has {array.size} elements of {array.dtype}, "
                f"expected {buffer.depth} of {buffer.dtype}",
                where=where,
                hint="give an array of the shape and dtype that the model was compiled with",
            )
        result[name] = array.reshape(-1)
    return result


def loaded_buffers(
    captured: CapturedProgram, design: Design, weights: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Contents of the buffers of the design that differ from its initial ones, given the model's own weights.

    Parameters
    ----------
    captured : CapturedProgram
    design : Design
    weights : mapping of str to ndarray
        By the names of the model.
    """
    contents = dict(weights)
    for preparation in (captured.preparation, design.preparation):
        names = set() if preparation is None else {b.name for b in preparation.buffers if b.role == "weight"}
        given = {name: array for name, array in contents.items() if name in names}
        if preparation is not None and given:
            target, units = design.options.target, design.options.units
            # A tensor that was computed when the model was captured may be given as well.
            contents = evaluate_program(preparation, given, target=target, units=units) | contents
    named = {b.name for b in design.program.buffers}
    return {name: array.reshape(-1) for name, array in contents.items() if name in named}
