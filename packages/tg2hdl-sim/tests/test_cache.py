"""The cache of compiled models."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sim_designs import Combinational

from tg2hdl_ir.errors import InputError, SimulationError
from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_sim import compiler as cxx
from tg2hdl_sim.cache import ModelCache, content_key


def builder(content: bytes, calls: list[bytes] | None = None):
    def build(directory: Path) -> Path:
        assert not list(directory.iterdir())
        if calls is not None:
            calls.append(content)
        (directory / "out").write_bytes(content)
        return directory / "out"

    return build


def test_a_model_is_built_once(tmp_path):
    cache, calls = ModelCache(tmp_path), []
    first = cache.get("a", builder(b"one", calls))
    again = cache.get("a", builder(b"two", calls))
    assert (first, first.read_bytes(), calls) == (again, b"one", [b"one"])


@pytest.mark.parametrize("victim", ["model.so", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncate", "change", "remove"])
def test_damaged_entries_are_rebuilt(tmp_path, victim, damage):
    cache = ModelCache(tmp_path)
    file = cache.get("a", builder(b"contents of a library")).with_name(victim)
    raw = file.read_bytes()
    if damage == "remove":
        file.unlink()
    else:
        file.write_bytes(raw[:5] if damage == "truncate" else raw[:3] + b"?" + raw[4:])
    assert cache.lookup("a") is None
    assert cache.get("a", builder(b"new")).read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_nothing_stays_when_a_build_fails(tmp_path):
    cache = ModelCache(tmp_path)

    def build(directory: Path) -> Path:
        (directory / "half").write_bytes(b"half")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cache.get("a", build)
    assert list(tmp_path.iterdir()) == []


def test_the_longest_unused_go_first(tmp_path):
    cache = ModelCache(tmp_path, limit=2500)
    for age, key in enumerate(["a", "b", "c"]):
        library = cache.get(key, builder(bytes(700)))
        os.utime(library.with_name("manifest.json"), (1000 + age, 1000 + age))
    assert cache.lookup("a") is not None  # a use, so that b is the oldest
    cache.get("d", builder(bytes(700)))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "c", "d"]


def test_an_entry_of_any_size_is_kept_for_its_use(tmp_path):
    assert ModelCache(tmp_path, limit=1).get("a", builder(bytes(100))).exists()


def test_another_process_may_be_first(tmp_path):
    cache = ModelCache(tmp_path)

    def build(directory: Path) -> Path:
        ModelCache(tmp_path).get("a", builder(b"first"))
        return builder(b"second")(directory)

    assert cache.get("a", build).read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_limit_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("TG2HDL_CACHE_LIMIT", "123")
    assert ModelCache(tmp_path).limit == 123
    monkeypatch.setenv("TG2HDL_CACHE_LIMIT", "1 GB")
    with pytest.raises(InputError) as caught:
        ModelCache(tmp_path)
    assert str(caught.value) == (
        "bad input: TG2HDL_CACHE_LIMIT is '1 GB', not a number of bytes\n  hint: the default is 536870912"
    )


def test_keys_depend_on_where_parts_end():
    assert content_key("ab", "c") != content_key("a", "bc")


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


USER = """
import sys
sys.path.insert(0, {tests!r})
from designs import Combinational
from tg2hdl_sim import SimulationModel, open_simulation
with open_simulation(SimulationModel(Combinational()), "cxxrtl") as sim:
    sim.set("a", 41)
    print(sim.get("y"))
"""


def test_two_processes_at_once(monkeypatch, tmp_path):
    require_cxxrtl()
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))
    code = USER.format(tests=str(Path(__file__).parent))
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)
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
