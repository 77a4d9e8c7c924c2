"""Golden model on kernels of known meaning, its semantics at the edges, and the text of its errors."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import (
    ArithmeticUnit,
    DType,
    InputError,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRVerificationError,
    KernelCall,
    KernelIR,
    LoopIR,
    ProgramBuffer,
    ProgramIR,
    Registry,
    evaluate,
    evaluate_program,
    hookimpl,
    parse_kernel,
    registry,
    use_registry,
)
from tg2hdl_ir.golden import plan as golden_plan
from tg2hdl_ir.testing.reference import interpret
from tg2hdl_ir.testing.samples import conv3x3, elementwise, matmul, padded_sum, row_max


def random(dtype, size, seed=0):
    rng = np.random.default_rng(seed)
    if dtype.startswith("fp"):
        return rng.standard_normal(size).astype(DType.from_name(dtype).numpy())
    return rng.integers(-100, 100, size).astype(dtype)


def test_matmul_of_integers():
    a, b = random("int8", (5, 7)), random("int8", (7, 3), 1)
    out = evaluate(matmul(5, 7, 3), {1: a, 2: b})
    assert list(out) == [0]
    np.testing.assert_array_equal(out[0].reshape(5, 3), a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("columns", [1, 3, 400])
def test_float_sums_are_in_order(columns):
    a, b = random("fp32", (2, 200)), random("fp32", (200, columns), 1)
    out = evaluate(matmul(2, 200, columns, "fp32", "fp32"), {1: a, 2: b})[0].reshape(2, columns)
    total = np.zeros((2, columns), np.float32)
    for k in range(200):
        total = total + a[:, k : k + 1] * b[k]
    np.testing.assert_array_equal(out, total)


def test_sums_of_half_floats_round_after_every_term():
    a, b = random("fp16", (3, 90)), random("fp16", (90, 2), 1)
    out = evaluate(matmul(3, 90, 2, "fp16", "fp16"), {1: a, 2: b})[0].reshape(3, 2)
    total = np.zeros((3, 2), np.float16)
    for k in range(90):
        total = total + a[:, k : k + 1] * b[k]
    np.testing.assert_array_equal(out, total)


def test_convolution():
    x, w = random("int8", (2, 6, 6)), random("int8", (3, 2, 3, 3), 1)
    out = evaluate(conv3x3(6, 2, 3), {1: x, 2: w})[0].reshape(3, 4, 4)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32), (3, 3), axis=(1, 2))
    np.testing.assert_array_equal(out, np.einsum("cyxij,ocij->oyx", windows, w.astype(np.int32)))


def test_gated_loads():
    x = random("int32", 9)
    padded = np.pad(x, 1)
    np.testing.assert_array_equal(evaluate(padded_sum(9), {1: x})[0], padded[:-2] + padded[1:-1] + padded[2:])


def test_max_of_rows_drops_nans():
    x = np.array([[1, np.nan, 3], [np.nan, np.nan, np.nan], [-5, -0.0, 0.0]], np.float32)
    out = evaluate(row_max(3, 3), {1: x})[0]
    assert [str(v) for v in out] == ["3.0", "-inf", "-0.0"]


def test_sums_give_the_canonical_nan():
    a = np.array([[np.inf, -np.inf, 1]], np.float32)
    out = evaluate(matmul(1, 3, 1, "fp32", "fp32"), {1: a, 2: np.ones(3, np.float32)})[0]
    assert out.view(np.uint32).tolist() == [0x7FC00000]


@pytest.mark.parametrize("limit", [1, 3, 16])
def test_results_do_not_depend_on_how_much_runs_at_once(monkeypatch, limit):
    monkeypatch.setattr(golden_plan, "_MOST", limit)
    monkeypatch.setattr(golden_plan, "_LEAST", limit)
    for kernel, buffers in (
        (matmul(4, 5, 3), {1: random("int8", 20), 2: random("int8", 15, 1)}),
        (matmul(4, 5, 3, "fp32", "fp32"), {1: random("fp32", 20), 2: random("fp32", 15, 1)}),
        (conv3x3(5, 2, 2), {1: random("int8", 50), 2: random("int8", 36, 1)}),
    ):
        np.testing.assert_array_equal(evaluate(kernel, buffers)[0], interpret(kernel, buffers)[0])


def test_arguments_stay_unchanged():
    kernel = parse_kernel(
        "kernel twice\n  b0: int32[3] output\nRANGE i0 < 3 loop\n%0 = LOAD int32 b0[i0]\n"
        "%1 = add int32 %0, %0\nSTORE int32 b0[i0] = %1\nEND i0\n"
    )
    x = np.array([1, 2, 3], np.int32)
    assert evaluate(kernel, {0: x})[0].tolist() == [2, 4, 6]
    assert x.tolist() == [1, 2, 3]


def test_in_place_prefix_sum_keeps_the_order():
    kernel = parse_kernel(
        "kernel scan\n  b0: int32[6] output\nRANGE i0 < 5 loop\n%0 = LOAD int32 b0[i0]\n"
        "%1 = add int32 i0, 1:int32\n%2 = LOAD int32 b0[%1]\n%3 = add int32 %0, %2\n"
        "STORE int32 b0[%1] = %3\nEND i0\n"
    )
    x = np.arange(6, dtype=np.int32)
    assert evaluate(kernel, {0: x})[0].tolist() == np.cumsum(x).tolist()


def test_last_store_to_a_place_counts():
    kernel = parse_kernel(
        "kernel last\n  b0: int32[2] output\nRANGE i0 < 3 loop\nRANGE i1 < 4 loop\n"
        "%0 = mod int32 i1, 2:int32\n%1 = mul int32 i0, 10:int32\n%2 = add int32 %1, i1\n"
        "STORE int32 b0[%0] = %2\nEND i1\nEND i0\n"
    )
    assert evaluate(kernel, {})[0].tolist() == [22, 23]


INTERLEAVED = """kernel interleaved
  b0: fp32[8] output
  b1: fp32[40]
  r0: fp32[4]
