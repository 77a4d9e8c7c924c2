"""The conformance suite for host ports: designs run through them give the golden results.

In the tests of a plugin::

    @pytest.mark.parametrize("port", my_plugin.tg2hdl_ports(), ids=lambda port: port.name)
    def test_my_port(port):
        check_port(port)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tg2hdl_backend.runner import Runner
from tg2hdl_ir import DType, HostPortDef, KernelCall, ProgramIR, SimulationError, resolve
from tg2hdl_top import CompileOptions, compile_program
from tg2hdl_top.ports import HostDriver, HostPort
from tg2hdl_top.testing import I8, buffer, elementwise, gemv, golden

__all__ = ["check_port"]

_ROWS, _DEPTH = 6, 10


def _program() -> ProgramIR:
    """A product with weights, an elementwise kernel, and two outputs of different sizes."""
    weights = np.random.default_rng(3).integers(-128, 128, _ROWS * _DEPTH).astype(np.int8)
    buffers = (
        buffer("x", "input", size=_DEPTH, dtype=I8),
        buffer("bias", "input", size=_ROWS),
        buffer("w", "weight", weights, _ROWS * _DEPTH, I8),
        buffer("t", "output", size=_ROWS),
        buffer("y", "output", size=_ROWS),
    )
    calls = (KernelCall(gemv(_ROWS, _DEPTH), (3, 2, 0)), KernelCall(elementwise("add", 2), (4, 3, 1)))
    return ProgramIR("port", buffers, calls, (3, 4))


def check_port(definition: HostPortDef, *, engine: str = "auto") -> None:
    """Check a registered port: claims, several runs with other inputs, narrow and wide words, loadable weights.

    The native port serves the buffers that the port does not serve.

    Parameters
    ----------
    definition : HostPortDef
        Registered.
    engine : str, default "auto"
        Name, or ``"auto"``.

    Raises
    ------
    AssertionError
        Naming the port and the first rule that it breaks.
    """
    label = f"host port {definition.name}"
    port, driver = resolve(definition.port), resolve(definition.driver)
    assert isinstance(port, type) and issubclass(port, HostPort), f"{label}: port is not a HostPort"  # noqa: PT018
    is_driver = isinstance(driver, type) and issubclass(driver, HostDriver)
    assert is_driver, f"{label}: driver is not a HostDriver"
    program = _program()
    ports = _ports(definition.name, program)
    for weights, multipliers in (("rom", 1), ("loadable", 4)):
        options = CompileOptions(ports=ports, weights=weights, multipliers=multipliers)
        _check_runs(label, program, options, engine)


def _ports(name: str, program: ProgramIR) -> tuple[str, ...]:
    try:
        compile_program(program, CompileOptions(ports=(name,)))
    except Exception as error:
        if "no host port serves" not in str(error):
            raise
        return (name, "native")
    return (name,)


def _check_runs(label: str, program: ProgramIR, options: CompileOptions, engine: str) -> None:
    design = compile_program(program, options)
    where = f"{label}, {options.weights} weights, {options.multipliers} multipliers"
    assert design.ports[0].serves.buffers or design.ports[0].serves.control, f"{where}: it serves nothing"
    rng = np.random.default_rng(0)
    with Runner(design, engine, runs=2) as runner:
        for number in range(2):
            inputs: dict[str, Any] = {
                "x": rng.integers(-128, 128, _DEPTH).astype(np.int8),
                "bias": rng.integers(DType.INT32.min_value, DType.INT32.max_value, _ROWS).astype(np.int32),
            }
            try:
                run = runner.run(inputs)
            except SimulationError as error:
                raise AssertionError(f"{where}, run {number}: {error}") from error
            for name, found, wanted in zip(("t", "y"), run.outputs, golden(program, inputs), strict=True):
                same = np.array_equal(found, wanted)
                assert same, f"{where}, run {number}: {name} is {found}, expected {wanted}"
            assert run.compute > 0, f"{where}: the driver's run returns no cycles"
