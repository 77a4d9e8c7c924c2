"""Fresh virtual environments with wheels of this repository, made without a network.

Third-party packages are shared with the running environment by links; everything of this repository is
installed by pip from wheels that are built here.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import sysconfig
from collections.abc import Collection
from pathlib import Path

__all__ = ["ROOT", "Environment", "build_wheel", "normal"]

ROOT = Path(__file__).resolve().parents[1]


def build_wheel(source: Path, target: Path) -> Path:
    """Build the wheel of a project folder with hatchling; returns its path."""
    before = set(target.glob("*.whl"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)
    (built,) = set(target.glob("*.whl")) - before
    return built


class Environment:
    """A virtual environment.

    Parameters
    ----------
    folder : Path
        Where to make it.
    only : collection of str, optional
        Third-party distributions that it gets; all unless given.
    """

    def __init__(self, folder: Path, *, only: Collection[str] | None = None) -> None:
        self.folder = folder
        # Unpacking pip takes seconds: the running environment's is linked, if it has one.
        linked = importlib.util.find_spec("pip") is not None
        options = ("--without-pip",) if linked else ()
        subprocess.run([sys.executable, "-m", "venv", *options, str(folder)], check=True, capture_output=True)
        self.bin = folder / ("Scripts" if os.name == "nt" else "bin")
        self.python = self.bin / "python"
        shared = folder / "third-party"
        shared.mkdir()
        _link_third_party(shared, only)
        purelib = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
        (purelib / "third_party.pth").write_text(f"{shared}\n")
        if linked:
            script = self.bin / "pip"
            script.write_text(f'#!/bin/sh\nexec "{self.python}" -m pip "$@"\n')
            script.chmod(0o755)

    def install(self, *wheels: Path) -> None:
        """Install wheels with pip; their requirements are there already."""
        command = [str(self.python), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        result = subprocess.run([*command, *map(str, wheels)], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr

    def run(self, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run Python in the environment, in its own folder unless another is given."""
        variables = {
            k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
        }
        variables["PATH"] = f"{self.bin}{os.pathsep}{variables['PATH']}"
        command = [str(self.python), *map(str, arguments)]
        return subprocess.run(
            command, cwd=cwd or self.folder, env=variables, capture_output=True, text=True, timeout=900
        )


def _link_third_party(target: Path, only: Collection[str] | None) -> None:
    for distribution in importlib.metadata.distributions():
        name = normal(distribution.metadata["Name"])
        if (
            name.startswith("tg2hdl")
            or name == "setuptools"
            or (only is not None and name not in {*only, "pip"})
        ):
            continue
        for file in distribution.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not top.endswith(".pth"):
                link = target / top
                source = Path(distribution.locate_file(top))
                if not link.exists() and source.exists():
                    link.symlink_to(source.resolve())


def normal(name: str) -> str:
    """Return the normalized name of a distribution."""
    return name.lower().replace("_", "-")
