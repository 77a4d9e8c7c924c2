"""The driver against a model of the hardware in Python: results, refusals, and a disturbed line."""

import importlib.util
import random
import subprocess
import sys
import types

import numpy as np
import pytest

import tg2hdl_host
from fake_device import DisturbedLine, FakeDevice
from tg2hdl_host import ConnectionFailedError, Device, LinkError, UnfitInputError
from tg2hdl_host.spi import SpiTransport


def inputs(count, seed=0):
    return np.random.default_rng(seed).integers(-128, 128, (count, 1, 8), dtype=np.int8)


def result(x, factors=(1, 2, 3)):
    return x.astype(np.int32).sum() * np.array(factors, np.int32)


def opened(device=None, **options):
    return Device(DisturbedLine(device or FakeDevice()), timeout=5, **options)


@pytest.mark.parametrize("packet_run", [False, True])
def test_a_call_and_a_batch_return_what_the_model_returns(packet_run):
    fake = FakeDevice(packet_run=packet_run)
    device = opened(fake)
    for x in inputs(3):
        found = device(x)
        assert (found.dtype, found.shape, found.tolist()) == (np.int32, (3,), result(x).tolist())
    batch = inputs(50)
    assert np.array_equal(device.run(batch), [result(x) for x in batch])
    assert np.array_equal(device.run(batch[:, 0]), [result(x) for x in batch])
    before = fake.requests
    device.run(batch)
    assert fake.requests - before == 50 * (1 if packet_run else 3)
    assert device.counters["runs"] == 153
    assert device.rate > 0


def test_values_for_integers_need_their_scales():
    device = opened()
    with pytest.raises(UnfitInputError, match="type float64") as caught:
        device(np.zeros((1, 8)))
    assert ".astype() does not scale" in caught.value.hint
    with pytest.raises(UnfitInputError, match="1 outputs, and scales of 0"):
        device.dequantize(np.zeros(3, np.int32))
    border = {"scale": [0.5], "offset": 0.0, "zero": 1, "low": -100, "high": 100}
    borders = {"inputs": [border], "outputs": [border | {"scale": [2.0, 1.0, 1.0]}]}
    device = opened(files={"id": "1122334455667788", "design": "fake", "borders": borders})
    # Halves are rounded to even, and 1e6 is clipped.
    found = device(np.array([[0.25, 0.75, -0.25, 1e6, 0, 0, 0, 0]]))
    assert found.tolist() == result(np.array([0 + 1, 2 + 1, 0 + 1, 100, 1, 1, 1, 1])).tolist()
    assert device.dequantize(found).tolist() == [2.0 * (found[0] - 1), found[1] - 1, found[2] - 1]


def test_progress_is_printed(capsys):
    opened().run(inputs(16), progress=True)
    assert "16 of 16" in capsys.readouterr().err


def test_the_structure_of_the_model_comes_from_the_files():
    files = {"id": "1122334455667788", "design": "fake", "inputs": ["gone", "x"]}
    files["structure"] = {"dict": [["a", {"output": 0, "shape": [3, 1]}], ["b", {"constant": None}]]}
    device = opened(files=files)
    x = inputs(1)[0]
    found = device(np.zeros(3), x)
    assert list(found) == ["a", "b"]
    assert found["b"] is None
    assert found["a"].tolist() == result(x)[:, None].tolist()


def test_a_pair_of_arrays_is_no_batch_of_pairs():
    device = opened(files={"id": "1122334455667788", "design": "fake", "inputs": ["gone", "x"]})
    batch = inputs(2)
    with pytest.raises(UnfitInputError, match=r"^1 input for a design of 2") as caught:
        device.run((np.zeros((2, 3)), batch))
    assert "one tuple for each result, such as zip(gone, x)" in caught.value.hint
    assert np.array_equal(device.run(zip(np.zeros((2, 3)), batch, strict=True)), [result(x) for x in batch])


