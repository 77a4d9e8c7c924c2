"""Driver, bytes on a serial line, bridge, kernels and back, in a simulation of all of it."""

import json
import os
import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bits import same_bits
from tg2hdl.cli import cli
from tg2hdl.device_folder import write_device_folder
from tg2hdl.serve import open_line
from tg2hdl_host import Device, LinkError, RefusedError, UnfitInputError, WrongDesignError, protocol, selftest
from tg2hdl_host.description import read_files
from tg2hdl_ir import InputError
from tg2hdl_synth.boards import bitstream

RNG = np.random.default_rng(5)
W = RNG.integers(-128, 128, (16, 6), dtype=np.int8)


def compiled(model, *examples, **options):
    multipliers = options.pop("multipliers", 1)
    options = tg2hdl.CompileOptions(ports=("uart",), **options)
    return tg2hdl.compile(model, *examples, multipliers=multipliers, options=options, name="m")


def layer(x):
    return (x.cast("int32") @ Tensor(W).cast("int32")).relu()


def example(count=1, seed=0):
    return np.random.default_rng(seed).integers(-128, 128, (count, 1, 16), dtype=np.int8)


def opened(accelerator, folder, line=None, **options):
    write_device_folder(accelerator, folder, vectors=2)
    line = line or open_line(accelerator.design)
    return Device(line, files=read_files(folder), timeout=30, **options)


@pytest.fixture(scope="module")
def small():
    return compiled(layer, example()[0], multipliers=4)


def test_a_batch_has_the_bits_and_cycles_of_the_golden_model(small, tmp_path):
    batch = example(20)
    with opened(small, tmp_path) as device:
        found = device.run(batch)
        counters = device.counters
    assert all(same_bits(y, small.golden(x)) for x, y in zip(batch, found, strict=True))
    assert (counters["runs"], counters["cycles"]) == (20, small.predicted_cycles)
    assert (counters["error"], counters["link_errors"], counters["repeats"]) == (0, 0, 0)


def test_simulate_through_the_port_gives_the_predicted_cycles(small):
    x = example()[0]
    result = small.simulate(x)
    assert same_bits(result.output, small.golden(x))
    assert result.cycles.compute == small.predicted_cycles
    assert result.cycles.kernels == tuple(k.cycles for k in small.kernels)


def kinds(a, b, c, d, e):
    return {"sum": a + b.cast("int64"), "more": [c * 2, d.logical_not()], "half": (e * 0.5, e > 0)}


def test_several_inputs_and_outputs_of_all_sizes(tmp_path):
    inputs = (
        RNG.integers(-(2**62), 2**62, (2, 3)),
        RNG.integers(-(2**15), 2**15, (2, 3), dtype=np.int16),
        RNG.normal(size=5).astype(np.float32),
        np.array([True, False, True]),
        RNG.normal(size=(3, 3)).astype(np.float16),
    )
    accelerator = compiled(kinds, *inputs)
    with opened(accelerator, tmp_path) as device:
        for _ in range(2):
            assert same_bits(device(*inputs), accelerator.golden(*inputs))


def test_windows_and_lanes_are_packed_in_hardware(tmp_path):
    weights = RNG.integers(-8, 8, (4, 2, 3, 3), dtype=np.int8)

    def model(x):
        return x.cast("int32").conv2d(Tensor(weights).cast("int32")).max(1)

    x = RNG.integers(-128, 128, (1, 2, 7, 9), dtype=np.int8)
    accelerator = compiled(model, x, multipliers=36)
    lanes = {m.name: m.layout.split for m in accelerator.design.buffers if m.role.host_writes}
    assert max(np.prod(split) for split in lanes.values()) > 1
    with opened(accelerator, tmp_path) as device:
        assert same_bits(device(x), accelerator.golden(x))


def test_weights_are_loaded_from_the_folder_and_replaced(tmp_path):
    class Model:
        def __init__(self):
            self.w = Tensor(W)

        def __call__(self, x):
            return x.cast("int32") @ self.w.cast("int32")

    x = example()[0]
    accelerator = compiled(Model(), x, multipliers=6, weights="loadable")
    write_device_folder(accelerator, tmp_path, vectors=1)
    weights = dict(np.load(tmp_path / "weights.npz"))
    with opened(accelerator, tmp_path, weights=weights) as device:
        assert device(x).tolist() == (x.astype(int) @ W).tolist()
        device.load_weights(accelerator.load_weights({"w": W[::-1].copy()}))
        assert device(x).tolist() == (x.astype(int) @ W[::-1]).tolist()


