"""Kernels that run several times on one core: which they are, which buffers they reach, and the table of their runs."""

from __future__ import annotations

from tg2hdl_top.repeats.find import Repeats, find_repeats

__all__ = ["Repeats", "find_repeats"]
