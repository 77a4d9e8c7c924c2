"""Canonical form: the passes of the table, one by one and together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from tg2hdl_ir import (
    AffineAnalysis,
    BufferMeta,
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
    RegisterMeta,
    evaluate,
    parse_kernel,
    verify,
)
from tg2hdl_ir.passes.initial_registers import set_initial_registers
from tg2hdl_ir.passes.split_loops import split_loops
from tg2hdl_ir.pipeline import canonicalize, rewrites
from tg2hdl_ir.testing.strategies import kernels

I32 = DType.INT32


def same_results(before, after, buffers, variables=None):
    expected = evaluate(before, buffers, variables)
    actual = evaluate(after, buffers, variables)
    for idx, array in expected.items():
        dtype = before.buffer(idx).dtype
        np.testing.assert_array_equal(
            dtype.array_to_bits(actual[idx] if idx in actual else buffers[idx]), dtype.array_to_bits(array)
        )


@settings(max_examples=25, deadline=None, derandomize=True, phases=[Phase.generate])
@given(case=kernels())
def test_random_kernels(case):
    kernel, buffers, variables = case
    for entry in rewrites("canonical"):
        after = verify(entry.run(kernel))
        same_results(kernel, after, buffers, variables)
        kernel = after
    assert all(not isinstance(loop.bound, int) or loop.bound > 0 for loop in kernel.loop_tree.walk())


def number(value):
    return IRConst(value, I32)


def op(name, *srcs):
    return IROp(name, I32, tuple(number(s) if isinstance(s, int) else s for s in srcs))


def copy(bounds, address, depth):
    """``out[n] = in[address(counters)]`` for all steps n."""
    counters = [IRCounter(bound, depth, depth) for depth, bound in enumerate(bounds)]
    place = number(0)
    for counter in counters:
        place = op("add", op("mul", place, counter.bound), counter)
    load = IRBufLoad(0, address(*counters), I32)
    loop = LoopIR.from_items((load, IRBufStore(1, place, load, I32)), counter=counters[-1])
    for counter in counters[-2::-1]:
        loop = LoopIR.from_items((loop,), counter=counter)
    buffers = (BufferMeta(0, depth, I32, False), BufferMeta(1, int(np.prod(bounds)), I32, True))
    return KernelIR(buffers, LoopIR.from_items((loop,)))


AFFINE = {
    "quotient and remainder": ([9], lambda i: op("add", op("mul", op("mod", i, 3), 3), op("div", i, 3)), 9),
    "two divisors, one a multiple of the other": (
        [24],
        lambda i: op(
            "add", op("mul", op("div", i, 12), 12), op("add", op("mod", i, 4), op("mod", op("div", i, 4), 3))
        ),
        24,
    ),
    "factor of the divisor": ([6, 4], lambda i, j: op("mod", op("add", op("mul", i, 4), j), 8), 8),
    "multiple of the divisor": ([5, 3], lambda i, j: op("div", op("add", op("mul", i, 9), j), 3), 13),
    "offset": ([4, 2], lambda i, j: op("mod", op("add", op("add", op("mul", i, 4), j), 9), 4), 4),
}


@pytest.mark.parametrize("name", AFFINE)
def test_divided_counters_become_affine(name):
    bounds, address, depth = AFFINE[name]
    kernel = copy(bounds, address, depth)
    after = verify(split_loops(kernel))
    load = next(s for s in after.loop_tree.statements() if isinstance(s, IRBufLoad))
    assert AffineAnalysis().of(load.addr) is not None
    same_results(
        kernel, after, {0: np.arange(depth, dtype=np.int32), 1: np.zeros(kernel.buffers[1].depth, np.int32)}
    )


def test_divisor_of_no_bound_stays():
    kernel = copy([10], lambda i: op("div", i, 3), 4)
    assert [loop.bound for loop in split_loops(kernel).loop_tree.walk()] == [1, 10]


def test_kernel_without_division_is_returned_as_it_is():
    kernel = copy([10], lambda i: i, 10)
    assert split_loops(kernel) is kernel


@pytest.mark.parametrize("n", [0, 1, 3])
def test_loop_that_may_be_empty(n):
    variable = IRVariable("n", 0, 3)
    counter = IRCounter(variable, 0, 0)
    body = LoopIR.from_items((IRBufStore(0, counter, number(7), I32),), counter=counter)
    kernel = KernelIR((BufferMeta(0, 4, I32, True),), LoopIR.from_items((body,)), variables=(variable,))
    same_results(kernel, canonicalize(kernel), {0: np.arange(4, dtype=np.int32)}, {"n": n})


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize(("name", "bound"), [("div", 4), ("mod", 2)])
def test_bound_that_takes_a_divider_becomes_a_mask(name, bound, n):
    variable = IRVariable("n", 1, 4)
    counter = (
        IRCounter(op(name, variable, 3), 0, 0)
        if name == "mod"
        else IRCounter(op(name, number(4), variable), 0, 0)
    )
    body = LoopIR.from_items((IRBufStore(0, counter, number(7), I32),), counter=counter)
    kernel = KernelIR((BufferMeta(0, 4, I32, True),), LoopIR.from_items((body,)), variables=(variable,))
    canonical = canonicalize(kernel)
    assert [loop.bound for loop in canonical.loop_tree.walk()] == [1, bound]
    same_results(kernel, canonical, {0: np.arange(4, dtype=np.int32)}, {"n": n})


def _sum_of(register: RegisterMeta, index: IRValue | None, *before: IRRegStore) -> KernelIR:
    """Adds the loop counter to a register that nothing sets unless `before` does."""
    counter = IRCounter(3, 0, 0)
    load = IRRegLoad(I32, 0, index)
    body = LoopIR.from_items((load, IRRegStore(op("add", load, counter), 0, index)), counter=counter)
    result = IRRegLoad(I32, 0, index)
    store = IRBufStore(0, number(0), result, I32)
    root = LoopIR.from_items((*before, body, result, store))
    return KernelIR((BufferMeta(0, 1, I32, True),), root, (register,))


@pytest.mark.parametrize(
    ("size", "index", "before", "added"),
    [
        (1, None, (), 1),
        (4, number(2), (), 2),
        (4, number(2), (IRRegStore(number(5), 0, number(1)),), 2),
        (1, None, (IRRegStore(number(5), gate=IRConst(False, DType.BOOL)),), 1),
        (1, None, (IRRegStore(number(5)),), 0),
        (4, number(2), (IRRegStore(number(5), 0, number(2)),), 0),
    ],
)
def test_registers_that_are_read_first_start_at_zero(size, index, before, added):
    kernel = _sum_of(RegisterMeta(0, I32, size), index, *before)
    after = verify(set_initial_registers(kernel))
    assert len(list(after.loop_tree.statements())) == len(before) + 4 + min(added, 1)
    assert len(list(after.loop_tree.walk())) == 2 + max(added - 1, 0)
    same_results(kernel, after, {})


@pytest.mark.parametrize(
    ("fill", "index", "set_first"),
    [
        ("RANGE i0 < 6 loop\nSET r0[i0] = 5:int32\nEND i0\n", "i2", True),
        ("RANGE i0 < 5 loop\nSET r0[i0] = 5:int32\nEND i0\n", "i2", False),
        ("RANGE i0 < 5 loop\nSET r0[i0] = 5:int32\nEND i0\nSET r0[5:int32] = 5:int32\n", "i2", True),
        ("RANGE i0 < 2 loop\nRANGE i1 < 3 loop\nSET r0[%0] = 5:int32\nEND i1\nEND i0\n", "i2", True),
        ("RANGE i0 < 6 loop\nSET r0[i0] = 5:int32\nEND i0\n", "data", True),
        ("RANGE i0 < 6 loop\n%2 = lt bool i0, 3:int32\nSET r0[i0] = 5:int32 if %2\nEND i0\n", "i2", False),
        ("SET r0[data] = 5:int32\n", "i2", False),
        ("SET r0[data] = 5:int32\n", "data", False),
    ],
)
def test_arrays_start_at_zero_unless_stores_cover_what_is_read(fill, index, set_first):
    fill = fill.replace("SET r0[%0]", "%0 = mul int32 i0, 3:int32\n%1 = add int32 %0, i1\nSET r0[%1]")
    data = "%8 = LOAD int32 b1[0:int32]\n"
    kernel = parse_kernel(
        f"kernel k\n  b0: int32[6] output\n  b1: int32[1]\n  r0: int32[6]\n{data}{fill.replace('data', '%8')}"
        f"RANGE i2 < 6 loop\n%9 = GET int32 r0[{index.replace('data', '%8')}]\nSTORE int32 b0[i2] = %9\nEND i2\n"
    )
    after = verify(set_initial_registers(kernel))
    assert (after is kernel) == set_first
    same_results(kernel, after, {1: np.array([2], np.int32)})


@pytest.mark.parametrize("order", ["%0, %5", "%5, %0"])
def test_a_product_with_a_sign_is_a_choice(order):
    kernel = parse_kernel(
        f"""kernel absolute
  b0 out: int32[6] output
  b1 x: int32[6]
