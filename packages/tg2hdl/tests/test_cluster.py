"""Explorations and test sets on a Dask cluster have the results of this process."""

from __future__ import annotations

import numpy as np
import pytest

import tg2hdl
from tg2hdl.set_simulation import simulate_set
from tg2hdl_ir.testing.cluster import local_cluster
from tg2hdl_ir.workers import Workers

X = np.arange(64, dtype=np.int8).reshape(4, 16)


def squares(x):
    return (x.cast("int32") * x).sum(-1).relu()


# Above 3 s: starts a scheduler and two workers, which import the compiler.
def test_a_cluster_gives_the_same(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    given = {"part": "ecp5-25k", "space": {"multipliers": [None, 4]}}
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path / "one"))
    here = tg2hdl.explore(squares, X, **given)
    sets = [(X,), (X[::-1].copy(),), (X // 2,)]
    with Workers() as one:
        expected = simulate_set(here.compile(), sets, "amaranth", one)
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path / "other"))
    (tmp_path / "cluster").mkdir()
    with local_cluster(tmp_path / "cluster") as address:
        there = tg2hdl.explore(squares, X, cluster=address, **given)
        with Workers(cluster=address) as pool:
            found = simulate_set(here.compile(), sets, "amaranth", pool)
    assert [p.figures for p in there.points] == [p.figures for p in here.points]
    assert there.compile().rtlil() == here.compile().rtlil()
    for result, own in zip(found, expected, strict=True):
        assert np.array_equal(result.output, own.output)
        assert result.cycles == own.cycles
