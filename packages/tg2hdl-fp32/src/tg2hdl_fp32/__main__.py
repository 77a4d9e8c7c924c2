"""The command ``tg2hdl-fp32``: cost, Verilog and a testbench of a core."""

__all__ = ["OPERATIONS", "describe", "main", "make_core"]

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from .core import TARGETS
from .errors import FloatParameterError, FloatTypeError, ToolNotInstalledError, one_of
from .format import FORMATS, Format, format_by_name
from .modes import RoundingMode
from .timing import PROFILES

_ROUNDED = "correctly rounded"
#: Operation -> class, accuracy.
OPERATIONS = {
    "abs": ("Abs", "exact"),
    "add": ("Add", _ROUNDED),
    "compare": ("Compare", "exact"),
    "div": ("Div", _ROUNDED),
    "exp2": ("Exp2", "error below 1 ULP"),
    "float_to_float": ("FloatToFloat", _ROUNDED),
    "float_to_int": ("FloatToInt", "exact, toward zero"),
    "fma": ("Fma", _ROUNDED),
    "int_to_float": ("IntToFloat", _ROUNDED),
    "log2": ("Log2", "error below 1 ULP"),
    "minmax": ("MinMax", "exact"),
    "mul": ("Mul", _ROUNDED),
    "neg": ("Neg", "exact"),
    "reciprocal": ("Reciprocal", "error below 1 ULP"),
    "round": ("RoundToIntegral", "exact"),
    "rsqrt": ("Rsqrt", "error below 1 ULP"),
    "sin": ("Sin", "error below 1 ULP"),
    "sqrt": ("Sqrt", _ROUNDED),
    "sub": ("Sub", _ROUNDED),
}
_COMMANDS = {
    "describe": "latency, cost and accuracy of a core; also the default",
    "verilog": "Verilog of a core",
    "testbench": "Verilog that checks the core against exact results",
}
_EPILOG = """\
examples:
  tg2hdl-fp32 describe mul --format BF16 --profile fast
  tg2hdl-fp32 verilog mul --format bf16 --profile fast -o mul.v
  tg2hdl-fp32 testbench mul --format bf16 --profile fast -o mul_tb.v
  tg2hdl-fp32 verilog float_to_int --set width=16 --set overflow=wrap -o to_int.v
"""


def make_core(operation: str, format: Format, profile: str, target: str, **parameters: Any) -> Any:
    """Return the core of an operation."""
    if operation not in OPERATIONS:
        raise FloatParameterError(f"unknown operation {operation!r}; use one of {one_of(OPERATIONS)}")
    made = getattr(import_module("tg2hdl_fp32"), OPERATIONS[operation][0])
    try:
        return made(format, profile=profile, target=target, **parameters)
    except FloatTypeError as error:
        raise FloatParameterError(str(error)) from None
    except TypeError as error:
        reason = str(error).rpartition("() ")[2]
        raise FloatParameterError(
            f"{operation} {reason}; its parameters are those of tg2hdl_fp32.{OPERATIONS[operation][0]}"
        ) from None


def describe(operation: str, format: Format, profile: str, target: str, **parameters: Any) -> str:
    """Return latency, cost and accuracy of a core as text.

    The cost is counted in the core's netlist: registers exactly, multipliers as 18x18 blocks.
    """
    core = make_core(operation, format, profile, target, **parameters)
    name, accuracy = OPERATIONS[operation]
    registers, multipliers, memory = _cost(core)
    return "\n".join(
        [
            f"{name} of {format}, profile {profile}, family {target}",
            f"latency      {core.latency} cycles",
            f"interval     {core.ii} cycle{'s' if core.ii > 1 else ''}",
            f"stages       {', '.join(f'{delay:.1f}' for delay in core.stage_delays)} ns (estimates for an ECP5-6)",
            f"registers    {registers} bits",
            f"multipliers  {multipliers} of 18x18",
            f"tables       {memory} bits",
            f"accuracy     {accuracy}",
        ]
    )


def _cost(core: Any) -> tuple[int, int, int]:
    from amaranth.back import rtlil

    text = rtlil.convert(core)
    registers = multipliers = memory = 0
    kind = ""
    width: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["cell"]:
            kind = words[1]
            multipliers += kind == "\\MULT18X18D"
            width = {}
        elif words[:1] == ["memory"]:
            memory += int(words[2]) * int(words[4])
        elif words[:1] == ["parameter"] and words[1].endswith("WIDTH"):
            width[words[1]] = int(words[2])
        elif words[:1] == ["end"]:
            if kind in ("$dff", "$dffe"):
                registers += width.get("\\WIDTH", 0)
            elif kind == "$mul":
                multipliers += -(-width["\\A_WIDTH"] // 18) * -(-width["\\B_WIDTH"] // 18)
            kind = ""
    return registers, multipliers, memory


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
        _add_options(commands.add_parser(name, help=text, description=text), name)
    options = parser.parse_args(arguments)
    try:
        parameters = dict(map(_parameter, options.set))
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


def _add_options(command: argparse.ArgumentParser, name: str) -> None:
    command.add_argument("operation", help=one_of(OPERATIONS))
    command.add_argument("--format", default="FP32", help=f"{one_of(FORMATS)}, or E<exponent>M<fraction>")
    command.add_argument("--profile", default="balanced", help=one_of(PROFILES))
    command.add_argument("--family", default="generic", help=one_of(TARGETS))
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="parameter of the core, such as rounding=RTZ, flags=true, width=16",
    )
    if name != "describe":
        command.add_argument("--module", help="name of the module [the operation]")
        command.add_argument("-o", "--output", help="file to write [standard output]")
    if name == "testbench":
        command.add_argument("--count", type=int, default=200, help="random operands [200]")


def _text(options: argparse.Namespace, core: tuple[str, Format, str, str], parameters: dict[str, Any]) -> str:
    if options.command == "describe":
        return describe(*core, **parameters)
    built, module = make_core(*core, **parameters), options.module or options.operation
    if options.command == "verilog":
        from .verilog import verilog

        return verilog(built, module)
    from .testbench import write_testbench

    return write_testbench(built, options.operation, module, count=options.count)


def _parameter(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise FloatParameterError(f"--set {text!r} is not of the form NAME=VALUE")
    if value in ("true", "false"):
        return name, value == "true"
    if value in RoundingMode.__members__:
        return name, RoundingMode[value]
    return name, int(value) if value.isdecimal() else value


if __name__ == "__main__":
    main()
