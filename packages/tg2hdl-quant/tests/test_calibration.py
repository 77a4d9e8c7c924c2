"""Methods that choose ranges."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import PluginError, registry, resolve
from tg2hdl_quant.graph.ranges import Observed, calibration_method

RNG = np.random.default_rng(3)
GAUSS = RNG.normal(size=50_000)
OUTLIER = np.append(GAUSS, [100.0])
METHODS = [q.name for q in registry().quantizers() if q.calibrate is not None]


def calibrate(name: str, values: np.ndarray, bits: int = 8) -> tuple[float, float]:
    return resolve(registry().quantizer(name).calibrate)(values, bits)


def test_the_methods_of_the_documentation_are_registered() -> None:
    assert {"minmax", "percentile", "mse", "entropy"} <= set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_range_lies_within_the_values_and_is_the_same_each_time(name: str) -> None:
    low, high = calibrate(name, GAUSS)
    assert GAUSS.min() <= low < 0 < high <= GAUSS.max()
    assert (low, high) == calibrate(name, GAUSS)


@pytest.mark.parametrize("name", METHODS)
def test_zeros_have_no_range(name: str) -> None:
    assert calibrate(name, np.zeros(100)) == (0.0, 0.0)


def test_minmax_keeps_the_outlier_and_percentile_does_not() -> None:
    assert calibrate("minmax", OUTLIER)[1] == 100.0
    assert calibrate("percentile", OUTLIER)[1] < 5


@pytest.mark.parametrize("bits", [4, 8])
def test_mse_errs_no_more_than_any_share_of_the_range(bits: int) -> None:
    bound = float(np.abs(OUTLIER).max())
    limit = (1 << (bits - 1)) - 1

    def error(high: float) -> float:
        step = high / limit
        return float(np.square(np.clip(np.rint(OUTLIER / step), -limit, limit) * step - OUTLIER).mean())

    chosen = max(-calibrate("mse", OUTLIER, bits)[0], calibrate("mse", OUTLIER, bits)[1])
    assert error(chosen) <= 1.02 * min(error(bound * share) for share in np.linspace(0.2, 1, 33))


def test_entropy_leaves_a_far_outlier_out() -> None:
    assert calibrate("entropy", OUTLIER)[1] < 50


def test_a_range_that_is_not_finite_names_the_method() -> None:
    observed = Observed(np.array([np.nan]), 0.0, 0.0)
    with pytest.raises(PluginError) as error:
        calibration_method("minmax")(observed, 8)
    assert ": calibrate gave (nan, nan), not a finite range (low, high)" in error.value.message
