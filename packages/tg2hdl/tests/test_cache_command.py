"""The command that shows and clears the cache."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tg2hdl.cli import cli
from tg2hdl_ir.content_cache import ContentCache


@pytest.fixture
def entries(monkeypatch, tmp_path):
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))
    for kind, count in (("sim", 2), ("synth", 1)):
        for n in range(count):
            ContentCache(kind).get(str(n), lambda folder: (folder / "a").write_bytes(bytes(10_000)))
    return tmp_path


def call(*arguments):
    return CliRunner().invoke(cli, ["cache", *arguments])


def test_the_kinds_are_shown(entries):
    output = call().output
    assert f"{entries}: 30.2 kB of at most 2.1 GB" in output
    assert "compiled simulations" in output
    found = json.loads(call("--json").output)
    assert {kind: data["entries"] for kind, data in found["kinds"].items()} == {"sim": 2, "synth": 1}
    assert found["folder"] == str(entries)


def test_a_kind_is_cleared(entries):
    assert call("clear", "sim").output == "20.1 kB freed\n"
    assert list(json.loads(call("--json").output)["kinds"]) == ["synth"]


def test_all_is_cleared(entries):
    assert call("clear").output == "30.2 kB freed\n"
    assert call().output == f"{entries}: 0 bytes of at most 2.1 GB\n"


def test_an_unknown_kind_is_refused(entries):
    result = call("clear", "simulations")
    assert result.exit_code == 2
    assert "'simulations' is not one of plans, sim, synth" in result.output
