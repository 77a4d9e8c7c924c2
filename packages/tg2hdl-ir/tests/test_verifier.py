"""Every rule of the verifier, by its full text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tg2hdl_ir import (
    BufferMeta,
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRVariable,
    IRVerificationError,
    KernelIR,
    LoopIR,
    RegisterMeta,
    UnsupportedError,
    parse_kernel,
    verify,
)
from tg2hdl_ir.testing.samples import (
    conv3x3,
    elementwise,
    matmul,
    padded_convolution,
    padded_sum,
    row_max,
)

INT, F, B = DType.INT32, DType.FP32, DType.BOOL
BUFFERS = (BufferMeta(0, 4, INT, True), BufferMeta(1, 4, F, False))
REGISTERS = (RegisterMeta(0, INT), RegisterMeta(1, F, 2))
ONE = IRConst(1, INT)


def kernel(*items, buffers=BUFFERS, registers=REGISTERS, variables=()):
    return KernelIR(buffers, LoopIR.from_items(items), registers, variables, "k")


def loop(*items, bound=4, axis=0, depth=0, counter=None):
    return LoopIR.from_items(items, counter=counter or IRCounter(bound, depth, axis))


def store(value, addr=ONE, **more):
    return IRBufStore(0, addr, value, INT, **more)


def message(broken):
    with pytest.raises(IRVerificationError) as error:
        verify(broken)
    return str(error.value).removeprefix("invalid IR: ")


@pytest.mark.parametrize(
    "good",
    [
        matmul(2, 3, 4),
        elementwise(3),
        row_max(2, 3),
        padded_sum(4),
        conv3x3(4, 1, 1),
        padded_convolution(1, (3, 3), (3, 3), (1, 1)),
    ],
    ids=lambda k: k.name,
)
def test_good_kernels_pass(good):
    assert verify(good) is good


def test_unknown_op():
    with pytest.raises(UnsupportedError, match="unknown op 'frobnicate'"):
        verify(kernel(store(IROp("frobnicate", INT, (ONE,)))))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (IROp("add", INT, (ONE,)), "add has 1 operands, expected 2\n  at: kernel k, add(1:int32):int32"),
        (
            IROp("add", INT, (ONE, IRConst(1, DType.INT8))),
            "add does not take operands of type (int32, int8)\n  at: kernel k, add(1:int32, 1:int8):int32",
        ),
        (
            IROp("add", F, (ONE, ONE)),
            "add of (int32, int32) gives int32, not fp32\n  at: kernel k, add(1:int32, 1:int32):fp32",
        ),
        (
            IROp("bitcast", DType.INT8, (ONE,)),
            "bitcast of (int32) gives a type of 32 bits, not int8\n  at: kernel k, bitcast(1:int32):int8",
        ),
        (
            IROp("mulacc", F, (IRConst(1.0, F),) * 3),
            "mulacc does not take operands of type (fp32, fp32, fp32)\n"
            "  at: kernel k, mulacc(1.0:fp32, 1.0:fp32, 1.0:fp32):fp32",
        ),
        (IRConst(1 << 31, INT), "literal 2147483648 does not fit int32\n  at: kernel k"),
        (
            IRConst(0.5, INT),
            "literal 0.5 of type int32 is not an integer\n  at: kernel k, 0.5:int32",
        ),
        (IRCounter(4, 0, 7), "counter i7 is used outside its loop\n  at: kernel k"),
        (
            IRBufLoad(0, ONE, INT),
            "a load is used before it executes, or is not a statement of the kernel\n"
            "  at: kernel k, LOAD int32 b0[1:int32]",
        ),
        (IRVariable("n", 0, 3), "variable n is not declared\n  at: kernel k, $n"),
    ],
)
def test_values(value, text):
    assert message(kernel(store(value))) == text


def test_values_of_inner_loops():
    counter = IRCounter(4, 0, 0)
    twice = IROp("add", INT, (counter, counter))
    inner = loop(store(twice, counter), counter=counter)
    assert message(kernel(inner, store(twice))) == (
        "a value is used outside the loop that it depends on\n  at: kernel k, add(i0, i0):int32"
    )
    load = IRBufLoad(0, ONE, INT)
    assert message(kernel(loop(load), loop(store(load), axis=1))) == (
        "a value is used outside the loop that it depends on\n  at: kernel k, loop i1, LOAD int32 b0[1:int32]"
    )
    again = IROp("neg", INT, (twice,))
    assert message(kernel(inner, store(again))) == (
        "a value is used outside the loop that it depends on\n  at: kernel k, neg(add(i0, i0):int32):int32"
    )


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (
            IRBufStore(9, ONE, ONE, INT),
            "buffer 9 is not declared\n  at: kernel k, STORE int32 b9[1:int32] = 1:int32",
        ),
        (
            IRBufStore(0, ONE, ONE, F),
            "an access of type fp32 to buffer 0 of int32\n  at: kernel k, STORE fp32 b0[1:int32] = 1:int32",
        ),
        (
            store(IRConst(1.0, F)),
            "a value of type fp32 is stored to buffer 0 of int32\n  at: kernel k, STORE int32 b0[1:int32] = 1.0:fp32",
        ),
        (
            store(ONE, IRConst(1.0, F)),
            "the address has type fp32, expected an integer\n  at: kernel k, STORE int32 b0[1.0:fp32] = 1:int32",
        ),
        (
            store(ONE, gate=ONE),
            "the gate has type int32, expected bool\n  at: kernel k, STORE int32 b0[1:int32] = 1:int32 if 1:int32",
        ),
        (
            IRBufLoad(0, ONE, INT, gate=ONE),
            "the gate has type int32, expected bool\n  at: kernel k, LOAD int32 b0[1:int32] if 1:int32",
        ),
        (
            IRBufLoad(0, ONE, INT, alt=ONE),
            "a load without gate has an alternative\n  at: kernel k, LOAD int32 b0[1:int32] else 1:int32",
        ),
        (
            IRBufLoad(0, ONE, INT, IRConst(True, B), IRConst(1.0, F)),
            "the alternative has type fp32, expected int32\n"
            "  at: kernel k, LOAD int32 b0[1:int32] if true:bool else 1.0:fp32",
        ),
        (
            store(ONE, IRConst(4, INT)),
            "addresses 4 to 4 of buffer 0, whose depth is 4\n  at: kernel k, STORE int32 b0[4:int32] = 1:int32",
        ),
        (IRRegLoad(INT, 5), "register 5 is not declared\n  at: kernel k, GET int32 r5"),
        (IRRegLoad(F, 0), "an access of type fp32 to register 0 of int32\n  at: kernel k, GET fp32 r0"),
        (
            IRRegStore(IRConst(1.0, F), 0),
            "an access of type fp32 to register 0 of int32\n  at: kernel k, SET r0 = 1.0:fp32",
        ),
        (IRRegLoad(F, 1), "register 1 is an array of 2 and needs an index\n  at: kernel k, GET fp32 r1"),
        (
            IRRegLoad(F, 1, IRConst(0.0, F)),
            "the index has type fp32, expected an integer\n  at: kernel k, GET fp32 r1[0.0:fp32]",
        ),
        (
            IRRegLoad(F, 1, IRConst(2, INT)),
            "index 2 of register 1, whose size is 2\n  at: kernel k, GET fp32 r1[2:int32]",
        ),
        (
            IRRegStore(ONE, 0, gate=ONE),
            "the gate has type int32, expected bool\n  at: kernel k, SET r0 = 1:int32 if 1:int32",
        ),
    ],
)
def test_statements(statement, text):
    assert message(kernel(statement)) == text


def test_addresses_of_counters():
    counter = IRCounter(4, 0, 0)
    beyond = IROp("add", INT, (counter, ONE))
    assert message(kernel(loop(store(ONE, beyond), counter=counter))) == (
        "addresses 1 to 4 of buffer 0, whose depth is 4\n"
        "  at: kernel k, loop i0, STORE int32 b0[add(i0, 1:int32):int32] = 1:int32"
    )
    below = IROp("sub", INT, (counter, ONE))
    assert message(kernel(loop(store(ONE, below), counter=counter))).startswith(
        "addresses -1 to 2 of buffer 0"
    )
    indexed = IRRegStore(IRConst(0.0, F), 1, beyond)
    assert message(kernel(loop(indexed, counter=counter))).startswith(
        "indices 1 to 4 of register 1, whose size is 2"
    )
    gated = store(ONE, beyond, gate=IROp("lt", B, (counter, IRConst(3, INT))))
    verify(kernel(loop(gated, counter=counter)))
    verify(kernel(loop(loop(store(ONE, beyond), bound=0, axis=1, depth=1), counter=counter)))


def test_statement_in_two_places():
    one = store(ONE)
    assert message(kernel(one, one)) == (
        "a statement stands in two places\n  at: kernel k, STORE int32 b0[1:int32] = 1:int32"
    )


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (loop(bound=-1), "loop i0 has bound -1, expected at least 0"),
        (loop(depth=3), "loop i0 stands at depth 0, but says 3 and its counter 3"),
        (
            replace(loop(), axis_type="spin"),
            "loop i0 has axis type 'spin', expected 'loop', 'reduce' or 'rows'",
        ),
        (replace(loop(), bound=5), "loop i0 and its counter have different bounds"),
        (replace(loop(), counter=None), "an inner loop has no counter"),
        (loop(counter=IRCounter(4, 0, 0, F)), "loop i0 counts in fp32, expected an integer type"),
        (
            loop(counter=IRCounter(200, 0, 0, DType.INT8)),
            "loop i0 with bound 200 does not fit its counter type int8",
        ),
    ],
)
def test_loops(broken, text):
    assert message(kernel(broken)) == f"{text}\n  at: kernel k"


def test_structure():
    inner = loop(axis=1, depth=1)
    counter = IRCounter(4, 0, 0)
    wrong = LoopIR("loop", 4, 0, (inner,), (), (), counter)
    assert message(kernel(wrong)) == (
        "the body of a loop must begin with its first and end with its last inner loop\n  at: kernel k, loop i0"
    )
    assert message(kernel(loop(), loop())) == "axis 0 belongs to two loops\n  at: kernel k"
    load = IRBufLoad(0, ONE, INT)
    late = loop(bound=load)
    assert message(kernel(load, late)) == (
        "the bound of loop i0 must be an integer of constants and variables\n"
        "  at: kernel k, LOAD int32 b0[1:int32]"
    )
    assert message(KernelIR(BUFFERS, loop(), name="k")) == (
        "the root of the loop tree must have no counter and no axis type, depth -1 and bound 1\n  at: kernel k"
    )


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        (
            {"buffers": (BufferMeta(0, 4, INT, True), BufferMeta(0, 2, INT, False))},
            "buffer 0 is declared twice",
        ),
        ({"registers": (RegisterMeta(2, INT), RegisterMeta(2, F))}, "register 2 is declared twice"),
        ({"variables": (IRVariable("n", 0, 1), IRVariable("n", 0, 2))}, "variable n is declared twice"),
        ({"buffers": (BufferMeta(0, 0, INT, True),)}, "buffer 0 has depth 0, expected at least 1"),
        ({"registers": (RegisterMeta(0, INT, 0),)}, "register 0 has size 0, expected at least 1"),
        ({"variables": (IRVariable("n", 3, 1),)}, "variable n must be an integer with low <= high"),
        ({"variables": (IRVariable("n", 0, 300, DType.UINT8),)}, "variable n of 0 to 300 does not fit uint8"),
    ],
)
def test_tables(tables, text):
    assert message(kernel(**tables)) == f"{text}\n  at: kernel k"


def test_bounds_of_variables_pass():
    verify(
        parse_kernel(
            "kernel v\n  b0: int32[9] output\n  $n: int32 0..4\n%0 = mul int32 $n, 2:int32\n"
            "RANGE i0 < %0 loop\nSTORE int32 b0[i0] = $n\nEND i0\n"
        )
    )


@pytest.mark.parametrize(
    ("bound", "address", "extremes"),
    [
        ("n", "i0", "0 to 9"),
        ("3:int32", "add int32 i0, $n", "1 to 12"),
        # The largest address is in runs with n = 10, the smallest in those with n = 1.
        ("n", "sub int32 $n, i0", "1 to 10"),
    ],
)
def test_addresses_that_some_value_of_a_variable_leads_outside(bound, address, extremes):
    assert message(symbolic(bound, address, 9)).startswith(
        f"addresses {extremes} of buffer 0, whose depth is 9"
    )


def test_the_hint_names_the_variable():
    assert message(symbolic("n", "i0", 3)) == (
        "addresses 0 to 9 of buffer 0, whose depth is 3\n"
        "  at: kernel k, loop i0, STORE int32 b0[i0] = 1:int32\n"
        "  hint: narrow the ranges of the variables: it happens with n = 10"
    )


def test_addresses_that_follow_the_bound_of_their_loop():
    verify(symbolic("n", "i0", 10))
    # From the last element to the first: never negative, though n - 1 alone may be 0 and i0 may be 9.
    verify(symbolic("n", "last - i0", 10))
    # A loop that does not run makes no access: n = 0 is no address -1.
    verify(symbolic("n", "last - i0", 10, low=0))


def symbolic(bound, address, depth, low=1):
    """``for i0 < bound: b0[address] = 1`` with the variable ``n`` from `low` to 10."""
    n = IRVariable("n", low, 10)
    counter = IRCounter(n if bound == "n" else 3, 0, 0)
    at = {
        "i0": counter,
        "add int32 i0, $n": IROp("add", INT, (counter, n)),
        "sub int32 $n, i0": IROp("sub", INT, (n, counter)),
        "last - i0": IROp("sub", INT, (IROp("sub", INT, (n, ONE)), counter)),
    }[address]
    tree = LoopIR.from_items((loop(store(ONE, at), counter=counter),))
    return KernelIR((BufferMeta(0, depth, INT, True),), tree, variables=(n,), name="k")
