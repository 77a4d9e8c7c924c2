"""What a user is told about memories and parts, and how a host drives the design by it alone."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
import tg2hdl_synth
from tg2hdl.cli import cli
from tg2hdl_ir import CapacityError, InputError
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_synth import fits
from tg2hdl_top.memory_blocks import memory_blocks

RNG = np.random.default_rng(11)
WEIGHT = RNG.integers(-128, 127, (24, 16)).astype(np.int8)
X = RNG.integers(-128, 127, (1, 24)).astype(np.int8)


def product(**options):
    w = Tensor(WEIGHT)
    return tg2hdl.compile(lambda x: x.cast("int32") @ w.cast("int32"), X, multipliers=4, **options)


def test_memories_are_listed_with_their_bits():
    memory = product().memory
    assert {e.name: (e.role, e.bits, e.words * e.word_bits) for e in memory} == {
        "x": ("input", 24 * 8, 24 * 8),
        "output": ("output", 16 * 32, 16 * 32),
        "w": ("weight", 24 * 16 * 8, 24 * 16 * 8),
    }
    assert memory.bits == {"input": 192, "output": 512, "weight": 3072}
    assert "w       weight  int8" in repr(memory)


@pytest.mark.parametrize("name", ["x", "w", "output"])
def test_packed_words_are_as_described(name):
    accelerator = product(weights="loadable")
    entry = next(e for e in accelerator.memory if e.name == name)
    array = RNG.integers(-100, 100, np.prod(entry.shape)).astype(entry.dtype)
    words = accelerator.pack(name, array)
    assert len(words) == entry.words
    rows = [-(-d // s) for d, s in zip(entry.dims, entry.split, strict=True)]
    for element, value in enumerate(array):
        place = np.array(np.unravel_index(element, entry.dims))
        word = np.ravel_multi_index(tuple(place // entry.split), rows)
        lane = np.ravel_multi_index(tuple(place % entry.split), entry.split)
        bits = (words[word] >> (int(lane) * entry.element_bits)) & ((1 << entry.element_bits) - 1)
        assert bits == int(value) & ((1 << entry.element_bits) - 1)
    np.testing.assert_array_equal(accelerator.unpack(name, words), array.reshape(entry.shape))


def test_a_host_that_knows_only_the_description_gets_the_result():
    accelerator = product(weights="loadable")
    described = json.loads(json.dumps(accelerator.memory.describe()))
    contents = {"x": X, "w": WEIGHT}
    by_name = {m["name"]: m for m in described["memories"]}
    assert described["load_order"] == ["w", "x"]
    with open_simulation(SimulationModel(accelerator.top), engine="amaranth") as simulation:
        for name in described["load_order"]:
            enable, address, data = by_name[name]["write_ports"]
            for n, word in enumerate(accelerator.pack(name, contents[name].reshape(-1))):
                simulation.set(enable, 1)
                simulation.set(address, n)
                simulation.set(data, word)
                simulation.step()
            simulation.set(enable, 0)
        simulation.set("start", 1)
        simulation.step()
        simulation.set("start", 0)
        simulation.run_until("done", limit=1000)
        simulation.step()
        (result,) = described["read_order"]
        address, data = by_name[result]["read_back_ports"]
        words = []
        for n in range(by_name[result]["words"]):
            simulation.set(address, n)
            simulation.step(described["read_latency"])
            words.append(simulation.get(data))
    np.testing.assert_array_equal(accelerator.unpack(result, words), X.astype(int) @ WEIGHT.astype(int))


def test_wrong_arrays_are_refused():
    accelerator = product()
    with pytest.raises(InputError, match="'x' has 24 elements of int8, not 24 of int64"):
        accelerator.pack("x", np.zeros(24, np.int64))
    with pytest.raises(InputError, match="no memory is named 'y'"):
        accelerator.pack("y", X)
    with pytest.raises(InputError, match="'output' has 16 words, not 3"):
        accelerator.unpack("output", [1, 2, 3])


def test_memory_files_hold_what_the_verilog_held(tmp_path):
    accelerator = product()
    text = accelerator.verilog(tmp_path / "design.v", memories=tmp_path)
    assert '$readmemh("memory_w.hex", memory_w);' in text
    assert not re.search(r"memory_w\[\d+\] = ", text)
    words = [int(line, 16) for line in (tmp_path / "memory_w.hex").read_text().split()]
    assert words == list(accelerator.pack("w", WEIGHT.reshape(-1)))


def test_weights_too_large_for_a_part_are_refused_before_planning():
    w = Tensor(RNG.normal(size=(512, 512)).astype(np.float32))
    with pytest.raises(CapacityError) as refused:
        tg2hdl.compile(lambda x: x @ w, np.zeros((1, 512), np.float32), part="ecp5-25k")
    assert str(refused.value) == (
        "capacity: the weights are 8,388,608 bits, the memory of ecp5-25k is 1,420,800 bits\n"
        "  at: program <lambda>\n"
        "  note: w: 262,144 elements of fp32, 8,388,608 bits\n"
        "  note: fewer multipliers do not change this\n"
        "  hint: quantize the model: weights of 8 bits would take 2,097,152 of the 3,833,856 bits in block RAMs of "
        "ecp5-85k, beside its activations"
    )


def test_fits_tells_figures_and_reasons():
    fit = product().fits("ecp5-25k")
    assert fit
    assert fit.needs["dsp"] == 4
    assert "multipliers: 4 of 28" in str(fit)
    w = Tensor(RNG.integers(-128, 127, (784, 160)).astype(np.int8))
    large = tg2hdl.compile(lambda x: x.cast("int32") @ w.cast("int32"), np.zeros((1, 784), np.int8))
    fit = large.fits("ecp5-25k")
    assert not fit
    assert fit.hint == (
        "the weights are the reason, not the multipliers: choose ecp5-45k "
        "or keep weights outside the chip (weights='external')"
    )
    assert large.fits("ecp5-45k").needs["bram"] > 56


def test_registers_stay_outside_where_narrower_words_would_not_fit(monkeypatch):
    w = Tensor(RNG.integers(-128, 127, (512, 128)).astype(np.int8))
    options = tg2hdl.CompileOptions(target="ecp5", multipliers=128, validate="off")
    wide = tg2hdl.compile(
        lambda x: x.cast("int32") @ w.cast("int32"), np.zeros((1, 512), np.int8), options=options
    )
    counts = [sum(memory_blocks(wide.design, packed=packed).values()) for packed in (False, True)]
    least, most = counts
    assert least <= 56 < most
    chosen = []
    monkeypatch.setattr(
        tg2hdl_synth, "synthesize", lambda *_, pack_registers, **__: chosen.append(pack_registers)
    )
    for part in ("ecp5-25k", "ecp5-45k"):
        wide.synthesize(part)
    assert chosen == [False, True]
    found = []
    monkeypatch.setattr(fits, "design_fits", lambda _, part, pack_registers: found.append(pack_registers))
    for part in ("ecp5-25k", "ecp5-45k"):
        wide.fits(part)
    assert found == chosen
    assert not fits.packs_registers(product().design, "ecp5-85k")


def test_a_hint_names_no_part_that_is_too_small():
    """Equal weights pass the check before planning; no part of the family has 1,034 block RAMs."""
    w = Tensor(np.ones((2048, 2048), np.int32))
    fit = tg2hdl.compile(lambda x: x @ w, np.zeros((1, 2048), np.int32)).fits("ecp5-45k")
    assert fit.hint.startswith("the weights are the reason")
    assert "choose" not in fit.hint
    w = Tensor(RNG.integers(-128, 127, (2048, 4096)).astype(np.int8))
    with pytest.raises(CapacityError, match="has so much memory: keep them outside the chip") as refused:
        tg2hdl.compile(
            lambda x: x.cast("int32") @ w.cast("int32"), np.zeros((1, 2048), np.int8), part="ecp5-45k"
        )
    assert "8 bits would take" not in str(refused.value)


def test_the_command_says_what_fits_and_describes_the_ports(tmp_path):
    (tmp_path / "model.py").write_text(
        "import numpy as np\nfrom tinygrad import Tensor\n"
        "w = Tensor(np.arange(96, dtype=np.int8).reshape(12, 8))\n"
        "model = lambda x: x.cast('int32') @ w.cast('int32')\n"
        "example_inputs = (np.zeros((1, 12), np.int8),)\n"
    )
    arguments = ["compile", str(tmp_path / "model.py"), "--part", "ecp5-25k", "--memory-files"]
    done = CliRunner().invoke(cli, [*arguments, "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "fits ecp5-25k" in done.output
    assert "memory: 1,024 bits" in done.output
    summary = json.loads((tmp_path / "out" / "model.json").read_text())
    assert summary["ports"]["buffers__x__waddr"] == {"direction": "in", "width": 4}
    assert summary["read_order"] == ["output"]
    assert (tmp_path / "out" / "memory_w.hex").exists()