RANGE i0 < 6 loop
%0 = LOAD int32 b1[i0]
%1 = ne bool %0, 0:int32
%2 = lt bool %0, 0:int32
%4 = where int32 %2, -1:int32, 1:int32
%5 = where int32 %1, %4, 0:int32
%6 = mul int32 {order}
STORE int32 b0[i0] = %6
END i0
"""
    )
    after = verify(canonicalize(kernel))
    assert "mul" in kernel.format()
    assert "mul" not in after.format()
    x = np.array([-(1 << 31), (1 << 31) - 1, -1, 0, 1, -7], np.int32)
    same_results(kernel, after, {1: x})


def test_a_product_with_another_choice_stays():
    kernel = parse_kernel(
        """kernel scaled
  b0 out: int32[4] output
  b1 x: int32[4]
RANGE i0 < 4 loop
%0 = LOAD int32 b1[i0]
%1 = lt bool %0, 0:int32
%2 = where int32 %1, -1:int32, 2:int32
%3 = mul int32 %0, %2
STORE int32 b0[i0] = %3
END i0
"""
    )
    assert "mul" in canonicalize(kernel).format()


SPECIAL = np.array([-np.inf, -1.5, -1e-45, -0.0, 0.0, 1e-45, 2.5, np.inf, np.nan], np.float32)


def signed_float(condition, yes, no, sign="%3"):
    return parse_kernel(
        f"""kernel signed
  b0 out: fp32[9] output
  b1 x: fp32[9]
