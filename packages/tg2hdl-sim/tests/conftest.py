from __future__ import annotations

import pytest

from tg2hdl_ir import registry, resolve
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_sim.testing.designs import Everything


@pytest.fixture(autouse=True, scope="session")
def cache_directory(tmp_path_factory):
    """One cache for all tests, empty at the start."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TG2HDL_CACHE_DIR", str(directory))
        patch.delenv("TG2HDL_CACHE_LIMIT", raising=False)
        yield directory


@pytest.fixture(
    scope="session",
    params=["amaranth", "cxxrtl", "levelized", pytest.param("verilator", marks=pytest.mark.slow)],
)
def engine(request):
    reason = resolve(registry().simulator(request.param).available)()
    if reason is not None:
        pytest.skip(reason)
    return request.param


@pytest.fixture(scope="session")
def everything():
    top = Everything()
    return SimulationModel(top, {"deep": top.deep, "wide": top.wide.data, "rom": top.rom}, name="everything")


@pytest.fixture
def sim(engine, everything):
    with open_simulation(everything, engine) as simulation:
        yield simulation
