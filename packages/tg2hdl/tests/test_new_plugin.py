"""The project that ``tg2hdl plugins new`` writes passes its own tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from tg2hdl.cli import cli


def test_a_new_plugin_passes_its_tests(tmp_path):
    folder = tmp_path / "mine"
    result = CliRunner().invoke(cli, ["plugins", "new", "mean", "-o", str(folder)])
    assert result.exit_code == 0
    assert "NAME" not in "".join(p.read_text() for p in folder.rglob("*") if p.is_file())
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "--import-mode=importlib", str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


def test_the_commands_that_follow_are_the_same_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = CliRunner().invoke(cli, ["plugins", "new", "mish"]).output
    commands = ["cd tg2hdl-mish && pip install -e '.[test]' && pytest", "tg2hdl plugins show mish"]
    assert printed.splitlines() == ["wrote tg2hdl-mish; next:", *(f"  {line}" for line in commands)]
    pages = [tmp_path / "tg2hdl-mish" / "README.md"]
    pages += [page for root in Path(__file__).parents if (page := root / "docs/howto/plugins.md").exists()]
    for page in pages:
        blocks = re.findall(r"^```console\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        assert [line.removeprefix("$ ") for line in blocks[0].splitlines()][-2:] == commands, page


def test_what_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    runner = CliRunner()
    result = runner.invoke(cli, ["plugins", "new", "mean", "-o", str(tmp_path)])
    assert "is not empty" in str(result.exception)
    result = runner.invoke(cli, ["plugins", "new", "My-Plugin", "-o", str(tmp_path / "new")])
    assert "'My-Plugin' is not a name for a plugin" in str(result.exception)
    result = runner.invoke(cli, ["plugins", "new", "class", "-o", str(tmp_path / "new")])
    assert "'class' is not a name for a plugin" in str(result.exception)
    result = runner.invoke(cli, ["plugins", "new", "mean", "-o", str(tmp_path / "file")])
    assert "cannot write" in str(result.exception)
