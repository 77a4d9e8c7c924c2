"""Descriptors of front ends, simulation engines, commands, exports, sections of reports and dimensions."""

from __future__ import annotations

from dataclasses import dataclass

from tg2hdl_ir.plugins.descriptors.factory import Factory

__all__ = ["CommandDef", "DimensionDef", "ExportDef", "FrontEndDef", "ReportSection", "SimulatorDef"]


@dataclass(frozen=True)
class FrontEndDef:
    """A format of model files, for `tg2hdl.compile(path)`, `tg2hdl.quantize(path)` and every command.

    A file goes to the front end of its suffix.  Where there are several, or none, that front end reads it which
    recognizes its first bytes.

    Parameters
    ----------
    name : str
        Unique name.
    description : str
        Its files, in the plural: ``"ONNX files"``.
    suffixes : tuple of str
        Lower case, with the dot.
    load : Factory
        ``(path: Path, name: str, examples, **options) -> (model, example inputs or None)``.  `name` is that of
        ``FILE:NAME``; `examples` are example inputs in their order or by name, empty where there are none.

        The model is a function of Tensors, or an object with ``__call__``.  Of these attributes it may have any:
        `inputs` (a `tg2hdl_backend.TensorSpec` each) where the file declares shapes and types; `input_names`,
        `output_names`; `labels`, the strings that numbers of an output, or positions along its last axis, stand for, by
        its name; `in_float`, a note for
        each part that is computed in float; `named_weights()`; `is_integer`, which is true where there is nothing to
        quantize.  State is a tensor that the model assigns to.  A `tg2hdl.QuantizedModel` has integers and scales.  A
        model with `is_quantized` brings quantizers and becomes integers, unless `keep_float` is given, by
        `tg2hdl.integer_model`.
    sniff : Factory, optional
        ``(head: bytes) -> bool``: whether the first 4096 bytes are those of such a file.
    has_names : bool
        Whether a file has several models, as Python files do: ``FILE:NAME``.
    options : tuple of str
        Keywords of `load`, which `tg2hdl.compile`, `tg2hdl.quantize` and the commands take.
    command_options : Factory, optional
        ``() -> list[click.Option]``: those on the command line, whose names are in `options`.
    write : Factory, optional
        ``(model: tg2hdl.QuantizedModel, path: Path) -> None``, for ``tg2hdl quantize -o``.
    quantize : Factory, optional
        ``(path, samples, target, options, labels, *, batched, **file_options) -> result``: writes a quantized file of
        this format from a float one.  `options` are the fields of `QuantizeOptions` that were given, `samples` one
        array for each input; the result has ``to_dict()``, and ``str()`` describes it.
    needs : tuple of str
        Modules that reading needs; where one is missing the error is `install`.
    install : str
        E.g. ``pip install "tg2hdl[onnx]"``.
    """

    name: str
    description: str
    suffixes: tuple[str, ...]
    load: Factory
    sniff: Factory | None = None
    has_names: bool = False
    options: tuple[str, ...] = ()
    command_options: Factory | None = None
    write: Factory | None = None
    quantize: Factory | None = None
    needs: tuple[str, ...] = ()
    install: str = ""


@dataclass(frozen=True)
class SimulatorDef:
    """A simulation engine.

    Parameters
    ----------
    name : str
        For ``engine=`` and ``--engine``.
    description : str
        One line.
    available : Factory
        ``() -> str | None``: None when it can run here, otherwise the reason.
    open : Factory
        ``(model, **options) -> Simulation`` of `tg2hdl_sim`.
    build_seconds, cycles_per_second : Factory
        ``(cells: int) -> float``: cost model for selecting an engine.
    priority : int
        Position in lists, highest first; ``engine="auto"`` goes by the costs only.
    """

    name: str
    description: str
    available: Factory
    open: Factory
    build_seconds: Factory
    cycles_per_second: Factory
    priority: int = 0


@dataclass(frozen=True)
class ReportSection:
    """A section of the report of a model.

    Parameters
    ----------
    name : str
        Unique; the anchor of the section in the page.
    title : str
    render : Factory
        ``(context) -> str``: HTML of the section's body, or ``""`` to leave it out.  The context has the accelerator,
        the figures of the report as plain data, the result of synthesis if there is one, and the figures of an earlier
        report if one is compared: `tg2hdl.report.ReportContext`.
    order : int
        Position in the page; the built-in sections are at 10 to 80.
    """

    name: str
    title: str
    render: Factory
    order: int = 100


@dataclass(frozen=True)
class CommandDef:
    """A subcommand of ``tg2hdl``: the factory is a click command.

    Parameters
    ----------
    name : str
        Of the subcommand.
    description : str
        One line.
    command : Factory
        The click command.
    """

    name: str
    description: str
    command: Factory


@dataclass(frozen=True)
class ExportDef:
    """A system that designs are exported to, such as LiteX.

    Parameters
    ----------
    name : str
        For ``--for`` and ``system=``.
    description : str
        One line.
    files : Factory
        ``(export: tg2hdl.export.Export) -> dict[str, str | bytes]``: the files of this system, by their paths in the
        folder.
    ports : tuple of str
        Kinds of host ports that the system can be connected to; the first one is the default.
    """

    name: str
    description: str
    files: Factory
    ports: tuple[str, ...]


@dataclass(frozen=True)
class DimensionDef:
    """A dimension of the designs that `tg2hdl.explore` looks at.

    Parameters
    ----------
    name : str
        That of the field of `CompileOptions`, unless `apply` is given.
    description : str
        One line.
    values : Factory
        ``(program, options, part: TargetDef) -> list``: the values to try.  The options are those that all designs
        share.  A single value leaves the dimension out.
    apply : Factory, optional
        ``(options, value, part) -> CompileOptions``: the options with a value.
    changes_numbers : bool
        Whether results may differ: it is then explored only where the user allows it.
    """

    name: str
    description: str
    values: Factory
    apply: Factory | None = None
    changes_numbers: bool = False
