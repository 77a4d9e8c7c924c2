"""Compiles a kernel of the IR to a program: products on the matrix unit, the rest on vectors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache

from tg2hdl_ir import KernelIR, UnsupportedError
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.device.addresses import assemble_code
from tg2hdl_tpu.device.arithmetic import STORED
from tg2hdl_tpu.device.code import DeviceProgram
from tg2hdl_tpu.device.emitter import Emitter
from tg2hdl_tpu.device.lower import bounds_of, emit_kernel
from tg2hdl_tpu.device.matrix import emit_product
from tg2hdl_tpu.device.nests import emit_nest
from tg2hdl_tpu.device.plans import BatchProduct
from tg2hdl_tpu.device.products import split_products
from tg2hdl_tpu.device.shuffle import Shuffle, emit_shuffle

__all__ = ["compile_kernel"]

#: Rows of a value in a nest with affine addresses (0: no nests), and of a vector, from the fastest program to the one
#: that needs least of VMEM.
_ROWS = ((512, 32), (256, 32), (128, 32), (0, 32), (0, 8), (0, 2), (0, 1))


def compile_kernel(
    kernel: KernelIR,
    config: Config,
    variables: Mapping[str, int],
    steady: Collection[int] = (),
    shared: Collection[int] = (),
) -> DeviceProgram:
    """Compile a kernel for the values of its variables.

    Parameters
    ----------
    kernel : KernelIR
    config : Config
    variables : mapping of str to int
    steady : collection of int
        Slots of tensors that do not change from run to run.
    shared : collection of int
        Slots of outputs whose last row has elements of others.

    Raises
    ------
    UnsupportedError
        For a type or operation that the machine does not have, and for a kernel that is too large for it.
    """
    try:
        for dtype in [*(b.dtype for b in kernel.buffers), *(r.dtype for r in kernel.registers)]:
            if dtype not in STORED:
                raise UnsupportedError(
                    f"the tensor processor has no {dtype}", hint="cast to int32 or float32"
                )
        alone = cache(lambda: _nest_cycles(kernel, config, variables))
        stages = split_products(kernel, bounds_of(kernel, variables), config, steady, shared, alone)
        program = _program(stages.each, config, variables, kernel.where, shared)
        copies: dict[frozenset[int], list[KernelIR | Shuffle]] = {}
        for stage in stages.kept:
            copies.setdefault(_reads(stage), []).append(stage)
        before = [_program(each, config, variables, kernel.where, ()) for each in copies.values()]
    except UnsupportedError as error:
        if not error.where:
            error.where = kernel.where
        raise
    sizes = {m.idx: m.depth * m.dtype.numpy().itemsize for m in stages.scratch}
    kept = [{n for stage in each for n in _writes(stage)} for each in copies.values()]
    before = [
        replace(p, scratch=tuple((n, sizes[n]) for n in sizes if n in slots))
        for p, slots in zip(before, kept, strict=True)
    ]
    own = tuple((n, size) for n, size in sizes.items() if not any(n in slots for slots in kept))
    return replace(program, scratch=own, before=tuple(before), factors=stages.factors)


def _nest_cycles(kernel: KernelIR, config: Config, variables: Mapping[str, int]) -> float | None:
    """About the cycles of a kernel as one nest; None where it is none, or does not fit."""
    for rows, _ in _ROWS:
        emit = Emitter(config)
        if not rows or not emit_nest(emit, kernel, variables, rows):
            return None
        program = assemble_code(emit.code, config, kernel.where)
        if program is not None:
            moved = sum(i.count for i in program.instructions if i.op in ("load", "store"))
            return moved + sum(
                i.count * config.interval(i.opcode.op.kind)
                for i in program.instructions
                if i.opcode.op is not None
            )
    return None


def _reads(stage: KernelIR | Shuffle) -> frozenset[int]:
    if isinstance(stage, Shuffle):
        return frozenset({stage.source})
    return frozenset(m.idx for m in stage.buffers if not m.is_output)


def _writes(stage: KernelIR | Shuffle) -> frozenset[int]:
    if isinstance(stage, Shuffle):
        return frozenset({stage.target})
    return frozenset(m.idx for m in stage.buffers if m.is_output)


def _program(
    stages: Iterable[KernelIR | Shuffle | BatchProduct],
    config: Config,
    variables: Mapping[str, int],
    where: str,
    shared: Collection[int],
) -> DeviceProgram:
    for of_nest, rows in _ROWS:
        emit = Emitter(config)
        for stage in stages:
            if isinstance(stage, BatchProduct):
                emit_product(emit, stage)
            elif isinstance(stage, Shuffle):
                emit_shuffle(emit, stage)
            elif not of_nest or not emit_nest(emit, stage, variables, of_nest, shared):
                emit_kernel(emit, stage, variables, rows)
        try:
            program = assemble_code(emit.code, config, where)
        except UnsupportedError:
            if not of_nest:
                raise
            continue  # the general way has loops
        if program is not None:
            return program
    raise UnsupportedError(
        f"more values at a time than the {config.vmem_rows} rows of VMEM hold",
        where=where,
        hint="realize parts of the expression one by one",
    )
