"""Division by constants without a divider."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tg2hdl_ir import (
    BufferMeta,
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    KernelIR,
    LoopIR,
    evaluate,
)
from tg2hdl_ir.passes.division import ConstantDivision, reciprocal_multiplier
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.rewrite import Rewriter


def divide_by_constants(kernel):
    folder = Folder()
    division = ConstantDivision(folder, folder.ranges)
    rewriter = Rewriter(folder, replace=division.expand)
    return replace(kernel, loop_tree=rewriter.loop(kernel.loop_tree))


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


@pytest.mark.parametrize("op", ["div", "mod"])
@pytest.mark.parametrize("name", ["int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_wide_types(name, op):
    dtype = DType.from_name(name)
    rng = random.Random(name)
    numbers = [rng.getrandbits(rng.randrange(1, dtype.bit_width + 1)) for _ in range(60)]
    for divisor in (dtype.min_value, dtype.max_value, *map(dtype.wrap, (0, 1, -1, *numbers[:20]))):
        near = (dtype.min_value, dtype.max_value, 0, 1, divisor, divisor - 1, -divisor)
        values = np.array([dtype.wrap(n) for n in (*near, *numbers)], dtype=dtype.numpy())
        kernel = kernel_of(op, dtype, divisor, values.size)
        divided = divide_by_constants(kernel)
        actual, expected = evaluate(divided, {0: values})[1], evaluate(kernel, {0: values})[1]
        np.testing.assert_array_equal(actual, expected, err_msg=f"divisor {divisor}")
        if dtype.bit_width <= 32:
            assert not ops_of(divided) & {"div", "mod"}
