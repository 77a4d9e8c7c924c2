"""Files with models, as ``tg2hdl compile FILE[:NAME]`` reads them, by the front ends that plugins register."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl.quantized_model import integer_model
from tg2hdl_ir import (
    DType,
    FrontEndDef,
    InputError,
    PluginError,
    ToolMissingError,
    UnsupportedError,
    registry,
)

__all__ = [
    "ModelFile",
    "check_no_file_options",
    "file_option_names",
    "front_end_of",
    "load_model_file",
    "parse_input",
]

_SPEC = re.compile(r"(?P<path>.+?)(?::(?P<name>[A-Za-z_]\w*))?$")
_INPUT = re.compile(r"(?P<dtype>\w+):(?P<shape>\d+(x\d+)*|scalar)$")
_HEAD = 4096
"""Bytes of a file that front ends look at."""
_ELSEWHERE = {".tflite": ("tg2hdl-tflite", 'pip install "tg2hdl[tflite]"')}
"""Distribution of a front end that may be missing, and how to install it, by suffix."""


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A model from a file.

    Parameters
    ----------
    path : Path
    name : str
        Name of the model in the file.
    model : callable
    front_end : FrontEndDef
        The one that read it.
    declared : tuple or None
        Example inputs that are in the file, with their values.
    """

    path: Path
    name: str
    model: Callable[..., Any]
    front_end: FrontEndDef
    declared: tuple[Any, ...] | None = None

    @property
    def label(self) -> str:
        """Name for files and reports: the file's, and the model's unless that is ``model``."""
        return self.path.stem if self.name == "model" else f"{self.path.stem}_{self.name}"

    @property
    def example_inputs(self) -> tuple[Any, ...] | None:
        """Those in the file, or zeros of the shapes and types that it declares; None where it declares none."""
        specs = getattr(self.model, "inputs", None)
        if self.declared is not None or not isinstance(specs, tuple):
            return self.declared
        return tuple(spec.zeros() for spec in specs)


def load_model_file(
    spec: str,
    examples: Sequence[Any] | Mapping[str, Any] = (),
    keep_float: bool = False,
    *,
    validate: str = "auto",
    **options: Any,
) -> ModelFile:
    """Load the model of a file, by the front end of its suffix.

    A model with quantizers becomes a model of integers; parts without an integer form, such as a quantizer whose scale
    is an input, stay in float and are named by ``in_float`` of the model's report, or of the model.

    Parameters
    ----------
    spec : str
        ``FILE`` or ``FILE:NAME``; the name is ``model`` unless given.
    examples : arrays, or mapping of str to array
        Example inputs in their order or by name, whose shapes give sizes to symbolic dimensions.
    keep_float : bool
        Leave quantizers the float operations that they are defined by.
    validate : {"auto", "full", "each", "off"}
        Whether integers are compared with these float operations, see `tg2hdl.integer_model`.
    options
        Those of the front end; for ONNX files see `OnnxModel`.  None, False and empty ones are not given.

    Raises
    ------
    InputError
        For a file that is missing, that no front end reads, or that its front end refuses; for an option or name that
        is not for such files.
    ToolMissingError
        When reading needs a package that is not installed.
    ValidationError
        When integers are not those of the file: a bug of tg2hdl.
    """
    match = _SPEC.match(spec)
    if match is None:
        raise InputError("no model file given", hint="give FILE or FILE:NAME, e.g. model.py:model")
    path, name = Path(match["path"]), match["name"] or "model"
    if not path.is_file():
        hint = "name a model, e.g. net.onnx or model.py:model"
        beside = [p.stem for p in path.parent.glob("*" + escape(path.suffix))] if path.name else []
        for close in get_close_matches(path.stem, beside, 1, 0.75):
            hint = f"did you mean {path.with_stem(close)}?"
        raise InputError(f"no file {str(path)!r}", hint=hint)
    front_end = front_end_of(path)
    given = {option: value for option, value in options.items() if _is_given(value)}
    if match["name"] and not front_end.has_names:
        raise InputError(
            f"{path.name} has one model, which has no name", where=str(path), hint=f"give {path.name}"
        )
    if unfit := [option for option in given if option not in front_end.options]:
        raise _unfit_option(unfit[0], path, front_end)
    for package in front_end.needs:
        if importlib.util.find_spec(package) is None:
            raise ToolMissingError(
                f"reading {path.name} needs the package {package}", where=str(path), hint=front_end.install
            )
    loaded = registry().make(front_end, "load", tuple, path, name, examples, **given)
    if len(loaded) != 2 or not callable(loaded[0]):
        raise registry().fault(front_end, f": load gave {loaded!r:.60}, not a model and its example inputs")
    model = loaded[0] if keep_float else _in_integers(loaded[0], validate)
    return ModelFile(path, name, model, front_end, loaded[1])


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and not (isinstance(value, tuple | dict) and not value)


