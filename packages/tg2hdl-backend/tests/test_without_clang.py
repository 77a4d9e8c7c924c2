"""tinygrad where clang is missing: the golden model computes on its device CPU, and files of weights load."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

MODELS = Path(__file__).parent / "models"
CHECK = (
    "from tinygrad import Device\n"
    "print(Device.DEFAULT, (Tensor([1, 2]) + 1).tolist(), Tensor(0.5).item(), Tensor.ones(1, device='CPU:1').item())"
)
ORDERS = {
    "tg2hdl first": "import tg2hdl_backend\nfrom tinygrad import Tensor\n",
    "tinygrad first": "from tinygrad import Tensor\nimport tg2hdl_backend\n",
    # Without the .pth file, as in an editable install, tinygrad finds no device before the import.
    "a tensor first": (
        "import contextlib\nfrom tinygrad import Tensor\n"
        "with contextlib.suppress(RuntimeError): Tensor([1])\nimport tg2hdl_backend\n"
    ),
}


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a program with an empty home and no programs to call."""

    def run(program: str, **environment: str) -> str:
        kept = {k: os.environ[k] for k in ("PYTHONPATH", "SYSTEMROOT") if k in os.environ}
        variables = {**kept, "HOME": str(tmp_path), "PATH": str(tmp_path), **environment}
        command = [sys.executable, "-W", "error", "-c", program]
        result = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


@pytest.mark.parametrize("order", ORDERS)
def test_tensors_compute_in_any_order_of_imports(run, order):
    assert run(ORDERS[order] + CHECK) == "CPU [2, 3] 0.5 1.0\n"


def test_a_program_that_imports_only_tinygrad(run):
    # What the .pth file does when Python starts.
    program = "import tg2hdl_device_finder; tg2hdl_device_finder.install()\nfrom tinygrad import Tensor\n"
    assert run(program + CHECK) == "CPU [2, 3] 0.5 1.0\n"


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang compiles the kernels that tinygrad keeps")
def test_a_home_that_cannot_be_written(run, tmp_path):
    (tmp_path / "file").touch()
    kept = {"HOME": str(tmp_path / "file"), "PATH": os.environ["PATH"]}
    assert run(ORDERS["tinygrad first"] + CHECK, **kept) == "CPU [2, 3] 0.5 1.0\n"


@pytest.mark.parametrize("home", ["file", "folder"])
def test_kernels_are_kept_where_the_home_can_be_written(run, tmp_path, home):
    (tmp_path / "file").touch()
    # No compiler: the device need not open, and no kernel is computed.
    program = (
        "import contextlib, tg2hdl_backend; from tinygrad import Device\n"
        "from tinygrad.helpers import diskcache_get, diskcache_put\n"
        "with contextlib.suppress(Exception): Device['CPU']\n"
        "diskcache_put('kernels', 'one', 1); print(diskcache_get('kernels', 'one'))"
    )
    kept = {"HOME": str(tmp_path / home), "CC": sys.executable}
    assert run(program, **kept) == ("None\n" if home == "file" else "1\n")


def test_random_weights_are_captured(run):
    program = (
        "import numpy as np, tg2hdl_backend as b; from tinygrad import Tensor\n"
        "w = Tensor.randn(4, 2); c = b.capture(lambda x: (x @ w * 2).relu(), np.zeros((1, 4), np.float32))\n"
        "print(len(c.program.calls), np.isfinite(w.numpy()).all())"
    )
    assert run(program) == "1 True\n"


def test_a_compiler_that_the_user_names_is_tinygrads(run):
    program = "import tg2hdl_backend; from tinygrad import Device; print(type(Device['CPU']).__module__)"
    assert run(program) == "tg2hdl_backend.hdl_device\n"
    # tinygrad 0.13 opens it, 0.14 compiles first, which fails because this one is not a compiler.
    program = (
        "import tg2hdl_backend; from tinygrad import Device\n"
        "try: print(type(Device['CPU']).__module__)\n"
        "except BaseException: print('tinygrad.runtime.ops_cpu')"
    )
    assert run(program, CC=sys.executable) == "tinygrad.runtime.ops_cpu\n"


def gguf(weight: np.ndarray) -> tuple[bytes, np.ndarray]:
    """File with one tensor of 8-bit blocks, and the numbers that it stands for."""
    stored, exact = b"", []
    for block in weight.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 127)
        codes = np.rint(block / np.float32(scale)).clip(-127, 127).astype(np.int8)
        stored += scale.tobytes() + codes.tobytes()
        exact.append(np.float32(scale) * codes.astype(np.float32))
    shape = weight.shape[::-1]
    header = b"GGUF" + struct.pack("<iqq", 3, 1, 0) + struct.pack("<Q", 1) + b"w"
    header += struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", 8, 0)
    return header + bytes(-len(header) % 32) + stored, np.concatenate(exact).reshape(weight.shape)


LOAD = """
import numpy as np, tg2hdl_backend as b
from tg2hdl_ir.golden import evaluate_program
from tinygrad import Tensor, nn
{load}
for weight in (stored.to("CPU"), stored.to("CPU").contiguous().realize(), stored.to(None)):
    x = np.eye(weight.shape[1], dtype=np.float32)
    captured = b.capture(lambda x: x @ weight.T, x)
    program = captured.program
    result = evaluate_program(program, captured.bind(x))[program.buffers[program.outputs[0]].name]
    np.testing.assert_array_equal(result.reshape(x.shape[0], -1).T, np.load("weight.npy"))
    np.testing.assert_array_equal(weight.numpy(), np.load("weight.npy"))
print("loaded")
"""
LOADERS = {
    "pth": f"stored = nn.state.torch_load({str(MODELS / 'mlp.pth')!r})['0.weight']",
    "safetensors": "stored = nn.state.safe_load('file')['w']",
    "gguf": "from tinygrad.llm.gguf import gguf_load\nstored = gguf_load('file')[1]['w']",
}


@pytest.mark.parametrize("kind", LOADERS)
def test_files_of_weights_load(run, tmp_path, kind):
    weight = np.random.default_rng(0).standard_normal((3, 32), dtype=np.float32)
    if kind == "safetensors":
        pytest.importorskip("safetensors.numpy").save_file({"w": weight}, tmp_path / "file")
    elif kind == "gguf":
        contents, weight = gguf(weight)
        (tmp_path / "file").write_bytes(contents)
    else:
        with zipfile.ZipFile(MODELS / "mlp.pth") as file:
            weight = np.frombuffer(file.read("mlp/data/0"), np.float32).reshape(8, 6)
    np.save(tmp_path / "weight.npy", weight)
    assert run(LOAD.format(load=LOADERS[kind])) == "loaded\n"
