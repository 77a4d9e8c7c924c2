"""Golden model: kernels and programs in numpy, bit for bit as the hardware computes them."""

from tg2hdl_ir.golden.kernel import evaluate
from tg2hdl_ir.golden.program import evaluate_program

__all__ = ["evaluate", "evaluate_program"]
