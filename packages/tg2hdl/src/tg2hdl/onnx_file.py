"""The front end of ONNX files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from tg2hdl_host.arrays import read_array
from tg2hdl_ir import InputError

if TYPE_CHECKING:
    from tg2hdl.quantized_onnx import QuantizedFile

__all__ = ["command_options", "is_onnx_file", "load_file", "quantize_file"]

_FIELDS = (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42)
"""Tags that may follow the version of a ModelProto: producer, domain, model version, text, graph, opset."""


def load_file(path: Path, name: str, examples: Any, **options: Any) -> tuple[Any, None]:
    """`FrontEndDef.load` of ONNX files; options are those of `OnnxModel`.

    Parameters
    ----------
    path : Path
    name : str
        Not used: a file has one model.
    examples
        Example inputs, for shapes that the file leaves open.
    **options
        Of `OnnxModel`.
    """
    from tg2hdl_backend import OnnxModel

    return OnnxModel(path, examples=examples, **options), None


def is_onnx_file(head: bytes) -> bool:
    """Whether a file begins with the version of ONNX's format and another field of a model."""
    return len(head) > 3 and head[0] == 0x08 and 0 < head[1] < 0x40 and head[2] in _FIELDS


def quantize_file(
    path: Path,
    samples: Sequence[npt.ArrayLike],
    target: Path,
    options: Mapping[str, Any],
    labels: npt.ArrayLike | None,
    *,
    batched: bool,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    fixed: Mapping[str, Any] | None = None,
    limit: int | None = None,
    state: Mapping[str, str] | None = None,
) -> QuantizedFile:
    """`FrontEndDef.quantize` of ONNX files.

    Parameters
    ----------
    path : Path
        Of the float model.
    samples : sequence of array_like
        One array for each input.
    target : Path
        File to write.
    options : mapping of str to object
        Of `QuantizeOptions`, by name.
    labels : array_like or None
        Class of each sample.
    batched : bool
        Whether the first axis of the samples counts them.
    batch : int, optional
        As of `OnnxModel`.
    dims : mapping of str to int, optional
        As of `OnnxModel`.
    fixed : mapping of str to object, optional
        As of `OnnxModel`.
    limit : int, optional
        As of `OnnxModel`.
    state : mapping of str to str, optional
        As of `OnnxModel`.

    Raises
    ------
    InputError
        For inputs that become constants, or another rounding than ONNX's.
    """
    from tg2hdl.quantized_onnx import write_quantized_onnx
    from tg2hdl_quant.graph import QuantizeOptions

    if fixed:
        raise InputError(
            f"--fix cannot be combined with -o {target.name}, whose inputs are those of {path.name}",
            hint="write a .npz file",
        )
    if state:
        raise InputError(
            f"--state cannot be combined with -o {target.name}, whose inputs are those of {path.name}",
            hint="quantize the file without it, and compile the result with --state",
        )
    if (rounding := options.get("rounding", "onnxruntime")) != "onnxruntime":
        raise InputError(
            f"--rounding {rounding} in an ONNX file, which rounds half to even",
            hint="leave it out, or write a .npz file",
        )
    chosen = QuantizeOptions(**options)
    return write_quantized_onnx(
        path, samples, target, chosen, labels, batched=batched, batch=batch, dims=dims
    )


def command_options() -> list[click.Option]:
    """Options of ONNX files on the command line."""
    return [
        click.Option(
            ["--batch"], type=click.IntRange(1), help="Size of an ONNX file's symbolic first dimension."
        ),
        click.Option(
            ["--dim", "dims"],
            metavar="NAME=SIZE",
            multiple=True,
            callback=lambda context, option, texts: dict(map(_size, texts)),
            help="Size of a symbolic dimension of an ONNX file, by name or as INPUT.AXIS; once per dimension.",
        ),
        click.Option(
            ["--fix", "fixed"],
            metavar="NAME=VALUE",
            multiple=True,
            callback=lambda context, option, texts: dict(map(_fixed, texts)),
            help="Make an input of an ONNX file a constant: a number, a list such as [0,1], or a .npy file.",
        ),
        click.Option(
            ["--state"],
            metavar="OUT=IN",
            multiple=True,
            callback=lambda context, option, texts: dict(map(_pair, texts)),
            help="Keep an output of an ONNX file in the design as an input of the next run; once per pair.",
        ),
        click.Option(
            ["--limit"],
            type=click.IntRange(1),
            help="Most elements of a result in an ONNX file; a trip of a loop counts as 4096.  [default: 268435456]",
        ),
    ]


def _size(text: str) -> tuple[str, int]:
    """Name and size of ``NAME=SIZE``."""
    name, _, size = text.partition("=")
    if not name or not size.isdecimal() or int(size) < 1:
        raise InputError(f"--dim {text!r} is not of the form NAME=SIZE", hint="e.g. --dim N=4")
    return name, int(size)


def _pair(text: str) -> tuple[str, str]:
    """Names of ``OUT=IN``."""
    output, _, name = text.partition("=")
    if not output or not name:
        raise InputError(f"--state {text!r} is not of the form OUT=IN", hint="e.g. --state stateN=state")
    return output, name


def _fixed(text: str) -> tuple[str, npt.NDArray[Any]]:
    """Name and array of ``NAME=VALUE``."""
    name, _, value = text.partition("=")
    try:
        array = read_array(value) if value.endswith(".npy") else np.array(json.loads(value))
        if not name or array.dtype.kind not in "biuf":
            raise ValueError(value)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--fix {text!r} is not of the form NAME=VALUE",
            hint="e.g. --fix axes=[0,1], --fix k=3 or --fix pads=pads.npy",
        ) from error
    return name, array