def front_end_of(path: Path) -> FrontEndDef:
    """The front end that reads a file.

    Raises
    ------
    InputError
        When there is none.
    PluginError
        When there are several.
    """
    suffix, known = path.suffix.lower(), registry().front_ends()
    found = [f for f in known if suffix in f.suffixes]
    if len(found) != 1:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        found = [f for f in found or known if f.sniff is not None and registry().call(f, "sniff", head)]
    if len(found) > 1:
        names = [f"{f.name} of {registry().distribution(f)}" for f in found]
        raise PluginError(
            f"{path.name} is read by several front ends: {', '.join(names)}",
            hint=f"disable one of them: --no-plugin {registry().plugin(found[-1])}",
        )
    if found:
        return found[0]
    if suffix in _ELSEWHERE:
        package, install = _ELSEWHERE[suffix]
        raise ToolMissingError(
            f"reading {path.name} needs the package {package}", where=str(path), hint=install
        )
    reads = {
        s: f"{s}: {f.description}" + (f"; {f.install}" if f.install else "")
        for f in known
        for s in f.suffixes
    }
    reads |= {s: f"{s}: {install}" for s, (_, install) in _ELSEWHERE.items() if s not in reads}
    raise InputError(
        f"no front end reads {path.name}",
        where=str(path),
        notes=tuple(reads[s] for s in sorted(reads)),
        hint="give a file of one of these, or install a plugin that reads it",
    )


def file_option_names() -> set[str]:
    """Options of all front ends."""
    return {option for front_end in registry().front_ends() for option in front_end.options}


def check_no_file_options(options: Mapping[str, Any]) -> None:
    """Refuse options of files for a model that is none.

    Raises
    ------
    InputError
        When one is given.
    """
    if given := [name for name, value in options.items() if _is_given(value)]:
        raise InputError(
            f"{given[0]} is for files, and the model is none",
            hint="leave it out; example inputs give the shapes of a Python model",
        )


def _unfit_option(option: str, path: Path, front_end: FrontEndDef) -> InputError:
    others = [f.description for f in registry().front_ends() if option in f.options]
    return InputError(
        f"{path.name}: {front_end.description} have no option {option!r}",
        where=str(path),
        notes=(f"it is for {', '.join(others)}",) if others else (),
        hint="leave it out; they have " + (", ".join(front_end.options) or "none"),
    )


def _in_integers(model: Any, validate: str) -> Any:
    """The integer form of a model that brings quantizers; where it has none the model itself, with the reasons."""
    if not getattr(model, "is_quantized", False):
        return model
    if operator := getattr(model, "scales_from_data", ""):
        model.in_float = (f"all of it: {operator} computes scales from the data of each run",)
        return model
    try:
        return integer_model(model, validate=validate)
    except (InputError, UnsupportedError) as error:
        # Float is what the file defines; the summary says why.
        model.in_float = getattr(model, "float_quantizers", ()) or (f"all of it: {error.message}",)
        return model


def parse_input(text: str) -> np.ndarray:
    """Zeros of a shape and dtype given as ``DTYPE:AxBxC`` or ``DTYPE:scalar``.

    Raises
    ------
    InputError
        For another form, or a dtype without hardware.
    """
    match = _INPUT.match(text)
    if match is None:
        raise InputError(
            f"input {text!r} is not of the form DTYPE:SHAPE", hint="e.g. int8:1x784 or fp32:1x3x32x32"
        )
    name = _ALIASES.get(match["dtype"], match["dtype"])
    if name not in _DTYPES:
        raise InputError(f"input {text!r}: unknown dtype {name!r}", hint="known: " + ", ".join(_DTYPES))
    dtype = DType.from_name(name).numpy()
    shape: Sequence[int] = () if match["shape"] == "scalar" else [int(n) for n in match["shape"].split("x")]
    if math.prod(shape) > _MOST_ELEMENTS:
        raise InputError(
            f"input {text!r} has {math.prod(shape):,} elements", hint=f"give at most {_MOST_ELEMENTS:,}"
        )
    return np.zeros(shape, dtype=dtype)


_MOST_ELEMENTS = 1 << 28
"""Elements of an input; the largest FPGAs hold a tenth of it."""
_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("fp16", "bf16", "fp32", "fp64", "fp8_e4m3", "fp8_e5m2"),
)
_ALIASES = {
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float": "fp32",
    "float64": "fp64",
    "double": "fp64",
}
