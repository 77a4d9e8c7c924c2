"""Decides the loop of a design: its output, its input, its counter, and how long a turn takes."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tg2hdl_ir import DType, InputError
from tg2hdl_lower import HostBuffer, HostLoop, HostShape, Layout
from tg2hdl_top.loop import Loop
from tg2hdl_top.ports.elements import ElementReader

if TYPE_CHECKING:
    from tg2hdl_top.design import Design

__all__ = ["plan_loop", "results_buffer"]


def plan_loop(design: Design, shape: HostShape, loop: Loop, *, keeps_results: bool) -> HostLoop:
    """The loop of a design.

    Parameters
    ----------
    shape : HostShape
        Of the design, without it.
    keeps_results : bool
        Whether results stay in a memory until the host reads them.

    Raises
    ------
    InputError
        For a design whose output cannot be its next input, or without exactly one variable to count with.
    """
    where = f"loop of {design.program.name}"
    if design.sequencer.interval:
        raise InputError(
            f"a loop waits for each result, and with schedule={design.options.schedule!r} runs overlap",
            where=where,
            hint='choose schedule="overlap"',
        )
    source, target = _pair(design, shape, where)
    counter = _counter(shape, loop, where)
    program = {m.name: design.program.buffers[n] for n, m in design.memories.items()}
    return HostLoop(
        source.name,
        target.name,
        counter,
        loop.results,
        _free("results", [b.name for b in shape.buffers]) if keeps_results else None,
        source.dtype,
        program[source.name].dtype,
        source.layout.depth,
        ElementReader.delay_of(source) + source.layout.depth,
    )


def results_buffer(loop: HostLoop, shape: tuple[int, ...]) -> HostBuffer | None:
    """The buffer of the results, which have this shape; None where they are a stream only.

    Parameters
    ----------
    loop : HostLoop
    shape : tuple of int
        Of one result.
    """
    if loop.results is None:
        return None
    words = loop.most * loop.elements
    return HostBuffer(
        loop.results,
        words,
        loop.dtype.bit_width,
        writes=False,
        reads=True,
        latency=1,
        layout=Layout.linear(words),
        dtype=loop.dtype,
        title=loop.results,
        role="results",
        shape=(loop.most, *shape),
    )


def _pair(design: Design, shape: HostShape, where: str) -> tuple[HostBuffer, HostBuffer]:
    """Buffers of the only output and of the only input."""
    known = {b.name: b for b in shape.buffers}
    inputs = [known[name] for name in shape.inputs]
    outputs = [known[name] for name in shape.outputs]
    if len(inputs) != 1 or len(outputs) != 1:
        listed = [", ".join(b.title for b in found) or "none" for found in (inputs, outputs)]
        raise InputError(
            f"a loop has one input and one output; inputs are {listed[0]}, and outputs {listed[1]}",
            where=where,
            hint="keep the others as state: tensor.assign(...), or state= of an ONNX file",
        )
    (target,), (source,) = inputs, outputs
    numbers = {memory.name: number for number, memory in design.memories.items()}
    buffers = [design.program.buffers[numbers[b.name]] for b in (source, target)]
    facts = [(b.shape, b.dtype) for b in buffers]
    if facts[0] != facts[1]:
        described = [
            f"{b.title!r} has shape {s} and type {d}"
            for b, (s, d) in zip((source, target), facts, strict=True)
        ]
        raise InputError(
            f"output {described[0]}, and input {described[1]}",
            where=where,
            hint="let the model return its next input, of the same shape and type",
        )
    if not _holds(target.dtype, source.dtype):
        raise InputError(
            f"output {source.title!r} is stored as {source.dtype}, and input {target.title!r} as {target.dtype}",
            where=where,
            hint="clip the output to the range of the input",
        )
    return source, target


def _holds(target: DType, source: DType) -> bool:
    """Whether one type has all values of another."""
    if target == source or target.is_float or source.is_float:
        return target == source
    return target.min_value <= source.min_value and source.max_value <= target.max_value


def _counter(shape: HostShape, loop: Loop, where: str) -> str | None:
    names = [variable.name for variable in shape.variables]
    if loop.counter is not None and loop.counter not in names:
        raise InputError(
            f"the design has no variable {loop.counter!r} to count with",
            where=where,
            hint=f"its variables are {', '.join(names)}" if names else "leave counter= out: it has none",
        )
    if loop.counter is None and len(names) > 1:
        raise InputError(
            f"several variables may count: {', '.join(names)}",
            where=where,
            hint=f'name one: loop=tg2hdl.Loop(counter="{names[0]}")',
        )
    return loop.counter or next(iter(names), None)


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name
