"""The levelized engine without a C compiler, by Zig from an empty cache: ``python benchmarks/sim/zig.py``.

CPU and wall seconds to open a small random design, the first and the second time.  Writes ``zig.json`` beside this
file.
"""

import os
import resource
import tempfile
import time
from pathlib import Path

JSON = Path(__file__).with_suffix(".json")


def main() -> None:
    """Measure with nothing on the path and empty caches."""
    os.environ.pop("CXX", None)
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as cache:
        os.environ |= {"PATH": empty, "ZIG_GLOBAL_CACHE_DIR": f"{cache}/zig", "TG2HDL_CACHE_DIR": cache}
        from tg2hdl_sim import SimulationModel, open_simulation
        from tg2hdl_sim.compiler import find_compiler
        from tg2hdl_sim.testing.designs import RandomDesign

        found: dict = {"compiler": find_compiler().identity}
        for seed, name in enumerate(("cold", "warm")):
            begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            with open_simulation(SimulationModel(RandomDesign(seed)), "levelized") as simulation:
                simulation.step(5)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found[name] = {"CPU seconds": round(cpu, 1), "wall": round(time.perf_counter() - begin, 1)}
    found["load"] = round(os.getloadavg()[0], 1)
    from tg2hdl.bench import json_text

    JSON.write_text(json_text(found))
    print(found)


if __name__ == "__main__":
    main()
