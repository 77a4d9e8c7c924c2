"""The cache of compiled models."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile

import pytest

from tg2hdl_ir import SimulationError, registry, resolve
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_sim import compiler as cxx
from tg2hdl_sim.levelized import engine
from tg2hdl_sim.testing.designs import Combinational


def require_cxxrtl():
    reason = resolve(registry().simulator("cxxrtl").available)()
    if reason is not None:
        pytest.skip(reason)


def test_a_failing_compiler_leaves_nothing(monkeypatch, tmp_path):
    require_cxxrtl()
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))
    fake = tmp_path / "cxx"
    fake.write_text(
        f"#!{sys.executable}\nimport sys\nif '--version' in sys.argv: print('fake 1'), exit(0)\n"
        "print('model.cc:1: no', file=sys.stderr), exit(3)\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    with pytest.raises(SimulationError) as caught:
        open_simulation(SimulationModel(Combinational()), "cxxrtl")
    assert str(caught.value) == (
        f"simulation: the C++ compiler failed with exit status 3\n  at: {fake}\n  note: model.cc:1: no\n"
        "  hint: use another compiler (CXX=...) or engine='amaranth'"
    )
    assert list((tmp_path / "sim").iterdir()) == []


def test_a_damaged_library_is_rebuilt(monkeypatch, tmp_path):
    require_cxxrtl()
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))
    model = SimulationModel(Combinational())
    with open_simulation(model, "cxxrtl") as sim:
        sim.set("a", 1)
    (library,) = (tmp_path / "sim").glob("*/model.so")
    raw = library.read_bytes()
    library.unlink()  # the old file stays mapped in this process
    library.write_bytes(raw[:1000])
    with open_simulation(model, "cxxrtl") as sim:
        sim.set("a", 1)
        assert sim.get("y") == 2


def test_a_library_that_others_could_have_written_is_not_loaded(monkeypatch, tmp_path, caplog):
    require_cxxrtl()
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = SimulationModel(Combinational())
    with open_simulation(model, "cxxrtl"):
        pass
    (library,) = (tmp_path / "cache" / "sim").glob("*/model.so")
    library.write_bytes(b"theirs, which would be executed")
    (library.parent / "manifest.json").write_text(
        json.dumps({"model.so": hashlib.sha256(library.read_bytes()).hexdigest()})
    )
    (tmp_path / "cache").chmod(0o777)
    with open_simulation(model, "cxxrtl") as sim:
        sim.set("a", 1)
        assert sim.get("y") == 2
    assert "can be written by others" in caplog.text
    assert (tmp_path / f"tg2hdl-{os.geteuid()}").stat().st_mode & 0o777 == 0o700


USER = """
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_sim.testing.designs import Combinational
with open_simulation(SimulationModel(Combinational()), "cxxrtl") as sim:
    sim.set("a", 41)
    print(sim.get("y"))
"""


def test_two_processes_at_once(monkeypatch, tmp_path):
    require_cxxrtl()
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))
    processes = [
        subprocess.Popen([sys.executable, "-c", USER], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate()[0].strip() for process in processes] == ["42", "42"]
    assert len(list((tmp_path / "sim").iterdir())) == 1


def test_without_the_cache_nothing_is_kept(monkeypatch, tmp_path):
    require_cxxrtl()
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))
    with open_simulation(SimulationModel(Combinational()), "cxxrtl", cache=False) as sim:
        sim.set("a", 4)
        assert sim.get("y") == 5
    assert list(tmp_path.iterdir()) == []


def test_the_identity_of_a_compiler_has_its_version_and_target():
    require_cxxrtl()
    assert sys.platform in cxx.find_compiler().identity


def test_the_plugin_module_loads_no_hardware_library():
    code = (
        "import sys, tg2hdl_sim.plugin as p; p.tg2hdl_simulators(); "
        "print([m for m in ('amaranth', 'tinygrad', 'numpy') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "amaranth" not in found.stdout
    assert "tinygrad" not in found.stdout


def test_zig_compiles_c_without_its_cxx_library():
    zig = cxx.Compiler(("python", "-m", "ziglang", "c++"), "zig")
    levelized = cxx.shared_command(zig, ["model.c"], "model.so", base=engine.FLAGS)
    assert levelized[:4] == ["python", "-m", "ziglang", "cc"]
    assert cxx.shared_command(zig, ["model.cc"], "model.so")[:4] == ["python", "-m", "ziglang", "c++"]
