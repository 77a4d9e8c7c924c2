"""Compile a model: capture, options and the compiler in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from difflib import get_close_matches
from os import PathLike
from typing import Any

from tg2hdl.accelerator import Accelerator
from tg2hdl.generation import check_same_codes
from tg2hdl.loaded_model import compile_options, load_model
from tg2hdl.model_file import file_option_names
from tg2hdl.progress import step
from tg2hdl_ir import InputError
from tg2hdl_ir.collection import rare_collection
from tg2hdl_ir.turns import compiles
from tg2hdl_top import CompileOptions, compile_program

__all__ = ["compile", "compile_model_to_hardware"]


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
    fit: str | None = None,
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
    fit : str, optional
        Part or board for which the options are chosen that take the fewest cycles; those that are given stay, and
        `tg2hdl.explore` shows the others.
    file_options
        Those of the file's front end; of an ONNX file `batch`, `dims`, `fixed` and `limit`, as for `OnnxModel`.

    Raises
    ------
    InputError
        For an example input that is missing or unfit, or an unknown option.
    UnsupportedError
        For an op or dtype without hardware; it is named.
    CapacityError
        When the weights are more than the memory of `part`, or no design fits `fit`.
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
    options = compile_options(options, weights=weights, multipliers=multipliers, validate=validate)
    loaded = load_model(
        model,
        example_inputs,
        name=name,
        codes=codes,
        keep_float=keep_float,
        validate=options.validate,
        **file_options,
    )
    with rare_collection(), step(f"compiling {loaded.label}") as say:
        say("kernels of the model")
        captured = loaded.capture()
        if fit is not None:
            from tg2hdl.exploration import fitted_options

            options = fitted_options(captured, options, fit, progress=say)
        if part is not None and options.weights == "external":
            from tg2hdl_synth import part_named

            chosen = part_named(part)
            options = replace(options, on_chip_bits=options.on_chip_bits or chosen.bram * chosen.bram_bits)
        elif part is not None:
            from tg2hdl_synth import check_weights_fit

            check_weights_fit(captured.program, part)
        if options.loop is not None:
            check_same_codes(captured.model)
        say("planning the hardware")
        return Accelerator(captured, compile_program(captured.program, options), loaded.gives_codes)


def _unknown_option(name: str) -> InputError:
    here = ("weights", "multipliers", "options", "name", "part", "validate", "codes", "keep_float", "fit")
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


compile = compile_model_to_hardware
