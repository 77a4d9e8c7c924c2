"""Files of strangers: each kind of file that tg2hdl reads, damaged and changed at random, is read or refused.

    python benchmarks/fuzz/documents.py            600 of each kind; writes documents.json and documents.md
    python benchmarks/fuzz/documents.py 50 [KIND]  fewer, printed only

A file is refused by an error of this project, never by another exception. One that is read is used: a quantized model
must compute in hardware's golden model what its own numpy code computes, a design in simulation what its golden model
computes, a bundle on the simulator in C++ what the one in Python computes, and a device what it did before. Half of
the files with a checksum get a right one, so that what is behind it is tested.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("DEV", "PYTHON")

import click
import numpy as np
from record import HERE, write_record
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.quantized_file import load_quantized, save_quantized
from tg2hdl_backend import Runner
from tg2hdl_host import Device, HostError, MemoryImage, selftest
from tg2hdl_host.arrays import read_arrays
from tg2hdl_host.description import read_files
from tg2hdl_ir import Tg2hdlError, evaluate_program, parse_kernel
from tg2hdl_ir.records import signed
from tg2hdl_top import Design
from tg2hdl_tpu import Bundle, Config, Machine, assemble, disassemble
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.reference import Reference
from tg2hdl_tpu.testing import random_bundle

sys.path.insert(0, str(HERE.parents[1] / "packages/tg2hdl-host/tests/helpers"))
from fake_device import DisturbedLine, FakeDevice

WANTED = 600
OURS = (Tg2hdlError, HostError, click.ClickException)
SLOW = 20.0
"""Seconds after which a file counts as one that does not end."""

WORDS = ["", "x", "0", "-1", "NaN", "fp32", "int8", "tuple", "../x", "<b>", "|", "\x00", "é", "9" * 40]
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    7,
    2**31,
    2**63,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]],
    [0],
]


# Mutations


def of_bytes(raw: bytes, rng: random.Random) -> bytes:
    """Bits, bytes and pieces changed, cut or doubled."""
    data = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + rng.randrange(9)] = rng.randbytes(rng.randrange(9))
            case 2:
                del data[at:]
            case 3:
                data[at:at] = data[at : at + rng.randrange(40)]
            case 4 if at < len(data):
                data[at] = rng.choice(b'\x00\xff{}[]",:0 -\n')
    return bytes(data)


def of_text(raw: bytes, rng: random.Random) -> bytes:
    """Lines and words changed, moved, or left out."""
    lines = raw.decode().split("\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(lines))
        words = re.split(r"(\W)", lines[at])
        place = rng.randrange(len(words))
        match rng.randrange(6):
            case 0:
                words[place] = rng.choice(WORDS)
            case 1:
                numbers = [n for n, word in enumerate(words) if word.isdigit()]
                if numbers:
                    words[rng.choice(numbers)] = str(rng.choice((-1, 0, 1, 255, 2**31, 2**64, 10**20)))
            case 2:
                del words[place]
            case 3:
                words.insert(place, rng.choice(re.split(r"(\W)", rng.choice(lines))))
            case 4:
                lines.insert(rng.randrange(len(lines)), lines[at])
            case 5:
                del lines[at]
                lines = lines or [""]
                continue
        lines[at if at < len(lines) else -1] = "".join(words)
    return "\n".join(lines).encode()


def of_json(raw: bytes, rng: random.Random) -> bytes:
    """A value, key or element replaced, moved or left out."""
    return json.dumps(changed(json.loads(raw), rng)).encode()


def changed(document: Any, rng: random.Random) -> Any:
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places: list[tuple[Any, Any]] = []

        def collect(item: Any, places: list[tuple[Any, Any]] = places) -> None:
            for key in list(item) if isinstance(item, dict) else range(len(item)):
                places.append((item, key))
                if isinstance(item[key], dict | list):
                    collect(item[key])

        if isinstance(document, dict | list):
            collect(document)
        if not places:
            return rng.choice(VALUES)
        item, key = rng.choice(places)
        match rng.randrange(6):
            case 0:
                del item[key]
            case 1:
                item[key] = rng.choice(VALUES)
            case 2:
                item[key] = rng.choice(WORDS)
            case 3:
                other, place = rng.choice(places)
                if place in other if isinstance(other, dict) else place < len(other):
                    item[key] = json.loads(json.dumps(other[place]))
            case 4:
                if isinstance(item[key], int | float):
                    item[key] += rng.choice((-1, 1, 1000, 0.5))
                else:
                    item[key] = [item[key]]
            case 5:
                if isinstance(item, dict):
                    item[rng.choice(WORDS)] = item.pop(key)
                else:
                    item.insert(key, rng.choice(VALUES))
    return document


def array(rng: random.Random, like: np.ndarray) -> np.ndarray:
    """Another array in the place of one."""
    match rng.randrange(9):
        case 0:
            return np.array([None, "x", 1], dtype=object)
        case 1:
            return (
                like.astype(rng.choice(("f8", "f2", "i8", "u1", "?", "c8")))
                if like.dtype.kind in "biuf"
                else like
            )
        case 2:
            return like.reshape(-1)[: max(0, like.size - 1)]
        case 3:
            return np.array(
                rng.choice((float("nan"), float("inf"), 0.0, -1.0, 1e300)), dtype=rng.choice(("f4", "f8"))
            )
        case 4:
            return like[None]
        case 5:
            return np.array(["text"])
        case 6:
            return np.zeros((0, 3), np.float32)
        case 7 if like.dtype.kind == "f" and like.size:
            found = like.copy()
            found.reshape(-1)[rng.randrange(like.size)] = rng.choice((np.nan, np.inf, -np.inf, 0.0, 1e30))
            return found
        case _:
            return like.T.copy()


def npz(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, value in arrays.items():
            part = io.BytesIO()
            np.save(part, value, allow_pickle=True)
            archive.writestr(f"{name}.npy".replace("\x00", "_"), part.getvalue())
    return file.getvalue()


def of_npz(raw: bytes, rng: random.Random) -> bytes:
    """An array replaced, left out, renamed, or its document changed."""
    with np.load(io.BytesIO(raw)) as archive:
        arrays = dict(archive)
    if "document" in arrays and rng.random() < 0.7:
        text = of_json(str(arrays["document"]).encode(), rng)
        arrays["document"] = np.array(text.decode("utf-8", "replace"))
    else:
        name = rng.choice(list(arrays))
        match rng.randrange(6):
            case 0:
                del arrays[name]
            case 1:
                arrays[rng.choice(WORDS)] = arrays.pop(name)
            case _:
                arrays[name] = array(rng, arrays[name])
    return npz(arrays)


def of_npy(raw: bytes, rng: random.Random) -> bytes:
    file = io.BytesIO()
    np.save(file, array(rng, np.load(io.BytesIO(raw))), allow_pickle=True)
    return file.getvalue()


# Kinds of files


class Kind:
    """A right file, how it is changed, and what reads and uses it; `use` returns whether the result is right."""

    def __init__(self, right: bytes, use: Callable[[bytes], bool], *mutations: Callable[..., bytes]) -> None:
        self.right, self.use, self.mutations = right, use, (*mutations, of_bytes)


def quantized_models(folder: Path) -> Kind:
    weights = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    further = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    w, v = Tensor(weights).realize(), Tensor(further).realize()
    samples = np.random.default_rng(2).normal(size=(20, 6)).astype(np.float32)
    path = folder / "model.q.npz"
    save_quantized(tg2hdl.quantize(lambda x: (x @ w).relu() @ v, samples), path)

    def use(raw: bytes) -> bool:
        path.write_bytes(raw)
        model = load_quantized(path)
        str(model.report)
        inputs = [np.zeros(spec.shape, np.float32) + 0.3 for spec in model.inputs]
        made = tg2hdl.compile(model, *inputs)
        integers = model.quantize_input(*inputs)
        found, right = made.golden(*integers, codes=True), model.reference(*integers)
        found, right = (part if isinstance(part, tuple | list) else (part,) for part in (found, right))
        return all(
            np.array_equal(np.asarray(a).reshape(-1), np.asarray(b).reshape(-1))
            for a, b in zip(found, right, strict=True)
        )

    return Kind(path.read_bytes(), use, of_npz, of_npz)


def designs(folder: Path) -> Kind:
    w = Tensor(np.random.default_rng(0).integers(-9, 9, (4, 3)).astype(np.int8)).realize()
    made = tg2hdl.compile(
        lambda x: (x.cast("int32") @ w.cast("int32")).relu(), np.zeros((1, 4), np.int8), name="d"
    )
    right = made.design.to_json().encode()

    def use(raw: bytes) -> bool:
        design = Design.from_json(raw)
        inputs = {
            b.name: np.arange(b.depth).astype(b.dtype.numpy())
            for b in design.program.buffers
            if b.role == "input"
        }
        design.format()
        expected = evaluate_program(design.program, inputs)
        with Runner(design, "amaranth") as runner:
            found = runner.run(inputs)
        names = [design.program.buffers[n].name for n in design.program.outputs]
        return all(
            np.array_equal(expected[name].reshape(-1), output)
            for name, output in zip(names, found.outputs, strict=True)
        )

    def forged(raw: bytes, rng: random.Random) -> bytes:
        record = json.loads(of_json(raw, rng))
        try:
            return json.dumps(signed(record)).encode()
        except (KeyError, TypeError, AttributeError):
            return json.dumps(record).encode()

    return Kind(right, use, of_json, forged, forged)


def device_files(folder: Path) -> Kind:
    files = {
        "id": "1122334455667788",
        "design": "fake",
        "buffers": [["x", "input", "int8", [1, 8], 0x80, "w"], ["y", "output", "int32", [3], 0xA0, "r"]],
        "inputs": ["x"],
        "structure": {"dict": [["a", {"output": 0, "shape": [3, 1]}], ["b", {"constant": 4}]]},
        "baud": 115200,
        "borders": {
            "inputs": [{"scale": 0.5, "offset": 0.0, "zero": 1, "low": -128, "high": 127}],
            "outputs": [{"scale": [0.5, 1.0, 2.0], "offset": 0.0, "zero": 0, "low": -9, "high": 9}],
        },
    }
    place = folder / "device"
    place.mkdir()
    x = np.arange(8, dtype=np.int8)[None]

    def use(raw: bytes) -> bool:
        (place / "device.json").write_bytes(raw)
        device = Device(DisturbedLine(FakeDevice()), files=read_files(place), timeout=5)
        (found,) = device.flat(x)
        device(x)
        device(np.full((1, 8), 0.25))
        device.dequantize(found)
        return np.array_equal(found, x.astype(np.int32).sum() * np.array([1, 2, 3]))

    return Kind(json.dumps(files).encode(), use, of_json, of_json)


def descriptions(folder: Path) -> Kind:
    board = FakeDevice(weights=True)
    start, size = board.word(0x10), board.word(0x14)
    x = np.arange(8, dtype=np.int8)[None]

    def use(raw: bytes) -> bool:
        board = FakeDevice(weights=True)
        del board.memory[start:]
        board.memory += raw + bytes(-len(raw) % 4)
        board.put(0x14, len(raw))
        device = Device(DisturbedLine(board), timeout=0.2, attempts=2)
        device.load_weights({"w": np.array([1, 2, 3], np.int32)})
        device(x)
        return True

    return Kind(bytes(board.memory[start : start + size]), use, of_json, of_json)


def weights(folder: Path) -> Kind:
    path = folder / "weights.npz"

    def use(raw: bytes) -> bool:
        path.write_bytes(raw)
        device = Device(DisturbedLine(FakeDevice(weights=True)), weights=read_arrays(path), timeout=5)
        x = np.arange(8, dtype=np.int8)[None]
        device(x)
        return True

    return Kind(npz({"w": np.array([4, 5, 6], np.int32)}), use, of_npz, of_npz)


def vectors(folder: Path) -> Kind:
    x = np.arange(8, dtype=np.int8)[None]
    y = (x.astype(np.int32).sum() * np.array([1, 2, 3])).astype(np.int32)
    path = folder / "vectors.npz"

    def use(raw: bytes) -> bool:
        path.write_bytes(raw)
        selftest(Device(DisturbedLine(FakeDevice()), timeout=5), folder)
        return True

    return Kind(npz({"in0_0": x, "out0_0": y, "in1_0": x, "out1_0": y}), use, of_npz, of_npz)


def images(folder: Path) -> Kind:
    right = MemoryImage("1122334455667788", 64, bytes(range(200)))

    def use(raw: bytes) -> bool:
        path = folder / "memory.img"
        path.write_bytes(raw)
        found = MemoryImage.load(path)
        found.check("1122334455667788")
        return found == right

    return Kind(right.to_bytes(), use)


CONFIG = Config(lanes=4, rows=2, columns=2, vmem_rows=16, imem_depth=24, xmem_rows=20)


def runs(bundle: Bundle) -> bool:
    """Whether both simulators agree; other machines would have to be compiled."""
    if bundle.config != CONFIG:
        return True
    machine, reference = Machine(CONFIG), Reference(CONFIG)
    machine.load_bundle(bundle)
    reference.load_program(bundle.program)
    for region in bundle.data:
        memory = reference.vmem if region.space == "vmem" else reference.xmem
        memory[region.start : region.start + len(region.rows)] = region.rows
    result = machine.run(limit=100_000)
    if result.trap is Trap.LIMIT:  # the reference counts instructions instead of cycles
        return True
    same = (result.trap, result.pc) == reference.run(limit=100_000)
    return (
        same and np.array_equal(machine.vmem, reference.vmem) and np.array_equal(machine.xmem, reference.xmem)
    )


def bundles(folder: Path, suffix: str) -> Kind:
    path = folder / f"bundle{suffix}"
    random_bundle(3, CONFIG, length=12).save(path)

    def use(raw: bytes) -> bool:
        path.write_bytes(raw)
        return runs(Bundle.load(path))

    def with_checksum(raw: bytes, rng: random.Random) -> bytes:
        body = of_bytes(raw[:-4], rng)
        return body + struct.pack("<I", zlib.crc32(body))

    return Kind(path.read_bytes(), use, with_checksum if suffix == ".tpu" else of_text)


def tasm(folder: Path) -> Kind:
    text = disassemble(random_bundle(3, CONFIG, length=12))
    text = text + "loop: nop\n" if "halt" not in text else text

    def use(raw: bytes) -> bool:
        return runs(assemble(raw.decode("utf-8", "replace"), CONFIG))

    return Kind(text.encode(), use, of_text, of_text)


def configurations(folder: Path) -> Kind:
    return Kind(
        CONFIG.to_json().encode(),
        lambda raw: Config.from_json(Config.from_json(raw.decode("utf-8", "replace")).to_json()) is not None,
        of_json,
        of_json,
    )


def kernels(folder: Path) -> Kind:
    w = Tensor(np.ones((4, 3), np.float32)).realize()
    made = tg2hdl.compile(lambda x: (x @ w).relu(), np.zeros((1, 4), np.float32))
    kernel = made.design.program.calls[0].kernel

    def use(raw: bytes) -> bool:
        found = parse_kernel(raw.decode("utf-8", "replace"))
        return parse_kernel(found.format()).format() == found.format()

    return Kind(kernel.format().encode(), use, of_text, of_text)


SMALL = """
import numpy as np
def model(x): return x * 2 + 1
example_inputs = (np.ones((1, 4), np.int32),)
"""
MODEL = """
import numpy as np
from tinygrad import Tensor
W = Tensor(np.arange(12, dtype=np.float32).reshape(4, 3) / 12).realize()
def model(x): return (x @ W).relu()
example_inputs = (np.ones((1, 4), np.float32),)
"""


def arguments(folder: Path, suffix: str, right: bytes, *options: str) -> Kind:
    """A file that a command takes; its results are compared by the command itself."""
    source, path = folder / "m.py", folder / f"data{suffix}"
    source.write_text(MODEL if options[0] == "quantize" else SMALL)

    def use(raw: bytes) -> bool:
        path.write_bytes(raw)
        output = io.StringIO()
        before, sys.stdout, sys.stderr = (sys.stdout, sys.stderr), output, output
        try:
            given = [str(path) if option == "FILE" else option for option in options]
            cli([given[0], str(source), *given[1:]], standalone_mode=False)
        finally:
            sys.stdout, sys.stderr = before
        return True

    return Kind(right, use, {".npz": of_npz, ".npy": of_npy, ".json": of_json}[suffix])


def reports(folder: Path) -> Kind:
    made = tg2hdl.compile(lambda x: x * 2 + 1, np.ones((1, 4), np.int32), name="m")
    _, figures = made.report().save(folder / "earlier.html")
    options = ("report", "--against", "FILE", "-o", str(folder / "r.html"))
    return arguments(folder, ".json", figures.read_bytes(), *options)


def npy(value: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, value)
    return file.getvalue()


def samples() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(8, 1, 4)).astype(np.float32)


KINDS: dict[str, Callable[[Path], Kind]] = {
    "quantized model (.npz)": quantized_models,
    "design (JSON)": designs,
    "device.json": device_files,
    "description of a board": descriptions,
    "weights.npz": weights,
    "vectors.npz": vectors,
    "memory image": images,
    "TPU bundle (text)": lambda folder: bundles(folder, ".txt"),
    "TPU bundle (binary)": lambda folder: bundles(folder, ".tpu"),
    "TASM": tasm,
    "TPU configuration": configurations,
    "kernel (text)": kernels,
    "report --against": reports,
    "simulate --data": lambda f: arguments(
        f, ".npy", npy(np.ones((1, 4), np.int32)), "simulate", "--engine", "amaranth", "--data", "FILE"
    ),
    "simulate --set": lambda f: arguments(
        f,
        ".npz",
        npz({"x": np.ones((2, 1, 4), np.int32)}),
        "simulate",
        "--engine",
        "amaranth",
        "--set",
        "FILE",
    ),
    "quantize --samples (.npy)": lambda f: arguments(
        f, ".npy", npy(samples()[:, 0]), "quantize", "--samples", "FILE", "-o", str(f / "q.npz")
    ),
    "quantize --samples (.npz)": lambda f: arguments(
        f, ".npz", npz({"x": samples()[:, 0]}), "quantize", "--samples", "FILE", "-o", str(f / "q.npz")
    ),
}


def judged(kind: Kind, raw: bytes) -> tuple[str, str]:
    """``refused``, ``right``, ``wrong``, ``raw`` or ``slow``, and what was raised."""
    started = time.monotonic()
    try:
        verdict, text = ("right" if kind.use(raw) else "wrong"), ""
    except OURS as error:
        verdict, text = "refused", f"{type(error).__name__}: {error}"
    except click.exceptions.Exit:
        verdict, text = "right", ""
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        verdict, text = "raw", f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
    return ("slow" if time.monotonic() - started > SLOW else verdict), text


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else WANTED
    rows, total, started = {}, Counter[str](), time.monotonic()
    warnings.simplefilter("ignore")
    for name, make in KINDS.items():
        if len(sys.argv) > 2 and sys.argv[2] not in name:
            continue
        counts, seen = Counter[str](), Counter[str]()
        with tempfile.TemporaryDirectory() as place:
            kind = make(Path(place))
            assert judged(kind, kind.right) == ("right", ""), (name, judged(kind, kind.right))
            for number in range(wanted):
                rng = random.Random(number)
                verdict, text = judged(kind, rng.choice(kind.mutations)(kind.right, rng))
                counts[verdict] += 1
                if verdict in ("raw", "wrong", "slow"):
                    seen[f"{verdict} {text}"[:150] + ("" if text else f" seed {number}")] += 1
        for text, count in seen.most_common(25):
            print(f"  {count} {text}")
        rows[name] = ", ".join(f"{counts[v]} {v}" for v in ("refused", "right", "wrong", "raw", "slow"))
        print(f"{name}: {rows[name]}", flush=True)
        total += counts
    totals = {"files": total.total(), **{v: total[v] for v in ("refused", "right", "wrong", "raw", "slow")}}
    totals |= {"seconds": round(time.monotonic() - started)}
    print(totals)
    if wanted >= WANTED and len(sys.argv) < 3:
        title = "Changed and damaged files: read right, or refused by an error of this project"
        write_record(
            HERE / "documents.json", title, "python benchmarks/fuzz/documents.py", totals, by_kind=rows
        )
    sys.exit(bool(total["wrong"] or total["raw"] or total["slow"]))


if __name__ == "__main__":
    main()