def test_kernels_that_overlap(tmp_path):
    def two(x):
        return layer(x).cast("int8").cast("int32") @ Tensor(W[:6]).cast("int32")

    accelerator = compiled(two, example()[0], multipliers=4, schedule="overlap")
    with opened(accelerator, tmp_path) as device:
        for x in example(3):
            assert same_bits(device(x), accelerator.golden(x))
        assert device.counters["cycles"] == accelerator.predicted_cycles


class Counter:
    def __init__(self):
        self.total = Tensor.zeros(4, dtype="int32").contiguous().realize()

    def __call__(self, x):
        self.total.assign(self.total + x)
        return self.total * 1


def test_state_continues_from_call_to_call(tmp_path):
    x = np.arange(4, dtype=np.int32)
    accelerator = compiled(Counter(), x)
    with opened(accelerator, tmp_path) as device:
        assert device.description.keeps_state
        assert [y.tolist() for y in device.run([x, x, 10 * x])] == [(k * x).tolist() for k in (1, 2, 12)]


def test_another_bitstream_is_refused(small, tmp_path):
    other = compiled(lambda x: layer(x) + 1, example()[0], multipliers=4)
    write_device_folder(other, tmp_path, vectors=1)
    with pytest.raises(WrongDesignError, match="holds the design"):
        Device(open_line(small.design), files=read_files(tmp_path), timeout=30)


def test_the_identity_is_that_of_the_design(small):
    again = compiled(layer, example()[0], multipliers=4)
    fewer = compiled(layer, example()[0], multipliers=2)
    identities = [a.design.ports[0].serves.identity for a in (small, again, fewer)]
    assert identities[0] == identities[1] != identities[2]
    assert re.fullmatch("[0-9a-f]{16}", identities[0])


def refused(device, requests):
    with pytest.raises(RefusedError) as caught:
        device._perform(requests)
    return str(caught.value).splitlines()[0].split(": ", 1)[1]


def test_accesses_out_of_order_or_range_are_refused_and_change_nothing(small, tmp_path):
    with opened(small, tmp_path, attempts=1) as device:
        x = device.description.buffers["x"].address
        y = device.description.buffers["output"].address
        runs = (0).to_bytes(4, "little")
        assert refused(device, protocol.read(y, 4, "early")) == "there is no result"
        assert refused(device, protocol.write(x + 4, bytes(4), "order")).startswith("a buffer is accessed")
        assert refused(device, protocol.write(0x20, bytes(4), "read only")).startswith("nothing can be")
        assert refused(device, protocol.read(x, 4, "write only")).startswith("nothing can be")
        assert refused(device, protocol.read(0x7FFFFFFC, 4, "outside")).startswith("nothing can be")
        assert refused(device, protocol.read(x + 2, 4, "unaligned")).startswith("nothing can be")
        stale = protocol.write(0x18, (3).to_bytes(4, "little"), "stale")
        assert refused(device, stale).startswith("another run")
        part = [*protocol.write(x, bytes(4), "part"), *protocol.write(0x18, runs, "start")]
        assert refused(device, part) == "an input is written in part"
        batch = example(2)
        assert all(same_bits(device(b), small.golden(b)) for b in batch)
        beyond = protocol.read(y + 4 * 6, 4, "beyond")
        assert refused(device, beyond).startswith("a buffer is accessed")
        assert device.counters["error"] == 4  # the first one stays
        assert same_bits(device(batch[0]), small.golden(batch[0]))


