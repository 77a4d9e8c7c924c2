"""Accelerators, sessions, served simulations and the compiler, called from several threads."""

import gc
import json
import os
import re
import stat
import subprocess
import sys
from threading import Event, Thread
from types import SimpleNamespace
from urllib.request import urlopen

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from callers import in_threads
from tg2hdl.cli import cli
from tg2hdl.device_folder import write_device_folder
from tg2hdl_host import ConnectionFailedError, InferenceSession, TensorInfo
from tg2hdl_host.http_server import InferenceServer
from tg2hdl_host.open_inference import ModelServer

W = np.random.default_rng(0).integers(-9, 9, (16, 4)).astype(np.int8)


@pytest.fixture(scope="module")
def accelerator():
    weight = Tensor(W).realize()
    return tg2hdl.compile(lambda x: x.cast("int32") @ weight.cast("int32"), np.zeros((1, 16), np.int8))


@pytest.fixture(autouse=True)
def switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("way", ["simulate", "session", "batch", "golden"])
def test_callers_in_threads_get_their_own_results(accelerator, way):
    session = accelerator.session("amaranth") if way in ("session", "batch") else None
    call = {
        "simulate": lambda x: accelerator.simulate(x, engine="amaranth").output,
        "session": lambda x: session.run(x).output,
        "batch": lambda x: session.run_batch([x, -x])[0].output,
        "golden": accelerator.golden,
    }[way]

    def work(k):
        rng = np.random.default_rng(k)
        for _ in range(8):
            x = rng.integers(-9, 9, (1, 16)).astype(np.int8)
            assert np.array_equal(call(x), x.astype(np.int32) @ W)

    assert in_threads(work) == []


def test_state_counts_every_run():
    total = Tensor(np.zeros(1, np.int32)).realize()
    counting = tg2hdl.compile(lambda x: total.assign(total + x), np.ones(1, np.int32))
    one = np.ones(1, np.int32)
    seen = []
    assert in_threads(lambda k: [seen.append(int(counting.golden(one)[0])) for _ in range(50)]) == []
    assert sorted(seen) == list(range(1, 301))
    counting.reset()
    seen.clear()
    run = counting.simulate
    work = lambda k: [seen.append(int(run(one, engine="amaranth").output[0])) for _ in range(3)]  # noqa: E731
    assert in_threads(work) == []
    assert sorted(seen) == list(range(1, 19))


def test_models_are_compiled_in_threads():
    shared = Tensor(np.arange(12, dtype=np.int32).reshape(4, 3)).realize()
    threshold = gc.get_threshold()

    def work(k):
        rng = np.random.default_rng(k)
        for _ in range(3):
            w = rng.integers(-9, 9, (3, 5)).astype(np.int32)
            own = Tensor(w).realize()
            x = rng.integers(-9, 9, (2, 4)).astype(np.int32)
            made = tg2hdl.compile(lambda x, own=own: ((x @ shared) @ own).relu(), x)
            assert np.array_equal(made.golden(x), np.maximum(x @ np.arange(12).reshape(4, 3) @ w, 0))
            assert np.array_equal(made.reference(x), made.golden(x))
            assert np.array_equal(own.numpy(), w)

    assert in_threads(work, 4) == []
    assert gc.get_threshold() == threshold


def test_tensors_that_other_threads_change_stay_changed():
    """What a capture restores are the tensors of its own thread."""
    begun, changed = Event(), Event()
    other, late = Tensor([1, 2, 3]).realize(), []

    def change():
        begun.wait(20)
        other.assign(other + 10)
        # tinygrad's cache of compiled kernels belongs to one thread: a device without a compiler.
        late.append((Tensor([4, 5], device="PYTHON") * 2).realize())
        changed.set()

    def model(x):
        begun.set()
        assert changed.wait(20)
        return x + 1

    thread = Thread(target=change)
    thread.start()
    made = tg2hdl.compile(model, np.zeros(3, np.int32))
    thread.join()
    assert np.array_equal(made.golden(np.arange(3, dtype=np.int32)), [1, 2, 3])
    assert other.tolist() == [11, 12, 13]
    assert late[0].tolist() == [8, 10]


