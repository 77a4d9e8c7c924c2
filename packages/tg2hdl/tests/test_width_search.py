"""Widths layer by layer: the table, the front, the plot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.width_search import WidthSearch
from tg2hdl_ir import InputError

RNG = np.random.default_rng(0)
W1, W2 = (Tensor(RNG.normal(size=s).astype(np.float32)) for s in ((12, 8), (8, 3)))
SAMPLES = RNG.normal(size=(100, 12)).astype(np.float32)


def model(x: Tensor) -> Tensor:
    return (x @ W1).relu() @ W2


@pytest.fixture(scope="module")
def found() -> WidthSearch:
    return tg2hdl.search_widths(model, SAMPLES, multipliers=2)


def test_from_the_widest_to_the_narrowest_one_layer_at_a_time(found: WidthSearch) -> None:
    widths = [tuple(c.bits.values()) for c in found.candidates]
    assert widths[0] == (8, 8)
    assert widths[-1] == (2, 2)
    assert {(8, 8), (4, 4), (2, 2)} < set(widths)
    assert list(found.candidates[0].bits) == ["W1", "W2"]
    assert found.measure == "agreement"


def test_figures_are_those_of_the_quantized_and_compiled_model(found: WidthSearch) -> None:
    one = found.candidates[1]
    q = tg2hdl.quantize(model, SAMPLES, bits=one.bits, requantization="multiplier")
    accelerator = tg2hdl.compile(q, SAMPLES[0], multipliers=2)
    assert one.quality == q.report.agreement
    assert one.cycles == accelerator.predicted_cycles
    assert one.block_rams == accelerator.fits().needs["bram"]


def test_nothing_beats_what_is_on_the_front(found: WidthSearch) -> None:
    assert found.front
    for c in found.candidates:
        beaten = any(
            o.quality >= c.quality
            and all(a <= b for a, b in zip(o.costs, c.costs, strict=True))
            and (o.quality, o.costs) != (c.quality, c.costs)
            for o in found.candidates
        )
        assert c.on_front is not beaten


def test_table_and_plot(found: WidthSearch, tmp_path: Path) -> None:
    text = str(found)
    assert text.splitlines()[0].split()[:3] == ["W1", "W2", "agreement"]
    assert len(text.splitlines()) == len(found.candidates) + 1
    page = found.plot(tmp_path / "front.html").read_text()
    assert "Pareto front" in page
    assert "W1: 8, W2: 8" in page


def test_refusals() -> None:
    with pytest.raises(InputError, match=r"widths \(4, 8\) do not fall"):
        tg2hdl.search_widths(model, SAMPLES, widths=(4, 8))
    with pytest.raises(InputError, match="a search chooses the widths of weights itself"):
        tg2hdl.search_widths(model, SAMPLES, weight_bits=4)
    with pytest.raises(InputError, match="the model has no weights"):
        tg2hdl.search_widths(lambda x: x.relu(), SAMPLES)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(
        "import numpy as np\nfrom tinygrad import Tensor\n"
        "w = Tensor(np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32))\n"
        "def model(x):\n    return x @ w\n"
    )
    np.save("x.npy", SAMPLES[:, :6])
    np.save("y.npy", RNG.integers(0, 3, 100))
    arguments = ["quantize", "net.py", "--samples", "x.npy", "--labels", "y.npy", "--search"]
    result = CliRunner().invoke(cli, [*arguments, "--multipliers", "2", "-o", "front.json"])
    assert result.exit_code == 0, result.output
    assert "accuracy" in result.output
    assert '"on_front": true' in Path("front.json").read_text()
