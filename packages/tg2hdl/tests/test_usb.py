"""The port usb at its pins: a host of our own, from the specification, and LUNA's logic on the other side."""

import itertools
import sys
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
from amaranth import Module, Mux, Signal
from amaranth.hdl import DomainRenamer, EnableInserter, Fragment
from amaranth.lib import wiring

import tg2hdl
from tg2hdl.bits import same_bits
from tg2hdl.device_folder import write_device_folder
from tg2hdl.packet_line import PacketLine
from tg2hdl_backend import Runner
from tg2hdl_host import Device
from tg2hdl_host.description import read_files
from tg2hdl_ir import ToolMissingError
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_top import TopModule
from tg2hdl_top.ports.packets import END, OP_SYNC
from tg2hdl_top.ports.usb import _device, _luna
from tg2hdl_top.ports.usb_host import (
    ACK,
    DATA0,
    DATA1,
    IN,
    NAK,
    OUT,
    SETUP,
    SOF,
    UsbDriver,
    UsbHost,
    crc5,
    crc16,
)

STREAM = 4
"""The endpoint of the bytes."""
X = np.arange(-10, 10, dtype=np.int32)
"""More than a packet of USB."""


def model(x):
    return x * 3 + 1


def compiled():
    return tg2hdl.compile(model, X, options=tg2hdl.CompileOptions(ports=("usb",)), name="net")


@pytest.fixture(scope="module")
def accelerator():
    pytest.importorskip("luna", reason='needs LUNA: pip install "tg2hdl[usb]"')
    return compiled()


@pytest.fixture(scope="module")
def simulation(accelerator):
    """One for all tests: each of them resets the bus."""
    engines = SimulationModel(TopModule(accelerator.design))
    with open_simulation(engines, expected_cycles=200_000) as found:
        yield found


def test_checks_are_those_of_published_examples():
    # CRC-5/USB and CRC-16/USB of the catalog of Cook, and the examples of "CRCs in USB" of the USB-IF.
    assert crc16(b"123456789") == 0xB4C8
    assert crc16(bytes((0, 1, 2, 3))) == int("1111011101011110"[::-1], 2)
    assert crc16(bytes((0x23, 0x45, 0x67, 0x89))) == int("0111000000111000"[::-1], 2)
    tokens = {(0x15, 0xE): "10111", (0x3A, 0xA): "11100", (0x70, 0x4): "01110"}
    for (address, endpoint), sent in tokens.items():
        assert crc5(address | endpoint << 7) == int(sent[::-1], 2)


def test_a_long_name_is_cut():
    pytest.importorskip("luna", reason='needs LUNA: pip install "tg2hdl[usb]"')
    with _luna():
        found = _device("net" * 100).create_descriptors()
    texts = [bytes(descriptor) for kind, _, descriptor in found if kind == 3]
    assert ("net" * 20).encode("utf-16le") in [text[2:] for text in texts]
    assert max(map(len, texts)) < 256


