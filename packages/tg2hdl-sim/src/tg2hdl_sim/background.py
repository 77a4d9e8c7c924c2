"""A better optimized model, compiled by another process while the simulation runs."""

from __future__ import annotations

import logging
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tg2hdl_sim.compiler import compiler_environment

__all__ = ["BackgroundBuild"]

log = logging.getLogger("tg2hdl_sim")


class BackgroundBuild:
    """A compiler that starts once the simulation has run for a while; short runs never need it.

    Parameters
    ----------
    patience : float
        Seconds of simulation before it starts.
    prepare : callable
        Writes the sources into a directory and returns the compiler's command line, to be run there.
    keep : callable
        Takes the directory with the library, and returns the library's place.
    """

    def __init__(
        self, patience: float, prepare: Callable[[Path], list[str]], keep: Callable[[Path], Path]
    ) -> None:
        self.patience = patience
        self._prepare, self._keep = prepare, keep
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def spend(self, seconds: float) -> Path | None:
        """Count seconds of simulation; return the library when it is there."""
        if self._process is None:
            self.patience -= seconds
            if self.patience <= 0:
                self._start()
            return None
        if self._process.poll() is None:
            return None
        return self.wait()

    def wait(self) -> Path | None:
        """Return the library as soon as it is there; None when the compiler failed, then and ever after."""
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._directory is not None
        status = self._process.wait()
        if status and self._directory.exists():
            log.warning("the compiler failed with exit status %d in the background: no faster model", status)
            shutil.rmtree(self._directory)
        return None if status else self._keep(self._directory)

    def _start(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="tg2hdl-sim-"))
        command = self._prepare(self._directory)
        silent = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, cwd=self._directory, stdout=silent, stderr=silent, env=compiler_environment()
        )

    def close(self) -> None:
        """End the compiler and remove its files; a loaded library stays usable."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
