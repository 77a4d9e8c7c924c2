import json

import numpy as np
import pytest
from click.testing import CliRunner

from tg2hdl_ir import InputError, Tg2hdlError
from tg2hdl_tpu import Config
from tg2hdl_tpu import bench as module
from tg2hdl_tpu.bench import bench, geomean
from tg2hdl_tpu.cli import tpu
from tg2hdl_tpu.kernels import KERNELS

#: Cycles from start to halt and through the host port; they never rise.
CYCLES = {
    "add_16": (4, 6),
    "add_256": (19, 36),
    "relu_64": (7, 9),
    "reshape_64": (7, 9),
    "sum_16": (4, 6),
    "sum_256": (19, 21),
    "rowsum_8x8": (7, 9),
    "colsum_8x8": (7, 9),
    "gemm_1x4x4": (5, 7),
    "gemm_4x4x4": (8, 10),
    "gemm_4x8x4": (13, 15),
}


def test_cycles_of_the_kernels():
    found = {m.kernel: (m.cycles, m.total) for m in bench()}
    assert found == CYCLES
    assert tuple(found) == KERNELS


def test_a_wrong_result_is_an_error(monkeypatch):
    right = module.run_bundle

    def wrong(bundle, **options):
        result = right(bundle, **options)
        result.outputs["r"][0, 0] ^= 1
        return result

    monkeypatch.setattr(module, "run_bundle", wrong)
    with pytest.raises(Tg2hdlError, match="the result is wrong"):
        bench(only=["sum_16"])


def test_other_machines_and_names_are_refused():
    with pytest.raises(InputError, match="8 lanes, 4x4"):
        bench(Config(lanes=8))
    with pytest.raises(InputError, match="no kernel is named 'sum_17'"):
        bench(only=["sum_17"])


def test_the_command():
    facts = json.loads(CliRunner().invoke(tpu, ["bench", "--json", "-"]).stdout)
    assert [k["kernel"] for k in facts["kernels"]] == list(KERNELS)
    assert all(k["correct"] for k in facts["kernels"])
    assert facts["geomean_total"] == pytest.approx(
        geomean(k["elements"] / k["total"] for k in facts["kernels"]), abs=1e-3
    )
    assert facts["geomean_total"] >= 5
    assert facts["geomean_kernel"] >= 7
    table = CliRunner().invoke(tpu, ["bench", "--only", "add_16"]).stdout
    assert "| add_16 | right | 16 | 4 | 4.00 | 6 | 2.67 |" in table
    assert np.log(geomean([1, np.e**2])) == pytest.approx(1)
