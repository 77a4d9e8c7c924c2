"""Weights in memory outside the chip, from the front door: command, image, memory map, report, refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.device_folder import write_device_folder
from tg2hdl.serve import open_line
from tg2hdl_host import Device, MemoryImage, UnfitInputError, WrongDesignError
from tg2hdl_host.description import read_files
from tg2hdl_ir import InputError

RNG = np.random.default_rng(1)
W = RNG.integers(-128, 128, (40, 70)).astype(np.int8)
X = RNG.integers(-128, 128, (1, 40)).astype(np.int8)
MODEL = """
import numpy as np
from tinygrad import Tensor
w = Tensor(np.random.default_rng(1).integers(-128, 128, (40, 70)).astype(np.int8))
def model(x):
    return (x.cast("int32") @ w.cast("int32")).relu()
example_inputs = (np.zeros((1, 40), np.int8),)
"""


class Model:
    def __init__(self, w=W):
        self.w = Tensor(w)

    def __call__(self, x):
        return x.cast("int32") @ self.w.cast("int32")


@pytest.fixture(scope="module")
def accelerator():
    options = tg2hdl.CompileOptions(multipliers=4, weights="external", on_chip_bits=19_000)
    return tg2hdl.compile(Model(), X, options=options)


def test_simulation_and_golden_model(accelerator):
    for _ in range(2):
        result = accelerator.simulate(X, engine="amaranth")
        np.testing.assert_array_equal(result.output, X.astype(int) @ W)
        assert result.cycles.compute == accelerator.predicted_cycles
    np.testing.assert_array_equal(accelerator.golden(X), X.astype(int) @ W)


def test_memories_and_report(accelerator):
    (ring,) = [entry for entry in accelerator.memory if entry.role == "external"]
    assert ring.bits < W.size * 8
    facts = accelerator.report(X).facts
    assert {kernel["reads"][-1] for kernel in facts["kernels"]} == {ring.name}
    assert {kernel["layer"] for kernel in facts["kernels"]} == {"w"}
    assert "m_axi__arvalid" in accelerator.verilog()


def test_refusals(accelerator, tmp_path):
    with pytest.raises(InputError, match="in the image that was made with the design"):
        accelerator.load_weights({"w": W})
    with pytest.raises(InputError, match="needs to know the memory on the chip"):
        tg2hdl.compile(Model(), X, weights="external")
    from tg2hdl.testbench import check_testbenches

    with pytest.raises(InputError, match="no testbench with memory outside the chip"):
        check_testbenches(accelerator)


def test_an_image_belongs_to_its_design(accelerator, tmp_path):
    accelerator.save_memory_image(tmp_path / "net.img")
    image = MemoryImage.load(tmp_path / "net.img")
    assert image.contents == accelerator.memory_image().tobytes()
    image.check(accelerator.design.identity)
    options = tg2hdl.CompileOptions(multipliers=2, weights="external", on_chip_bits=19_000)
    other = tg2hdl.compile(Model(), X, options=options)
    with pytest.raises(WrongDesignError, match="load the image that was written with this design"):
        image.check(other.design.identity)


def test_the_host_writes_an_sdram(tmp_path):
    """Over the serial line, through the controller, into the chip: weights of another model show that they arrive."""
    other = RNG.integers(-128, 128, W.shape).astype(np.int8)
    options = tg2hdl.CompileOptions(
        multipliers=4,
        weights="external",
        on_chip_bits=19_000,
        ports=("uart",),
        memory_port="sdram",
        memory=tg2hdl.SdramModel(columns=64),
    )
    mine = tg2hdl.compile(Model(), X, options=options, name="net")
    further = tg2hdl.compile(Model(other), X, options=options, name="net")
    write_device_folder(mine, tmp_path, vectors=1)
    with Device(open_line(mine.design), files=read_files(tmp_path), timeout=60) as device:
        with pytest.raises(UnfitInputError, match="weights are not loaded: memory_image"):
            device(X)
        further.save_memory_image(tmp_path / "further.img")
        with pytest.raises(WrongDesignError, match="load the image that was written with this design"):
            device.load_image(tmp_path / "further.img")
        image = MemoryImage.load(tmp_path / "memory.img")
        with pytest.raises(
            UnfitInputError, match=r"an image of 6 bytes, and the memory .* takes [\d,]+ bytes"
        ):
            device.load_image(replace(image, contents=b"abcdef"))
        foreign = further.memory_image().tobytes()
        device.load_image(replace(image, contents=foreign))
        for x in (X, X[:, ::-1].copy()):
            np.testing.assert_array_equal(device(x), x.astype(int) @ other)
        assert device.counters["cycles"] == mine.predicted_cycles
        device.load_image(tmp_path / "memory.img")
        np.testing.assert_array_equal(device(X), X.astype(int) @ W)
        assert device.counters["error"] == 0


def test_a_part_that_holds_all(accelerator):
    fitting = tg2hdl.compile(Model(), X, weights="external", part="ecp5-25k")
    assert fitting.options.on_chip_bits == 56 * 18432
    assert not fitting.design.streams_weights


def test_command(tmp_path):
    (tmp_path / "net.py").write_text(MODEL)
    arguments = ["compile", str(tmp_path / "net.py"), "--weights", "external", "--on-chip-bits", "19000"]
    folder = tmp_path / "out"
    result = CliRunner().invoke(cli, [*arguments, "--memory-port", "wishbone", "-o", str(folder)])
    assert result.exit_code == 0, result.output
    assert "w: external, 22,400 bits in" in " ".join(result.output.split())
    summary = json.loads((folder / "net.json").read_text())
    image = MemoryImage.load(folder / "net.weights.img")
    assert summary["external_memory"]["bytes"] == len(image.contents)
    image.check(summary["external_memory"]["identity"])
    assert "m_wb__cyc" in summary["ports"]
