"""A device that several threads and programs want."""

import json
import os
import re
import select
import socket
import struct
import subprocess
import sys
from threading import Thread

import numpy as np
import pytest

import tg2hdl_host
from callers import in_threads
from fake_device import DisturbedLine, FakeDevice
from tg2hdl_host import ConnectionFailedError, Device, SerialTransport
from tg2hdl_host.served import token_file


def result(x):
    return x.astype(np.int32).sum() * np.array([1, 2, 3], np.int32)


@pytest.mark.parametrize("packet_run", [False, True])
def test_callers_in_threads_get_their_own_results(packet_run):
    device = Device(DisturbedLine(FakeDevice(packet_run=packet_run)), timeout=5)

    def work(k):
        rng = np.random.default_rng(k)
        for _ in range(40):
            x = rng.integers(-128, 128, (1, 8), dtype=np.int8)
            assert np.array_equal(device(x), result(x))
        batch = rng.integers(-128, 128, (20, 1, 8), dtype=np.int8)
        assert np.array_equal(device.run(batch), [result(x) for x in batch])

    assert in_threads(work, 4) == []
    assert device.counters["runs"] == 4 * 60
    assert device.counters["repeats"] == 0


def board():
    """A terminal with a fake device behind it."""
    master, slave = os.openpty()
    device = FakeDevice()

    def answer():
        while select.select([master], [], [], 20)[0]:
            try:
                data = os.read(master, 4096)
                os.write(master, device.feed(data))
            except OSError:
                return

    Thread(target=answer, daemon=True).start()
    return os.ttyname(slave)


def test_a_port_that_another_program_has_open_is_named_as_the_reason():
    port = board()
    code = f"import tg2hdl_host; device = tg2hdl_host.connect({port!r}, timeout=10); print('open', flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(ConnectionFailedError) as caught:
            tg2hdl_host.connect(port, timeout=2)
        assert str(caught.value) == (
            f"another program has {port} open\n"
            "  at: link\n"
            f"  hint: end it, or close its device: `fuser {port}` names it"
        )
    finally:
        other.communicate("\n")
    with tg2hdl_host.connect(port, timeout=10) as device:  # it is free again
        x = np.arange(8, dtype=np.int8)[None]
        assert np.array_equal(device(x), result(x))


def server(answer, said):
    """A socket that hears one line and answers."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        with listening:
            connection, _ = listening.accept()
        with connection, connection.makefile("rb") as lines:
            said.append(lines.readline())
            connection.sendall(answer)
            connection.recv(1)

    Thread(target=serve, daemon=True).start()
    return listening.getsockname()[1]


def test_the_token_of_the_folder_goes_to_its_simulation_only(tmp_path):
    said = []
    port = server(b'{"error": "the simulation is in use by train.py, process 7", "hint": "end it"}\n', said)
    url = f"socket://127.0.0.1:{port}"
    (tmp_path / "device.json").write_text(json.dumps({"id": "0", "design": "d", "buffers": []}))
    token_file(tmp_path, port).write_text("secret\n")
    with pytest.raises(ConnectionFailedError) as caught:
        tg2hdl_host.connect(url, tmp_path)
    assert str(caught.value) == (
        f"{url}: the simulation is in use by train.py, process 7\n  at: link\n  hint: end it"
    )
    assert json.loads(said[0])["token"] == "secret"
    assert re.fullmatch(rf".*, process {os.getpid()}", json.loads(said[0])["who"])
    other = SerialTransport(
        f"socket://127.0.0.1:{server(b'', said)}", 9600
    )  # nothing is said to a bare socket
    other.close()


@pytest.fixture
def opened(monkeypatch):
    """The sockets that a test opens as a client."""
    sockets, connect = [], socket.create_connection
    monkeypatch.setattr(
        socket, "create_connection", lambda *a, **k: sockets.append(connect(*a, **k)) or sockets[-1]
    )
    return sockets


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_a_connection_that_the_other_end_has_reset_is_closed(opened):
    listening = socket.create_server(("127.0.0.1", 0))
    transport = SerialTransport(f"socket://127.0.0.1:{listening.getsockname()[1]}", 9600)
    with listening:
        reset(listening.accept()[0])
    with pytest.raises(ConnectionFailedError, match="is gone"):
        transport.read(10)
    transport.close()
    assert [s.fileno() for s in opened] == [-1]


def test_a_connection_that_is_reset_while_it_is_opened_is_closed(opened, monkeypatch):
    listening = socket.create_server(("127.0.0.1", 0))
    connect = socket.create_connection

    def connect_and_reset(*arguments, **options):
        connection = connect(*arguments, **options)
        reset(listening.accept()[0])
        return connection

    monkeypatch.setattr(socket, "create_connection", connect_and_reset)
    url = f"socket://127.0.0.1:{listening.getsockname()[1]}"
    with listening, pytest.raises(ConnectionFailedError, match=f"cannot open {url}: "):
        SerialTransport(url, 9600)
    assert [s.fileno() for s in opened] == [-1]


def test_what_is_no_simulation_is_refused():
    said = []
    port = server(b"220 mail.example\n", said)
    with pytest.raises(ConnectionFailedError, match="an answer that is not of `tg2hdl serve`: b'220 mail"):
        SerialTransport(f"socket://127.0.0.1:{port}", 9600, "secret")
