"""The exact references themselves, against numpy, ml_dtypes and softfloat."""

import ml_dtypes
import numpy as np
import pytest

from tg2hdl_fp32 import BF16, FP8_E4M3, FP8_E5M2, FP16, FP32, RoundingMode
from tg2hdl_fp32.testing import reference, special_patterns, vectors


def patterns_of(array, fmt):
    bits = fmt.from_numpy(array).astype(np.uint64)
    return np.where(np.isnan(array.astype(np.float32)), np.uint64(fmt.nan), bits)


@pytest.mark.parametrize("fmt", [FP32, FP16], ids=str)
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div", "sqrt"])
def test_numpy_agrees(fmt, operation):
    a, b = vectors(fmt, 2, 500)
    x, y = fmt.to_numpy(a), fmt.to_numpy(b)
    with np.errstate(all="ignore"):
        compute = {
            "add": lambda: x + y,
            "sub": lambda: x - y,
            "mul": lambda: x * y,
            "div": lambda: x / y,
            "sqrt": lambda: np.sqrt(x),
        }
        expected = patterns_of(compute[operation](), fmt)
    columns = (a,) if operation == "sqrt" else (a, b)
    got = [reference(operation, fmt, *map(int, row)) for row in zip(*columns, strict=True)]
    np.testing.assert_array_equal(np.array(got, np.uint64), expected)


@pytest.mark.parametrize("fmt", [BF16, FP8_E4M3, FP8_E5M2, FP16], ids=str)
def test_ml_dtypes_agrees_on_conversions(fmt):
    (a,) = vectors(FP32, 1, 3000)
    with np.errstate(all="ignore"):
        expected = patterns_of(FP32.to_numpy(a).astype(fmt.numpy_dtype()), fmt)
    got = [reference("float_to_float", FP32, int(bits), result=fmt) for bits in a]
    np.testing.assert_array_equal(np.array(got, np.uint64), expected)
    assert ml_dtypes.finfo(ml_dtypes.float8_e4m3fn).max == FP8_E4M3.decode(FP8_E4M3.max_finite)


MODES = {
    RoundingMode.RNE: "round_near_even",
    RoundingMode.RTZ: "round_minMag",
    RoundingMode.RDN: "round_min",
    RoundingMode.RUP: "round_max",
    RoundingMode.RMM: "round_near_maxMag",
}


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div", "fma", "round"])
def test_softfloat_agrees(operation, mode):
    softfloat = pytest.importorskip("softfloat", reason="PyPI's softfloat builds with a C compiler")
    softfloat.cvar.softfloat_roundingMode = getattr(softfloat, f"softfloat_{MODES[mode]}")
    function = {
        "fma": "f32_mulAdd",
        "round": "f32_roundToInt",
    }.get(operation, f"f32_{operation}")
    arity = {"fma": 3, "round": 1}.get(operation, 2)
    more = (getattr(softfloat, f"softfloat_{MODES[mode]}"), False) if operation == "round" else ()
    for row in zip(*(c.tolist() for c in vectors(FP32, arity, 300, specials=arity == 1)), strict=True):
        operands = [softfloat.float32_t() for _ in row]
        for operand, bits in zip(operands, row, strict=True):
            operand.v = bits
        bits = getattr(softfloat, function)(*operands, *more).v
        wanted = FP32.nan if FP32.is_nan(bits) else bits
        assert reference(operation, FP32, *row, rounding=mode) == wanted, row
    softfloat.cvar.softfloat_roundingMode = softfloat.softfloat_round_near_even


def test_special_patterns_have_both_signs():
    for fmt in (FP32, FP8_E4M3):
        specials = special_patterns(fmt)
        assert len(specials) == len(set(specials))
        assert {bits ^ fmt.sign_mask for bits in specials} == set(specials)


def test_every_core_that_is_not_correctly_rounded_has_a_software_model():
    from tg2hdl_fp32 import CATALOG, golden
    from tg2hdl_fp32.catalog_functions import MODELLED

    assert set(golden.__all__) == MODELLED
    rounded = {"exact", "correctly rounded"}
    assert {entry.op for entry in CATALOG if entry.accuracy not in rounded} == MODELLED
