"""Seeds that are placed elsewhere: their files come here by content, and the call here finds them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from tg2hdl_ir import Tg2hdlError
from tg2hdl_synth import SynthesisError, part_named
from tg2hdl_synth import seeds as seeds_module
from tg2hdl_synth.cache import run_cached
from tg2hdl_synth.netlist import Netlist
from tg2hdl_synth.seeds import place_seeds

PART = part_named("ecp5-25k")


class Tools:
    """Place and route that writes the netlist with the seed; seed 2 fails."""

    placed: list[int] = []

    def place(self, netlist, part, *, seed, progress, frequency):
        def run(folder: Path) -> None:
            self.placed.append(seed)
            if seed == 2:
                raise SynthesisError("no", hint="another seed")
            (folder / "sub").mkdir()
            text = (netlist.folder / "netlist.json").read_text()
            (folder / "sub" / "report.json").write_text(f"{text} {seed} {frequency}")

        return run_cached(f"key{seed}", run)


class Elsewhere:
    """Workers with a cache of their own, which get everything pickled."""

    is_here = False
    width = 2

    def __init__(self, monkeypatch, folder):
        self.monkeypatch, self.folder = monkeypatch, folder

    def run(self, function, items, shared):
        for number, item in enumerate(items):
            with self.monkeypatch.context() as patch:
                patch.setenv("TG2HDL_CACHE_DIR", str(self.folder))
                job = pickle.loads(pickle.dumps(shared))
                job = replace(job, netlist=replace(job.netlist, folder=Path("/nowhere")))
                result = pickle.loads(pickle.dumps(function(job, item)))
            yield number, result


def test_results_come_by_content(tmp_path, monkeypatch):
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path / "here"))
    monkeypatch.setattr(seeds_module, "tools_of", lambda family: Tools())
    (tmp_path / "netlist").mkdir()
    (tmp_path / "netlist" / "netlist.json").write_text("cells")
    netlist = Netlist("top", tmp_path / "netlist", {}, {}, False)
    Tools.placed.clear()
    told = []
    place_seeds(netlist, PART, 3, Elsewhere(monkeypatch, tmp_path / "there"), told.append, frequency=400.0)
    assert Tools.placed == [1, 2, 3]
    assert told[-1] == "seed 3 placed and routed, 3 of 3"
    tools = Tools()
    for seed in (1, 3):
        found = tools.place(netlist, PART, seed=seed, progress=None, frequency=400.0)
        assert found.cached
        assert found.folder.is_relative_to(tmp_path / "here")
        assert (found.folder / "sub" / "report.json").read_text() == f"cells {seed} 400.0"
    with pytest.raises(Tg2hdlError, match="no"):  # the error is that of the call here
        tools.place(netlist, PART, seed=2, progress=None, frequency=400.0)
    assert Tools.placed == [1, 2, 3, 2]
