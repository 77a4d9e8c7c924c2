"""Bytes of a tinygrad allocation, also of one that is still a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tinygrad.device import Buffer
from tinygrad.uop.ops import UOp

from tg2hdl_ir import InputError, UnsupportedError

__all__ = ["contents_of", "single_buffer"]

_DISK = "DISK:"


def single_buffer(uop: UOp) -> Buffer:
    """Buffer that a UOp names.

    Raises
    ------
    UnsupportedError
        When its tensor is spread over several devices.
    """
    buffer = uop.buffer
    if not isinstance(buffer, Buffer):
        raise UnsupportedError(
            "a tensor that is spread over several devices",
            where=f"buffer {uop.device}",
            hint="keep the model on one device",
        )
    return buffer


def contents_of(buffer: Any, start: int, size: int) -> bytes | None:
    """Bytes of a buffer; None when it has no contents yet.

    A file is only read: tinygrad itself would create it when it is missing, and extend it with zeros when it is too
    short.

    Parameters
    ----------
    buffer : Buffer
        tinygrad's; a base, not a view.
    start, size : int
        In bytes.

    Raises
    ------
    InputError
        When the file is not there, is too short, or cannot be read, or the device gives no contents back.
    """
    if buffer.is_allocated():
        # A view that the tensor's owner may change later: the bytes are copied.
        try:
            return bytes(buffer.as_memoryview()[start : start + size])
        except MemoryError:
            raise
        except Exception as error:
            raise InputError(
                f"a weight on device {buffer.device} cannot be read: {error}",
                where=f"buffer {buffer.device}",
                hint="make the weights on another device, e.g. Tensor(array, device='CPU')",
            ) from error
    if str(buffer.device).startswith(_DISK):
        return _read(Path(str(buffer.device)[len(_DISK) :]), start, size)
    return None


def _read(path: Path, start: int, size: int) -> bytes:
    hint = "restore the file, or call .realize() on the weights while it is there"
    try:
        with path.open("rb") as file:
            file.seek(start)
            found = file.read(size)
            length = file.seek(0, 2)
    except FileNotFoundError:
        raise InputError(
            f"the file of a weight, {path.name}, is not there", where=str(path), hint=hint
        ) from None
    except OSError as error:
        raise InputError(f"the file of a weight, {path.name}: {error}", where=str(path), hint=hint) from error
    if len(found) < size:
        raise InputError(
            f"the file of a weight, {path.name}, has {length} bytes, {start + size} are needed",
            where=str(path),
            hint=hint,
        )
    return found