def test_a_run_in_one_packet(small, tmp_path):
    """It gives the results of three requests; what is refused changes nothing."""
    batch = example(3)
    with opened(small, tmp_path, attempts=1) as device:
        assert device.description.packet_run
        data = [device.description.buffers["x"].encode(x) for x in batch]
        size = device.description.buffers["output"].size
        assert refused(device, [protocol.run(1, data[0], size)]).startswith("another run")
        assert refused(device, [protocol.run(0, data[0][:-4], size)]).startswith("a buffer is accessed")
        assert refused(device, [protocol.run(0, data[0] + bytes(4), size)]).startswith("a buffer is accessed")
        assert device.counters["runs"] == 0
        found = device._perform([protocol.run(n, text, size) for n, text in enumerate(data)])
        assert found == b"".join(small.golden(x).tobytes() for x in batch)
        device.description = replace(device.description, packet_run=False)
        assert all(same_bits(y, small.golden(x)) for x, y in zip(batch, device.run(batch), strict=True))
        assert (device.counters["runs"], device.counters["link_errors"]) == (6, 0)


class Disturbed:
    """A line that cuts, doubles, exchanges, changes or delays bytes."""

    def __init__(self, line, seed):
        self.line, self.random, self.name, self.faults = line, random.Random(seed), "disturbed", 0
        self.active, self.late = False, b""

    def disturbed(self, data):
        if not self.active or self.random.random() > 0.05:
            return data
        self.faults += 1
        a, b = sorted(self.random.randrange(len(data) + 1) for _ in range(2))
        noise = bytes(self.random.randrange(256) for _ in range(b - a))
        kinds = (data[:a] + data[b:], data[:b] + data[a:], data[b:] + data[a:b] + data[:a])
        kind = self.random.randrange(5)
        if kind == 4:
            self.late = data[a:]
            return data[:a]
        return (*kinds, data[:a] + noise + data[b:])[kind]

    def write(self, data):
        late, self.late = self.late, b""
        self.line.write(late + self.disturbed(data))

    def read(self, timeout):
        return self.disturbed(self.line.read())

    def close(self):
        self.line.close()


def test_a_disturbed_line_gives_no_wrong_result(small, tmp_path):
    line = Disturbed(open_line(small.design), seed=2)
    batch = example(40, seed=3)
    expected = [small.golden(x) for x in batch]
    right = broken = 0
    with opened(small, tmp_path, line, attempts=12) as device:
        line.active = True
        while line.faults < 40:
            try:
                found = device.run(batch)
            except LinkError:
                broken += 1
                continue
            assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))
            right += len(found)
        line.active = False
        assert all(same_bits(a, b) for a, b in zip(device.run(batch), expected, strict=True))
    assert right >= 40
    assert broken < 5


