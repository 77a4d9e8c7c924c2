"""The file of a memory outside the chip: its contents, the design that they belong to, and a check.

| byte | bytes | contents |
|---|---|---|
| 0 | 8 | ``TG2HIMG1`` |
| 8 | 8 | identity of the design |
| 16 | 8 | bytes of the contents |
| 24 | 4 | alignment of the address in memory, in bytes |
| 28 | 4 | CRC-32 of the contents |
| 32 | 4 | CRC-32 of the 32 bytes before |
| 36 | 28 | zero |
| 64 | | contents |

Numbers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tg2hdl_host.errors import UnfitInputError, WrongDesignError

__all__ = ["MemoryImage"]

_MAGIC = b"TG2HIMG1"
_HEADER = struct.Struct("<8sQQII")
_START = 64
_STAGE = "memory image"


@dataclass(frozen=True)
class MemoryImage:
    """Contents of the memory outside the chip.

    Parameters
    ----------
    identity : str
        Of the design: 16 digits in base 16.
    alignment : int
        Alignment of the contents in bytes.
    contents : bytes
    """

    identity: str
    alignment: int
    contents: bytes

    def to_bytes(self) -> bytes:
        """The file."""
        check = zlib.crc32(self.contents)
        head = _HEADER.pack(_MAGIC, int(self.identity, 16), len(self.contents), self.alignment, check)
        return (head + zlib.crc32(head).to_bytes(4, "little")).ljust(_START, b"\0") + self.contents

    @classmethod
    def parse(cls, data: bytes, name: str = "the file") -> MemoryImage:
        """Read a file.

        Parameters
        ----------
        data : bytes
            Contents of the file.
        name : str
            Of the file, for errors.

        Raises
        ------
        UnfitInputError
            For a file that is not an image, cut or damaged.
        """
        again = "compile again, or copy the file again"
        if data[: len(_MAGIC)] != _MAGIC:
            raise UnfitInputError(
                f"{name} is not a memory image", stage=_STAGE, hint="give the NAME.weights.img"
            )
        head = data[: _HEADER.size]
        if data[_HEADER.size : _HEADER.size + 4] != zlib.crc32(head).to_bytes(4, "little"):
            raise UnfitInputError(f"the header of {name} is damaged", stage=_STAGE, hint=again)
        _, identity, size, alignment, check = _HEADER.unpack(head)
        contents = data[_START:]
        if len(contents) != size:
            raise UnfitInputError(
                f"{name} has {len(contents):,} bytes of contents, not {size:,}", stage=_STAGE, hint=again
            )
        if zlib.crc32(contents) != check:
            raise UnfitInputError(f"the contents of {name} are damaged", stage=_STAGE, hint=again)
        return cls(f"{identity:016x}", alignment, contents)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file whole: after an error one of before is as it was.

        Raises
        ------
        UnfitInputError
            When it cannot be written.
        """
        staged = Path(f"{path}.new")
        try:
            staged.write_bytes(self.to_bytes())
            staged.replace(path)
        except OSError as error:
            staged.unlink(missing_ok=True)
            raise UnfitInputError(
                f"cannot write {path}: {error.strerror}",
                stage=_STAGE,
                hint="free some space, or give another path",
            ) from None

    @classmethod
    def load(cls, path: str | PathLike[str]) -> MemoryImage:
        """Read a file of `save`; see `parse`."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise UnfitInputError(
                f"cannot read {path}: {error.strerror}", stage=_STAGE, hint="give the NAME.weights.img"
            ) from error
        return cls.parse(data, str(path))

    def check(self, identity: str) -> None:
        """Refuse an image of another design.

        Raises
        ------
        WrongDesignError
        """
        if self.identity != identity:
            raise WrongDesignError(
                f"the memory image belongs to the design {self.identity}, not to {identity}",
                stage=_STAGE,
                hint="load the image that was written with this design",
            )
