"""Programs: what their kernels read and write."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import (
    BufferMeta,
    DType,
    InputError,
    IRBufLoad,
    IRBufStore,
    IRCounter,
    KernelCall,
    KernelIR,
    LoopIR,
    ProgramBuffer,
    ProgramIR,
    evaluate_program,
)
from tg2hdl_ir.program import check_contents


def copy(depth: int = 4) -> KernelIR:
    counter = IRCounter(depth, 0, 0)
    load = IRBufLoad(1, counter, DType.INT32)
    loop = LoopIR.from_items(
        (load, IRBufStore(0, counter, load, DType.INT32)), counter=counter, axis_type="loop"
    )
    metas = (BufferMeta(0, depth, DType.INT32, True), BufferMeta(1, depth, DType.INT32, False))
    return KernelIR(metas, LoopIR.from_items((loop,)), name="copy_4")


def program(
    role: str, initial: np.ndarray | None, calls: tuple[tuple[int, int], ...] = ((1, 0),)
) -> ProgramIR:
    buffers = (
        ProgramBuffer("a", DType.INT32, (4,), role, initial),
        ProgramBuffer("b", DType.INT32, (4,), "output"),
        ProgramBuffer("c", DType.INT32, (2, 2), "temporary"),
    )
    return ProgramIR("p", buffers, tuple(KernelCall(copy(), c) for c in calls), (1,))


def test_accesses():
    call = KernelCall(copy(), (7, 3))
    assert call.accesses() == ({3}, {7})
    assert call.first_reads() == {3}


@pytest.mark.parametrize("role", ["weight", "temporary"])
def test_a_buffer_without_contents_is_refused(role):
    with pytest.raises(InputError) as info:
        check_contents(program(role, None))
    assert str(info.value) == (
        "bad input: buffer 'a' (int32, shape (4,)) has no contents: kernel copy_4 reads it\n"
        "  at: program p\n"
        "  hint: make it an input of the model, or give it contents, e.g. Tensor.zeros instead of Tensor.empty"
    )
    with pytest.raises(InputError, match="no contents"):
        evaluate_program(program(role, None), {})


def test_contents_come_from_the_host_the_program_the_caller_or_a_kernel():
    check_contents(program("input", None))
    check_contents(program("weight", np.zeros(4, np.int32)))
    check_contents(program("input", None, ((2, 0), (1, 2))))
    assert evaluate_program(program("weight", None), {"a": np.arange(4, dtype=np.int32)})["b"].tolist() == [
        0,
        1,
        2,
        3,
    ]


def test_the_order_of_kernels_counts():
    with pytest.raises(InputError, match=r"'c' .*no contents"):
        check_contents(program("input", None, ((1, 2), (2, 0))))


def test_a_result_that_no_kernel_writes_is_refused():
    with pytest.raises(InputError, match=r"'b' .*it is a result, and no kernel writes it"):
        check_contents(program("input", None, ((2, 0),)))
