"""Atomic writes of files: written under another name in the same folder, then renamed."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any

from tg2hdl_ir.errors import InputError

__all__ = ["new_folder", "npz_bytes", "staged_file", "write_file", "write_files"]


def write_file(path: str | PathLike[str], content: str | bytes) -> Path:
    """Write a file whole, making its folder; after an error a file of before is as it was, and a new folder is gone.

    Parameters
    ----------
    path : str or pathLike[str]
    content : str or bytes
        Text or bytes.

    Raises
    ------
    InputError
        When it cannot be written, with the reason of the system: a full disk, for example.
    """
    target = Path(path)
    return write_files(target.parent, {target.name: content})[0]


def write_files(folder: Path, contents: Mapping[str, str | bytes]) -> list[Path]:
    """Write files of a folder that belong together: all of them are written before the first takes its place.

    Parameters
    ----------
    folder : Path
        Made if it does not exist.
    contents : mapping of str to str or bytes
        Text (written as UTF-8) or bytes, by file name.

    Raises
    ------
    InputError
        As `write_file`.
    """
    paths = [folder / name for name in contents]
    with ExitStack() as stack:
        for path, content in zip(paths, contents.values(), strict=True):
            place = stack.enter_context(staged_file(path))
            with _named(path), open(place, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
    return paths


@contextmanager
def staged_file(path: str | PathLike[str]) -> Iterator[Path]:
    """Provide the path to write to in the place of another, which it gets at the end of the context.

    A device or a pipe, and a file in a folder that cannot be written, is written itself.

    Raises
    ------
    InputError
        When nothing can be written there.
    """
    shown = Path(path)
    target = Path(os.path.realpath(shown))  # a link stays a link
    with _named(shown):
        if target.exists() and not target.is_file():
            if target.is_dir():
                raise IsADirectoryError(None, "it is a folder")
            yield target
            return
        if target.exists() and not os.access(target.parent, os.W_OK | os.X_OK):
            yield target
            return
    with new_folder(target.parent, shown):
        staged = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}")
        with _named(shown):
            # Made like any other file, so that it has the user's usual permissions.
            os.close(os.open(staged, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            yield staged
            with _named(shown):
                if target.exists():
                    with suppress(OSError):
                        staged.chmod(target.stat().st_mode & 0o7777)
                staged.replace(target)
        finally:
            with suppress(OSError):
                staged.unlink()


@contextmanager
def new_folder(folder: Path, shown: Path | None = None) -> Iterator[None]:
    """Make a folder, and those above it; after an error in the context the new ones are removed where they are empty.

    Parameters
    ----------
    folder : Path
        May exist.
    shown : Path, optional
        Path that an error names as the one that cannot be written.

    Raises
    ------
    InputError
        When it cannot be made.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with _named(shown or folder):
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise


def npz_bytes(arrays: Mapping[str, Any], *, compressed: bool = False) -> bytes:
    """Contents of an ``.npz`` file with these arrays.

    Parameters
    ----------
    arrays : mapping of str to object
        By name.
    compressed : bool, default False
        Deflate each array.
    """
    import numpy as np

    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}", hint="free some space, or give another path"
        ) from error
