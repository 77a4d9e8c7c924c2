"""The data of a section of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel
    from tg2hdl_synth import SynthesisResult

__all__ = ["ReportContext"]


@dataclass(frozen=True, eq=False)
class ReportContext:
    """Argument of a section's `render`.

    Parameters
    ----------
    accelerator : CompiledModel
        The compiled model, with its design and plans.
    facts : dict
        The figures of the report as plain data, as in ``report.json``. See `tg2hdl.report.gather_facts`.
    synthesis : SynthesisResult, optional
        Place and route, when it was asked for.
    earlier : dict, optional
        The facts of the report to compare with.
    """

    accelerator: CompiledModel
    facts: dict[str, Any]
    synthesis: SynthesisResult | None = None
    earlier: dict[str, Any] | None = None
