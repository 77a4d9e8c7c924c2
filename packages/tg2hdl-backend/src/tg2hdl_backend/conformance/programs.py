"""All programs that must run, by name."""

from tg2hdl_backend.conformance import elementwise, models, tensors
from tg2hdl_backend.conformance.registry import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program", "elementwise", "models", "tensors"]