def served(folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "tg2hdl", "serve", str(folder), "--engine", "amaranth"],
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().strip()


def test_a_device_is_served_by_http(tmp_path, monkeypatch):
    form = TensorInfo("x", [2], "tensor(int8)", np.dtype(np.int8))
    opened = []

    class Session:
        def __init__(self, *arguments):
            opened.append(arguments)

        device = SimpleNamespace(description=SimpleNamespace(name="m"))
        get_inputs = get_outputs = lambda self: [form]

        def __enter__(self):
            return self

        def __exit__(self, *_):
            opened.append("closed")

    monkeypatch.setattr("tg2hdl.cli.serve.InferenceSession", Session)
    monkeypatch.setattr(
        "tg2hdl.cli.serve.InferenceServer.serve_forever", lambda self: opened.append(self.url)
    )
    for options, device in (((), f"simulate:{tmp_path}"), (("--device", "spi:0.0"), "spi:0.0")):
        result = CliRunner().invoke(cli, ["serve", str(tmp_path), "--http", *options])
        url = result.output.strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v2/models/m", url)
        assert opened[-3:] == [(device, tmp_path), url, "closed"]


def test_options_of_http_need_it(tmp_path):
    result = CliRunner().invoke(cli, ["serve", str(tmp_path), "--device", "spi:0.0"])
    assert result.exit_code == 2
    assert "--device and --host are options of --http" in result.output
    options = ["--http", "--device", "/dev/none"]
    error = CliRunner().invoke(cli, ["serve", str(tmp_path), *options], standalone_mode=False).exception
    assert "there is no " in str(error)
    assert "device.json" in str(error)


def asked(device):
    """A result by HTTP, as a program gets it that knows nothing of this project."""
    with InferenceServer(ModelServer(InferenceSession(device))) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        with urlopen(server.url, timeout=30) as answer:
            (tensor,) = json.load(answer)["inputs"]
        body = json.dumps({"inputs": [tensor | {"data": list(range(16))}]}).encode()
        with urlopen(f"{server.url}/infer", body, timeout=30) as answer:
            (output,) = json.load(answer)["outputs"]
        server.shutdown()
        thread.join()
    return output


def test_a_served_simulation_has_one_host_that_knows_its_token(tmp_path):
    weight = Tensor(W).realize()
    options = tg2hdl.CompileOptions(ports=("uart",))
    made = tg2hdl.compile(
        lambda x: x.cast("int32") @ weight.cast("int32"),
        np.zeros((1, 16), np.int8),
        options=options,
        name="m",
    )
    write_device_folder(made, tmp_path, vectors=1)
    process, url = served(tmp_path)
    try:
        (token,) = tmp_path.glob("serve-*.token")
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert re.fullmatch(r"[0-9a-f]{64}\n", token.read_text())
        with pytest.raises(ConnectionFailedError) as caught:
            tg2hdl.connect(url, timeout=20)
        assert caught.value.hint == "if `tg2hdl serve DIR` runs there, give its folder: connect(url, DIR)"
        right = token.read_text()
        token.write_text("0" * 64)
        with pytest.raises(ConnectionFailedError) as caught:
            tg2hdl.connect(url, tmp_path)
        assert str(caught.value) == (
            f"{url}: the simulation needs the token of its folder\n  at: link\n"
            "  hint: give the folder: connect(url, DIR)"
        )
        token.write_text(right)
        with tg2hdl.connect(url, tmp_path, timeout=60) as device:
            x = np.arange(16, dtype=np.int8)[None]
            expected = x.astype(np.int32) @ W
            assert np.array_equal(device(x), expected)
            assert asked(device) == {
                "name": "output",
                "datatype": "INT32",
                "shape": [1, 4],
                "data": expected[0].tolist(),
            }
            with pytest.raises(ConnectionFailedError) as caught:
                tg2hdl.connect(url, tmp_path)
            program = os.path.basename(sys.argv[0])
            assert str(caught.value) == (
                f"{url}: the simulation is in use by {program}, process {os.getpid()}\n  at: link\n"
                "  hint: end that program, or serve the folder once more: each simulation has one host"
            )
        assert process.wait(30) == 0
        assert not token.exists()
    finally:
        process.kill()
        process.communicate()
