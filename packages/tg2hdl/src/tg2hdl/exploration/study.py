"""A study: figures of the designs that were looked at, in one file that another machine can go on with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tg2hdl.exploration.figures import Figures
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.files import write_file
from tg2hdl_ir.program import ProgramIR

__all__ = ["Study", "compiler_key", "program_key"]

_FORMAT = 1


class Study:
    """Figures by the options of their designs.

    Parameters
    ----------
    path : Path, optional
        Where `save` writes; nowhere when absent.
    program : str
        `program_key` of the program.
    part : str
    known : mapping of str to Figures
        By ``repr`` of the options.
    """

    def __init__(self, path: Path | None, program: str, part: str, known: Mapping[str, Figures] = {}) -> None:
        self.path, self.program, self.part = path, program, part
        self.known = dict(known)

    @classmethod
    def resumed(cls, path: Path, program: str, part: str) -> Study:
        """The study of a file, which `save` goes on with.

        Raises
        ------
        InputError
            For a file that is not a study, or that is one of another program, part or compiler.
        """
        try:
            found = json.loads(path.read_text())
            known = {text: Figures(**figures) for text, figures in found["figures"].items()}
            head = {name: found[name] for name in ("study", "program", "part", "compiler", "versions")}
        except OSError as error:
            raise InputError(
                f"study {str(path)!r} cannot be read: {error.strerror}", hint="leave out --resume"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{str(path)!r} is not a study", hint="give a file that tg2hdl explore has written"
            ) from None
        if head["program"] != program:
            raise InputError(
                f"{path.name} is a study of another model, or of other weights or inputs",
                hint="give the model that it was made of, or leave out --resume",
            )
        if head["part"] != part:
            raise InputError(
                f"{path.name} is a study for the part {head['part']}, not {part}",
                hint=f"give --part {head['part']}",
            )
        if head["study"] != _FORMAT or head["compiler"] != compiler_key():
            made = ", ".join(f"{name} {version}" for name, version in head["versions"].items())
            raise InputError(
                f"{path.name} was made by another compiler, whose figures may differ",
                notes=(f"made with {made}",),
                hint="install the same packages and plugins, or leave out --resume",
            )
        return cls(path, program, part, known)

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self.path is None:
            return
        figures = {text: asdict(found) for text, found in self.known.items()}
        head = {"study": _FORMAT, "program": self.program, "part": self.part, "compiler": compiler_key()}
        text = json.dumps({**head, "versions": _versions(), "figures": figures}, indent=1)
        write_file(self.path, text + "\n")


def program_key(program: ProgramIR, values: Mapping[str, int]) -> str:
    """Key of the content of a program, with the contents of its weights."""
    digest = hashlib.sha256(repr((program.name, program.outputs, sorted(values.items()))).encode())
    for buffer in program.buffers:
        digest.update(repr((buffer.name, str(buffer.dtype), buffer.shape, buffer.role)).encode())
        digest.update(b"" if buffer.initial is None else buffer.initial.tobytes())
    for call in program.calls:
        digest.update(f"{call.kernel.format()} {call.buffers} {call.values}".encode())
    return digest.hexdigest()[:40]


@cache
def compiler_key() -> str:
    """Key of the sources of the packages and plugins that plans and estimates depend on; the same on every machine."""
    names = {"tg2hdl_ir", "tg2hdl_lower", "tg2hdl_top", "tg2hdl_synth"}
    names |= {entry.module.split(".")[0] for entry in metadata.entry_points(group="tg2hdl")}
    digest = hashlib.sha256()
    for name in sorted(names):
        spec = find_spec(name)
        folders = [Path(f) for f in (spec.submodule_search_locations or [])] if spec else []
        files = {f"{name}/{f.relative_to(d).as_posix()}": f for d in folders for f in d.rglob("*.py")}
        if spec is not None and spec.origin and not folders:
            files = {name: Path(spec.origin)}
        for place, file in sorted(files.items()):
            digest.update(place.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:40]


def _versions() -> dict[str, Any]:
    names = sorted({e.dist.name for e in metadata.entry_points(group="tg2hdl") if e.dist is not None})
    return {name: metadata.version(name) for name in names}
