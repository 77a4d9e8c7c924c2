"""Compiles a kernel of the IR to a program: products on the matrix unit, the rest on vectors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tg2hdl_ir.errors import UnsupportedError
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.device.arithmetic import STORED
from tg2hdl_tpu.device.code import Program, assemble_code
from tg2hdl_tpu.device.emitter import Emitter
from tg2hdl_tpu.device.lower import bounds_of, emit_kernel
from tg2hdl_tpu.device.matrix import emit_product
from tg2hdl_tpu.device.plans import Product
from tg2hdl_tpu.device.products import split_products
from tg2hdl_tpu.device.shuffle import Shuffle, emit_shuffle

__all__ = ["compile_kernel"]

#: Rows of a vector, from the fastest program to the one that needs least of VMEM.
_ROWS = (32, 8, 2, 1)


def compile_kernel(
    kernel: KernelIR, config: Config, variables: Mapping[str, int], steady: Collection[int] = ()
) -> Program:
    """Compile a kernel for the values of its variables.

    Parameters
    ----------
    kernel : KernelIR
    config : Config
    variables : mapping of str to int
    steady : collection of int
        Slots of tensors that do not change from run to run.

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
        stages = split_products(kernel, bounds_of(kernel, variables), config, steady)
        program = _program(stages.each, config, variables, kernel.where)
        before = _program(stages.kept, config, variables, kernel.where) if stages.kept else None
    except UnsupportedError as error:
        if not error.where:
            error.where = kernel.where
        raise
    sizes = {m.idx: m.depth * m.dtype.numpy().itemsize for m in stages.scratch}
    kept: set[int] = set()
    for stage in stages.kept:
        kept |= (
            {stage.target} if isinstance(stage, Shuffle) else {m.idx for m in stage.buffers if m.is_output}
        )
    if before is not None:
        before = replace(before, scratch=tuple((n, size) for n, size in sizes.items() if n in kept))
    own = tuple((n, size) for n, size in sizes.items() if n not in kept)
    return replace(program, scratch=own, before=before, factors=stages.factors)


def _program(
    stages: Iterable[KernelIR | Shuffle | Product], config: Config, variables: Mapping[str, int], where: str
) -> Program:
    for rows in _ROWS:
        emit = Emitter(config)
        for stage in stages:
            if isinstance(stage, Product):
                emit_product(emit, stage)
            elif isinstance(stage, Shuffle):
                emit_shuffle(emit, stage)
            else:
                emit_kernel(emit, stage, variables, rows)
        program = assemble_code(emit.code, config, where)
        if program is not None:
            return program
    raise UnsupportedError(
        f"more values at a time than the {config.vmem_rows} rows of VMEM hold",
        where=where,
        hint="realize parts of the expression one by one",
    )
