"""Random integer kernels: simulated bits and cycles against golden model and prediction."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.testing.strategies import kernels
from tg2hdl_lower import plan_kernel

INTEGERS = (DType.INT32, DType.INT8, DType.UINT16)


@settings(
    max_examples=20,
    phases=[Phase.generate],
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=kernels(types=INTEGERS))
def test_random_kernels(case, same_as_golden):
    kernel, buffers, variables = case
    same_as_golden(kernel, plan_kernel(kernel), buffers, variables)
