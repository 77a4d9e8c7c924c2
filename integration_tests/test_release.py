"""The documented release, on a copy of the packages: plan, bump, build, check, dry run of publishing."""

from __future__ import annotations

import email
import glob
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from environments import ROOT

from tg2hdl_ir import registry

URL = "https://git.invalid/tg2hdl"


@pytest.fixture
def copy(tmp_path):
    """Two of the repository's packages: what an index has is theirs alone."""
    for name in ("tg2hdl-ir", "tg2hdl-quant"):
        ignored = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(ROOT / "packages" / name, tmp_path / "packages" / name, ignore=ignored)
    shutil.copy(ROOT / "release.py", tmp_path)
    return tmp_path


def release(copy, *arguments):
    return subprocess.run(
        [sys.executable, "release.py", *arguments], cwd=copy, capture_output=True, text=True, timeout=300
    )


def test_the_documented_way(copy):
    done = release(copy, "bump", "tg2hdl-ir", "minor")
    assert done.stdout.split() == [
        *("tg2hdl-ir", "0.2.0", "tg2hdl-ir-v0.2.0"),
        *("tg2hdl-quant", "0.1.0", "tg2hdl-quant-v0.1.0"),
    ], done.stderr
    changelog = (copy / "packages/tg2hdl-ir/CHANGELOG.md").read_text()
    assert changelog.startswith("# Changelog of tg2hdl-ir\n\n## 0.2.0 (unreleased)\n\n## 0.1.0 (2")
    project = tomllib.loads((copy / "packages/tg2hdl-quant/pyproject.toml").read_text())["project"]
    assert "tg2hdl-ir>=0.2,<0.3" in project["dependencies"]
    done = release(copy, "build", "--url", URL)
    assert done.returncode == 0, done.stderr
    done = release(copy, "publish")
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        *(["git", "tag"], ["hatch", "publish"]),
        *(["git", "tag"], ["hatch", "publish"]),
        ["git", "push"],
    ], done.stderr
    assert len(list((copy / "dist").iterdir())) == 4
    with zipfile.ZipFile(copy / "dist/tg2hdl_ir-0.2.0-py3-none-any.whl") as wheel:
        metadata = email.message_from_bytes(wheel.read("tg2hdl_ir-0.2.0.dist-info/METADATA"))
    addresses = [address.split(", ")[1] for address in metadata.get_all("Project-URL")]
    assert all((ROOT / address.removeprefix(f"{URL}/")).exists() for address in addresses)
    assert len(addresses) == 3


def test_the_repository_promises_no_address():
    for file in ROOT.glob("packages/*/pyproject.toml"):
        assert "urls" not in tomllib.loads(file.read_text())["project"]


def test_what_does_not_fit_is_refused(copy):
    for url in ("https://tg2hdl.example", "http://git.invalid/tg2hdl", "git.invalid", "https:///x"):
        assert f"--url {url} is not the project's address" in release(copy, "build", "--url", url).stderr
    path = copy / "packages/tg2hdl-quant/pyproject.toml"
    path.write_text(path.read_text().replace("tg2hdl-ir>=0.1,<0.2", "tg2hdl-ir>=0.2,<0.3"))
    assert (
        "release: tg2hdl-quant needs tg2hdl-ir>=0.2,<0.3, which is at 0.1.0" in release(copy, "plan").stderr
    )


def test_every_package_is_in_the_plan_after_what_it_needs():
    spec = importlib.util.spec_from_file_location("release", ROOT / "release.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["release"] = module
    spec.loader.exec_module(module)
    found = module.packages(ROOT)
    module.check(found)
    names = [package.name for package in found]
    assert sorted(names) == sorted(p.parent.name for p in ROOT.glob("packages/*/pyproject.toml"))
    for package in found:
        assert all(names.index(needed) < names.index(package.name) for needed in package.needs)


@pytest.mark.parametrize(
    ("link", "wanted"),
    [
        ("[a](../../docs/x.md)", f"[a]({URL}/docs/x.md)"),
        ("[a](docs/x.md)", f"[a]({URL}/packages/p/docs/x.md)"),
        ("[a](../q)", f"[a]({URL}/packages/q)"),
        ("[a](https://b)", "[a](https://b)"),
        ("[a](#part)", "[a](#part)"),
    ],
)
def test_links_lead_to_the_project(link, wanted):
    spec = importlib.util.spec_from_file_location("release", ROOT / "release.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["release"] = module
    spec.loader.exec_module(module)
    assert module.absolute(link, "p", URL) == wanted


def test_hatch_tests_a_package_in_its_own_folder():
    root = tomllib.loads((ROOT / "hatch.toml").read_text())["envs"]["hatch-test"]
    files = [*ROOT.glob("packages/*/hatch.toml"), ROOT / "examples/plugin-sigmoid/hatch.toml"]
    assert len(files) == len(list(ROOT.glob("packages/*/pyproject.toml"))) + 1
    for file in files:
        environment = tomllib.loads(file.read_text())["envs"]["hatch-test"]
        assert environment["matrix"] == [{"python": root["matrix"][0]["python"]}]
        members = {
            Path(found).resolve()
            for pattern in environment["workspace"]["members"]
            for found in glob.glob(str(file.parent / pattern))
        }
        assert {file.parent, *(p.parent for p in ROOT.glob("packages/*/pyproject.toml"))} <= members
    # tflite-micro, the reference of one package, has no wheels for all systems.
    own = ROOT / "packages/tg2hdl-tflite/hatch.toml"
    assert len({file.read_text() for file in files[:-1] if file != own}) == 1


def test_the_citation_has_the_version_of_the_command_and_the_licence():
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(found), "what the format requires"
    newest = re.search(r"^## (\S+)", (ROOT / "packages/tg2hdl/CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert (found["version"], found["license"]) == (newest, "BSD-2-Clause")
    assert f"\n## {newest}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_hosted_ci_runs_everything_on_the_supported_pythons():
    yaml = pytest.importorskip("yaml")
    (job,) = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"].values()
    metadata = tomllib.loads((ROOT / "packages/tg2hdl/pyproject.toml").read_text())["project"]
    supported = [c.rpartition(" ")[2] for c in metadata["classifiers"] if "Python :: 3." in c]
    assert job["strategy"]["matrix"]["python"] == supported
    assert job["steps"][-1]["run"] == ".ci/run"


@pytest.mark.parametrize(
    "form",
    sorted({*(ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")} - {ROOT / ".github/ISSUE_TEMPLATE/config.yml"}),
    ids=lambda f: f.stem,
)
def test_forms_for_issues_name_commands_that_exist(form):
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= set(found)
    commands = {command.name for command in registry().commands()}
    assert set(re.findall(r"`tg2hdl (\w+)`", form.read_text())) <= commands
