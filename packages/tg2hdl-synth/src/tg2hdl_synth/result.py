"""Results of synthesis and place and route."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tg2hdl_synth.families import tools_of
from tg2hdl_synth.families.answers import Estimate
from tg2hdl_synth.netlist import KINDS
from tg2hdl_synth.place import PlaceAndRoute

__all__ = ["CriticalStep", "SynthesisResult"]


_NARROW = 70
"""Columns below which a table is a list."""


@dataclass(frozen=True)
class CriticalStep:
    """A step of the critical path in the user's terms.

    Parameters
    ----------
    what : str
        Kernel, operation or memory.
    net : str
        Its name in the netlist.
    delay : float
        From the start of the path to the end of the step (ns).
    """

    what: str
    net: str
    delay: float


@dataclass(frozen=True)
class SynthesisResult:
    """Fmax, utilization and critical path of a design on a part.

    Parameters
    ----------
    design, part, family : str
        Names.
    speed : int or None
        Speed grade; None for a family without.
    cells : dict of str to int
        Cells by kind before place and route: ``comb`` (LUT sites with carries), ``ff``, ``dsp``, ``bram``.
    by_kernel : dict of str to dict
        The same for each kernel; shared parts (memory ports, host ports) are under ``shared``.
    by_memory : dict of str to int
        Block RAMs of each buffer.
    runs : tuple of PlaceAndRoute
        One per seed; empty in the partial result of a failed flow.
    critical_path : tuple of CriticalStep
        Of the fastest run.
    versions : dict of str to str
        Of the tools.
    folder : path
        Files of the tools.
    estimate : Estimate, optional
        The prediction.
    notes : tuple of str
        Remarks for the report.
    """

    design: str
    part: str
    family: str
    speed: int | None
    cells: dict[str, int]
    by_kernel: dict[str, dict[str, int]]
    by_memory: dict[str, int]
    runs: tuple[PlaceAndRoute, ...]
    critical_path: tuple[CriticalStep, ...]
    versions: dict[str, str]
    folder: Path
    estimate: Estimate | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def fmax(self) -> float:
        """Median over the seeds (MHz); 0 without a run."""
        return float(median([run.fmax for run in self.runs])) if self.runs else 0.0

    @property
    def fmax_range(self) -> tuple[float, float]:
        """Lowest and highest over the seeds (MHz)."""
        found = [run.fmax for run in self.runs] or [0.0]
        return min(found), max(found)

    @property
    def utilization(self) -> dict[str, tuple[int, int]]:
        """Used and available cells by the part's own kinds; of the last run, as seeds hardly change it."""
        return self.runs[-1].utilization if self.runs else {}

    def used(self, kind: str) -> int:
        """Cells of ``comb``, ``ff``, ``dsp`` or ``bram``, after place and route when it ran."""
        tools = tools_of(self.family)
        if not self.runs or kind not in tools.cells:
            return self.cells[kind]
        cells = self.utilization.items()
        return sum(n * tools.counts({"type": t, "parameters": {}}).get(kind, 0) for t, (n, _) in cells)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        low, high = self.fmax_range
        return {
            "design": self.design,
            "part": self.part,
            "speed": self.speed,
            "fmax_mhz": round(self.fmax, 2),
            "fmax_range_mhz": [round(low, 2), round(high, 2)],
            "seeds": [run.seed for run in self.runs],
            "placers": [run.placer for run in self.runs],
            **{kind: self.used(kind) for kind in KINDS},
            "utilization": {k: list(v) for k, v in self.utilization.items()},
            "by_kernel": self.by_kernel,
            "by_memory": self.by_memory,
            "critical_path": [asdict(step) for step in self.critical_path],
            "estimate": asdict(self.estimate) if self.estimate else None,
            "versions": self.versions,
            "notes": list(self.notes),
        }

    def format(self, width: int = 80) -> str:
        """Report as text; in fewer than 70 columns the cells are a list, not a table."""
        low, high = self.fmax_range
        lines = [f"{self.design} on {self.part}" + (f", speed {self.speed}" if self.speed else "")]
        if self.runs:
            lines.append(f"Fmax {self.fmax:.1f} MHz (median of {len(self.runs)}, {low:.1f} to {high:.1f})")
        if self.estimate:
            lines.append(self.estimate.format())
        rows = {**self.by_kernel, "total": {kind: self.used(kind) for kind in KINDS}}
        if width < _NARROW:
            for name, counts in rows.items():
                lines += [f"  {name}", "    " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS)]
        else:
            names = max(map(len, rows))
            lines.append(f"  {'':{names}}" + "".join(f"{kind:>8}" for kind in KINDS))
            lines += [
                f"  {name:{names}}" + "".join(f"{counts[kind]:>8}" for kind in KINDS)
                for name, counts in rows.items()
            ]
        if self.by_memory:
            lines.append("block RAM: " + ", ".join(f"{k} {v}" for k, v in self.by_memory.items()))
        if self.critical_path:
            lines.append("critical path (ns):")
            lines += [f"  {step.delay:6.2f}  {step.what}" for step in self.critical_path]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)
