"""Tables, links and metadata of the pages; `bare_machine.py` runs their blocks and commands."""

import importlib.metadata
import re
import tomllib

import pytest
from environments import ROOT

FILES = sorted(
    {
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("packages/*/README.md"),
    }
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path, language):
    return [text for kind, text in BLOCK.findall(path.read_text()) if kind == language]


def test_readme_shows_the_two_commands_and_hatch_knows_them():
    text = "\n".join(blocks(ROOT / "README.md", "console"))
    scripts = tomllib.loads((ROOT / "hatch.toml").read_text())["envs"]["default"]["scripts"]
    assert re.findall(r"hatch run (\w+)$", text, re.MULTILINE) == ["demo", "test"]
    assert scripts["demo"].startswith("tg2hdl demo")
    assert "pytest" in scripts["test"]


def test_table_of_packages_is_complete():
    names = {folder.name for folder in (ROOT / "packages").iterdir()}
    linked = set(re.findall(r"\]\(packages/([\w-]+)\)", (ROOT / "README.md").read_text()))
    assert linked == names


def test_relative_links_lead_somewhere():
    missing = []
    for path in FILES:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text()):
            if not (path.parent / target).exists():
                missing.append(f"{path.relative_to(ROOT)}: {target}")
    assert missing == []


@pytest.mark.parametrize("folder", sorted((ROOT / "packages").iterdir()), ids=lambda f: f.name)
def test_package_has_what_every_package_has(folder):
    metadata = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert metadata["license"] == "BSD-2-Clause"
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    newest = re.search(r"^## (\S+)", (folder / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert metadata["dynamic"] == ["version"]
    assert importlib.metadata.version(folder.name) == newest
    assert (folder / "src" / folder.name.replace("-", "_") / "py.typed").exists()
    assert list((folder / "tests").glob("test_*.py"))
