"""The command ``tg2hdl-fp32``: cost, Verilog and a testbench of a core."""

__all__ = ["OPERATIONS", "describe", "main", "make_core"]

import argparse
import re
import sys
from collections.abc import Mapping
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from .core import TARGETS, Core
from .cost import cost_of, cost_table
from .errors import FloatParameterError, FloatTypeError, ToolNotInstalledError, one_of
from .format import FORMATS, Format, format_by_name
from .modes import RoundingMode
from .named import import_named
from .timing import PROFILES


class NamedCore(NamedTuple):
    """A core by its name in the command.

    Attributes
    ----------
    core : str
        Name of the class.
    accuracy : str
        Of its results.
    fixed : dict
        Parameters that the name stands for.
    pipelined : bool
        The core has a profile or a number of stages, and a family.
    """

    core: str
    accuracy: str
    fixed: Mapping[str, Any] = MappingProxyType({})
    pipelined: bool = True


_TWICE = "{0} is given twice; leave out --set {0}"
_ROUNDED = "correctly rounded"
_ULP = "error below 1 ULP"
OPERATIONS = {
    "abs": NamedCore("Abs", "exact"),
    "accumulate": NamedCore("Accumulator", "the exact sum, correctly rounded"),
    "add": NamedCore("Add", _ROUNDED),
    "atan": NamedCore("Atan", _ULP),
    "atan2": NamedCore("Atan2", _ULP),
    "classify": NamedCore("Classify", "exact"),
    "compare": NamedCore("Compare", "exact"),
    "complex_mul": NamedCore("ComplexMul", "both parts correctly rounded"),
    "cos": NamedCore("Cos", _ULP),
    "div": NamedCore("Div", _ROUNDED),
    "div_iterative": NamedCore("IterativeDiv", _ROUNDED, pipelined=False),
    "dot": NamedCore("DotProduct", "the exact sum, correctly rounded"),
    "erf": NamedCore("Erf", _ULP),
    "exp": NamedCore("Exp", _ULP),
    "exp10": NamedCore("Exp10", _ULP),
    "exp2": NamedCore("Exp2", _ULP),
    "float_to_float": NamedCore("FloatToFloat", _ROUNDED),
    "float_to_int": NamedCore("FloatToInt", "exact, toward zero"),
    "fma": NamedCore("Fma", _ROUNDED),
    "fmsub": NamedCore("Fmsub", _ROUNDED),
    "fnmadd": NamedCore("Fnmadd", _ROUNDED),
    "fnmsub": NamedCore("Fnmsub", _ROUNDED),
    "hypot": NamedCore("Hypot", _ULP),
    "int_to_float": NamedCore("IntToFloat", _ROUNDED),
    "ln": NamedCore("Ln", _ULP),
    "log10": NamedCore("Log10", _ULP),
    "log2": NamedCore("Log2", _ULP),
    "mac": NamedCore("MultiplyAccumulate", "each step correctly rounded"),
    "maximum": NamedCore("MinMax", "exact", {"variant": "maximum"}),
    "maximumNumber": NamedCore("MinMax", "exact", {"variant": "maximumNumber"}),
    "minimum": NamedCore("MinMax", "exact", {"variant": "minimum"}),
    "minimumNumber": NamedCore("MinMax", "exact", {"variant": "minimumNumber"}),
    "minmax": NamedCore("MinMax", "exact"),
    "mul": NamedCore("Mul", _ROUNDED),
    "mul_constant": NamedCore("MulConstant", _ROUNDED),
    "neg": NamedCore("Neg", "exact"),
    "pow": NamedCore("Pow", _ULP),
    "reciprocal": NamedCore("Reciprocal", _ULP),
    "round": NamedCore("RoundToIntegral", "exact"),
    "rsqrt": NamedCore("Rsqrt", _ULP),
    "sigmoid": NamedCore("Sigmoid", _ULP),
    "sin": NamedCore("Sin", _ULP),
    "sincos": NamedCore("SinCos", _ULP),
    "sin_turns": NamedCore("SinTurns", _ULP),
    "sqrt": NamedCore("Sqrt", _ROUNDED),
    "sqrt_iterative": NamedCore("IterativeSqrt", _ROUNDED, pipelined=False),
    "sub": NamedCore("Sub", _ROUNDED),
    "tanh": NamedCore("Tanh", _ULP),
}
_COMMANDS = {
    "describe": "latency, cost and accuracy of a core; also the default",
    "verilog": "Verilog of a core",
    "table": "latencies and cost of many cores",
    "testbench": "Verilog that checks the core against exact results",
}
_EPILOG = """\
examples:
  tg2hdl-fp32 describe mul --format BF16 --profile fast
  tg2hdl-fp32 verilog mul --format bf16 --profile fast -o mul.v
  tg2hdl-fp32 testbench mul --format bf16 --profile fast -o mul_tb.v
  tg2hdl-fp32 verilog float_to_int --set width=16 --set overflow=wrap -o to_int.v
  tg2hdl-fp32 verilog add --set stages=3 --stream -o add.v
  tg2hdl-fp32 describe mul_constant --format FP16 --set constant=0.1
  tg2hdl-fp32 describe dot --format FP16 --set terms=4
  tg2hdl-fp32 table add mul tanh --format FP32 --format FP16 --luts
  tg2hdl-fp32 verilog my_cores:Add --format my_cores:FORMAT -o add.v
"""
_ELSEWHERE = ", or MODULE:CLASS for a core of your own"


