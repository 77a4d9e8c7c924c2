"""Results of tool runs on disk; the files of a failed run are kept for its logs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from tg2hdl_ir import Tg2hdlError
from tg2hdl_ir.content_cache import ContentCache, Found

__all__ = ["recorded_runs", "run_cached"]

_recorded: ContextVar[list[tuple[str, Path]] | None] = ContextVar("recorded", default=None)


@contextmanager
def recorded_runs() -> Iterator[list[tuple[str, Path]]]:
    """Keys and folders of the runs inside of the context, cached ones too."""
    runs: list[tuple[str, Path]] = []
    token = _recorded.set(runs)
    try:
        yield runs
    finally:
        _recorded.reset(token)


def run_cached(key: str, run: Callable[[Path], object]) -> Found:
    """Return the folder with the files of a run, and whether it existed before; it is created when missing.

    A run that fails leaves its files in a folder whose name ends in ``-failed``, for its logs; hints name that folder.

    Parameters
    ----------
    key : str
        Hash of all that decides the files.
    run : callable
        Writes the files into an empty folder.
    """
    found = _run_cached(key, run)
    if (runs := _recorded.get()) is not None:
        runs.append((key, found.folder))
    return found


def _run_cached(key: str, run: Callable[[Path], object]) -> Found:
    cache = ContentCache("synth")
    failed = cache.directory / f"{key}-failed"

    def keep_logs(folder: Path) -> None:
        try:
            run(folder)
        except BaseException as error:
            if isinstance(error, Tg2hdlError) and error.hint:
                error.hint = error.hint.replace(str(folder), str(failed))
            _replace(folder, failed)
            raise

    return cache.get(key, keep_logs)


def _replace(folder: Path, place: Path) -> None:
    old = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
    with suppress(OSError):
        place.rename(old / "entry")
    with suppress(OSError):  # another process was first
        folder.rename(place)
    shutil.rmtree(old, ignore_errors=True)