@pytest.mark.parametrize(
    "value", [np.zeros((1, 8), np.int16), np.zeros((2, 8), np.int8), np.zeros(7, np.int8)]
)
def test_unfit_inputs_are_refused(value):
    with pytest.raises(UnfitInputError, match="the design takes"):
        opened()(value)


@pytest.mark.parametrize("arguments", [(5,), ("/dev/none", 5)])
def test_a_device_is_named_by_text_or_a_path(arguments):
    with pytest.raises(ConnectionFailedError, match="named by text or a path"):
        tg2hdl_host.connect(*arguments)


def test_weights_are_loaded_before_the_first_run():
    device = opened(FakeDevice(weights=True))
    x = inputs(1)[0]
    with pytest.raises(UnfitInputError, match="weights are not loaded: w"):
        device(x)
    with pytest.raises(UnfitInputError, match="no weight 'v'"):
        device.load_weights({"v": np.zeros(3)})
    with pytest.raises(UnfitInputError, match="weights are a NoneType"):
        device.load_weights(None)
    device.load_weights({"w": np.array([5, 6, 7], np.int32)})
    assert device(x).tolist() == result(x, (5, 6, 7)).tolist()


@pytest.mark.parametrize(("address", "stage"), [(0, "identity"), (0x20, "link"), (0xA0, "read y")])
def test_the_stage_that_does_not_answer_is_named(address, stage):
    fake = FakeDevice()
    device = opened(fake) if address else None
    fake.silent_from = address
    with pytest.raises(LinkError, match="no answer") as caught:
        (device or opened(fake))(inputs(1)[0])
    assert caught.value.stage == stage


@pytest.mark.parametrize(("state", "packet_run"), [(False, True), (True, False), (True, True)])
def test_no_disturbance_gives_a_wrong_result(state, packet_run, monkeypatch):
    """Each result is right or an error; what keeps state runs exactly once."""
    faults = results = errors = 0
    for seed in range(100):
        # The link starts from a random number; drawn from the seed, every run of this test is the same.
        monkeypatch.setattr("tg2hdl_host.link.secrets.randbits", random.Random(seed).getrandbits)
        fake = FakeDevice(state=state, packet_run=packet_run)
        line = DisturbedLine(fake, 0.0, seed)
        device = Device(line, timeout=5, attempts=20)
        line.probability = (0.02, 0.1, 0.3)[seed % 3]
        batch = inputs(12, seed)
        try:
            found = device.run(batch)
        except tg2hdl_host.HostError:
            errors += 1
            continue
        finally:
            faults += line.faults
        expected = np.array([result(x) for x in batch])
        assert np.array_equal(found, np.cumsum(expected, 0) if state else expected)
        results += len(found)
    assert faults > 150
    assert errors < 35
    assert results > 650


