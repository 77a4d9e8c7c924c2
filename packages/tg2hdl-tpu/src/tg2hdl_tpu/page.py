"""The page of instructions, made from their description."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.isa import FIELDS, OF_PRODUCTS, OPCODES, PRODUCTS, Opcode, Trap

__all__ = ["isa_facts", "isa_page"]


def _cycles(opcode: Opcode, config: Config) -> str:
    if opcode.op is not None:
        each = 2 if opcode.op.reads_c else config.interval(opcode.op.kind)
        rows = f"{each}n" if each > 1 else "n"
        kind = opcode.op.kind
        later = [str(config.latencies[kind])] if not kind or getattr(config, opcode.op.part) else []
        if config.matrix_is_float and opcode.name in OF_PRODUCTS:
            later.append(f"{config.latencies[PRODUCTS]} with mxu")
        return f"{rows}, written {' (or '.join(later)}{')' * (len(later) - 1)} later"
    return {
        "weights": "n",
        "preload": "n",
        "outer": "n",
        "tile": "1",
        "lda": f"{config.latency + 2} until the register is there",
        "load": f"1, then n + {config.memory_latency} in the background",
        "store": "1, then n in the background",
        "halt": "waits for all",
        "end": "2; 1 at the last iteration",
        "jump": "2",
    }.get(opcode.name, "1; 2 if taken" if opcode.name.startswith("b") else "1")


def _matrix_unit(config: Config) -> list[str]:
    if config.matrix_is_float:
        rounded, packed = (
            ", which are rounded to it (nearest, ties to even)",
            f", or packed (`{config.packed_mode}`)",
        )
        of_words = f"{rounded}{packed}, {config.packed} in a row" if config.matrix_bits == 16 else ""
        return [
            f"A tile has {config.rows} x {config.columns} weights. Weights and factors are {config.matrix_format}:",
            f"FP32 words (`mxu`){of_words}.",
            "Products are rounded to FP32 and added in FP32, neighbours first; `fadd` then adds `b`.",
            f"Only {' and '.join(OF_PRODUCTS)} have products, with `relu` and `seg`; a row of `b` is added with",
            f"`seg={config.columns}` or less.",
        ]
    return [
        f"A tile has {config.rows} x {config.columns} weights. Weights and factors are {config.matrix_format}:",
        f"words (`mxu`), where another value is the trap `format`, or packed (`{config.packed_mode}`),",
        f"{config.packed} in a row. Sums of products are int32 and wrap.",
    ]


def _has(opcode: Opcode, config: Config) -> bool:
    op = opcode.op
    assert op is not None
    of_products = config.matrix_is_float and op.name in OF_PRODUCTS
    return not op.is_long or of_products or bool(getattr(config, op.part))


def isa_facts(config: Config) -> dict[str, Any]:
    """Return instructions, fields and traps as plain data; the page shows the same."""
    instructions = [
        {
            "name": opcode.name,
            "code": opcode.code,
            "cycles": _cycles(opcode, config),
            "meaning": opcode.summary,
            "fields": list(opcode.uses),
            "vector": opcode.op is not None,
        }
        for opcode in OPCODES.values()
        if opcode.exists(config) and (opcode.op is None or _has(opcode, config))
    ]
    return {
        "config": asdict(config),
        "instructions": instructions,
        "fields": [asdict(f) for f in FIELDS.values()],
        "traps": {trap.name.lower(): trap.value for trap in Trap if trap},
    }


def isa_page(config: Config) -> str:
    """Return the page as Markdown."""
    facts = isa_facts(config)
    lines = ["# Instructions", "", f"For the machine `{config.to_json()}`.", "", "## Table", ""]
    lines += ["| instruction | code | cycles | meaning | fields |", "|---|---|---|---|---|"]
    for found in facts["instructions"]:
        fields = "all of a vector instruction" if found["vector"] else ", ".join(found["fields"])
        meaning = found["meaning"].replace("|", "\\|")
        lines.append(f"| `{found['name']}` | {found['code']} | {found['cycles']} | {meaning} | {fields} |")
    lines += ["", "## Matrix unit", "", *_matrix_unit(config)]
    lines += ["", "## Fields", "", "| field | bits | signed | meaning |", "|---|---|---|---|"]
    for f in FIELDS.values():
        bits = f"{f.low + f.width - 1}:{f.low}"
        lines.append(f"| `{f.name}` | {bits} | {'yes' if f.signed else 'no'} | {f.summary} |")
    lines += ["", "## Traps", ""]
    lines += [f"{value}. {name}" for name, value in facts["traps"].items()]
    return "\n".join([*lines, ""])
