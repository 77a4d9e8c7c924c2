"""FST waveforms: written as VCD, and converted by GTKWave's ``vcd2fst`` when the simulation is closed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tg2hdl_ir import SimulationError, ToolMissingError

__all__ = ["convert_to_fst", "is_fst", "vcd_beside"]

CONVERTER = "vcd2fst"


def is_fst(path: Path | None) -> bool:
    """Whether a waveform is to be written in GTKWave's compressed format."""
    return path is not None and path.suffix == ".fst"


def vcd_beside(path: Path) -> Path:
    """Return the VCD file that an FST file is made from.

    Raises
    ------
    ToolMissingError
        When the converter is not installed; no package on PyPI has it.
    """
    if shutil.which(CONVERTER) is None:
        raise ToolMissingError(
            f"an FST waveform needs {CONVERTER}, a program of GTKWave",
            notes=(f"looked for: {CONVERTER} on PATH", f"wanted: {str(path)!r}"),
            hint="install GTKWave, or give a path that ends in .vcd, which Surfer and GTKWave read too",
        )
    return path.with_name(path.name + ".vcd")


def convert_to_fst(source: Path, path: Path) -> Callable[[], None]:
    """Return the function that converts a finished VCD file, and removes it.

    Parameters
    ----------
    source : Path
        The VCD file.
    path : Path
        The FST file.
    """

    def convert() -> None:
        result = subprocess.run([CONVERTER, str(source), str(path)], capture_output=True, text=True)
        if result.returncode:
            raise SimulationError(
                f"{CONVERTER} failed with exit status {result.returncode}",
                notes=tuple((result.stdout + result.stderr).splitlines()[-4:]),
                hint=f"the waveform is in {str(source)!r}",
            )
        source.unlink()

    return convert