def make_core(
    operation: str, format: Format, profile: str | None = None, target: str | None = None, **parameters: Any
) -> Any:
    """Return the core of an operation, in the profile ``balanced`` unless a profile or ``stages`` is given.

    Parameters
    ----------
    operation : str
        Of :data:`OPERATIONS`, or ``module:Class`` for a class that is derived from :class:`Core`.
    format : Format
        Or what that class takes.
    profile, target : str, optional
        As for the core.
    parameters
        Those of the core; ``constant`` may be a number, and ``stream=True`` puts streams around the core.
    """
    name, _, fixed, pipelined = _named(operation)
    given = {key: value for key, value in (("profile", profile), ("target", target)) if value is not None}
    for key in fixed:
        if key in parameters:
            raise FloatParameterError(_TWICE.format(key))
    parameters = {**fixed, **given, **parameters}
    stream = parameters.pop("stream", False)
    if operation == "mul_constant":
        parameters["constant"] = _constant(format, parameters.get("constant"))
    if pipelined and "profile" not in parameters and "stages" not in parameters:
        parameters["profile"] = "balanced"
    if not pipelined and given:
        raise FloatParameterError(f"{operation} has one build, without a profile and for any family")
    package = import_module("tg2hdl_fp32")
    try:
        core = (import_named(name) if ":" in name else getattr(package, name))(format, **parameters)
        return package.StreamCore(core) if stream else core
    except FloatTypeError as error:
        raise FloatParameterError(str(error)) from None
    except TypeError as error:
        reason = str(error).rpartition("() ")[2]
        raise FloatParameterError(
            f"{operation} {reason}; its parameters are those of {name if ':' in name else f'tg2hdl_fp32.{name}'}"
        ) from None


def _named(operation: str) -> NamedCore:
    """Entry of an operation, or of a class of another package."""
    if operation in OPERATIONS:
        return OPERATIONS[operation]
    if ":" not in operation:
        raise FloatParameterError(
            f"unknown operation {operation!r}; use one of {one_of(OPERATIONS)}{_ELSEWHERE}"
        )
    core = import_named(operation)
    if not (isinstance(core, type) and issubclass(core, Core)):
        raise FloatParameterError(f"{operation} is not a class that is derived from tg2hdl_fp32.Core")
    return NamedCore(operation, core.accuracy)


def _constant(format: Format, value: Any) -> int:
    """Pattern of a number given as text, such as 0.1, or 0x3dcd for a pattern."""
    try:
        if isinstance(value, str) and value.lower().startswith("0x"):
            return int(value, 16)
        return format.encode(Fraction(value))
    except (TypeError, ValueError):
        raise FloatParameterError(
            f"constant {value!r} is not a number; use --set constant=0.1, or 0x and the bit pattern"
        ) from None


