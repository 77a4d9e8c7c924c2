"""Structure of converted kernels, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, Variable, dtypes
from tinygrad.codegen.opt import Opt, OptOps
from tinygrad.helpers import Context
from tinygrad.uop.ops import Ops

from tg2hdl_backend import BufferInfo, analyze_buffers, uop_to_ir, uops_to_kernel_ir
from tg2hdl_backend.testing import operations
from tg2hdl_backend.tinygrad_adapter.dialect import storage_of
from tg2hdl_backend.tinygrad_adapter.reference import interpret
from tg2hdl_ir import (
    BufferMeta,
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IROp,
    IRRegLoad,
    IRRegStore,
    LoopIR,
    UnsupportedError,
    evaluate,
)


def kinds(loop: LoopIR) -> list:
    return [kinds(i) if isinstance(i, LoopIR) else type(i) for i in loop.items]


def test_matmul_has_an_accumulator_between_the_loops(uops_of):
    kernel, infos = uops_to_kernel_ir(uops_of(Tensor.empty(4, 8) @ Tensor.empty(8, 3)))
    row = kernel.loop_tree.loops[0]
    assert (row.axis_type, row.bound, row.depth) == ("loop", 4, 0)
    column = row.loops[0]
    assert (column.bound, column.depth) == (3, 1)
    assert [type(i) for i in column.prologue] == [IRRegStore]
    inner = column.loops[0]
    assert (inner.axis_type, inner.bound) == ("reduce", 8)
    assert sorted(t.__name__ for t in kinds(inner)) == ["IRBufLoad", "IRBufLoad", "IRRegLoad", "IRRegStore"]
    assert [type(i) for i in column.epilogue] == [IRRegLoad, IRBufStore]
    assert kernel.acc_dtype == DType.FP32
    assert infos == [
        BufferInfo(0, 12, 32, True, True),
        BufferInfo(1, 32, 32, True, False),
        BufferInfo(2, 24, 32, True, False),
    ]


def test_full_reduction_stores_at_the_root(uops_of):
    kernel, _ = uops_to_kernel_ir(uops_of(Tensor.empty(32).sum()))
    assert kinds(kernel.loop_tree)[0] is IRRegStore
    assert [s.buf_idx for s in kernel.scalar_stores] == [0]


def test_padded_load_has_gate_and_alternative(uops_of):
    kernel, _ = uops_to_kernel_ir(uops_of(Tensor.empty(4).pad((1, 2)) + 1))
    (load,) = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad)]
    assert isinstance(load.gate, IROp)
    assert load.gate.dtype == DType.BOOL
    assert isinstance(load.alt, IRConst)
    assert load.alt.value == 0.0


def test_padto_becomes_a_gated_store(uops_of):
    x = Tensor.empty(5)
    uops = uops_of(x + 1, (Opt(OptOps.PADTO, 0, 4),))
    kernel, _ = uops_to_kernel_ir(uops)
    (store,) = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)]
    assert store.gate is not None
    data = np.arange(5, dtype=np.float32)
    assert evaluate(kernel, {1: data})[0].tolist() == [1, 2, 3, 4, 5]


def test_upcast_makes_an_array_of_registers(uops_of):
    tensor = Tensor.empty(4, 8) @ Tensor.empty(8, 4)
    uops = uops_of(tensor, (Opt(OptOps.UPCAST, 1, 4), Opt(OptOps.UNROLL, 0, 2)))
    kernel, _ = uops_to_kernel_ir(uops)
    assert [r.size for r in kernel.registers] == [4]
    rng = np.random.default_rng(1)
    buffers = [np.zeros(16, np.float32), *(rng.standard_normal(32).astype(np.float32) for _ in range(2))]
    expected = interpret(uops, buffers)
    assert expected is not None
    np.testing.assert_array_equal(evaluate(kernel, dict(enumerate(buffers)))[0], expected[0])


def test_two_accumulators_in_sibling_loops(uops_of):
    x = Tensor.empty(3, 5)
    kernel, _ = uops_to_kernel_ir(uops_of(x.max(1) - x.min(1)))
    assert len(kernel.registers) == 2
    assert all(r.size == 1 for r in kernel.registers)


def test_variable_is_a_symbolic_bound(uops_of):
    n = Variable("n", 1, 7).bind(4)
    kernel, _ = uops_to_kernel_ir(uops_of(Tensor.empty(7)[:n].sum()))
    (variable,) = kernel.variables
    assert (variable.name, variable.low, variable.high) == ("n", 1, 7)
    assert kernel.loop_tree.loops[0].bound is variable


def test_literals_are_typed_constants(uops_of):
    kernel, _ = uops_to_kernel_ir(uops_of(Tensor.empty(3, dtype=dtypes.float16) * 0.1))
    (store,) = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)]
    (constant,) = [s for s in store.value.srcs if isinstance(s, IRConst)]
    assert constant.dtype == DType.FP16
    assert constant.value == float(np.float16(0.1))


def test_float_products_are_not_fused(uops_of):
    kernel, _ = uops_to_kernel_ir(uops_of(Tensor.empty(3) * Tensor.empty(3) + 1))
    assert {"mul", "add"} <= operations(kernel)
    assert "mulacc" not in operations(kernel)


def test_multiply_accumulate_of_another_renderer(uops_of):
    uops = uops_of(Tensor.empty(3) * Tensor.empty(3) + 1)
    assert _with_mulacc(uops) == {"mul", "add"}
    uops = uops_of(Tensor.empty(3, dtype=dtypes.int32) * Tensor.empty(3, dtype=dtypes.int32) + 1)
    assert _with_mulacc(uops) == {"mulacc"}


def _with_mulacc(uops) -> set[str]:
    """Ops after the addition of a product is replaced by MULACC."""
    fused = {}
    result = []
    for uop in uops:
        uop = uop.replace(src=tuple(fused.get(s, s) for s in uop.src))
        original = uops[len(result)]
        product = next((s for s in uop.src if s.op is Ops.MUL), None) if uop.op is Ops.ADD else None
        if product is not None:
            other = next(s for s in uop.src if s is not product)
            uop = uop.replace(op=Ops.MULACC, src=(*product.src, other))
        fused[original] = uop
        result.append(uop)
    kernel, _ = uops_to_kernel_ir(result)
    return operations(kernel)


def test_buffers_of_another_type_are_reinterpreted(uops_of):
    uops = uops_of(Tensor.empty(4, dtype=dtypes.uint32) + 1)
    metas = [BufferMeta(0, 4, DType.UINT32, True), BufferMeta(1, 16, DType.UINT8, False)]
    data = np.arange(16, dtype=np.uint8)
    got = evaluate(uop_to_ir(uops, metas), {1: data})[0]
    np.testing.assert_array_equal(got, data.view(np.uint32) + 1)
    uops = uops_of(Tensor.empty(8, dtype=dtypes.int16) * 2)
    metas = [BufferMeta(0, 8, DType.INT16, True), BufferMeta(1, 2, DType.UINT64, False)]
    data = np.array([2**63 + 12345678901234, 77], np.uint64)
    got = evaluate(uop_to_ir(uops, metas), {1: data})[0]
    np.testing.assert_array_equal(got, data.view(np.int16) * 2)


def test_offset_shifts_the_addresses(uops_of):
    uops = uops_of(Tensor.empty(3) + 1)
    metas = [BufferMeta(0, 3, DType.FP32, True), BufferMeta(1, 9, DType.FP32, False)]
    kernel = uop_to_ir(uops, metas, offsets={1: 5})
    assert evaluate(kernel, {1: np.arange(9, dtype=np.float32)})[0].tolist() == [6, 7, 8]


def test_analyze_buffers_of_small_types(uops_of):
    tensor = Tensor.empty(6, dtype=dtypes.int8).cast(dtypes.bool)
    assert analyze_buffers(uops_of(tensor)) == [
        BufferInfo(0, 6, 1, False, True),
        BufferInfo(1, 6, 8, True, False),
    ]


def test_writing_into_a_buffer_of_another_width_is_refused(uops_of):
    uops = uops_of(Tensor.empty(4, dtype=dtypes.uint32) + 1)
    metas = [BufferMeta(0, 16, DType.UINT8, True), BufferMeta(1, 4, DType.UINT32, False)]
    with pytest.raises(UnsupportedError) as error:
        uop_to_ir(uops, metas)
    assert str(error.value) == (
        "unsupported: no hardware for tinygrad op STORE: write of uint32 into a buffer of uint8\n"
        "  at: kernel E_4, op STORE, dtype dtypes.void\n"
        "  hint: write a tensor of its own and bitcast that"
    )


def test_unknown_op_is_refused_by_name(uops_of):
    uops = list(uops_of(Tensor.empty(4) + 1))
    at = next(n for n, u in enumerate(uops) if u.op is Ops.ADD)
    uops[at] = uops[at].replace(op=Ops.POW)
    with pytest.raises(UnsupportedError) as error:
        uops_to_kernel_ir(uops)
    assert str(error.value) == (
        "unsupported: no hardware for tinygrad op POW\n"
        "  at: kernel E_4, op POW, dtype dtypes.float\n"
        "  hint: express it with tinygrad's elementwise, reduce and movement ops"
    )


def test_unknown_dtype_is_refused_by_name():
    if not hasattr(dtypes, "fp8e4m3fnuz"):
        pytest.skip("this tinygrad has only types that hardware has")
    from tg2hdl_backend import linearize, schedule_of

    linear, _ = schedule_of(Tensor.empty(4, dtype=dtypes.fp8e4m3fnuz).contiguous().clone())
    kernel = next(c.src[0] for c in linear.src if c.src[0].op is Ops.SINK)
    uops = [u for u in linearize(kernel)]
    assert all(u.dtype is not dtypes.fp8e4m3fnuz for u in uops if u.op is Ops.LOAD)


def test_local_buffers_are_refused_before_planning(uops_of):
    """Fused attention asks for local buffers even of a device without local memory."""
    query, key, value = (Tensor.empty(1, 1, 4, 4) for _ in range(3))
    with Context(PCONTIG=2):
        uops = uops_of(query.scaled_dot_product_attention(key, value))
    if not any(s is not None and s.space == "local" for s in map(storage_of, uops)):
        pytest.skip("this tinygrad fuses attention without local buffers")
    with pytest.raises(UnsupportedError) as error:
        uops_to_kernel_ir(uops)
    assert "local memory of a work group" in str(error.value)
    assert "hint: unset PCONTIG" in str(error.value)