RANGE i0 < 2 loop
RANGE i1 < 5 reduce
RANGE i2 < 4 loop
%0 = eq bool i1, 0:int32
%1 = GET fp32 r0[i2]
%2 = where fp32 %0, 0.0:fp32, %1
%3 = mul int32 i0, 20:int32
%4 = mul int32 i2, 5:int32
%5 = add int32 %3, %4
%6 = add int32 %5, i1
%7 = LOAD fp32 b1[%6]
%8 = add fp32 %2, %7
SET r0[i2] = %8
%9 = eq bool i1, 4:int32
%10 = mul int32 i0, 4:int32
%11 = add int32 %10, i2
STORE fp32 b0[%11] = %8 if %9
END i2
END i1
END i0
"""


def test_interleaved_sums_in_an_array_of_registers():
    x = random("fp32", (8, 5))
    total = np.zeros(8, np.float32)
    for k in range(5):
        total = total + x[:, k]
    np.testing.assert_array_equal(evaluate(parse_kernel(INTERLEAVED), {1: x})[0], total)


def test_registers_keep_the_value_of_the_last_iteration():
    kernel = parse_kernel(
        "kernel last\n  b0: int32[1] output\n  b1: int32[4]\n  r0: int32\nRANGE i0 < 4 loop\n"
        "%0 = LOAD int32 b1[i0]\nSET r0 = %0\nEND i0\n%1 = GET int32 r0\nSTORE int32 b0[0:int32] = %1\n"
    )
    assert evaluate(kernel, {1: np.array([5, 6, 7, 8], np.int32)})[0].tolist() == [8]


def test_cumulative_sum_stores_inside_the_carrying_loop():
    kernel = parse_kernel(
        "kernel scan\n  b0: fp32[50] output\n  b1: fp32[50]\n  r0: fp32\nRANGE i0 < 50 reduce\n"
        "%0 = LOAD fp32 b1[i0]\n%1 = GET fp32 r0\n%2 = add fp32 %1, %0\nSET r0 = %2\n"
        "STORE fp32 b0[i0] = %2\nEND i0\n"
    )
    x = random("fp32", 50)
    np.testing.assert_array_equal(evaluate(kernel, {1: x})[0], np.add.accumulate(x))


VARIABLE = """kernel prefix
  b0: int32[1] output
  b1: int32[8]
  r0: int32
  $n: int32 0..8
