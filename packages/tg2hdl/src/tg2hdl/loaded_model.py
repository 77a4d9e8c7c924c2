"""A model with its example inputs, ready to capture: of an object or of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any

from tg2hdl.model_file import check_no_file_options, load_model_file
from tg2hdl.quantized_model import QuantizedModel
from tg2hdl_backend import CapturedProgram, capture
from tg2hdl_backend.arguments import in_input_order
from tg2hdl_backend.tinygrad_adapter.model_inputs import parameter_names
from tg2hdl_ir import InputError
from tg2hdl_top import CompileOptions

__all__ = ["LoadedModel", "compile_options", "load_model"]


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model with its example inputs.

    Parameters
    ----------
    model : callable
    inputs : sequence of arrays
        In the order of its parameters, codes of a quantized model.
    name : str or None
        Name of the design, if it is not that of the model.
    gives_codes : bool
        Whether outputs of a quantized model are codes.
    """

    model: Callable[..., Any]
    inputs: Sequence[Any]
    name: str | None
    gives_codes: bool

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or str(getattr(self.model, "__name__", type(self.model).__name__))

    def capture(self) -> CapturedProgram:
        """The model as kernels over buffers."""
        return capture(self.model, *self.inputs, name=self.name)


def load_model(
    model: Callable[..., Any] | str | PathLike[str],
    inputs: Sequence[Any],
    *,
    name: str | None = None,
    codes: bool | None = None,
    keep_float: bool = False,
    validate: str = "auto",
    **file_options: Any,
) -> LoadedModel:
    """Load a model; parameters and errors as of `tg2hdl.compile`.

    Parameters
    ----------
    model, inputs, name, codes, keep_float, validate, **file_options
        As of `tg2hdl.compile`.
    """
    named = inputs[0] if len(inputs) == 1 else None
    if isinstance(model, str | PathLike):
        examples = named if isinstance(named, Mapping) else inputs
        file = load_model_file(fspath(model), examples, keep_float, validate=validate, **file_options)
        model, name = file.model, name or file.label
        codes = codes or False
        inputs = inputs or file.example_inputs or ()
    else:
        check_no_file_options({**file_options, "keep_float": keep_float})
    if isinstance(named, Mapping):
        inputs = in_input_order(named, parameter_names(model, named), "the dict of example inputs")
    if isinstance(model, QuantizedModel):
        inputs = model.quantize_input(*inputs)
    return LoadedModel(model, inputs, name, codes is not False)


def compile_options(options: CompileOptions | None, **given: Any) -> CompileOptions:
    """The options, with those of `given` that are not None.

    Raises
    ------
    InputError
        For options of another type, or a value that one cannot have.
    """
    options = CompileOptions() if options is None else options
    if not isinstance(options, CompileOptions):
        raise InputError(
            f"options is of type {type(options).__name__}",
            hint="pass tg2hdl.CompileOptions(...), or leave it out",
        )
    return replace(options, **{k: v for k, v in given.items() if v is not None})
