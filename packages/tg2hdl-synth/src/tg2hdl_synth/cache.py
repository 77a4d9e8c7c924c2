"""Results of tool runs on disk, by content."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import platformdirs

from tg2hdl_ir.errors import Tg2hdlError

__all__ = ["content_key", "run_cached"]

_COMPLETE = "complete"


def content_key(*parts: str) -> str:
    """Return a key that changes with any of the parts."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()[:32]


def _directory() -> Path:
    base = os.environ.get("TG2HDL_CACHE_DIR") or platformdirs.user_cache_dir("tg2hdl", appauthor=False)
    return Path(base) / "synth"


def run_cached(key: str, run: Callable[[Path], object]) -> tuple[Path, bool]:
    """Folder with the files of a run, made when it is not there; and whether it was.

    A run that fails leaves its files in a folder whose name ends in ``-failed``, for its logs; hints name that folder.
    """
    base = _directory()
    entry = base / key
    if (entry / _COMPLETE).is_file():
        with suppress(OSError):
            os.utime(entry)
        return entry, True
    base.mkdir(parents=True, exist_ok=True)
    # A folder of its own: another process may be at the same work.
    work = Path(tempfile.mkdtemp(prefix=".run-", dir=base))
    failed = base / f"{key}-failed"
    try:
        run(work)
    except BaseException as error:
        if isinstance(error, Tg2hdlError) and error.hint:
            error.hint = error.hint.replace(str(work), str(failed))
        _replace(work, failed)
        raise
    (work / _COMPLETE).touch()
    try:
        os.rename(work, entry)
    except OSError:
        # Another process was first, and somebody may be reading what it left.
        if (entry / _COMPLETE).is_file():
            shutil.rmtree(work, ignore_errors=True)
        else:
            _replace(work, entry)
    return entry, False


def _replace(folder: Path, place: Path) -> None:
    old = Path(tempfile.mkdtemp(prefix=".old-", dir=place.parent))
    with suppress(OSError):
        os.rename(place, old / "entry")
    with suppress(OSError):  # another process was first
        os.rename(folder, place)
    shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
