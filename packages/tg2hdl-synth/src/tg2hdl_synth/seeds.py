"""Seeds of place and route on several workers, whose results become entries of the cache here."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from tg2hdl_ir import TargetDef, Tg2hdlError
from tg2hdl_ir.content_cache import MANIFEST, ContentCache
from tg2hdl_ir.workers import Workers
from tg2hdl_synth.cache import recorded_runs
from tg2hdl_synth.families import tools_of
from tg2hdl_synth.netlist import Netlist
from tg2hdl_synth.tools import Progress

__all__ = ["place_seeds"]

_Files: TypeAlias = dict[str, bytes]


@dataclass(frozen=True)
class _SeedJob:
    """What all seeds share: the netlist with its files, and the options of place and route."""

    netlist: Netlist
    files: _Files
    part: TargetDef
    options: Mapping[str, Any]


def place_seeds(
    netlist: Netlist, part: TargetDef, seeds: int, workers: Workers, progress: Progress, **options: Any
) -> None:
    """Place and route the seeds from 1 on workers; the same calls here then find their results in the cache.

    A seed that fails is left to the call here, which raises its error.

    Parameters
    ----------
    options
        Further arguments of `Family.place`.
    """
    job = _SeedJob(netlist, _read(netlist.folder), part, options)
    cache = ContentCache("synth")
    for done, (number, runs) in enumerate(workers.run(_place, range(1, seeds + 1), job), 1):
        for key, files in runs.items():
            cache.get(key, lambda folder, files=files: _write(folder, files))  # type: ignore[misc]
        progress(f"seed {number + 1} placed and routed, {done} of {seeds}")


def _place(job: _SeedJob, seed: int) -> dict[str, _Files]:
    """Files of the runs of one seed, by their keys in the cache."""
    with tempfile.TemporaryDirectory() as place, recorded_runs() as runs:
        folder = Path(place)
        _write(folder, job.files)
        netlist = replace(job.netlist, folder=folder)
        try:
            tools_of(job.part.family).place(
                netlist, job.part, seed=seed, progress=lambda message: None, **job.options
            )
        except Tg2hdlError:
            return {}
        return {key: _read(found) for key, found in runs}


def _read(folder: Path) -> _Files:
    files = (f for f in folder.rglob("*") if f.is_file() and f.name != MANIFEST)
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in files}


def _write(folder: Path, files: _Files) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
