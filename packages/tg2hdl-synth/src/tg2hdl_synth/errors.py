"""Errors of synthesis; they keep the reports that were made before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.errors import CapacityError, Tg2hdlError

if TYPE_CHECKING:
    from tg2hdl_synth.result import SynthesisResult

__all__ = ["DesignTooLargeError", "SynthesisError"]


class SynthesisError(Tg2hdlError):
    """A tool that fails; `partial` has the reports of the steps that worked."""

    kind = "synthesis"
    partial: SynthesisResult | None = None


class DesignTooLargeError(CapacityError):
    """A design that needs more than its target has; `partial` has the utilization."""

    partial: SynthesisResult | None = None
