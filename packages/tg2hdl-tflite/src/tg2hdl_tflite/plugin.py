"""Registration of the front end; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tg2hdl_ir import FrontEndDef, hookimpl
from tg2hdl_tflite.roundings import ROUNDINGS

if TYPE_CHECKING:
    from tg2hdl_tflite.model import TfliteModel

__all__ = ["command_options", "is_tflite_file", "load_file", "tg2hdl_frontends"]


def is_tflite_file(head: bytes) -> bool:
    """Whether a file begins as TFLite files do."""
    return head[4:8] == b"TFL3"


def load_file(path: Path, name: str, examples: Any, **options: Any) -> tuple[TfliteModel, None]:
    """`FrontEndDef.load`: the model; the file declares its inputs.

    Parameters
    ----------
    path : Path
        The file.
    name, examples
        Not used: a file has one model, which declares its inputs.
    **options
        Keywords of `TfliteModel`.
    """
    from tg2hdl_tflite.model import TfliteModel

    return TfliteModel(path, **options), None


def command_options() -> list[Any]:
    """Options of TFLite files on the command line."""
    import click  # The command line has it.

    return [
        click.Option(
            ["--rounding"],
            type=click.Choice(ROUNDINGS),
            help="Whose codes a TFLite file of integers gives.  [default: tflite-micro]",
        ),
        click.Option(
            ["--signature"],
            metavar="KEY",
            help="The signature of a TFLite file to compile.  [default: its main graph]",
        ),
    ]


@hookimpl
def tg2hdl_frontends() -> list[FrontEndDef]:
    """Files that end in .tflite."""
    return [
        FrontEndDef(
            "tflite",
            "TFLite files",
            (".tflite",),
            load_file,
            is_tflite_file,
            options=("limit", "rounding", "signature"),
            command_options=command_options,
            needs=("tflite",),
            install='pip install "tg2hdl[tflite]"',
        )
    ]
