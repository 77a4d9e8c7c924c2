"""Packets in datagrams: the driver through a real socket, against the model of the hardware, and a bad network."""

import random
import socket
from contextlib import contextmanager
from threading import Thread

import numpy as np
import pytest

import tg2hdl_host
from fake_device import DisturbedNetwork, FakeDevice
from tg2hdl_host import ConnectionFailedError, Device, HostError, LinkError
from tg2hdl_host.udp import UdpTransport


def inputs(count, seed=0):
    return np.random.default_rng(seed).integers(-128, 128, (count, 1, 8), dtype=np.int8)


def result(x):
    return x.astype(np.int32).sum() * np.array((1, 2, 3), np.int32)


@contextmanager
def served(device):
    """A design at a port of this machine; yields the URL and the datagrams that came."""
    seen = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def serve():
            while True:
                data, sender = server.recvfrom(1 << 16)
                seen.append(data)
                if data == b"end":
                    return
                for reply in device.feed(data).split(b"\xc0")[:-1]:
                    server.sendto(reply + b"\xc0", sender)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"udp:127.0.0.1:{server.getsockname()[1]}", seen
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"end", server.getsockname())
        thread.join()


def test_connect_runs_a_design_over_udp_and_leaves_it():
    batch = inputs(30)
    with served(FakeDevice()) as (url, seen):
        with tg2hdl_host.connect(url) as device:
            assert np.array_equal(device.run(batch), [result(x) for x in batch])
            assert device.counters["repeats"] == 0
            assert device.reconnect()
            assert np.array_equal(device(batch[0]), result(batch[0]))
        assert seen.count(b"") == 2, "reconnect and close say good-bye"
    assert max(map(len, seen)) <= 1472
    assert all(data.endswith(b"\xc0") for data in seen if data and data != b"end")


def test_packets_are_split_where_they_end_or_do_not_fit():
    large, small = b"x" * 2000 + b"\xc0", b"y" * 700 + b"\xc0"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as design:
        design.bind(("127.0.0.1", 0))
        design.settimeout(10)
        transport = UdpTransport(f"udp:127.0.0.1:{design.getsockname()[1]}")
        transport.write(small * 3 + large)
        transport.close()
        sent = [design.recv(4096) for _ in range(5)]
    assert sent == [small * 2, small, large[:1472], large[1472:], b""]


@pytest.mark.parametrize(
    "url", ["udp:", "udp:a b", "udp:127.0.0.1:0", "udp:127.0.0.1:70000", "udp:1.2.3.4:x"]
)
def test_a_url_without_an_address_is_refused(url):
    with pytest.raises(ConnectionFailedError, match="names no address") as caught:
        tg2hdl_host.connect(url)
    assert "udp:192.168.1.50" in caught.value.hint


def test_a_network_that_cannot_be_reached_is_an_error(monkeypatch):
    class Socket(socket.socket):
        def connect(self, address):
            raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("tg2hdl_host.udp.socket.socket", Socket)
    with pytest.raises(ConnectionFailedError, match="Network is unreachable") as caught:
        UdpTransport("udp:10.9.8.7")
    assert "an address in the same network" in caught.value.hint


def test_where_nothing_listens_it_is_an_error_that_names_the_stage():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"udp:127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(LinkError, match="no answer, 2 times") as caught:
            Device(UdpTransport(url), timeout=0.02, attempts=2)
    assert caught.value.stage == "link"
    assert caught.value.hint.startswith("ping its address")


@pytest.mark.parametrize(("state", "packet_run"), [(False, False), (True, False), (True, True)])
def test_no_fault_of_a_network_gives_a_wrong_result(state, packet_run, monkeypatch):
    faults = results = errors = 0
    for seed in range(60):
        monkeypatch.setattr("tg2hdl_host.link.secrets.randbits", random.Random(seed).getrandbits)
        network = DisturbedNetwork(FakeDevice(state=state, packet_run=packet_run), 0.0, seed)
        device = Device(network, timeout=5, attempts=20)
        network.probability = (0.02, 0.1, 0.3)[seed % 3]
        batch = inputs(12, seed)
        try:
            found = device.run(batch)
        except HostError:
            errors += 1
            continue
        finally:
            faults += network.faults
        expected = np.array([result(x) for x in batch])
        assert np.array_equal(found, np.cumsum(expected, 0) if state else expected)
        results += len(found)
    assert faults > 100
    assert errors < 20
    assert results > 400
