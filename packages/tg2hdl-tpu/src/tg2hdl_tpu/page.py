"""The page of instructions, made from their description."""

from __future__ import annotations

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.isa import FIELDS, OPCODES, Opcode, Trap

__all__ = ["isa_page"]


def _cycles(opcode: Opcode, config: Config) -> str:
    if opcode.op is not None:
        each = 2 if opcode.op.reads_c else config.interval(opcode.op.kind)
        rows = f"{each}n" if each > 1 else "n"
        return f"{rows}, written {config.latencies[opcode.op.kind]} later"
    return {
        "weights": "n",
        "tile": "1",
        "lda": f"{config.latency + 2} until the register is there",
        "load": f"1, then n + {config.memory_latency} in the background",
        "store": "1, then n in the background",
        "halt": "waits for all",
        "end": "2; 1 at the last iteration",
        "jump": "2",
    }.get(opcode.name, "1; 2 if taken" if opcode.name.startswith("b") else "1")


def isa_page(config: Config) -> str:
    """Return the page as Markdown."""
    lines = ["# Instructions", "", f"For the machine `{config.to_json()}`.", "", "## Table", ""]
    lines += ["| instruction | code | cycles | meaning | fields |", "|---|---|---|---|---|"]
    for opcode in OPCODES.values():
        if opcode.op is not None and opcode.op.is_long and not getattr(config, opcode.op.part):
            continue
        fields = "all of a vector instruction" if opcode.op else ", ".join(opcode.uses)
        meaning = opcode.summary.replace("|", "\\|")
        lines.append(
            f"| `{opcode.name}` | {opcode.code} | {_cycles(opcode, config)} | {meaning} | {fields} |"
        )
    lines += ["", "## Fields", "", "| field | bits | signed | meaning |", "|---|---|---|---|"]
    for f in FIELDS.values():
        bits = f"{f.low + f.width - 1}:{f.low}"
        lines.append(f"| `{f.name}` | {bits} | {'yes' if f.signed else 'no'} | {f.summary} |")
    lines += ["", "## Traps", ""]
    lines += [f"{trap.value}. {trap.name.lower()}" for trap in Trap if trap]
    return "\n".join([*lines, ""])
