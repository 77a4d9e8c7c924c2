"""Division by constants without a divider."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.golden import evaluate
from tg2hdl_ir.nodes import BufferMeta, IRBufLoad, IRBufStore, IRConst, IRCounter, IROp, KernelIR, LoopIR
from tg2hdl_ir.passes.division import divide_by_constants, reciprocal_multiplier


@pytest.mark.parametrize("divisor", range(1, 300))
def test_multiplier_is_exact_over_its_range(divisor):
    largest = 1021
    multiplier, shift = reciprocal_multiplier(divisor, largest)
    values = np.arange(largest + 1)
    np.testing.assert_array_equal(values * multiplier >> shift, values // divisor)


def kernel_of(op, dtype, divisor, size):
    counter = IRCounter(size, 0, 0)
    load = IRBufLoad(0, counter, dtype)
    value = IROp(op, dtype, (load, IRConst(divisor, dtype)))
    leaf = LoopIR.from_items((load, IRBufStore(1, counter, value, dtype)), counter=counter)
    buffers = (BufferMeta(0, size, dtype, False), BufferMeta(1, size, dtype, True))
    return KernelIR(buffers, LoopIR.from_items((leaf,)))


def ops_of(kernel):
    found, stack = set(), [s.value for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)]
    while stack:
        node = stack.pop()
        if isinstance(node, IROp):
            found.add(node.op)
            stack.extend(node.srcs)
    return found


@pytest.mark.parametrize("op", ["div", "mod"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=str)
def test_all_bytes(op, dtype):
    values = np.arange(dtype.min_value, dtype.max_value + 1).astype(dtype.numpy())
    divisors = range(dtype.min_value, dtype.max_value + 1)
    for divisor in (*divisors[::5], dtype.min_value, -1 if dtype.is_signed else 1, 0, dtype.max_value):
        kernel = kernel_of(op, dtype, divisor, values.size)
        divided = divide_by_constants(kernel)
        assert not ops_of(divided) & {"div", "mod"}
        np.testing.assert_array_equal(evaluate(divided, {0: values})[1], evaluate(kernel, {0: values})[1])


@settings(max_examples=150, deadline=None, derandomize=True, phases=[Phase.generate])
@given(
    st.sampled_from([DType.INT16, DType.UINT16, DType.INT32, DType.UINT32, DType.INT64, DType.UINT64]),
    st.sampled_from(["div", "mod"]),
    st.data(),
)
def test_wide_types(dtype, op, data):
    numbers = st.integers(dtype.min_value, dtype.max_value)
    divisor = data.draw(numbers)
    special = [dtype.min_value, dtype.max_value, 0, 1, divisor, dtype.wrap(divisor - 1), dtype.wrap(-divisor)]
    values = np.array([*special, *data.draw(st.lists(numbers, max_size=20))], dtype=dtype.numpy())
    kernel = kernel_of(op, dtype, divisor, values.size)
    divided = divide_by_constants(kernel)
    np.testing.assert_array_equal(evaluate(divided, {0: values})[1], evaluate(kernel, {0: values})[1])
    if dtype.bit_width <= 32:
        assert not ops_of(divided) & {"div", "mod"}
