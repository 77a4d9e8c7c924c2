"""Arrays in files of numpy, which may come from anybody."""

from __future__ import annotations

import math
import os
import zipfile
from os import PathLike
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from tg2hdl_host.errors import UnfitInputError

__all__ = ["read_array", "read_arrays", "read_numpy"]

Array = npt.NDArray[Any]

UNPACKED_BYTES = 1 << 28
"""Bytes of an archive's arrays up to which its own size does not matter."""

UNPACKED_RATIO = 16
"""Above, bytes of arrays for each byte of the archive."""

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What numpy writes. Python's reader unpacks other methods without a limit."""


def read_array(path: str | PathLike[str]) -> Array:
    """The array of an ``.npy`` file; objects are not unpickled, which would run code of the file.

    Raises
    ------
    UnfitInputError
        For a file that is damaged, or holds something else.
    """
    found = read_numpy(path)
    if isinstance(found, dict):
        raise UnfitInputError(
            f"{path} has arrays by name", stage="files", hint="give a file that numpy.save wrote"
        )
    return found


def read_arrays(path: str | PathLike[str]) -> dict[str, Array]:
    """The arrays of an ``.npz`` file by name; see `read_array`.

    Raises
    ------
    UnfitInputError
        For a file that is damaged, or holds something else.
    """
    found = read_numpy(path)
    if not isinstance(found, dict):
        raise UnfitInputError(
            f"{path} has one array without a name", stage="files", hint="give a file that numpy.savez wrote"
        )
    return found


def read_numpy(path: str | PathLike[str]) -> Array | dict[str, Array]:
    """The arrays of a file of either kind; see `read_array`.

    Sizes are checked before anything is unpacked: a few kilobytes can unpack to gigabytes.
    """
    try:
        # numpy leaves a damaged archive open that it has opened itself.
        with open(path, "rb") as file:
            is_archive = file.read(2) == b"PK"
            file.seek(0)
            if not is_archive:
                _check_header(file, os.fstat(file.fileno()).st_size)
                file.seek(0)
                return np.asarray(np.load(file, allow_pickle=False))
            with zipfile.ZipFile(file) as archive:
                _check_sizes(archive, os.fstat(file.fileno()).st_size)
                for entry in archive.infolist():
                    with archive.open(entry) as member:
                        _check_header(member, entry.file_size)
            file.seek(0)
            with np.load(file, allow_pickle=False) as found:
                return {name: np.asarray(array) for name, array in found.items()}
    except UnfitInputError:
        raise
    except Exception as error:  # numpy's reader and zipfile raise a dozen kinds
        reason = str(error) or type(error).__name__
        raise UnfitInputError(
            f"{path} is not a numpy file: {reason}", stage="files", hint="write it again with numpy"
        ) from error


def _check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive whose directory has far more bytes than it; the reader takes no more than it says."""
    entries = archive.infolist()
    if any(entry.compress_type not in _METHODS for entry in entries):
        raise ValueError("it is packed by a method that numpy does not use")
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > max(UNPACKED_BYTES, UNPACKED_RATIO * size):
        raise UnfitInputError(
            f"{archive.filename} has {size:,} bytes and unpacks to {unpacked:,}",
            stage="files",
            hint="where this is meant, write it with numpy.savez, which does not compress",
        )


def _check_header(file: IO[bytes], size: int) -> None:
    """Refuse an array whose header has another number of bytes than its file."""
    try:
        version = np.lib.format.read_magic(file)
    except ValueError:
        return  # Not an array; numpy says so.
    reader = np.lib.format.read_array_header_1_0
    shape, _, dtype = (reader if version == (1, 0) else np.lib.format.read_array_header_2_0)(file)
    needed = math.prod(shape) * max(dtype.itemsize, 1)
    if not dtype.hasobject and needed > size:
        raise ValueError(f"an array of {needed:,} bytes in {size:,}")
