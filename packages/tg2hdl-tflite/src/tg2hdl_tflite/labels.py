"""Labels of classes: text files in the archive that the metadata packs to the end of a file."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

__all__ = ["label_files"]

_LABEL_BYTES = 1 << 20
_MOST_FILES = 64
_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors of the archive's reader for damaged contents."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Python's reader unpacks other methods without a limit."""


def label_files(data: bytes) -> tuple[tuple[str, ...], ...]:
    """Lines of the text files in the archive of the metadata; none where it is damaged or there is none."""
    found: list[tuple[str, ...]] = []
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist()[:_MOST_FILES]:
                is_text = entry.filename.endswith(".txt") and entry.compress_type in _METHODS
                if not is_text or entry.file_size > _LABEL_BYTES:
                    continue
                with archive.open(entry) as file:
                    text = file.read(_LABEL_BYTES).decode(errors="replace")
                lines = text.strip().splitlines()
                found.append(tuple("".join(filter(str.isprintable, line)).strip() for line in lines))
    except _FAULTS:
        return ()
    return tuple(found)