def test_without_luna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "luna", None)
    for name in [name for name in sys.modules if name.startswith("luna.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ToolMissingError, match=r"which is not installed") as refused:
        compiled()
    assert refused.value.hint == 'pip install "tg2hdl[usb]"'


def parts(descriptors):
    """Descriptors that follow each other."""
    found = []
    while descriptors:
        found.append(descriptors[: descriptors[0]])
        descriptors = descriptors[descriptors[0] :]
    return found


def test_a_host_finds_a_serial_device(simulation):
    host = UsbHost(simulation)
    host.configure()
    device = host.control(0x80, 6, 0x0100, 18)
    assert (device[0], device[1], device[7]) == (18, 1, 64)
    assert device[8:12] == bytes((0x09, 0x12, 0x01, 0x00))
    configuration = host.control(0x80, 6, 0x0200, 255)
    assert int.from_bytes(configuration[2:4], "little") == len(configuration)
    listed = parts(configuration)
    assert [(p[2], p[5], p[6]) for p in listed if p[1] == 4] == [(0, 2, 2), (1, 10, 0)]
    endpoints = [(p[2], p[3], int.from_bytes(p[4:6], "little")) for p in listed if p[1] == 5]
    assert endpoints == [(0x83, 3, 64), (0x84, 2, 64), (0x04, 2, 64)]
    texts = [host.control(0x80, 6, 0x0300 | n, 255)[2:].decode("utf-16le") for n in device[14:16]]
    assert texts == ["tg2hdl", "net"]
    assert host.control(0x80, 8, 0, 1) == b"\x01"  # the configuration
    assert host.control(0x80, 6, 0x0700, 255) is None  # no such descriptor
    assert host.control(0xC0, 1, 0, 4) is None  # no request of a vendor
    assert host.control(0x21, 0x22, 3) == b""  # control lines
    # Section 7.1.18: an answer begins 2 to 6.5 bits after the end of a packet, whose last bit is J.
    assert 1 + min(host.waits) / host.bit >= 2
    assert 1 + max(host.waits) / host.bit <= 6.5


def request(sequence):
    """A request that sets the number of the next one."""
    body = sequence.to_bytes(2, "little") + bytes((OP_SYNC, 0, 0, 0, 0, 0))
    body += zlib.crc32(body).to_bytes(4, "little")
    assert not {0xC0, 0xDB} & set(body)
    return body + bytes((END,))


def reply(sequence):
    body = sequence.to_bytes(2, "little") + bytes((OP_SYNC | 0x80, 0))
    return body + zlib.crc32(body).to_bytes(4, "little") + bytes((END,))


def ready(host):
    """The next data, or NAK after a while."""
    host.idle(400)
    return host.read(STREAM)


def test_a_damaged_packet_is_repeated_and_taken_once(simulation):
    host = UsbHost(simulation)
    host.configure()
    for check in (crc16(request(1)) ^ 1, crc16(request(1)) ^ 0x8000):
        host.token(OUT, STREAM)
        host.idle(3)
        host.send(DATA0, request(1) + check.to_bytes(2, "little"))
        assert host.receive() is None
    assert ready(host) == (NAK, b"")
    assert host.write(STREAM, DATA0, request(1)) == ACK
    assert host.write(STREAM, DATA0, request(1)) == ACK  # as if the host had not heard it
    assert ready(host) == (DATA0, reply(1))
    assert ready(host) == (NAK, b"")
    assert host.write(STREAM, DATA1, request(2)) == ACK
    assert ready(host) == (DATA1, reply(2))


def test_a_damaged_request_is_repeated(simulation):
    host = UsbHost(simulation)
    host.configure()
    setup = bytes((0x80, 8, 0, 0, 0, 0, 1, 0))
    host.token(SETUP, 0)
    host.idle(3)
    host.send(DATA0, setup + bytes(2))
    assert host.receive() is None
    assert host.control(0x80, 8, 0, 1) == b"\x01"


def test_bits_that_are_not_stuffed_are_no_packet(simulation):
    host = UsbHost(simulation)
    host.configure()
    data = b"\xff\xff" + request(3)
    host.token(OUT, STREAM)
    host.idle(3)
    host.send(DATA0, data + crc16(data).to_bytes(2, "little"), stuff=False)
    assert host.receive() is None
    assert host.write(STREAM, DATA0, request(3)) == ACK
    assert ready(host) == (DATA0, reply(3))


def test_tokens_for_others_and_damaged_ones_are_not_answered(simulation):
    host = UsbHost(simulation)
    host.configure()
    own = 5 | STREAM << 7
    for value, damage in ((6 | STREAM << 7, 0), (STREAM << 7, 0), (own, 1), (own, 16)):
        host.idle(3)
        host.send(IN, (value | (crc5(value) ^ damage) << 11).to_bytes(2, "little"))
        assert host.receive() is None
    assert host.read(STREAM) == (NAK, b"")


def test_an_answer_is_repeated_until_the_host_has_it(simulation):
    host = UsbHost(simulation)
    host.configure()
    assert host.write(STREAM, DATA0, request(4)) == ACK
    host.idle(400)
    for _ in range(2):
        assert host.read(STREAM, acknowledge=False) == (DATA0, reply(4))
        host.idle(20)
    assert host.read(STREAM) == (DATA0, reply(4))
    assert host.read(STREAM) == (NAK, b"")


def test_a_new_configuration_begins_again(simulation):
    host = UsbHost(simulation)
    host.configure()
    assert host.write(STREAM, DATA0, request(5)[:-1]) == ACK
    assert host.write(STREAM, DATA1, request(5)[-1:]) == ACK
    assert host.write(STREAM, DATA0, request(6)) == ACK
    assert ready(host) == (DATA0, reply(5))
    for begin in (host.configure, lambda: host.control(0x00, 9, 1)):
        begin()
        assert host.write(STREAM, DATA0, request(7)) == ACK
        assert ready(host) == (DATA0, reply(7))


class Jittering(UsbHost):
    """Each edge comes up to 21 ns early or late; section 7.1.15 has 18.5 ns at most."""

    def __init__(self, simulation):
        super().__init__(simulation)
        self.late, self.before = itertools.cycle((0, 1)), 0

    def _drive(self, dp, dn, bits=1):
        late = next(self.late)
        self.simulation.set("usb__dp", dp)
        self.simulation.set("usb__dn", dn)
        self.simulation.step(bits * self.bit + late - self.before)
        self.before = late


def test_edges_may_come_early_and_late(simulation):
    host = Jittering(simulation)
    host.configure()
    assert host.write(STREAM, DATA0, b"\xff\x00\x7e" + request(8)[:-1]) == ACK
    assert host.write(STREAM, DATA1, bytes((END,)) + request(8)) == ACK
    assert ready(host) == (DATA0, reply(8))


def test_frames_and_a_suspended_bus_change_nothing(simulation):
    host = UsbHost(simulation)
    host.configure()
    host.send(SOF, (0x123 | crc5(0x123) << 11).to_bytes(2, "little"))
    assert host.receive() is None
    host.idle(45_000)  # 3.75 ms
    assert host.write(STREAM, DATA0, request(9)) == ACK
    assert ready(host) == (DATA0, reply(9))


def test_calls_through_the_pins_with_a_result_of_full_packets(accelerator, simulation, monkeypatch):
    read, sizes = UsbHost.read, []

    def listed(host, endpoint, **options):
        pid, data = read(host, endpoint, **options)
        if endpoint == STREAM and pid != NAK:
            sizes.append(len(data))
        return pid, data

    monkeypatch.setattr(UsbHost, "read", listed)
    # END takes two bytes, so that the reply has 128.
    wanted = np.array([0xC0C0C0C0] * 9 + [0xC0C0C0] + [7] * 10, np.uint32)
    x = ((wanted - np.uint32(1)) * np.uint32(pow(3, -1, 1 << 32))).view(np.int32)
    runner = Runner(accelerator.design, simulation=simulation)
    for given in (x, X):
        found = runner.run({"x": given})
        assert found.compute == accelerator.predicted_cycles
        assert same_bits(found.outputs[0], given * 3 + 1)
    # A full packet at the end is followed by an empty one: the system of the host waits for a short one.
    assert ", 64, 64, 0, " in str(sizes)


def test_the_driver_of_boards_works_through_the_pins(accelerator, simulation, tmp_path):
    write_device_folder(accelerator, tmp_path, vectors=0)
    line = PacketLine(UsbDriver(accelerator.design.ports[0].serves, simulation))
    line.close = lambda: None  # other tests go on
    with Device(line, files=read_files(tmp_path), timeout=30) as device:
        before = device.counters
        assert same_bits(device.run(np.stack((X, -X))), np.stack((X, -X)) * 3 + 1)
        after = device.counters
    assert after["runs"] == before["runs"] + 2
    assert after["link_errors"] == before["link_errors"]
    assert after["repeats"] == 0


class Echo(wiring.Component):
    """Sends each byte back; of six cycles ``usb`` has four and ``sync`` has three."""

    def __init__(self):
        from tg2hdl_top.ports.usb import UsbSerial

        self.serial = UsbSerial()
        super().__init__({"usb": wiring.Out(self.serial.usb.signature)})

    def elaborate(self, platform):
        m, inner, serial = Module(), Module(), self.serial
        board = SimpleNamespace(device="")
        inner.submodules.serial = Fragment.get(serial, board)  # with both domains
        wiring.connect(inner, wiring.flipped(self.usb), serial.usb)
        inner.d.comb += [serial.byte_out.eq(serial.byte_in), serial.valid_out.eq(serial.valid_in)]
        slow, fast = Signal(), Signal(range(3))
        m.d.sync += [slow.eq(~slow), fast.eq(Mux(fast == 2, 0, fast + 1))]
        enabled = EnableInserter({"usb": fast != 2, "sync": slow})(inner)
        m.submodules.echo = DomainRenamer({"usb": "sync"})(enabled)
        return m


def test_bytes_cross_from_one_clock_to_the_other():
    pytest.importorskip("luna", reason='needs LUNA: pip install "tg2hdl[usb]"')
    with open_simulation(Echo(), engine="amaranth") as simulation:
        host = UsbHost(simulation, bit=6)
        host.idle(1)
        assert host.write(STREAM, DATA0, b"ab" + bytes((END,))) == ACK
        host.idle(3)
        assert host.read(STREAM) == (DATA0, b"ab" + bytes((END,)))