def describe(
    operation: str, format: Format, profile: str | None = None, target: str | None = None, **parameters: Any
) -> str:
    """Return latency, cost and accuracy of a core as text.

    The cost is counted in the core's netlist: registers exactly, multipliers as 18x18 blocks.

    Parameters
    ----------
    operation : str
        Key of `OPERATIONS`, such as ``"add"``.
    format : Format
    profile : str, optional
        How many registers: ``"balanced"`` unless it is given.
    target : str, optional
        FPGA family whose delays decide where registers are.
    **parameters
        Passed to the class of the core.
    """
    built = make_core(operation, format, profile, target, **parameters)
    core = getattr(built, "core", built)
    name, accuracy, _, pipelined = _named(operation)
    registers, multipliers, memory = cost_of(built)
    build = ""
    if pipelined:
        stages = parameters.get("stages")
        chosen = f"stages {stages}" if stages is not None else f"profile {profile or 'balanced'}"
        build = f", {chosen}, family {target or 'generic'}"
    lines = [
        f"{name.rpartition(':')[2]} of {format}{build}",
        f"latency      {core.latency} cycle{'s' if core.latency != 1 else ''}",
        f"interval     {core.ii} cycle{'s' if core.ii > 1 else ''}",
    ]
    if hasattr(core, "stage_delays"):
        delays = ", ".join(f"{delay:.1f}" for delay in core.stage_delays)
        lines.append(f"stages       {delays} ns (estimates for an ECP5-6)")
    return "\n".join(
        [
            *lines,
            f"registers    {registers} bits",
            f"multipliers  {multipliers} of 18x18",
            f"tables       {memory} bits",
            f"accuracy     {accuracy}",
        ]
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] not in _COMMANDS and not arguments[0].startswith("-"):
        arguments = ["describe", *arguments]
    parser = argparse.ArgumentParser(
        prog="tg2hdl-fp32",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == "table":
            _add_table_options(command)
        else:
            _add_options(command, name)
    options = parser.parse_args(arguments)
    try:
        if options.command == "table":
            print(_table(options))
            return
        parameters = dict(map(_parameter, options.set))
        if options.stream:
            parameters["stream"] = True
        for name, option in (("profile", "profile"), ("target", "family")):
            if name in parameters:
                if getattr(options, option) is not None:
                    raise FloatParameterError(_TWICE.format(name))
                setattr(options, option, parameters.pop(name))
        core = (options.operation, format_by_name(options.format), options.profile, options.family)
        text = _text(options, core, parameters)
        if options.command != "describe" and options.output:
            _write(Path(options.output), text)
            return
    except (FloatParameterError, ToolNotInstalledError, OSError) as error:
        parser.error(str(error))
    print(text, end="\n" if options.command == "describe" else "")


def _write(path: Path, text: str) -> None:
    """Write a file whole: after an error one of before is as it was."""
    if path.exists() and not path.is_file():  # a device or a pipe
        path.write_text(text)
        return
    staged = path.with_name(path.name + ".new")
    try:
        staged.write_text(text)
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)


def _add_table_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "operations", nargs="*", help=f"{one_of(OPERATIONS)}{_ELSEWHERE} [all that need no parameter]"
    )
    command.add_argument(
        "--format", action="append", help=f"{one_of(FORMATS)}, or another; may be repeated [FP32]"
    )
    command.add_argument("--family", help=f"{one_of(TARGETS)} [generic]")
    command.add_argument(
        "--luts", action="store_true", help="synthesize for an ECP5 and count LUTs: seconds a row"
    )


def _table(options: argparse.Namespace) -> str:
    for name in options.operations:
        _named(name)
    names = options.operations or [name for name in OPERATIONS if name != "mul_constant"]

    def make(operation: str, format: Format, profile: str | None) -> Any:
        return make_core(operation, format, profile, options.family)

    formats = [format_by_name(name) for name in options.format or ["FP32"]]
    return cost_table(names, formats, make, luts=options.luts)


def _add_options(command: argparse.ArgumentParser, name: str) -> None:
    command.add_argument("operation", help=f"{one_of(OPERATIONS)}{_ELSEWHERE}")
    command.add_argument("--format", default="FP32", help=f"{one_of(FORMATS)}, or E<exponent>M<fraction>")
    command.add_argument("--profile", help=f"{one_of(PROFILES)} [balanced]")
    command.add_argument("--family", help=f"{one_of(TARGETS)} [generic]")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="parameter of the core, such as stages=3, rounding=RTZ, flags=true, width=16, point=8, constant=0.1",
    )
    command.add_argument("--stream", action="store_true", help="valid/ready streams around the core")
    if name != "describe":
        command.add_argument("--module", help="name of the module [the operation]")
        command.add_argument("-o", "--output", help="file to write [standard output]")
    if name == "testbench":
        command.add_argument("--count", type=int, default=200, help="random operands [200]")


def _text(
    options: argparse.Namespace,
    core: tuple[str, Format, str | None, str | None],
    parameters: dict[str, Any],
) -> str:
    if options.command == "describe":
        return describe(*core, **parameters)
    built = make_core(*core, **parameters)
    module = options.module or (
        getattr(built, "core", built).operation if ":" in options.operation else options.operation
    )
    if options.command == "verilog":
        from .verilog import verilog

        return verilog(built, module)
    from .testbench import write_testbench

    return write_testbench(built, module, count=options.count)


def _parameter(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise FloatParameterError(f"--set {text!r} is not of the form NAME=VALUE")
    if value in ("true", "false"):
        return name, value == "true"
    if value in RoundingMode.__members__:
        return name, RoundingMode[value]
    return name, int(value) if re.fullmatch(r"-?\d+", value) else value


if __name__ == "__main__":
    main()
