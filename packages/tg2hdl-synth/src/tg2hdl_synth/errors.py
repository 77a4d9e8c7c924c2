"""Errors of synthesis; they keep the reports that were made before."""

from __future__ import annotations

from typing import Any, Protocol

from tg2hdl_ir import CapacityError, Tg2hdlError

__all__ = ["DesignTooLargeError", "PartialResult", "SynthesisError"]


class PartialResult(Protocol):
    """Results from before the error."""

    def format(self) -> str:
        """Report as text."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""


class SynthesisError(Tg2hdlError):
    """A tool failed; `partial` has the reports of the steps that succeeded."""

    kind = "synthesis"
    partial: PartialResult | None = None


class DesignTooLargeError(CapacityError):
    """A design needs more than its part has; `partial` has the utilization."""

    partial: PartialResult | None = None
