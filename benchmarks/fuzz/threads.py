"""One object called from many threads, and programs that want one link: every result is that of a single call.

    python benchmarks/fuzz/threads.py            20,000 calls; writes threads.json and threads.md
    python benchmarks/fuzz/threads.py 200        fewer, printed only

Results are compared with numpy. Threads switch every 10 microseconds, five hundred times as often as usual.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

os.environ.setdefault("DEV", "PYTHON")

import numpy as np
from record import HERE, write_record
from tinygrad import Tensor

import tg2hdl
from tg2hdl.device_folder import write_device_folder
from tg2hdl_host import ConnectionFailedError
from tg2hdl_tpu import Config, run_bundle
from tg2hdl_tpu.board.driver import connect_processor
from tg2hdl_tpu.board.folder import build_folder
from tg2hdl_tpu.testing import random_bundle

WANTED = 20_000
THREADS = 6
SHARES = {
    "accelerator": 0.2,
    "session": 0.2,
    "batches of a session": 0.05,
    "golden model": 0.3,
    "state of an accelerator": 0.1,
    "compilations": 0.02,
    "board, simulated": 0.05,
    "TINYTPU": 0.05,
    "TPU board, simulated": 0.005,
    "bundles": 0.02,
}
"""Parts of the calls: compiling and simulated links take longer."""
W = np.random.default_rng(0).integers(-9, 9, (16, 4)).astype(np.int8)


def example(rng: np.random.Generator) -> Any:
    return rng.integers(-9, 9, (1, 16)).astype(np.int8)


def layer(**options: Any) -> Any:
    weight = Tensor(W).realize()
    model = lambda x: x.cast("int32") @ weight.cast("int32")  # noqa: E731
    chosen = tg2hdl.CompileOptions(**options)
    return tg2hdl.compile(model, np.zeros((1, 16), np.int8), options=chosen, name="layer")


def hammer(work: Callable[[np.random.Generator], bool], calls: int, counts: Counter[str]) -> None:
    """Call `work`, which says whether its result is right, from all threads."""

    def run(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(max(1, calls // THREADS)):
            counts["calls"] += 1
            try:
                counts["right" if work(rng) else "wrong"] += 1
            except Exception as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
                counts["errors"] += 1

    threads = [Thread(target=run, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def is_layer(call: Callable[[Any], Any]) -> Callable[[np.random.Generator], bool]:
    def work(rng: np.random.Generator) -> bool:
        x = example(rng)
        return np.array_equal(call(x), x.astype(np.int32) @ W)

    return work


def compiles(rng: np.random.Generator) -> bool:
    w = rng.integers(-9, 9, (8, 3)).astype(np.int32)
    own, x = Tensor(w).realize(), rng.integers(-9, 9, (2, 8)).astype(np.int32)
    made = tg2hdl.compile(lambda x: (x @ own).relu(), x)
    right = np.maximum(x @ w, 0)
    return np.array_equal(made.golden(x), right) and np.array_equal(made.reference(x), right)


def on_device(rng: np.random.Generator) -> bool:
    a, b = (rng.integers(-99, 99, (5, 5)).astype(np.int32) for _ in range(2))
    found = (Tensor(a, device="TINYTPU") @ Tensor(b, device="TINYTPU") + 1).numpy()
    return np.array_equal(found, a @ b + 1)


@contextmanager
def workloads(folder: Path) -> Iterator[dict[str, Callable[[np.random.Generator], bool]]]:
    """Each kind of object, and a call of it with its check."""
    accelerator = layer()
    total = Tensor(np.zeros(1, np.int32)).realize()
    counting = tg2hdl.compile(lambda x: total.assign(total + x), np.ones(1, np.int32))
    seen: set[int] = set()

    def counts(rng: np.random.Generator) -> bool:
        found = int(counting.golden(np.ones(1, np.int32))[0])
        is_new = found not in seen
        seen.add(found)
        return is_new

    board = folder / "board"
    write_device_folder(layer(ports=("uart",)), board, vectors=1)
    config = Config(lanes=4, rows=2, columns=2, vmem_rows=16, imem_depth=24, xmem_rows=20)
    build_folder(config, folder / "processor", payload=40)
    bundles = [random_bundle(n, config, length=12) for n in range(8)]
    expected = [run_bundle(bundle) for bundle in bundles]

    def same(run: Callable[[Any], Any]) -> Callable[[np.random.Generator], bool]:
        def work(rng: np.random.Generator) -> bool:
            n = int(rng.integers(len(bundles)))
            found = run(bundles[n])
            rows = all(np.array_equal(found.outputs[k], r) for k, r in expected[n].outputs.items())
            return rows and (found.trap, found.pc, found.cycles) == (
                expected[n].trap,
                expected[n].pc,
                expected[n].cycles,
            )

        return work

    with (
        accelerator.session("levelized") as session,
        tg2hdl.connect(f"simulate:{board}") as device,
        connect_processor(f"simulate:{folder / 'processor'}", engine="levelized") as processor,
    ):
        yield {
            "accelerator": is_layer(lambda x: accelerator.simulate(x, engine="levelized").output),
            "session": is_layer(lambda x: session.run(x).output),
            "batches of a session": is_layer(lambda x: session.run_batch([x, -x, x])[2].output),
            "golden model": is_layer(accelerator.golden),
            "state of an accelerator": counts,
            "compilations": compiles,
            "board, simulated": is_layer(device),
            "TINYTPU": on_device,
            "TPU board, simulated": same(processor.run_bundle),
            "bundles": same(run_bundle),
        }


def two_programs(folder: Path, tries: int, counts: Counter[str]) -> None:
    """A second program on a serial port and on a served simulation is refused with the true reason."""
    master, slave = os.openpty()
    port = os.ttyname(slave)
    hold = (
        "import sys, tg2hdl_host; held = tg2hdl_host.SerialTransport({!r}, 9600); print(flush=True); input()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold.format(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    serve = [sys.executable, "-m", "tg2hdl", "serve", str(folder / "board")]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
    assert holder.stdout
    assert server.stdout
    holder.stdout.readline()
    url = server.stdout.readline().strip()
    first = tg2hdl.connect(url, folder / "board", timeout=60)
    for _ in range(tries):
        for call, reason in (
            (lambda: tg2hdl.connect(port), f"another program has {port} open"),
            (
                lambda: tg2hdl.connect(url, folder / "board"),
                f"is in use by threads.py, process {os.getpid()}",
            ),
            (lambda: tg2hdl.connect(url), "give its folder"),
        ):
            counts["calls"] += 1
            try:
                call().close()
                counts["wrong"] += 1
            except ConnectionFailedError as error:
                counts["right" if reason in str(error) else "wrong"] += 1
    x = np.arange(16, dtype=np.int8)[None]
    counts["calls"] += 1
    counts["right" if np.array_equal(first(x), x.astype(np.int32) @ W) else "wrong"] += 1
    first.close()
    holder.communicate("\n")
    server.communicate()
    os.close(master)
    os.close(slave)


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else WANTED
    started, rows, total = time.monotonic(), {}, Counter[str]()
    sys.setswitchinterval(1e-5)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with workloads(folder) as found:
            jobs = {k: lambda c, n, w=w: hammer(w, n, c) for k, w in found.items()}
            jobs["two programs"] = lambda c, n: two_programs(folder, max(1, n // 30), c)
            for name, job in jobs.items():
                counts = Counter[str]()
                job(counts, int(wanted * SHARES.get(name, 0.005)))
                rows[name] = f"{counts['calls']:,} calls, {counts['wrong']} wrong, {counts['errors']} errors"
                print(f"{name}: {rows[name]}", flush=True)
                total += counts
    totals = {name: total[name] for name in ("calls", "right", "wrong", "errors")}
    totals |= {"threads": THREADS, "seconds": round(time.monotonic() - started)}
    print(totals)
    if wanted >= WANTED:
        title = "Objects called from several threads, against numpy"
        write_record(
            HERE / "threads.json", title, "python benchmarks/fuzz/threads.py", totals, by_object=rows
        )
    sys.exit(bool(total["wrong"] or total["errors"] or total["right"] != total["calls"]))


if __name__ == "__main__":
    main()
