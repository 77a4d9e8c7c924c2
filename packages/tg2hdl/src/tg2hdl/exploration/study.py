"""A study: figures of the designs that were looked at, in one file that another machine can go on with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tg2hdl.exploration.figures import Figures
from tg2hdl_ir import InputError, ProgramIR
from tg2hdl_ir.files import write_file
from tg2hdl_ir.installation import compiler_key, compiler_versions

__all__ = ["Study", "program_key"]

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
        By `Choice.key`.
    widths : mapping of str to list of float
        Accuracy and loss of the widths that were judged, by their name.
    """

    def __init__(
        self,
        path: Path | None,
        program: str,
        part: str,
        known: Mapping[str, Figures] = {},
        widths: Mapping[str, list[float]] = {},
    ) -> None:
        self.path, self.program, self.part = path, program, part
        self.known, self.widths = dict(known), dict(widths)

    @classmethod
    def resumed(cls, path: Path, program: str, part: str) -> Study:
        """The study of a file, which `save` goes on with.

        Parameters
        ----------
        path : Path
        program : str
            Its `program_key`.
        part : str
            Name.

        Raises
        ------
        InputError
            For a file that is not a study, or that is one of another program, part or compiler.
        """
        try:
            found = json.loads(path.read_text())
            known = {text: Figures(**figures) for text, figures in found["figures"].items()}
            widths = {text: [float(n) for n in pair] for text, pair in found.get("widths", {}).items()}
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
        return cls(path, program, part, known, widths)

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self.path is None:
            return
        figures = {text: asdict(found) for text, found in self.known.items()}
        head: dict[str, Any] = {
            "study": _FORMAT,
            "program": self.program,
            "part": self.part,
            "compiler": compiler_key(),
        }
        if self.widths:
            head |= {"widths": self.widths}
        text = json.dumps({**head, "versions": compiler_versions(), "figures": figures}, indent=1)
        write_file(self.path, text + "\n")


def program_key(program: ProgramIR, values: Mapping[str, int]) -> str:
    """Key of the content of a program, with the contents of its weights.

    Parameters
    ----------
    program : ProgramIR
    values : mapping of str to int
        Of run-time variables by name.
    """
    digest = hashlib.sha256(repr((program.name, program.outputs, sorted(values.items()))).encode())
    for buffer in program.buffers:
        digest.update(repr((buffer.name, str(buffer.dtype), buffer.shape, buffer.role)).encode())
        digest.update(b"" if buffer.initial is None else buffer.initial.tobytes())
    for call in program.calls:
        digest.update(f"{call.kernel.format()} {call.buffers} {call.values}".encode())
    return digest.hexdigest()[:40]