RANGE i0 < $n reduce
%0 = LOAD int32 b1[i0]
%1 = GET int32 r0
%2 = add int32 %1, %0
SET r0 = %2
END i0
%3 = GET int32 r0
%4 = mul int32 %3, $n
STORE int32 b0[0:int32] = %4
"""


@pytest.mark.parametrize("n", [0, 1, 5, 8])
def test_run_time_bounds(n):
    x = np.arange(8, dtype=np.int32)
    assert evaluate(parse_kernel(VARIABLE), {1: x}, {"n": n})[0].tolist() == [x[:n].sum() * n]


def test_computed_bounds():
    kernel = parse_kernel(VARIABLE.replace("RANGE i0 < $n", "%9 = mul int32 $n, 2:int32\nRANGE i0 < %9"))
    x = np.arange(8, dtype=np.int32)
    assert evaluate(kernel, {1: x}, {"n": 3})[0].tolist() == [x[:6].sum() * 3]


def test_units_may_replace_the_evaluation_of_an_op():
    def halved(operands, types, result):
        return operands[0] * np.float32(0.5)

    class Plugin:
        @staticmethod
        @hookimpl
        def tg2hdl_arithmetic_units():
            f = DType.FP32
            return [ArithmeticUnit("half.sin", "sin", (f,), f, 2, "x:y", golden=halved, target="odd")]

    kernel = parse_kernel(
        "kernel s\n  b0: fp32[1] output\n%0 = sin fp32 1.0:fp32\nSTORE fp32 b0[0:int32] = %0\n"
    )
    plain = evaluate(kernel, {})[0]
    assert plain.tolist() == [np.float32(np.sin(1.0))]
    with registry().extended(Plugin):
        assert evaluate(kernel, {})[0].tolist() == plain.tolist()
        assert evaluate(kernel, {}, target="odd")[0].tolist() == [0.5]
        assert evaluate(kernel, {}, units={"sin": "half.sin"})[0].tolist() == [0.5]
    assert evaluate(kernel, {})[0].tolist() == plain.tolist()


@pytest.mark.parametrize("dtype", ["uint64", "int64", "uint8"])
def test_addresses_of_any_integer_type(dtype):
    kernel = parse_kernel(
        f"kernel gather\n  b0: {dtype}[3] output\n  b1: {dtype}[3]\nRANGE i0 < 3 loop\n"
        f"%0 = LOAD {dtype} b1[i0]\n%1 = LOAD {dtype} b1[%0]\nSTORE {dtype} b0[i0] = %1\nEND i0\n"
    )
    assert evaluate(kernel, {1: np.array([2, 0, 1], dtype)})[0].tolist() == [1, 2, 0]


# Errors


def gather(gate=""):
    return parse_kernel(
        "kernel gather\n  b0 out: int32[3] output\n  b1 table: int32[4]\n  b2 index: int32[3]\n"
        "RANGE i0 < 3 loop\n%0 = LOAD int32 b2[i0]\n%1 = LOAD int32 b1[%0]\nSTORE int32 b0[i0] = %1\nEND i0\n"
    )


@pytest.mark.parametrize("bad", [4, -1])
def test_a_load_outside_its_buffer_reads_zero(bad):
    found = evaluate(gather(), {1: np.arange(5, 9, dtype=np.int32), 2: np.array([0, bad, 3], np.int32)})
    assert found[0].tolist() == [5, 0, 8]


def test_a_store_outside_its_buffer_is_dropped():
    kernel = parse_kernel(
        "kernel scatter\n  b0: int32[3] output\n  b1: int32[3]\nRANGE i0 < 3 loop\n"
        "%0 = LOAD int32 b1[i0]\nSTORE int32 b0[%0] = i0\nEND i0\n"
    )
    found = evaluate(kernel, {0: np.full(3, 7, np.int32), 1: np.array([1, -1, 3], np.int32)})
    assert found[0].tolist() == [7, 0, 7]


def test_an_access_outside_an_array_of_registers_reads_zero_or_is_dropped():
    kernel = parse_kernel(
        "kernel r\n  b0: int32[4] output\n  b1: int32[4]\n  r0: int32[2]\nRANGE i0 < 4 loop\n"
        "%0 = LOAD int32 b1[i0]\nSET r0[%0] = 7:int32\n%1 = GET int32 r0[%0]\nSTORE int32 b0[i0] = %1\nEND i0\n"
    )
    assert evaluate(kernel, {1: np.array([1, 2, -1, 0], np.int32)})[0].tolist() == [7, 0, 0, 7]


@pytest.mark.parametrize(
    ("buffers", "text"),
    [
        (
            {1: np.zeros(3, np.float32)},
            "bad input: a buffer that the kernel reads has no contents\n"
            "  at: kernel elementwise, buffer 2 (b)\n"
            "  hint: pass them by slot: {2: array}",
        ),
        (
            {1: np.zeros(3, np.float64), 2: np.zeros(3, np.float32)},
            "bad input: contents have type float64, expected float32\n"
            "  at: kernel elementwise, buffer 1 (a)\n"
            "  hint: convert with .astype('float32')",
        ),
        (
            {1: np.zeros(3, np.float32), 2: np.zeros(4, np.float32)},
            "bad input: contents have 4 elements, expected 3\n  at: kernel elementwise, buffer 2 (b)",
        ),
    ],
)
def test_wrong_contents(buffers, text):
    with pytest.raises(InputError) as error:
        evaluate(elementwise(3), buffers)
    assert str(error.value) == text


def test_wrong_variables():
    kernel = parse_kernel(VARIABLE)
    with pytest.raises(InputError) as error:
        evaluate(kernel, {1: np.zeros(8, np.int32)})
    assert str(error.value) == (
        "bad input: variable 'n' has no value\n  at: kernel prefix\n  hint: pass variables={'n': 0...8}"
    )
    with pytest.raises(InputError) as error:
        evaluate(kernel, {1: np.zeros(8, np.int32)}, {"n": 9})
    assert str(error.value) == (
        "bad input: variable 'n' is 9, it must be between 0 and 8\n  at: kernel prefix"
    )


def misplaced(items):
    from tg2hdl_ir import BufferMeta

    return KernelIR((BufferMeta(0, 2, DType.INT32, True),), LoopIR.from_items(items), name="bad")


def test_load_that_is_no_statement():
    zero = IRConst(0, DType.INT32)
    load = IRBufLoad(0, zero, DType.INT32)
    with pytest.raises(IRVerificationError) as error:
        evaluate(misplaced((IRBufStore(0, zero, load, DType.INT32),)), {})
    assert str(error.value) == (
        "invalid IR: IRBufLoad is used before the loop in which it executes\n  at: kernel bad"
    )


def test_bound_that_is_not_known():
    text = VARIABLE.replace("RANGE i0 < $n", "%9 = LOAD int32 b1[0:int32]\nRANGE i0 < %9")
    with pytest.raises(InputError) as error:
        evaluate(parse_kernel(text), {1: np.zeros(8, np.int32)}, {"n": 1})
    assert str(error.value) == (
        "bad input: a trip count depends on IRBufLoad\n  hint: only constants and variables may decide it"
    )


# Programs


def program(initial=None):
    f = DType.INT32
    buffers = (
        ProgramBuffer("x", f, (2, 3), "input"),
        ProgramBuffer("w", f, (6,), "weight", np.arange(6, dtype=np.int32)),
        ProgramBuffer("t", f, (6,), "temporary"),
        ProgramBuffer("y", f, (3, 2), "output"),
    )
    add, mul = elementwise(6, "add", "int32"), elementwise(6, "mul", "int32")
    calls = (KernelCall(add, (2, 0, 1)), KernelCall(mul, (3, 2, 0)), KernelCall(add, (1, 1, 0)))
    return ProgramIR("net", buffers, calls, (3,))


def test_program_runs_its_kernels_over_shared_buffers():
    x = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    w = np.arange(6, dtype=np.int32)
    out = evaluate_program(program(), {"x": x})
    assert list(out) == ["y", "w"]
    np.testing.assert_array_equal(out["y"], ((x.ravel() + w) * x.ravel()).reshape(3, 2))
    np.testing.assert_array_equal(out["w"], w + x.ravel())
    other = evaluate_program(program(), {"x": x, "w": w * 2})
    np.testing.assert_array_equal(other["y"].ravel(), (x.ravel() + 2 * w) * x.ravel())


def test_state_continues_from_run_to_run():
    x = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    state = {}
    for n in range(1, 4):
        out = evaluate_program(program(), {"x": x}, state=state)
        np.testing.assert_array_equal(out["w"], np.arange(6) + n * x.ravel())
    assert set(state) == {"t", "w", "y"}


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({}, "bad input: an input has no contents\n  at: program net, buffer x\n  hint: pass {'x': array}"),
        (
            {"q": np.zeros(6, np.int32)},
            "bad input: program net has no buffer named 'q'\n  hint: its inputs are x",
        ),
        (
            {"x": np.zeros(6, np.int64)},
            "bad input: contents have type int64, expected int32\n  at: program net, buffer x\n"
            "  hint: convert with .astype('int32')",
        ),
        (
            {"x": np.zeros((3, 2), np.int32)},
            "bad input: contents have shape (3, 2), expected (2, 3)\n  at: program net, buffer x",
        ),
    ],
)
def test_wrong_program_inputs(inputs, text):
    with pytest.raises(InputError) as error:
        evaluate_program(program(), inputs)
    assert str(error.value) == text


def test_registry_without_the_op():
    from tg2hdl_ir import UnsupportedError

    with use_registry(Registry([])), pytest.raises(UnsupportedError, match="unknown op 'add'"):
        evaluate(elementwise(3), {1: np.zeros(3, np.float32), 2: np.zeros(3, np.float32)})