def test_the_driver_needs_numpy_and_pyserial_only():
    code = (
        "import sys, tg2hdl_host; "
        "print([m for m in sys.modules if m.startswith('tg2hdl') and m.split('.')[0] != 'tg2hdl_host'"
        " or m in ('amaranth', 'tinygrad')])"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    # The backend's start-up hook of tinygrad's device is there where all packages are installed.
    assert text.strip() in ("[]", "['tg2hdl_device_finder']")


class Spi:
    """A slave that answers `delay` bytes after a request, END where it has nothing to say."""

    def __init__(self, device, delay):
        self.device, self.delay, self.says = device, delay, []

    def __call__(self, data):
        found = bytearray()
        for byte in data:
            found.append(self.says.pop(0) if self.says else 0xC0)
            answer = self.device.feed(bytes((byte,)))
            if answer:
                self.says += [0xC0] * self.delay + list(answer)
        return bytes(found)


@pytest.mark.parametrize("delay", [*range(20), 700])
def test_spi_gives_the_same_results(delay):
    closed = []
    transport = SpiTransport("spi:0.0", Spi(FakeDevice(), delay), lambda: closed.append(1))
    batch = inputs(10)
    with Device(transport, timeout=5) as device:
        assert np.array_equal(device.run(batch), [result(x) for x in batch])
        assert device.counters["repeats"] == 0
    assert closed == [1]


def test_garbled_spi_gives_no_wrong_result(monkeypatch):
    """Bytes change in both directions; the clock counts exchanges, so that every run of this test is the same."""
    faults = results = errors = now = 0

    def garbled(data, rng):
        nonlocal faults
        hits = [rng.random() < 0.004 for _ in data]
        faults += sum(hits)
        return bytes(rng.randrange(256) if hit else byte for byte, hit in zip(data, hits, strict=True))

    monkeypatch.setattr("time.monotonic", lambda: now)
    for seed in range(40):
        rng = random.Random(seed)
        monkeypatch.setattr("tg2hdl_host.link.secrets.randbits", rng.getrandbits)
        slave = Spi(FakeDevice(), delay=seed % 5)

        def exchange(data, slave=slave, rng=rng):
            nonlocal now
            now += 1
            return garbled(slave(garbled(data, rng)), rng)

        batch = inputs(12, seed)
        try:
            found = Device(SpiTransport("spi", exchange, lambda: None), timeout=20, attempts=20).run(batch)
        except tg2hdl_host.HostError:
            errors += 1
            continue
        assert np.array_equal(found, [result(x) for x in batch])
        results += len(found)
    assert faults > 300
    assert errors < 10
    assert results > 300


def test_a_silent_spi_is_an_error_that_names_the_stage():
    transport = SpiTransport("spi:0.0", lambda data: b"\xff" * len(data), lambda: None)
    with pytest.raises(LinkError, match=r"spi:0\.0: no answer") as caught:
        Device(transport, timeout=0.02, attempts=2)
    assert caught.value.stage == "link"


@pytest.mark.parametrize(
    ("url", "expected"),
    [("spi:0.0", (0, 0)), ("spi:/dev/spidev1.2", (1, 2)), ("spi:zero", None), ("spi:3.1", "absent")],
)
def test_spi_of_linux(monkeypatch, url, expected):
    opened = []

    class SpiDev:
        def open(self, bus, chip):
            if bus == 3:
                raise FileNotFoundError(2, "No such file or directory")
            opened.append((bus, chip))
            self.slave = Spi(FakeDevice(), 3)

        def xfer2(self, values):
            assert len(values) <= 4096
            assert (self.mode, self.max_speed_hz) == (0, 2_000_000)
            return list(self.slave(bytes(values)))

        def close(self):
            opened.append("closed")

    module = types.ModuleType("spidev", "a stand-in")
    module.SpiDev = SpiDev
    module.__spec__ = importlib.util.spec_from_loader("spidev", None)
    monkeypatch.setitem(sys.modules, "spidev", module)
    if not isinstance(expected, tuple):
        message = "cannot open spi:3.1" if expected else "names no SPI device"
        with pytest.raises(ConnectionFailedError, match=message):
            tg2hdl_host.connect(url, baud=2_000_000)
        return
    with tg2hdl_host.connect(url, baud=2_000_000) as device:
        assert np.array_equal(device(inputs(1)[0]), result(inputs(1)[0]))
    assert opened == [expected, "closed"]


@pytest.mark.parametrize("packet_run", [False, True])
def test_no_disturbance_runs_a_step_twice_or_with_another_variable(packet_run, monkeypatch):
    """A step of a state whose variable counts: every result shows all steps before it."""
    monkeypatch.setattr("secrets.randbits", random.Random(4).getrandbits)
    results = faults = 0
    for seed in range(40):
        line = DisturbedLine(FakeDevice(state=True, packet_run=packet_run, variable=True), 0.0, seed)
        batch, total = inputs(10, seed), 0
        try:
            device = Device(line, timeout=0.01, attempts=30)
            line.probability = (0.05, 0.15, 0.3)[seed % 3]
            for n, x in enumerate(batch):
                total += int(x.astype(int).sum()) + n
                assert device(x, n=n).tolist() == [total, 2 * total, 3 * total]
                results += 1
        except tg2hdl_host.HostError:
            continue
        finally:
            faults += line.faults
    assert faults > 300
    assert results > 350
