"""All programs that must run, by name."""

from tg2hdl_backend.testing import elementwise, models, tensors
from tg2hdl_backend.testing.registry import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program", "elementwise", "models", "tensors"]