RANGE i0 < 9 loop
%0 = LOAD fp32 b1[i0]
%1 = {condition}
%2 = lt bool %0, 0.0:fp32
%3 = where fp32 %2, {yes}, {no}
%4 = where fp32 %1, {sign}, 0.0:fp32
%5 = mul fp32 %0, %4
STORE fp32 b0[i0] = %5
END i0
"""
    )


@pytest.mark.parametrize(
    ("kernel", "ops"),
    [
        (signed_float("ne bool %0, 0.0:fp32", "-1.0:fp32", "1.0:fp32"), ["lt", "neg", "where"]),
        (signed_float("ne bool 0.0:fp32, %0", "-1.0:fp32", "1.0:fp32"), ["lt", "neg", "where"]),
        (signed_float("ne bool %0, 0.0:fp32", "1.0:fp32", "1.0:fp32", sign="1.0:fp32"), []),
        # A zero would lose its sign in the inner choice: both stay.
        (
            signed_float("ne bool %0, 0.0:fp32", "1.0:fp32", "-1.0:fp32"),
            ["ne", "lt", "neg", "where", "where"],
        ),
        # The zero of another comparison is multiplied: infinities give NaN.
        (
            signed_float("lt bool %0, 9.0:fp32", "-1.0:fp32", "1.0:fp32"),
            ["lt", "lt", "where", "where", "mul"],
        ),
        (
            signed_float("ne bool %0, 1.0:fp32", "-1.0:fp32", "1.0:fp32"),
            ["ne", "lt", "where", "where", "mul"],
        ),
        (
            signed_float("ne bool %0, 0.0:fp32", "-1.0:fp32", "-0.0:fp32"),
            ["ne", "lt", "where", "where", "mul"],
        ),
    ],
)
def test_a_float_product_with_a_sign_is_a_choice(kernel, ops):
    after = verify(canonicalize(kernel))
    assert [line.split()[3] for line in after.format().splitlines() if " = " in line][1:-1] == ops
    (expected,), (actual,) = (evaluate(k, {1: SPECIAL}).values() for k in (kernel, after))
    np.testing.assert_array_equal(actual, expected)
    signs = np.signbit(actual) == np.signbit(expected)
    assert (signs | np.isnan(expected)).all()
