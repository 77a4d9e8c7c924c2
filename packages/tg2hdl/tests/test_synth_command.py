import json
import re
import subprocess
import sys

import numpy as np
import pytest

import tg2hdl
from tg2hdl.netlist_check import check_netlist
from tg2hdl_ir import SimulationError
from tg2hdl_synth import SynthesisError

pytestmark = pytest.mark.usefixtures("private_cache")

MODEL = """
import numpy as np
from tinygrad import Tensor
weight = Tensor(np.arange(12, dtype=np.int32).reshape(4, 3) - 5)
def model(x): return x.cast("int32") @ weight
example_inputs = (np.zeros((1, 4), np.int8),)
"""


def call(*arguments, cwd):
    command = [sys.executable, "-W", "error", "-m", "tg2hdl", "synth", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my-model.py").write_text(MODEL)
    return tmp_path


def test_report_and_netlist_check(folder):
    result = call(
        "my-model.py", "--seeds", "1", "--check-netlist", "--vectors", "2", "--json", "r.json", cwd=folder
    )
    assert (result.returncode, result.stderr) == (0, "")
    report = json.loads((folder / "r.json").read_text())
    assert report["fmax_mhz"] > 50
    assert sum(kernel["dsp"] for kernel in report["by_kernel"].values()) == report["dsp"]
    assert report["estimate"]["fmax"] > 0
    printed = re.search(r"Fmax ([\d.]+) MHz \(median of 1,", result.stdout)
    assert printed
    assert float(printed[1]) == pytest.approx(report["fmax_mhz"], abs=0.1)
    assert "estimate before synthesis: " in result.stdout
    assert "us per result" in result.stdout
    assert "netlist: every bit of 2 results equals the golden model" in result.stdout


def test_unknown_part_is_refused(folder):
    result = call("my-model.py", "--part", "ecp6", cwd=folder)
    assert result.returncode == 1
    assert result.stderr == (
        "bad input: part 'ecp6' is unknown\n"
        "  hint: choose one of: ecp5-25k, ecp5-45k, ecp5-85k, gw1nr-9c, gw2ar-18c, ice40-hx1k, ice40-hx8k, ice40-up5k\n"
    )


def test_a_design_that_does_not_fit_prints_its_utilization(folder):
    (folder / "large.py").write_text(
        "import numpy as np\ndef model(x): return (x * x).sum()\nexample_inputs = (np.zeros(64, np.int32),)\n"
    )
    result = call("large.py", "--multipliers", "16", "--part", "ice40-up5k", cwd=folder)
    assert result.returncode == 1
    assert result.stderr.startswith("capacity: the design does not fit ice40-up5k: ")
    assert "hint: take a larger part, compile with fewer multipliers" in result.stderr
    assert "\n  total" in result.stdout
    assert "Fmax" not in result.stdout


def accelerator():
    return tg2hdl.compile(lambda x: x * 3 + 1, np.zeros(5, np.int32))


def test_a_failed_route_prints_the_netlist_report(folder, monkeypatch):
    from click.testing import CliRunner

    from tg2hdl.cli import cli
    from tg2hdl_synth.families.ecp5 import tools as ecp5

    def fail(*arguments, **options):
        raise SynthesisError("nextpnr-ecp5 failed with exit status 1", notes=("ERROR: no route",))

    monkeypatch.setattr(ecp5, "fastest", fail)
    result = CliRunner().invoke(cli, ["synth", str(folder / "my-model.py")])
    assert isinstance(result.exception, SynthesisError)
    assert result.exception.partial.cells["dsp"] > 0
    assert "on ecp5-45k, speed 6\nestimate before synthesis" in result.output
    assert "\n  total" in result.output


def test_netlist_of_another_design_is_found_out():
    wrong = tg2hdl.compile(lambda x: x * 3 + 2, np.zeros(5, np.int32)).synthesize(place=False)
    with pytest.raises(SimulationError) as caught:
        check_netlist(accelerator(), wrong, [(np.arange(5, dtype=np.int32),)])
    assert "is wrong: vector 0 gives other bits than the golden model" in str(caught.value)


def test_netlist_check_counts_the_cycles():
    design = accelerator()
    result = design.synthesize(place=False)
    assert check_netlist(design, result, [(np.arange(5, dtype=np.int32),)]) == design.predicted_cycles
