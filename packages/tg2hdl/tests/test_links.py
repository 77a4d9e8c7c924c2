"""``--link``: host ports that carry packets, as far as a board has their pins."""

import json
import random

import numpy as np
import pytest
from amaranth.lib import wiring
from click.testing import CliRunner

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl_host import Device, LinkError, selftest
from tg2hdl_host.description import read_files
from tg2hdl_ir import HostPortDef, InputError, SimulationError, hookimpl, registry
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_top import Design, TopModule
from tg2hdl_top.ports import PacketPort, link_class, link_kinds, open_driver


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("links") / "model.py"
    path.write_text(
        "import numpy as np\nfrom tinygrad import Tensor\nW = np.arange(24, dtype=np.int8).reshape(4, 6)\n"
        "def model(x): return x.cast('int32') @ Tensor(W).cast('int32')\n"
        "example_inputs = (np.zeros((1, 4), np.int8),)\n"
    )
    return str(path)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    """A design behind Ethernet."""
    path = tmp_path_factory.mktemp("udp")
    result = built(model, "--link", "udp", "--vectors", "2", "-o", str(path))
    assert result.exit_code == 0, result.output
    return path


W = np.arange(24, dtype=np.int8).reshape(4, 6).astype(np.int32)


def built(model, *options):
    return CliRunner().invoke(cli, ["build", model, *options])


def test_the_links_are_the_ports_that_carry_packets():
    assert {"uart", "spi"} <= set(link_kinds()) <= {"uart", "spi", "udp", "usb"}


def test_a_design_behind_ethernet_in_simulation(folder):
    assert [port.kind for port in Design.load(folder / "design.json").ports] == ["udp"]
    batch = np.random.default_rng(0).integers(-128, 128, (5, 1, 4), dtype=np.int8)
    with tg2hdl.connect(f"simulate:{folder}") as device:
        assert selftest(device, folder) == 2
        assert np.array_equal(device.run(batch), batch.astype(np.int32) @ W)
        counters = device.counters
    assert (counters["runs"], counters["link_errors"], counters["repeats"]) == (9, 0, 0)


class Network:
    """Loses, doubles, delays, cuts and changes frames on their way to the design, and loses answers."""

    def __init__(self, driver, seed):
        self.name, self.driver = "network", driver
        self.random, self.probability, self.faults, self.late = random.Random(seed), 0.0, 0, None
        self._transmit, driver.transmit = driver.transmit, self.transmit

    def transmit(self, frame):
        late, self.late = self.late, None
        kind = self.random.randrange(6) if self.random.random() < self.probability else -1
        self.faults += kind >= 0
        bit = self.random.randrange(8 * len(frame))
        changed = bytes(byte ^ (1 << bit % 8) * (n == bit // 8) for n, byte in enumerate(frame))
        frames = [[], [frame, frame], [], [frame[: bit // 8]], [changed], [changed, frame], [frame]][kind]
        self.late = frame if kind == 2 else None
        for one in (*frames, *(late,) * (late is not None)):
            self._transmit(one)

    def write(self, data):
        self.driver.send(data)

    def read(self, timeout):
        try:
            data = self.driver.receive()
        except SimulationError:
            return b""
        if self.random.random() < self.probability:
            self.faults += 1
            return self.read(timeout)
        return data

    def close(self):
        self.driver.simulation.close()


def test_bad_frames_give_no_wrong_result(folder, monkeypatch):
    monkeypatch.setattr("secrets.randbits", random.Random(7).getrandbits)
    design = Design.load(folder / "design.json")
    simulation = open_simulation(SimulationModel(TopModule(design)), expected_cycles=1_000_000)
    network = Network(open_driver(design.ports[0], simulation), seed=1)
    network.driver.patience = 2000
    batch = np.random.default_rng(2).integers(-128, 128, (6, 1, 4), dtype=np.int8)
    results = broken = 0
    with Device(network, files=read_files(folder), timeout=30, attempts=12) as device:
        network.probability = 0.2
        while network.faults < 20:
            try:
                found = device.run(batch)
            except LinkError:
                broken += 1
                continue
            assert np.array_equal(found, batch.astype(np.int32) @ W)
            results += len(found)
        network.probability = 0.0
        assert np.array_equal(device.run(batch), batch.astype(np.int32) @ W)
    assert results >= 6
    assert broken < 5


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (("--link", "native"), "the host port 'native' is not a link: it carries no packets", "spi, "),
        (("--link", "urat"), "link 'urat' is unknown", "did you mean uart? choose one of: "),
        (("--link", "spi", "--board", "ulx3s-12f"), "ulx3s-12f has no pins for the link 'spi'", "uart"),
    ],
)
def test_another_link_is_refused_with_those_that_there_are(model, options, message, hint):
    if "--board" in options:
        pytest.importorskip("amaranth_boards")
    error = built(model, *options).exception
    assert isinstance(error, InputError), error
    assert error.message == message
    assert hint in error.hint


def test_a_build_says_the_address_of_the_board(model, tmp_path, monkeypatch):
    pytest.importorskip("amaranth_boards")
    bitstream = pytest.importorskip("tg2hdl_synth.boards.bitstream")

    def made(design, board, folder, ip, **options):
        folder.mkdir()
        (folder / "x.bit").write_bytes(b"")
        cells = {"port udp": dict.fromkeys(("LUT", "FF", "DSP", "RAM"), 1)}
        return bitstream.Bitstream(
            folder / "x.bit", board, 60.0, 61.0, 0, 0, {}, cells, link="udp", ip=ip or "192.168.1.50"
        )

    monkeypatch.setattr(bitstream, "build_bitstream", made)
    monkeypatch.setattr(bitstream, "check_tools", lambda family: None)
    result = built(
        *(model, "--board", "ecpix5-45f", "--link", "udp", "--ip", "10.0.0.7", "--vectors", "1"),
        *("-o", str(tmp_path / "out")),
    )
    assert result.exit_code == 0, result.output
    assert "us per result, link udp" in " ".join(result.output.split())
    assert "then tg2hdl selftest udp:10.0.0.7" in result.output
    facts = json.loads((tmp_path / "out" / "device.json").read_text())
    assert (facts["link"], facts["ip"]) == ("udp", "10.0.0.7")


def test_an_address_is_that_of_a_board(model):
    result = built(model, "--link", "udp", "--ip", "10.0.0.7")
    assert result.exit_code == 2
    assert "--ip goes with --board" in result.output


def test_a_link_and_a_port_are_one_too_many(model):
    result = built(model, "--link", "spi", "--port", "uart")
    assert result.exit_code == 2
    assert "leave out --port" in result.output


class PigeonPort(PacketPort):
    def __init__(self, serves):
        super().__init__(serves, wiring.Signature({}))


class Plugin:
    @hookimpl
    def tg2hdl_ports():
        return [HostPortDef("pigeon", "RFC 1149", PigeonPort, lambda serves, simulation: None)]


def test_the_port_of_a_plugin_is_a_link():
    with registry().extended(Plugin, distribution="pigeons"):
        assert link_class("pigeon") is PigeonPort
        assert "pigeon" in link_kinds()
    assert "pigeon" not in link_kinds()
