"""Variables of a waveform in the user's terms: decoded numbers, and names in place of codes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tg2hdl_ir import InputError
from tg2hdl_ir.files import staged_file

__all__ = ["View", "add_views", "check_written", "removed_when_full"]

_ROOM = 1 << 16
"""Bytes that must fit behind a waveform: more than an engine holds back."""


@dataclass(frozen=True)
class View:
    """A variable that is computed from signals.

    Parameters
    ----------
    path : tuple of str
        Scopes and name below the scope ``model``.
    sources : tuple of (str, int)
        Last scope and name of each signal, joined by a dot, and its bits; a row of a memory is ``memory.word3``.
        A view whose sources are not all in the waveform is left out.
    value : callable
        A number or a text without spaces for the bits of the sources.
    is_text : bool
        Whether the value is a text.
    """

    path: tuple[str, ...]
    sources: tuple[tuple[str, int], ...]
    value: Callable[..., float | str]
    is_text: bool = False


def check_written(path: Path) -> None:
    """Refuse a waveform for which the disk has no room: engines do not notice that its end is missing.

    Raises
    ------
    InputError
        The file is then removed.
    """
    if not path.is_file():  # a pipe, whose reader has it
        return
    size = path.stat().st_size
    with removed_when_full(path), path.open("r+b") as file:
        file.seek(size)
        file.write(b"\n" * _ROOM)
        file.flush()
        os.fsync(file.fileno())
        file.truncate(size)


@contextmanager
def removed_when_full(path: Path) -> Iterator[None]:
    """Remove a waveform that the disk has no room for.

    Raises
    ------
    InputError
        With the reason of the system.
    """
    try:
        yield
    except OSError as error:
        path.unlink(missing_ok=True)
        raise InputError(
            f"cannot write the waveform {path}: {error.strerror}",
            hint="free some space, or give another path",
        ) from error


def add_views(path: Path, views: Sequence[View]) -> None:
    """Add views to a finished VCD file; times and all other variables stay.

    Parameters
    ----------
    path : Path
        Of the VCD file, which is replaced.
    views : sequence of View
        Those whose sources are not in the file are left out.

    Raises
    ------
    InputError
        When the file cannot be written, such as on a full disk.
    """
    with removed_when_full(path), staged_file(path) as new, path.open() as old, new.open("w") as file:
        header = []
        for line in old:
            if "$enddefinitions" in line:
                break
            header.append(line)
        codes = _codes("".join(header))
        found = [view for view in views if all(source in codes for source in view.sources)]
        file.writelines(header)
        file.write("".join(_declarations(found)))
        file.write(line)
        file.writelines(_changes(old, found, codes))


def _codes(header: str) -> dict[tuple[str, int], str]:
    """Identifier of each variable by the last two parts of its path, and its bits."""
    scopes: list[str] = []
    found: dict[tuple[str, int], str] = {}
    for kind, rest in re.findall(r"\$(scope|upscope|var)\b(.*?)\$end", header, flags=re.DOTALL):
        fields = rest.split()
        if kind == "scope":
            scopes.append(fields[1])
        elif kind == "upscope":
            scopes.pop()
        else:
            row = re.fullmatch(r"\\(\w+)\[(\d+)\]", fields[3])  # of a memory, by Amaranth's simulator
            name = f"{row[1]}.word{row[2]}" if row else f"{scopes[-1]}.{fields[3]}"
            found.setdefault((name, int(fields[1])), fields[2])
    return found


def _declarations(views: Sequence[View]) -> Iterator[str]:
    scopes: tuple[str, ...] = ()
    for number, view in enumerate(views):
        wanted = ("model", *view.path[:-1])
        common = 0
        while common < min(len(scopes), len(wanted)) and scopes[common] == wanted[common]:
            common += 1
        yield "$upscope $end\n" * (len(scopes) - common)
        yield from (f"$scope module {scope} $end\n" for scope in wanted[common:])
        kind = "string 1" if view.is_text else "real 64"
        yield f"$var {kind} {_code(number)} {view.path[-1]} $end\n"
        scopes = wanted
    yield "$upscope $end\n" * len(scopes)


def _code(number: int) -> str:
    return f"view.{number}"


def _changes(lines: Iterator[str], views: Sequence[View], codes: dict[tuple[str, int], str]) -> Iterator[str]:
    users: dict[str, list[int]] = {}
    for number, view in enumerate(views):
        for source in view.sources:
            users.setdefault(codes[source], []).append(number)
    now = dict.fromkeys(users, 0)
    shown: dict[int, float | str] = {}
    changed: set[int] = set()

    def settled() -> Iterator[str]:
        for number in sorted(changed):
            view = views[number]
            value = view.value(*(now[codes[source]] for source in view.sources))
            text = f"s{value}" if view.is_text else f"r{value:.17g}"
            if shown.get(number) != text:
                shown[number] = text
                yield f"{text} {_code(number)}\n"
        changed.clear()

    for line in lines:
        if line[0] == "#":
            yield from settled()
        elif line[0] in "bB01xXzZ":
            bits, code = line[1:].split() if line[0] in "bB" else (line[0], line[1:].strip())
            if code in users:
                now[code] = int(re.sub("[xXzZ]", "0", bits), 2)
                changed.update(users[code])
        yield line
    yield from settled()