def test_build_selftest_and_connect(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(
        "from tinygrad import Tensor\n"
        "def model(x): return (x * 3 + 1).relu()\n"
        "example_inputs = (Tensor.empty(2, 3, dtype='int32'),)\n"
    )
    folder = tmp_path / "out"
    result = CliRunner().invoke(cli, ["build", str(model), "-o", str(folder), "--vectors", "2"])
    assert result.exit_code == 0, result.output
    assert f'tg2hdl.connect("simulate:{folder}")' in result.output
    names = {path.name for path in folder.iterdir()}
    assert {"design.json", "device.json", "registers.h", "registers.md", "vectors.npz"} <= names
    result = CliRunner().invoke(cli, ["selftest", f"simulate:{folder}"])
    assert result.exit_code == 0, result.output
    assert "2 vectors: every bit as stored; runs 4" in result.output.replace("\n", " ")
    x = np.array([[1, -2, 3], [4, 5, -6]], np.int32)
    with tg2hdl.connect(f"simulate:{folder}") as device:
        assert device(x).tolist() == np.maximum(x * 3 + 1, 0).tolist()


def test_spi_in_simulation_gives_the_golden_results(tmp_path):
    accelerator = tg2hdl.compile(
        layer, example()[0], multipliers=4, options=tg2hdl.CompileOptions(ports=("spi",))
    )
    folder, batch = accelerator.build(tmp_path, vectors=2), example(4)
    with tg2hdl.connect(f"simulate:{folder}") as device:
        assert selftest(device, folder) == 2
        assert all(same_bits(y, accelerator.golden(x)) for x, y in zip(batch, device.run(batch), strict=True))
        counters = device.counters
    assert (counters["runs"], counters["cycles"]) == (8, accelerator.predicted_cycles)
    assert (counters["link_errors"], counters["repeats"]) == (0, 0)


def test_a_quantized_model_takes_the_values_it_was_quantized_for(tmp_path):
    rng = np.random.default_rng(3)
    weight = Tensor(rng.normal(size=(6, 4)).astype(np.float32))
    samples = rng.normal(size=(20, 6)).astype(np.float32) * [1, 2, 0.1, 1, 1, 30]
    q = tg2hdl.quantize(lambda x: (x @ weight).relu(), samples.astype(np.float32))
    accelerator = compiled(q, samples[:1].astype(np.float32))
    x = np.append(rng.normal(size=(3, 6)) * 2, [[1e9, -1e9, 0, 0, 0, 0]], axis=0).astype(np.float32)
    with opened(accelerator, tmp_path) as device:
        found = device.run(x)
        for sample, integers in zip(x, found, strict=True):
            assert same_bits(integers, accelerator.golden(sample))
            assert same_bits(device.dequantize(integers), q(sample))
        assert same_bits(device(*q.quantize_input(x[0])), found[0])
        with pytest.raises(UnfitInputError, match="NaN or infinite"):
            device(np.full(6, np.nan, np.float32))


def test_build_for_a_board_shows_what_each_kernel_takes(tmp_path, monkeypatch):
    def built(design, board, folder, **options):
        path = folder / f"{board}.bit"
        folder.mkdir()
        path.write_bytes(b"")
        parts = {"kernel 0 (E_6)": (1200, 34, 1, 0), "port uart": (2000, 900, 0, 1)}
        usage = {name: dict(zip(("LUT", "FF", "DSP", "RAM"), n, strict=True)) for name, n in parts.items()}
        return bitstream.Bitstream(
            path, board, 100.0, 120.5, 2_000_000, 50, {"TRELLIS_FF": (934, 24288)}, usage
        )

    monkeypatch.setattr(bitstream, "build_bitstream", built)
    model = tmp_path / "model.py"
    model.write_text(
        "import numpy as np\ndef model(x): return x + 1\nexample_inputs = (np.zeros(6, np.int32),)\n"
    )
    folder, json_file = tmp_path / "out", tmp_path / "build.json"
    command = ["build", str(model), "--board", "ulx3s-12f", "-o", str(folder), "--json", str(json_file)]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    lines = [line.replace("│", " ").split() for line in result.output.splitlines()]
    assert ["kernel", "0", "(E_6)", "1,200", "34", "1", "0"] in lines
    assert ["total", "3,200", "934", "1", "1"] in lines
    assert json.loads(json_file.read_text())["by_part"]["port uart"]["RAM"] == 1
    assert json.loads((folder / "device.json").read_text())["by_part"]["kernel 0 (E_6)"]["LUT"] == 1200


def test_a_design_without_a_register_map_is_not_built(tmp_path):
    accelerator = tg2hdl.compile(lambda x: x + 1, np.zeros(3, np.int32))
    with pytest.raises(InputError, match="host ports native has no register map"):
        accelerator.build(tmp_path)


def test_the_c_driver_of_the_folder_runs_the_design(small, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    write_device_folder(small, tmp_path, vectors=0)
    main = Path(__file__).parents[2] / "tg2hdl-host" / "tests" / "c_host.c"
    sources = [main, tmp_path / "tg2hdl.c"]
    flags = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Werror", f"-I{tmp_path}"]
    subprocess.run([compiler, *flags, *sources, "-o", tmp_path / "host"], check=True)
    batch, line = example(3), open_line(small.design)
    (tmp_path / "inputs").write_bytes(batch.tobytes())
    command = [tmp_path / "host", tmp_path / "inputs", tmp_path / "results"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        while data := os.read(process.stdout.fileno(), 4096):
            line.write(data)
            while answer := line.read():  # until nothing more is to be expected
                process.stdin.write(answer)
                process.stdin.flush()
    line.close()
    assert process.returncode == 0
    found = np.frombuffer((tmp_path / "results").read_bytes(), "<i4").reshape(3, 1, 6)
    np.testing.assert_array_equal(found, np.maximum(batch.astype(int) @ W.astype(int), 0))
