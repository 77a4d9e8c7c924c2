"""The packages of a release: what is in it, whether it fits together, its files, and what publishing would do.

    python release.py plan                          versions and tags, in the order in which they are published
    python release.py bump tg2hdl-ir minor          a new version, the changelog, and the ranges of those that need it
    python release.py build --url https://...       wheels and source archives in dist, checked
    python release.py publish                       a dry run: the commands that tag and upload

CONTRIBUTING.md says when to run what.  Needs hatchling.
"""

from __future__ import annotations

import argparse
import datetime
import email
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent
UNRELEASED = " (unreleased)"


class ReleaseError(Exception):
    """What keeps a release from being made."""


@dataclass(frozen=True)
class Package:
    """A package of the repository, its version and what it needs of the others, with the ranges."""

    name: str
    folder: Path
    version: str
    needs: dict[str, str]

    @property
    def tag(self) -> str:
        """Name of the git tag of this version."""
        return f"{self.name}-v{self.version}"


def packages(root: Path) -> list[Package]:
    """All packages, each after those that it needs."""
    found: dict[str, Package] = {}
    for path in sorted(root.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(path.read_text())["project"]
        optional = [r for group in project.get("optional-dependencies", {}).values() for r in group]
        needs = {}
        for requirement in [*project["dependencies"], *optional]:
            name, extras_and_range = re.match(r"([\w.-]+)(.*)", requirement).groups()
            if name != project["name"] and (root / "packages" / name).is_dir():
                needs[name] = re.sub(r"\[.*?\]", "", extras_and_range)
        found[project["name"]] = Package(project["name"], path.parent, version(path.parent), needs)
    graph = {name: set(package.needs) for name, package in found.items()}
    return [found[name] for name in TopologicalSorter(graph).static_order()]


def version(folder: Path) -> str:
    """Version of a package: the newest heading of its changelog, as ``hatch version`` has it."""
    command = [sys.executable, "-m", "hatchling", "version"]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def check(found: list[Package]) -> None:
    """Check that every package accepts the versions that its siblings have."""
    versions = {package.name: package.version for package in found}
    for package in found:
        for name, allowed in package.needs.items():
            low, high = re.fullmatch(r">=([\d.]+),<([\d.]+)", allowed).groups()
            if not _numbers(low) <= _numbers(versions[name]) < _numbers(high):
                raise ReleaseError(f"{package.name} needs {name}{allowed}, which is at {versions[name]}")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.match(r"[\d.]+", text)[0].split(".")[:2])


def bump(root: Path, name: str, segment: str) -> None:
    """Close the changelog of the present version with today's date, begin the next one, and widen what needs it."""
    (package,) = (p for p in packages(root) if p.name == name)
    path = package.folder / "CHANGELOG.md"
    title, _, rest = path.read_text().partition("\n## ")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    rest = rest.replace(UNRELEASED, f" ({today})", 1)
    path.write_text(f"{title}\n## {package.version}{UNRELEASED}\n\n## {rest}")
    command = [sys.executable, "-m", "hatchling", "version", segment]
    subprocess.run(command, cwd=package.folder, check=True, capture_output=True)
    major, minor = _numbers(version(package.folder))
    for other in packages(root):
        if name in other.needs:
            file = other.folder / "pyproject.toml"
            pattern = rf'("{re.escape(name)}(?:\[[^\]]*\])?)>=[\d.]+,<[\d.]+'
            file.write_text(
                re.sub(pattern, rf"\g<1>>={major}.{minor},<{major}.{minor + 1}", file.read_text())
            )


def build(found: list[Package], target: Path, url: str) -> None:
    """Build wheel and source archive of each package, with links that work on an index page, and check them.

    The repository promises no address; what is released has the given one.
    """
    url = url.rstrip("/")
    if not re.fullmatch(r"https://[^/\s]+\.[^/\s]+(/[^\s]*)?", url) or url.endswith(
        (".example", "example.com")
    ):
        raise ReleaseError(f"--url {url} is not the project's address")
    for package in found:
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work) / package.name
            shutil.copytree(package.folder, folder, ignore=shutil.ignore_patterns("__pycache__", "dist"))
            readme, project = folder / "README.md", folder / "pyproject.toml"
            readme.write_text(absolute(readme.read_text(), package.name, url))
            project.write_text(project.read_text() + urls(package.name, url))
            command = [
                sys.executable,
                "-m",
                "hatchling",
                "build",
                "-t",
                "sdist",
                "-t",
                "wheel",
                "-d",
                str(target),
            ]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        check_files(package, target)


def urls(name: str, url: str) -> str:
    """Table of addresses for a package's metadata: places of the repository, which exist where `url` does."""
    return (
        f'\n[project.urls]\nHomepage = "{url}/packages/{name}"\nDocumentation = "{url}/docs"\n'
        f'Changelog = "{url}/packages/{name}/CHANGELOG.md"\n'
    )


def absolute(text: str, name: str, url: str) -> str:
    """Replace links into the repository by links to the project's address."""

    def link(match: re.Match[str]) -> str:
        place = (Path("/packages") / name / match[1]).as_posix()
        parts: list[str] = []
        for part in place.strip("/").split("/"):
            parts = parts[:-1] if part == ".." else [*parts, part]
        return f"]({url}/{'/'.join(parts)})"

    return re.sub(r"\]\((?!https?:|#|mailto:)([^)\s]+)\)", link, text)


def check_files(package: Package, target: Path) -> None:
    """Check what an index and a user need of the two files of a package."""
    stem = f"{package.name.replace('-', '_')}-{package.version}"
    wheel, archive = target / f"{stem}-py3-none-any.whl", target / f"{stem}.tar.gz"
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        metadata = email.message_from_bytes(files.read(f"{stem}.dist-info/METADATA"))
    with tarfile.open(archive) as source:
        packed = source.getnames()
    for wanted in ("Summary", "License-Expression", "Requires-Python", "Author", "Keywords", "Project-URL"):
        if not metadata[wanted]:
            raise ReleaseError(f"{wheel.name} has no {wanted}")
    if re.search(r"\]\((?!https?:|#|mailto:)", str(metadata.get_payload())):
        raise ReleaseError(f"the README of {package.name} has links that an index cannot follow")
    for ending in ("CHANGELOG.md", "LICENSE", "py.typed"):
        if not any(name.endswith(ending) for name in names):
            raise ReleaseError(f"{wheel.name} has no {ending}")
    if not any(name.endswith("CHANGELOG.md") for name in packed):
        raise ReleaseError(f"{archive.name} has no changelog")


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("plan")
    of_bump = commands.add_parser("bump")
    of_bump.add_argument("package")
    of_bump.add_argument("segment", choices=("major", "minor", "patch"))
    of_build = commands.add_parser("build")
    of_build.add_argument("--url", required=True)
    for command in (of_build, commands.add_parser("publish")):
        command.add_argument("-o", "--output", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    if options.command == "bump":
        bump(ROOT, options.package, options.segment)
    found = packages(ROOT)
    check(found)
    if options.command == "build":
        build(found, options.output, options.url)
    for package in found:
        stem = f"{package.name.replace('-', '_')}-{package.version}"
        if options.command == "publish":
            check_files(package, options.output)
            print(f"git tag {package.tag}")
            print(f"hatch publish {options.output / stem}-py3-none-any.whl {options.output / stem}.tar.gz")
        else:
            print(f"{package.name:16} {package.version:10} {package.tag}")
    if options.command == "publish":
        print("git push --tags")


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"release: {error}")
