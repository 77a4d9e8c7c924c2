"""Compiled models on disk, by content."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from tg2hdl_ir.errors import InputError

__all__ = ["ModelCache", "content_key"]

log = logging.getLogger("tg2hdl_sim")

LIBRARY, MANIFEST = "model.so", "manifest.json"
DEFAULT_LIMIT = 1 << 29


def content_key(*parts: str) -> str:
    """Return a key that changes with any of the parts."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()[:40]


class ModelCache:
    """A directory of compiled models.

    An entry is a directory with the library and its checksum.  It is built beside and renamed into place, so
    that processes never see half of it, and checked before it is used.

    Parameters
    ----------
    directory : Path, optional
        By default ``TG2HDL_CACHE_DIR``, else the user's cache directory.
    limit : int, optional
        Bytes; the entries that were used longest ago go first.  By default ``TG2HDL_CACHE_LIMIT`` or 512 MiB.
    """

    def __init__(self, directory: Path | None = None, limit: int | None = None) -> None:
        if directory is None:
            base = os.environ.get("TG2HDL_CACHE_DIR") or platformdirs.user_cache_dir(
                "tg2hdl", appauthor=False
            )
            directory = Path(base) / "sim"
        self.directory = directory
        self.limit = _limit() if limit is None else limit

    def lookup(self, key: str) -> Path | None:
        """Return the library of a key; None without an intact one."""
        entry = self.directory / key
        library = entry / LIBRARY
        try:
            manifest = json.loads((entry / MANIFEST).read_text())
            intact = manifest["sha256"] == _checksum(library)
        except FileNotFoundError:
            intact = False
        except (OSError, ValueError, KeyError, TypeError):
            intact = False
        if not intact:
            if entry.exists():
                log.warning("the cached model %s is damaged and will be rebuilt", key)
            return None
        with suppress(OSError):
            os.utime(entry / MANIFEST)
        return library

    def get(self, key: str, build: Callable[[Path], Path]) -> Path:
        """Return the library of a key, built when needed.

        Parameters
        ----------
        key : str
            From `content_key`.
        build : callable
            Makes the library in an empty directory and returns its path; nothing stays when it raises.
        """
        library = self.lookup(key)
        if library is not None:
            return library
        self.directory.mkdir(parents=True, exist_ok=True)
        with _temporary(self.directory) as work:
            built = build(work)
            entry = work / "entry"
            entry.mkdir()
            os.replace(built, entry / LIBRARY)
            (entry / MANIFEST).write_text(json.dumps({"sha256": _checksum(entry / LIBRARY)}))
            self._publish(entry, key, work / "old")
        self._evict(keep=key)
        library = self.lookup(key)
        if library is None:
            raise InputError(
                f"the model cache {self.directory} does not keep what is written to it",
                hint="set TG2HDL_CACHE_DIR to a writable directory, or pass cache=False",
            )
        return library

    def _publish(self, entry: Path, key: str, old: Path) -> None:
        for _ in range(8):
            with suppress(OSError):
                os.rename(entry, self.directory / key)
                return
            if self.lookup(key) is not None:  # another process was first
                return
            with suppress(OSError):
                os.rename(self.directory / key, old)
                shutil.rmtree(old, ignore_errors=True)

    def _evict(self, keep: str) -> None:
        entries = []
        for manifest in self.directory.glob(f"*/{MANIFEST}"):
            with suppress(OSError):
                size = sum(f.stat().st_size for f in manifest.parent.iterdir())
                entries.append((manifest.stat().st_mtime, manifest.parent, size))
        total = sum(size for _, _, size in entries)
        for _, entry, size in sorted(entries):
            if total <= self.limit:
                break
            if entry.name != keep:
                shutil.rmtree(entry, ignore_errors=True)
                total -= size


def _limit() -> int:
    text = os.environ.get("TG2HDL_CACHE_LIMIT")
    if not text:
        return DEFAULT_LIMIT
    if not text.isdigit():
        raise InputError(
            f"TG2HDL_CACHE_LIMIT is {text!r}, not a number of bytes", hint=f"the default is {DEFAULT_LIMIT}"
        )
    return int(text)


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def _temporary(directory: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix=".build-", dir=directory))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
