"""Blobs on disk by content key: bounded in size, safe with several processes and against truncated files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["CompileCache", "content_key"]

_MAGIC = b"tg2hdl1\n"
_DIGEST = hashlib.sha256().digest_size


def content_key(*parts: str | bytes) -> str:
    """Key of everything that a result depends on."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


class CompileCache:
    """A directory of blobs.

    Parameters
    ----------
    directory : path, optional
        ``$TG2HDL_CACHE_DIR``, else ``$XDG_CACHE_HOME/tg2hdl``, else ``~/.cache/tg2hdl``.
    limit : int
        Size above which the blobs that were not used for longest are removed (bytes).
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, limit: int = 1 << 30) -> None:
        if limit < 1:
            raise ValueError(f"limit is {limit} bytes, expected at least 1")
        self.directory = Path(directory) if directory is not None else _default_directory()
        self.limit = limit

    def get(self, key: str) -> bytes | None:
        """Blob of a key; None when there is none or it is damaged."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + _DIGEST
        blob = data[head:]
        if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : head] != hashlib.sha256(blob).digest():
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return blob

    def put(self, key: str, blob: bytes) -> None:
        """Store a blob: another process sees all of it or nothing.  A full disk is no error."""
        with contextlib.suppress(OSError):
            path = self._path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as file:
                file.write(_MAGIC + hashlib.sha256(blob).digest() + blob)
            os.replace(file.name, path)
            self._trim(keep=path)

    def _trim(self, keep: Path) -> None:
        entries = sorted(_entries(self.directory), reverse=True)
        total = 0
        for _, size, path in entries:
            total += size
            if total > self.limit and path != keep:
                with contextlib.suppress(OSError):
                    path.unlink()
                total -= size

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / key


def _entries(directory: Path) -> Iterable[tuple[int, int, Path]]:
    for path in directory.glob("??/*"):
        with contextlib.suppress(OSError):
            stat = path.stat()
            yield stat.st_mtime_ns, stat.st_size, path


def _default_directory() -> Path:
    if named := os.environ.get("TG2HDL_CACHE_DIR"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tg2hdl"
