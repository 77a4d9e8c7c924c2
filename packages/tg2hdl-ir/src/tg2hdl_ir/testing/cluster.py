"""A Dask cluster of two processes on this machine, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["local_cluster"]

_PROGRAM = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@contextmanager
def local_cluster(folder: Path, *modules: Path) -> Iterator[str]:
    """Provide the address of a scheduler with two workers, which have their own cache in a folder.

    Parameters
    ----------
    folder : Path
        An empty folder.
    modules : Path
        Folders of modules that tasks are in.
    """
    program = folder / "local_cluster.py"
    program.write_text(_PROGRAM)
    paths = os.pathsep.join(filter(None, [*map(str, modules), *sys.path]))
    variables = {**os.environ, "PYTHONPATH": paths, "TG2HDL_CACHE_DIR": str(folder / "cache")}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(program)],
        cwd=folder,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None, "piped above"
    assert process.stdout is not None, "piped above"
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=60)
