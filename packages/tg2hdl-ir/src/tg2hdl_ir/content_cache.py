"""Results on disk by content: compiled simulations, netlists, plans.

An entry is a folder with a manifest of checksums.  It is built under another name and then renamed, so that no process
sees an incomplete entry, and every file is checked before use.  All kinds share one size limit; the least recently used
entries are removed first.  Folders that others could have written are not used, see `cache_folder`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tg2hdl_ir.cache_folder import cache_root, distrust, usable_folder
from tg2hdl_ir.errors import InputError

__all__ = ["CacheEntry", "ContentCache", "Found", "cache_entries", "cache_root", "clear_cache", "content_key"]

MANIFEST, BLOB = "manifest.json", "blob"
DEFAULT_LIMIT = 1 << 31
_ABANDONED = 24 * 3600.0
"""Age of an unfinished folder whose process must have ended (seconds)."""


def content_key(*parts: str | bytes) -> str:
    """Return a key that changes with any of the parts, and with where one ends and the next begins."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()[:40]


class Found(NamedTuple):
    """Folder of an entry, and whether it was there before."""

    folder: Path
    cached: bool


@dataclass(frozen=True)
class CacheEntry:
    """An entry on disk.

    Parameters
    ----------
    size : int
        Bytes.
    used : float
        Time of the last use (seconds since the epoch).
    """

    kind: str
    key: str
    folder: Path
    size: int
    used: float


class ContentCache:
    """Entries of one kind.

    Parameters
    ----------
    kind : str
        Subfolder, e.g. ``sim``.
    root : Path, optional
        Folder of all kinds, by default `cache_root`.
    limit : int, optional
        Bytes of all kinds together; by default ``TG2HDL_CACHE_LIMIT`` or 2 GiB.

    Raises
    ------
    InputError
        When ``TG2HDL_CACHE_LIMIT`` is not a number of bytes.
    """

    def __init__(self, kind: str, *, root: Path | None = None, limit: int | None = None) -> None:
        self.root = cache_root() if root is None else root
        self.kind = kind
        self.limit = _limit() if limit is None else limit

    def lookup(self, key: str) -> Path | None:
        """Return the folder of an entry, None without an intact one; counts as a use."""
        kept = self.root / self.kind
        if not (distrust(self.root) or distrust(kept)) and _is_intact(kept / key):
            folder = kept / key
        elif not _is_intact(folder := self.directory / key):
            return None
        with suppress(OSError):
            os.utime(folder / MANIFEST)
        return folder

    @property
    def directory(self) -> Path:
        """Folder of the entries of this kind; a temporary one where the cache cannot be used."""
        root = usable_folder(self.root)
        return usable_folder(root / self.kind)

    def get(self, key: str, build: Callable[[Path], object]) -> Found:
        """Return the folder of an entry, built when it is missing or damaged.

        Parameters
        ----------
        build : callable
            Writes the files of the entry into an empty folder; nothing stays when it raises.

        Raises
        ------
        InputError
            When nothing can be written, not even to a temporary folder.
        """
        folder = self.lookup(key)
        if folder is not None:
            return Found(folder, True)
        try:
            work = Path(tempfile.mkdtemp(prefix=".new-", dir=self.directory))
        except OSError as error:
            raise self._unwritable() from error
        try:
            build(work)
            _write_manifest(work)
            self._publish(work, key)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        self._evict(keep=key)
        folder = self.lookup(key)
        if folder is None:
            raise self._unwritable()
        return Found(folder, False)

    def read(self, key: str) -> bytes | None:
        """Return a blob that `write` has stored; None when there is none or it is damaged."""
        folder = self.lookup(key)
        try:
            return None if folder is None else (folder / BLOB).read_bytes()
        except OSError:
            return None

    def write(self, key: str, blob: bytes) -> None:
        """Store a blob.  A full disk or a folder that cannot be written is not an error: the blob is not kept.

        Parameters
        ----------
        key : str
            Hash of everything that decides the blob.
        blob : bytes
        """
        with suppress(OSError, InputError):
            self.get(key, lambda folder: (folder / BLOB).write_bytes(blob))

    def _unwritable(self) -> InputError:
        return InputError(
            f"the cache {self.directory} does not keep files that are written to it",
            hint="set TG2HDL_CACHE_DIR to a writable folder",
        )

    def _publish(self, work: Path, key: str) -> None:
        place = self.directory / key
        for _ in range(8):
            with suppress(OSError):
                os.rename(work, place)
                return
            if _is_intact(place):  # another process was first, and may be reading it
                return
            with suppress(OSError), _discarded(self.directory) as old:
                os.rename(place, old / "entry")

    def _evict(self, keep: str) -> None:
        entries = sorted(cache_entries(self.root), key=lambda entry: entry.used)
        total = sum(entry.size for entry in entries)
        for entry in entries:
            if total <= self.limit:
                break
            if entry.folder != self.directory / keep:
                shutil.rmtree(entry.folder, ignore_errors=True)
                total -= entry.size
        for folder in self.directory.glob(".new-*"):
            with suppress(OSError):
                if time.time() - folder.stat().st_mtime > _ABANDONED:
                    shutil.rmtree(folder, ignore_errors=True)


def cache_entries(root: Path | None = None) -> Iterator[CacheEntry]:
    """All entries of all kinds, with the logs that failed runs left there."""
    base = cache_root() if root is None else root
    for folder in sorted(base.glob("*/*")):
        with suppress(OSError):
            if folder.name.startswith(".") or not folder.is_dir():
                continue
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            manifest = folder / MANIFEST
            used = (manifest if manifest.exists() else folder).stat().st_mtime
            yield CacheEntry(folder.parent.name, folder.name, folder, size, used)


def clear_cache(kinds: Collection[str] = (), root: Path | None = None) -> int:
    """Remove the entries of some kinds, of all without a kind; return the bytes that were freed.

    Parameters
    ----------
    kinds : collection of str, optional
        Names of caches, such as ``"simulators"``; all without one.
    root : Path, optional
        Folder of the caches; by default the user's.
    """
    freed = 0
    for entry in list(cache_entries(root)):
        if not kinds or entry.kind in kinds:
            shutil.rmtree(entry.folder, ignore_errors=True)
            freed += 0 if entry.folder.exists() else entry.size
    return freed


def _files(folder: Path) -> dict[str, str]:
    """Checksum of each file of an entry by its path in the folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != MANIFEST)
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files
    }


def _write_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text(json.dumps(_files(folder)))


def _is_intact(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / MANIFEST).read_text()) == _files(folder))
    except (OSError, ValueError):
        return False


@contextmanager
def _discarded(directory: Path) -> Iterator[Path]:
    """Provide a folder whose contents are removed."""
    folder = Path(tempfile.mkdtemp(prefix=".new-", dir=directory))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _limit() -> int:
    text = os.environ.get("TG2HDL_CACHE_LIMIT")
    if not text:
        return DEFAULT_LIMIT
    if not text.isdigit():
        raise InputError(
            f"TG2HDL_CACHE_LIMIT is {text!r}, not a number of bytes", hint=f"the default is {DEFAULT_LIMIT}"
        )
    return int(text)
