"""Round trips of a call: behind a USB bridge each costs its latency timer."""

import os
import random

import numpy as np
import pytest
import serial

import tg2hdl_host
from fake_device import DisturbedLine, FakeDevice
from tg2hdl_host import Device, SerialTransport
from tg2hdl_host.testing import UsbBridge


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def inputs(count, seed=0):
    return np.random.default_rng(seed).integers(-128, 128, (count, 1, 8), dtype=np.int8)


def totals(batch, state):
    sums = batch.astype(np.int64).sum(axis=(1, 2))
    return (np.cumsum(sums) if state else sums)[:, None] * [1, 2, 3]


def bridged(clock, fake, latency=0.016):
    bridge = UsbBridge(DisturbedLine(fake), latency, clock=clock, sleep=clock.sleep)
    return bridge, Device(bridge, timeout=5)


@pytest.mark.parametrize("packet_run", [False, True])
@pytest.mark.parametrize("state", [False, True])
def test_a_call_is_one_round_trip(packet_run, state):
    clock = Clock()
    bridge, device = bridged(clock, FakeDevice(packet_run=packet_run, state=state, variable=True))
    batch = inputs(12)
    device(batch[0], n=0)  # also asks for the number of the run
    waits, begun = bridge.waits, clock.now
    found = [device(x, n=0) for x in batch[1:]]
    assert np.array_equal(found, totals(batch, state)[1:])
    assert bridge.waits - waits == 11
    assert clock.now - begun == pytest.approx(11 * 0.016)


def test_a_packet_that_is_full_does_not_wait():
    clock = Clock()
    bridge = UsbBridge(DisturbedLine(FakeDevice()), 1.0, clock=clock, sleep=clock.sleep)
    line = bridge._line
    line.write = lambda data: setattr(line, "waiting", line.waiting + data)
    bridge.write(bytes(range(130)))
    assert (bridge.read(5), clock.now) == (bytes(range(124)), 0)
    assert (bridge.read(0.5), clock.now) == (b"", 0.5)  # the timer has not ended yet
    assert (bridge.read(5), clock.now) == (bytes(range(124, 130)), 1.0)
    assert (bridge.read(2), clock.now) == (b"", 3.0)


@pytest.mark.parametrize("packet_run", [False, True])
@pytest.mark.parametrize("state", [False, True])
def test_a_run_of_another_host_in_between_is_noticed(packet_run, state):
    """A start with the number that the driver assumes is refused; the one run more is not taken for its own."""
    fake = FakeDevice(packet_run=packet_run, state=state)
    device = Device(DisturbedLine(fake), timeout=5, attempts=1)
    batch = inputs(3)
    device(batch[0])
    fake.memory[0x80:0x88] = batch[1].tobytes()
    fake.start(1)
    assert device(batch[2]).tolist() == totals(batch, state)[2].tolist()
    assert fake.word(0x20) == 3


@pytest.mark.parametrize("state", [False, True])
def test_single_calls_are_right_over_a_disturbed_line(state, monkeypatch):
    faults = results = 0
    for seed in range(60):
        monkeypatch.setattr("tg2hdl_host.link.secrets.randbits", random.Random(seed).getrandbits)
        line = DisturbedLine(FakeDevice(state=state, packet_run=seed % 4 > 1), 0.0, seed)
        device = Device(line, timeout=5, attempts=30)
        line.probability = (0.02, 0.1, 0.3)[seed % 3]
        batch = inputs(8, seed)
        expected = totals(batch, state)
        try:
            for x, y in zip(batch, expected, strict=True):
                assert device(x).tolist() == y.tolist()
                results += 1
        except tg2hdl_host.HostError:
            continue
        finally:
            faults += line.faults
    assert faults > 150
    assert results > 400


def test_a_port_is_asked_for_low_latency_and_is_not_configured_again(monkeypatch):
    """Each configuration of a port is a transfer to the bridge."""
    asked, configured = [], []
    ask, configure = serial.Serial.set_low_latency_mode, serial.Serial._reconfigure_port
    monkeypatch.setattr(
        serial.Serial, "set_low_latency_mode", lambda self, on: asked.append(on) or ask(self, on)
    )
    monkeypatch.setattr(
        serial.Serial,
        "_reconfigure_port",
        lambda self, *a, **k: configured.append(1) or configure(self, *a, **k),
    )
    master, slave = os.openpty()
    transport = SerialTransport(
        os.ttyname(slave), 115200
    )  # a terminal without a bridge refuses; that is ignored
    before = len(configured)
    os.write(master, b"abc")
    assert transport.read(5) == b"abc"
    assert transport.read(0.01) == b""
    transport.write(b"x")
    assert os.read(master, 10) == b"x"
    assert (asked, len(configured)) == ([True], before)
    transport.close()
    os.close(slave)
    os.close(master)


def test_a_port_without_a_file_descriptor_is_read_too():
    transport = SerialTransport("loop://", 9600)
    assert transport.read(0.01) == b""
    transport.write(b"abc")
    assert transport.read(5) == b"abc"
    transport.close()
