"""Sums with one rounding: FMSUB and its kin, dot products, complex products and the accumulator."""

import random

import numpy as np
import pytest

from tg2hdl_fp32 import (
    BF16,
    FP8_E4M3,
    FP8_E5M2,
    FP16,
    FP32,
    FP64,
    Accumulator,
    ComplexMul,
    DotProduct,
    FloatParameterError,
    FloatTypeError,
    Fmsub,
    Fnmadd,
    Fnmsub,
    Format,
    RoundingMode,
)
from tg2hdl_fp32.testing import BitSlicedSimulation, check_unit, reference, special_patterns, vectors

FUSED = {"fmsub": Fmsub, "fnmadd": Fnmadd, "fnmsub": Fnmsub}


def mixed(fmt, arity, count, seed=1):
    """Special values against each other, values near in exponent, and sums that nearly cancel."""
    rng = np.random.default_rng(seed)
    special = rng.choice(np.array(special_patterns(fmt), np.uint64), (arity, count))
    near = np.array(vectors(fmt, arity, count, seed=seed, specials=False))
    close = near.copy()
    for k in range(2, arity):
        close[k] = close[k - 2] + rng.integers(0, 3, count, dtype=np.uint64)
    mask = np.uint64(2 * fmt.sign_mask - 1)
    return tuple(np.concatenate([s, n, c & mask]) for s, n, c in zip(special, near, close, strict=True))


@pytest.mark.parametrize("operation", FUSED)
@pytest.mark.parametrize("fmt", [FP32, FP8_E4M3, Format(6, 10)], ids=str)
def test_signs_of_a_fused_multiply_add(operation, fmt):
    for mode in (RoundingMode.RNE, RoundingMode.RDN):
        core = FUSED[operation](fmt, profile="comb", rounding=mode)
        outcome = check_unit(core, operation, fmt, rounding=mode, operands=mixed(fmt, 3, 150))
        assert outcome, outcome.examples


@pytest.mark.parametrize("mode", RoundingMode, ids=str)
def test_every_sum_of_two_products(mode):
    fmt = Format(2, 2)
    every = tuple(grid.ravel().astype(np.uint64) for grid in np.meshgrid(*[np.arange(16)] * 4))
    core = DotProduct(fmt, profile="comb", rounding=mode, signs="+-")
    outcome = check_unit(core, "dot", fmt, rounding=mode, operands=every, signs="+-")
    assert outcome.vectors == 1 << 16
    assert outcome, outcome.examples


@pytest.mark.parametrize(
    ("fmt", "terms", "mode"),
    [
        *((fmt, 2, mode) for fmt in (FP32, FP16, FP8_E4M3) for mode in RoundingMode),
        (BF16, 2, RoundingMode.RDN),
        (FP64, 2, RoundingMode.RNE),
        (Format(3, 8), 2, RoundingMode.RUP),
        (FP16, 3, RoundingMode.RDN),
        (FP16, 8, RoundingMode.RNE),
        (FP8_E5M2, 4, RoundingMode.RUP),
        (FP8_E4M3, 16, RoundingMode.RNE),
        (FP32, 3, RoundingMode.RNE),
    ],
    ids=str,
)
def test_dot_product(fmt, terms, mode):
    signs = "".join(random.Random(f"{fmt} {terms} {mode}").choice("+-") for _ in range(terms))
    core = DotProduct(fmt, signs=signs, profile="comb", rounding=mode)
    outcome = check_unit(core, "dot", fmt, rounding=mode, operands=mixed(fmt, 2 * terms, 150), signs=signs)
    assert outcome, outcome.examples


@pytest.mark.parametrize(("fmt", "terms"), [(FP32, 2), (FP16, 4)], ids=str)
@pytest.mark.parametrize("target", ["generic", "ecp5_model"])
def test_pipelined_dot_product(fmt, terms, target):
    for parameters in ({"profile": "fast"}, {"profile": "balanced"}, {"stages": 3}):
        core = DotProduct(fmt, terms, target=target, **parameters)
        assert core.ii == 1
        assert core.latency > 2
        outcome = check_unit(core, "dot", fmt, operands=mixed(fmt, 2 * terms, 40))
        assert outcome, outcome.examples


def test_dot_product_with_a_result_of_another_format():
    wide = Format(8, 14)
    core = DotProduct(FP16, signs="+-", result=wide, profile="comb")
    columns = mixed(FP16, 4, 100)

    def expected(*bits):
        exact = reference(
            "dot", Format(12, 60), *(Format(12, 60).encode(FP16.decode(b)) for b in bits), signs="+-"
        )
        return reference("float_to_float", Format(12, 60), exact, result=wide)

    outcome = check_unit(core, "dot", FP16, operands=columns, expected=expected)
    assert outcome, outcome.examples


def test_dot_product_saturates_and_raises_flags():
    core = DotProduct(FP8_E4M3, profile="comb", saturate=True, flags=True)
    big, one = FP8_E4M3.max_finite, FP8_E4M3.one
    rows = [(big, big, big, big), (one, one, one, one), (1, 1, 1, 1), (FP8_E4M3.nan, 0, 0, 0)]
    simulation = BitSlicedSimulation(core, len(rows))
    for name, column in zip(core.operands, zip(*rows, strict=True), strict=True):
        simulation.set(name, np.array(column, np.uint64))
    assert simulation.get("result").tolist() == [big, FP8_E4M3.encode(2.0), 0, FP8_E4M3.nan]
    # Overflow with inexact; exact; underflow with inexact; a quiet NaN.
    assert simulation.get("flags").tolist() == [0b00101, 0, 0b00011, 0]


