"""Images and signals that are computed row by row: tinygrad's programs, the command, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl_backend.stream_runner import packets_on

ROWS = tg2hdl.CompileOptions(ports=("axi-stream",), schedule="rows", multipliers=4)
RNG = np.random.default_rng(5)
KERNELS = [RNG.integers(-127, 128, s).astype(np.int8) for s in ((2, 1, 3, 3), (2, 2, 3, 3), (1, 2, 3, 3))]


def requantized(sums):
    return ((sums + 128) >> 8).clip(0, 127).cast("int8")


def network(x):
    """Three convolutions with requantization; tinygrad stores the channels between them first."""
    for kernel in KERNELS:
        x = requantized(x.cast("int32").conv2d(Tensor(kernel).cast("int32"), padding=1))
    return x


def halved(x):
    """A convolution of a colour image with a stride of 2, and its largest values; channels last at both ends."""
    weights = Tensor(np.arange(-40, 41, dtype=np.int8).reshape(3, 3, 3, 3)).cast("int32")
    y = x.permute(0, 3, 1, 2).cast("int32").conv2d(weights, padding=1, stride=2)
    return requantized(y).max_pool2d(2).permute(0, 2, 3, 1)


def audio(x):
    """A filter and a convolution over samples."""
    for taps in (RNG.integers(-127, 128, (1, 1, n)).astype(np.int8) for n in (8, 4)):
        x = requantized(x.cast("int32").conv2d(Tensor(taps).cast("int32"), padding=(taps.shape[-1] - 1, 0)))
    return x


def joined(x):
    """Two filters of an image as channels: a kernel for each would save cycles, but each row has one writer."""
    x = x.permute(0, 3, 1, 2).cast("int32")
    first, second = (x.conv2d(Tensor(KERNELS[0][n : n + 1]).cast("int32"), padding=1) for n in (0, 1))
    return first.cat(second, dim=1).permute(0, 2, 3, 1)


@pytest.mark.parametrize(
    ("model", "shape", "rings"),
    [
        (network, (1, 1, 8, 6), 2),
        (halved, (1, 16, 12, 3), 2),
        (audio, (1, 1, 24), 2),
        (joined, (1, 12, 8, 1), 1),
    ],
)
def test_chains_of_kernels(model, shape, rings):
    """Bits with and without pauses; without them the predicted cycles."""
    accelerator = tg2hdl.compile(model, np.zeros(shape, np.int8), options=ROWS)
    design = accelerator.design
    inputs = [RNG.integers(0, 128, shape).astype(np.int8) for _ in range(3)]
    wanted = [np.asarray(accelerator.golden(x)).reshape(-1) for x in inputs]
    given = [{"x": x} for x in inputs]
    found = packets_on(design, given, limit=100_000)
    assert set(np.diff(found.sent)) == {accelerator.predicted_interval}
    late = packets_on(
        design,
        given,
        limit=100_000,
        offers=lambda cycle: RNG.random() < 0.7,
        takes=lambda cycle: RNG.random() < 0.7,
    )
    for outputs in (found.outputs, late.outputs):
        for (y,), want in zip(outputs, wanted, strict=True):
            np.testing.assert_array_equal(y, want)
    assert sum(memory.ring > 0 for memory in design.buffers) >= rings


def test_the_command_refuses_what_has_no_rows(tmp_path):
    (tmp_path / "model.py").write_text("def model(x): return x.sum(axis=0)\n")
    arguments = ["compile", str(tmp_path / "model.py"), "--input", "int32:4x4", "--schedule", "rows"]
    result = CliRunner().invoke(cli, [*arguments, "-o", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "through the port axi-stream only" in str(result.exception)


def test_the_command_says_how_often_a_result_comes(tmp_path):
    model = """
import numpy as np
from tinygrad import Tensor
def model(x): return x.conv2d(Tensor(np.ones((1, 1, 3, 3), np.int32)), padding=1)
"""
    (tmp_path / "model.py").write_text(model)
    arguments = ["compile", str(tmp_path / "model.py"), "--input", "int32:1x1x24x32", "--schedule", "rows"]
    result = CliRunner().invoke(cli, [*arguments, "--port", "axi-stream", "-o", str(tmp_path / "out")])
    assert result.exit_code == 0
    found = re.match(r"model: ([0-9,]+) cycles from start to done, ([0-9,]+) from one result", result.output)
    latency, interval = (int(number.replace(",", "")) for number in found.groups())
    assert 24 * 32 <= interval < latency
