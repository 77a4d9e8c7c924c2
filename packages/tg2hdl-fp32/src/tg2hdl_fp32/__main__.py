"""Print latency, cost and accuracy of a core: ``python -m tg2hdl_fp32 OP --format FP32 --profile balanced``."""

__all__ = ["OPERATIONS", "describe", "main"]

import argparse
from importlib import import_module
from typing import Any

from .core import TARGETS
from .errors import FloatParameterError, one_of
from .format import FORMATS, Format, format_by_name
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


def describe(operation: str, format: Format, profile: str, target: str) -> str:
    """Return latency, cost and accuracy of a core as text.

    The cost is counted in the core's netlist: registers exactly, multipliers as 18x18 blocks.
    """
    if operation not in OPERATIONS:
        raise FloatParameterError(f"unknown operation {operation!r}; use one of {one_of(OPERATIONS)}")
    name, accuracy = OPERATIONS[operation]
    core = getattr(import_module("tg2hdl_fp32"), name)(format, profile=profile, target=target)
    registers, multipliers, memory = _cost(core)
    return "\n".join(
        [
            f"{name} of {format}, profile {profile}, target {target}",
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
    parser = argparse.ArgumentParser(prog="python -m tg2hdl_fp32", description=__doc__)
    parser.add_argument("operation", help=one_of(OPERATIONS))
    parser.add_argument("--format", default="FP32", help=f"{one_of(FORMATS)}, or E<exponent>M<fraction>")
    parser.add_argument("--profile", default="balanced", help=one_of(PROFILES))
    parser.add_argument("--target", default="generic", help=one_of(TARGETS))
    options = parser.parse_args(arguments)
    try:
        text = describe(options.operation, format_by_name(options.format), options.profile, options.target)
    except FloatParameterError as error:
        parser.error(str(error))
    print(text)


if __name__ == "__main__":
    main()