def test_complex_product():
    core = ComplexMul(FP16, profile="balanced", rounding="dynamic", flags=True)
    columns = mixed(FP16, 4, 100)
    simulation = BitSlicedSimulation(core, len(columns[0]))
    for name, column in zip(core.operands, columns, strict=True):
        simulation.set(name, column)
    simulation.set("rm", RoundingMode.RUP.value)
    simulation.tick(core.latency)
    assert core.ii == 1
    re, im = simulation.get("re").tolist(), simulation.get("im").tolist()
    for k, row in enumerate(zip(*columns, strict=True)):
        a, b, c, d = map(int, row)
        mode = {"rounding": RoundingMode.RUP}
        assert re[k] == reference("dot", FP16, a, c, b, d, signs="+-", **mode)
        assert im[k] == reference("dot", FP16, a, d, b, c, **mode)


def accumulated(core, values, first, seed=1):
    """Results for a grid of values (steps, lanes), while `en` pauses at random."""
    rng = np.random.default_rng(seed)
    steps, lanes = values.shape
    simulation = BitSlicedSimulation(core, lanes)
    results = np.zeros_like(values)
    for step in range(steps + core.latency):
        k = min(step, steps - 1)
        if core.latency and rng.random() < 0.3:
            simulation.set("en", 0)
            simulation.set("a", values[k] ^ np.uint64(1))
            simulation.set("first", ~first[k])
            simulation.tick()
            simulation.set("en", 1)
        simulation.set("a", values[k])
        simulation.set("first", first[k])
        if step >= core.latency:
            results[step - core.latency] = simulation.get("result")
        simulation.tick()
    return results


@pytest.mark.parametrize(
    ("fmt", "mode", "parameters"),
    [
        (FP32, RoundingMode.RNE, {"profile": "balanced"}),
        (FP32, RoundingMode.RDN, {"profile": "comb"}),
        (FP16, RoundingMode.RUP, {"profile": "fast"}),
        (FP16, RoundingMode.RTZ, {"stages": 2}),
        (FP8_E4M3, RoundingMode.RDN, {"profile": "balanced", "saturate": True}),
        (FP8_E5M2, RoundingMode.RMM, {"profile": "small"}),
    ],
    ids=str,
)
def test_accumulator(fmt, mode, parameters):
    rng = np.random.default_rng(5)
    steps, lanes = 20, 24
    core = Accumulator(fmt, 32, rounding=mode, **parameters)
    values = rng.choice(vectors(fmt, 1, 3000)[0], (steps, lanes)).astype(np.uint64)
    # Lanes of finite values, of zeros, and the rest, where infinities and NaN soon win.
    finite = values & np.uint64(fmt.sign_mask - 1)
    sign = values & np.uint64(fmt.sign_mask)
    values[:, 4:] = (finite % np.uint64(fmt.max_finite) | sign)[:, 4:]
    values[:, :2] = sign[:, :2]
    first = rng.random((steps, lanes)) < 0.15
    first[0] = True
    got = accumulated(core, values, first)
    options = {"rounding": mode, "saturate": parameters.get("saturate", False)}
    for lane in range(lanes):
        begin = 0
        for step in range(steps):
            begin = step if first[step, lane] else begin
            terms = [x for v in values[begin : step + 1, lane] for x in (int(v), fmt.one)]
            assert int(got[step, lane]) == reference("dot", fmt, *terms, **options)


def test_a_large_sum_does_not_leave_the_accumulator():
    """As many of the largest numbers as it is made for, and as many taken away again."""
    core = Accumulator(FP16, 64, profile="comb")
    values = np.array([[FP16.max_finite]] * 63 + [[FP16.max_finite | FP16.sign_mask]] * 62, np.uint64)
    got = accumulated(core, values, np.arange(125)[:, None] == 0)
    assert got[62, 0] == FP16.infinity
    assert got[124, 0] == FP16.max_finite


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DotProduct(FP16, 1), "a dot product of 1 terms is not possible; use 2 to 64"),
        (lambda: DotProduct(FP16, 3, signs="+-"), "signs '+-' do not suit 3 terms; use + or - for each"),
        (lambda: DotProduct(FP16, signs="+*"), "signs '+*' do not suit 2 terms; use + or - for each"),
        (lambda: DotProduct(FP16, result=16), "result must be a Format, such as FP16, not 16"),
        (
            lambda: DotProduct(FP16, result="FP32"),
            "a dot product of FP16 cannot have a result of FP32; use a significand of 21 bits or less",
        ),
        (lambda: Accumulator(FP16, 1), "an accumulator of 1 terms is not possible; use 2 or more"),
    ],
)
def test_refused(make, message):
    with pytest.raises((FloatParameterError, FloatTypeError)) as caught:
        make()
    assert str(caught.value) == message
