"""Compile a model: capture, options and the compiler in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from os import PathLike, fspath
from typing import Any

from tg2hdl.accelerator import Accelerator
from tg2hdl.model_file import check_no_file_options, file_option_names, load_model_file
from tg2hdl.progress import step
from tg2hdl.quantized_model import QuantizedModel
from tg2hdl_backend import capture
from tg2hdl_backend.arguments import in_input_order
from tg2hdl_backend.tinygrad_adapter.model_inputs import parameter_names
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.turns import compiles
from tg2hdl_sim.collection import rare_collection
from tg2hdl_top import CompileOptions, compile_program

__all__ = ["compile_model_to_hardware"]


@compiles
def compile_model_to_hardware(
    model: Callable[..., Any] | str | PathLike[str],
    *example_inputs: Any,
    weights: str | None = None,
    multipliers: int | None = None,
    options: CompileOptions | None = None,
    name: str | None = None,
    part: str | None = None,
    validate: str | None = None,
    codes: bool | None = None,
    keep_float: bool = False,
    **file_options: Any,
) -> Accelerator:
    """Compile a tinygrad model, or the model of a file, to hardware.

    Parameters
    ----------
    model : callable or path
        A function of Tensors, or an object with ``__call__``; its weights are found automatically.  A
        `QuantizedModel` takes float arrays too, which the host quantizes; its outputs are codes, integers.  Or a
        file, as `tg2hdl.model_file.load_model_file` takes it; its outputs are of the types that it declares.
    example_inputs : arrays or tensors
        One per parameter, or one dict of them by name; they give the shapes and dtypes.  A file may bring its own.
    weights : {"rom", "loadable", "external"}, optional
        Weights are contents of read-only memories (the default), are written through ports, or are in memory outside
        the chip as far as they do not fit `part`, or ``CompileOptions(on_chip_bits=...)``.
    multipliers : int, optional
        Hardware multipliers, which the kernels share and never exceed; one lane unless given.
    options : CompileOptions, optional
        Everything else.  Only ``float_order="relaxed"`` and ``fold_batchnorm=True`` may change a number.
    name : str, optional
        Name of the design; that of the model otherwise.
    part : str, optional
        FPGA part that the weights must fit, unless they may be outside; checked before planning.
    codes : bool, optional
        Whether outputs of a quantized model are codes, whose scale and zero point are in `Accelerator.outputs`, or the
        values that they stand for; values of a file, codes of a `QuantizedModel` unless given.
    validate : {"auto", "full", "each", "off"}, optional
        Whether the design is compared with the captured program, and the integers of a quantized file with its float
        operations; see `CompileOptions`.
    keep_float : bool
        Leave the quantizers of a file in float, see `tg2hdl.model_file.load_model_file`.
    file_options
        Those of the file's front end; of an ONNX file `batch`, `dims`, `fixed` and `limit`, as for `OnnxModel`.

    Raises
    ------
    InputError
        For an example input that is missing or unfit, or an unknown option.
    UnsupportedError
        For an op or dtype without hardware; it is named.
    CapacityError
        When the weights alone are more than the memory of `part`.
    ValidationError
        When a rewrite changed a result: a bug of tg2hdl or of a plugin.

    Examples
    --------
    >>> import numpy as np
    >>> import tg2hdl
    >>> acc = tg2hdl.compile(lambda x: (x * 2).relu(), np.zeros(4, np.int32))
    >>> acc.golden(np.array([-1, 0, 1, 2], np.int32))
    array([0, 0, 2, 4], dtype=int32)
    """
    if unknown := file_options.keys() - file_option_names():
        raise _unknown_option(min(unknown))
    options = CompileOptions() if options is None else options
    if not isinstance(options, CompileOptions):
        raise InputError(
            f"options is of type {type(options).__name__}",
            hint="pass tg2hdl.CompileOptions(...), or leave it out",
        )
    given: dict[str, Any] = {"weights": weights, "multipliers": multipliers, "validate": validate}
    options = replace(options, **{k: v for k, v in given.items() if v is not None})
    named = example_inputs[0] if len(example_inputs) == 1 else None
    if isinstance(model, str | PathLike):
        examples = named if isinstance(named, Mapping) else example_inputs
        file = load_model_file(fspath(model), examples, keep_float, validate=options.validate, **file_options)
        model, name = file.model, name or file.label
        codes = codes or False
        example_inputs = example_inputs or file.example_inputs or ()
    else:
        check_no_file_options({**file_options, "keep_float": keep_float})
    if isinstance(named, Mapping):
        example_inputs = in_input_order(named, parameter_names(model, named), "the dict of example inputs")
    if isinstance(model, QuantizedModel):
        example_inputs = model.quantize_input(*example_inputs)
    label = name or getattr(model, "__name__", type(model).__name__)
    with rare_collection(), step(f"compiling {label}") as say:
        say("kernels of the model")
        captured = capture(model, *example_inputs, name=name)
        if part is not None and options.weights == "external":
            from tg2hdl_synth.parts import part_named

            chosen = part_named(part)
            options = replace(options, on_chip_bits=options.on_chip_bits or chosen.bram * chosen.bram_bits)
        elif part is not None:
            from tg2hdl_synth import check_weights_fit

            check_weights_fit(captured.program, part)
        say("planning the hardware")
        return Accelerator(captured, compile_program(captured.program, options), codes is not False)


def _unknown_option(name: str) -> InputError:
    here = ("weights", "multipliers", "options", "name", "part", "validate", "codes", "keep_float")
    further = [field.name for field in fields(CompileOptions) if field.name not in here]
    of_files = sorted(file_option_names())
    listed = f"choose one of: {', '.join(here)}; for files {', '.join(of_files)}"
    meant = next(iter(get_close_matches(name, [*here, *of_files, *further], 1)), None)
    if meant in further:
        hint = f"pass options=tg2hdl.CompileOptions({meant}=...)"
    else:
        hint = f"did you mean {meant}=...?" if meant else listed
    return InputError(
        f"tg2hdl.compile has no option {name!r}",
        notes=() if meant else (f"options=tg2hdl.CompileOptions(...) takes {', '.join(further)}",),
        hint=hint,
    )
