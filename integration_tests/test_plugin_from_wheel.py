"""A third-party plugin, installed beside ours from its wheel, changes a model and no file of ours."""

import hashlib
import json

import numpy as np
import pytest
from environments import ROOT, Environment, build_wheel

MODEL = """
import json
import numpy as np
import tg2hdl
from tinygrad import Tensor

x = np.linspace(-9, 9, 24, dtype=np.float32).reshape(4, 6)
accelerator = tg2hdl.compile(lambda x: x.sigmoid(), x)
golden, result = accelerator.golden(x), accelerator.simulate(x, engine="amaranth")
print(json.dumps({
    "plan": accelerator.plan(),
    "golden": golden.view("uint32").tolist(),
    "simulated": result.output.view("uint32").tolist(),
    "predicted": accelerator.predicted_cycles,
    "cycles": result.cycles.compute,
}))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory, wheels):
    """Return a fresh environment with all of our wheels."""
    made = Environment(tmp_path_factory.mktemp("plugin") / "environment")
    made.install(*wheels.values())
    return made


def compile_sigmoid(environment):
    result = environment.run("-W", "error", "-c", MODEL)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["golden"] == found["simulated"]
    assert found["predicted"] == found["cycles"]
    return found


def plugins(environment):
    result = environment.run("-m", "tg2hdl", "plugins", "list", "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def our_files(environment):
    """Return the hash of every file that our wheels installed."""
    (site,) = environment.folder.glob("lib/python*/site-packages")
    files = [f for f in site.glob("tg2hdl*/**/*.py") if "sigmoid" not in str(f)]
    return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def test_plugin_is_used_when_installed_and_not_needed_otherwise(environment, plugin_wheel):
    before = compile_sigmoid(environment)
    assert "sigmoid" not in before["plan"]
    files = our_files(environment)
    assert len(files) > 50

    environment.install(plugin_wheel)

    after = compile_sigmoid(environment)
    assert "fp32.sigmoid.table" in after["plan"]
    assert "exp2" not in after["plan"]
    assert our_files(environment) == files

    found = plugins(environment)
    assert found["problems"] == []
    (entry,) = [p for p in found["plugins"] if p["distribution"] == "tg2hdl-sigmoid"]
    assert entry["provides"] == {
        "tg2hdl_ops": ["sigmoid"],
        "tg2hdl_arithmetic_units": ["fp32.sigmoid.table"],
        "tg2hdl_passes": ["sigmoid"],
    }

    x = np.linspace(-9, 9, 24)
    exact = 1 / (1 + np.exp(-x))
    for found, bound in ((before, 1e-6), (after, 1e-3)):
        values = np.array(found["golden"], np.uint32).view(np.float32).reshape(-1)
        assert np.abs(values - exact).max() < bound


PORT_PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "counting-port"
version = "1.0"
dependencies = ["tg2hdl-top>=0.1"]

[project.entry-points.tg2hdl]
counting = "counting_port"

[tool.hatch.build.targets.wheel]
include = ["counting_port.py"]
"""
PORT_MODEL = """
import json
import numpy as np
import tg2hdl

x = np.arange(-12, 12, dtype=np.int32).reshape(4, 6)
options = tg2hdl.CompileOptions(ports=("counting",))
accelerator = tg2hdl.compile(lambda x: (x * 3 + 1).relu(), x, options=options)
result = accelerator.simulate(x, engine="amaranth")
print(json.dumps({
    "output": result.output.tolist(),
    "cycles": result.cycles.compute,
    "predicted": accelerator.predicted_cycles,
    "members": list(accelerator.top.signature.members),
}))
"""


def test_a_host_port_of_others(environment, tmp_path):
    (tmp_path / "pyproject.toml").write_text(PORT_PROJECT)
    source = ROOT / "examples" / "plugins" / "counting_port.py"
    (tmp_path / source.name).write_text(source.read_text())
    files = our_files(environment)
    environment.install(build_wheel(tmp_path, tmp_path))

    result = environment.run("-W", "error", "-c", PORT_MODEL)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    x = np.arange(-12, 12).reshape(4, 6)
    assert found["output"] == np.maximum(x * 3 + 1, 0).tolist()
    assert found["cycles"] == found["predicted"]
    assert found["members"] == ["host", "cycles"]
    assert our_files(environment) == files
    (entry,) = [p for p in plugins(environment)["plugins"] if p["distribution"] == "counting-port"]
    assert entry["provides"] == {"tg2hdl_ports": ["counting"]}
