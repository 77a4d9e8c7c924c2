"""Arrays in files of numpy, which may come from anybody."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_host.errors import UnfitInputError

__all__ = ["read_array", "read_arrays", "read_numpy"]

Array = npt.NDArray[Any]


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
    """The arrays of a file of either kind; see `read_array`."""
    try:
        # numpy leaves a damaged archive open that it has opened itself.
        with open(path, "rb") as file:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return found
            with found:
                return {name: np.asarray(array) for name, array in found.items()}
    except Exception as error:  # numpy's reader and zipfile raise a dozen kinds
        reason = str(error) or type(error).__name__
        raise UnfitInputError(
            f"{path} is not a numpy file: {reason}", stage="files", hint="write it again with numpy"
        ) from error
