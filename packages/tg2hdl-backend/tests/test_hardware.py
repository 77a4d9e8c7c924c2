"""The reference API down to simulated hardware, on integer programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

from tg2hdl_backend import (
    BufferInfo,
    compile_kernel,
    compile_model,
    compile_top_module,
    count_cycles_from_schedule,
    run_bench,
    simulate_kernel,
    simulate_top,
    uops_to_kernel_ir,
)
from tg2hdl_backend.compat import ordered_calls
from tg2hdl_backend.device_options import DeviceOptions
from tg2hdl_backend.hdl_device import describe_run
from tg2hdl_backend.kernel_runner import KernelRunner
from tg2hdl_ir import (
    BufferMeta,
    DType,
    InputError,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IROp,
    KernelCall,
    KernelIR,
    LoopIR,
    PassDef,
    ProgramBuffer,
    ProgramIR,
    ValidationError,
    hookimpl,
    registry,
)
from tg2hdl_ir.content_cache import ContentCache
from tg2hdl_top import CompileOptions

RNG = np.random.default_rng(5)
X = RNG.integers(-9, 9, (2, 6), np.int32)
W1 = RNG.integers(-9, 9, (6, 4), np.int32)
W2 = RNG.integers(-9, 9, (4, 3), np.int32)


def gemv() -> Tensor:
    return Tensor.empty(2, 6, dtype=dtypes.int32) @ Tensor.empty(6, 4, dtype=dtypes.int32)


def two_layers() -> Tensor:
    x = Tensor.empty(2, 6, dtype=dtypes.int32)
    return (x @ Tensor(W1)).relu().contiguous() @ Tensor(W2)


@pytest.mark.parametrize("factors", [{}, {"reduce_unroll_factor": 2}, {"unroll_factor": 2}])
def test_kernel_on_its_own(uops_of, factors):
    kernel = compile_kernel(uops_of(gemv()), **factors)
    output, cycles, wall = simulate_kernel(kernel, {1: X, 2: W1}, engine="amaranth")
    np.testing.assert_array_equal(output.reshape(2, 4), X @ W1)
    assert cycles == kernel.plan.cycles()
    assert wall > 0
    assert set(kernel.buf_write_ports) == {0, 1, 2}
    assert set(kernel.buf_read_ports[0]) == {"raddr", "rdata"}


def test_kernel_inputs_are_checked(uops_of):
    kernel = compile_kernel(uops_of(gemv()))
    with pytest.raises(InputError) as error:
        simulate_kernel(kernel, {7: X}, engine="amaranth")
    assert str(error.value) == "bad input: kernel r_2_4_6 has no buffer 7\n  hint: its buffers are 0, 1, 2"
    with pytest.raises(InputError) as error:
        simulate_kernel(kernel, {1: X.astype(np.int8)}, engine="amaranth")
    assert str(error.value) == (
        "bad input: buffer 1 of kernel r_2_4_6 has 12 elements of int32, got 12 of int8\n"
        "  hint: reshape or convert the array"
    )
    with pytest.raises(InputError) as error:
        simulate_kernel(kernel, {}, clock_period=0)
    assert str(error.value) == "bad input: clock_period is 0 s\n  hint: give a positive time, e.g. 1e-8"


def test_compile_model_maps_slots_to_shared_buffers():
    first, second = compile_model(two_layers())
    assert first.buf_map[0] == second.buf_map[1]
    assert first.buf_infos[0] == BufferInfo(0, 8, 32, True, True)
    assert {k: v.tolist() for k, v in first.initial.items()} == {2: W1.reshape(-1).tolist()}
    assert first.uops
    assert first.kernel.plan.kernel.name == "r_2_4_6"


def test_top_module_runs_the_whole_schedule():
    tensor = two_layers()
    top, connections, specs = compile_top_module(tensor)
    assert (0, 0, 1, 1) in connections
    assert set(top.ext_write_ports) == {(0, 1), (0, 2), (1, 2)}
    output, counts, wall = simulate_top(top, {(0, 1): X}, kernel_specs=specs, engine="amaranth")
    np.testing.assert_array_equal(output.reshape(2, 3), np.maximum(X @ W1, 0) @ W2)
    assert counts["compute"] == count_cycles_from_schedule(tensor) == sum(counts["states"].values())
    assert counts["total"] == counts["load"] + counts["compute"] + counts["readback"]
    assert counts["load"] == X.size + W1.size + W2.size
    assert wall > 0


def test_a_linear_schedule_is_accepted_too():
    tensor = two_layers()
    cycles = count_cycles_from_schedule(tensor)
    assert count_cycles_from_schedule(tensor.linear_with_vars()) == cycles


def test_top_inputs_are_checked():
    top, _, specs = compile_top_module(two_layers())
    with pytest.raises(InputError) as error:
        simulate_top(top, {}, kernel_specs=specs)
    assert str(error.value) == (
        "bad input: no data for input (0, 1)\n"
        "  hint: pass input_data={(kernel, buf): array}, and kernel_specs=... for contents that tinygrad knows"
    )
    with pytest.raises(InputError) as error:
        simulate_top(top, {(0, 0): X}, kernel_specs=specs)
    assert str(error.value) == (
        "bad input: (0, 0) is not an input of the design\n  hint: inputs (kernel, buf): (0, 1), (0, 2), (1, 2)"
    )
    with pytest.raises(InputError) as error:
        simulate_top(top, {(0, 1): X[0]}, kernel_specs=specs)
    assert str(error.value) == (
        "bad input: input (0, 1) has 12 elements of int32, got 6 of int32\n"
        "  hint: reshape or convert the array"
    )
    with pytest.raises(InputError) as error:
        simulate_top(top, {}, clock_period=-1)
    assert str(error.value) == "bad input: clock_period is -1 s\n  hint: give a positive time, e.g. 1e-8"


@pytest.mark.parametrize("value", [3, [], "x"])
def test_no_schedule(value):
    with pytest.raises(InputError) as error:
        compile_model(value)
    assert str(error.value) == (
        f"bad input: no schedule: {type(value).__name__}\n"
        "  hint: pass a Tensor, a list of Tensors, or the result of Tensor.linear_with_vars()"
    )


def test_schedule_without_kernels():
    with pytest.raises(InputError) as error:
        compile_model(Tensor.empty(3))
    assert str(error.value) == (
        "bad input: the schedule has no kernel\n  hint: pass a tensor that is computed and not realized yet"
    )


def _copy(source: int, destination: int) -> KernelCall:
    metas = BufferMeta(0, 1, DType.INT32, True), BufferMeta(1, 1, DType.INT32, False)
    zero = IRConst(0, DType.INT32)
    load = IRBufLoad(1, zero, DType.INT32)
    tree = LoopIR.from_items((load, IRBufStore(0, zero, load, DType.INT32)))
    return KernelCall(KernelIR(metas, tree, name=f"copy{source}{destination}"), (destination, source))


def _chain(*calls: KernelCall) -> ProgramIR:
    buffers = tuple(ProgramBuffer(f"b{n}", DType.INT32, (1,), "temporary") for n in range(4))
    return ProgramIR("chain", buffers, calls, (3,))


def test_kernels_are_put_in_dependency_order():
    program, origins = ordered_calls(_chain(_copy(2, 3), _copy(0, 1), _copy(1, 2)), "abc")
    assert [c.kernel.name for c in program.calls] == ["copy01", "copy12", "copy23"]
    assert origins == ("b", "c", "a")


def test_a_cycle_raises():
    with pytest.raises(InputError) as error:
        ordered_calls(_chain(_copy(1, 2), _copy(2, 1)), "ab")
    assert str(error.value) == (
        "bad input: kernels wait for each other: copy12 (0), copy21 (1)\n"
        "  at: program chain\n"
        "  hint: give the kernels of one schedule, in which no buffer depends on itself"
    )


def test_bench_compares_with_tinygrad():
    result = run_bench("gemv", lambda x: x @ Tensor(W1), [X], engine="amaranth")
    assert result.correct
    assert result.max_abs_error == 0
    np.testing.assert_array_equal(result.output_hdl, X @ W1)
    np.testing.assert_array_equal(result.output_ref, X @ W1)
    assert str(result).startswith(f"ok    gemv: {result.hdl_cycles} cycles, error 0, simulation ")


def test_device_kernel_on_simulated_hardware(uops_of):
    kernel, _ = uops_to_kernel_ir(uops_of(gemv()))
    runner = KernelRunner(kernel, DeviceOptions(engine="amaranth"))
    arrays = {0: np.zeros(8, np.int32), 1: X.reshape(-1).copy(), 2: W1.reshape(-1).copy()}
    for _ in range(2):
        run = runner.run(arrays, {})
        assert run is not None
        np.testing.assert_array_equal(arrays[0].reshape(2, 4), X @ W1)
    assert run.seconds == pytest.approx(run.cycles * 1e-8)
    ratio = run.cycles / (2 * 4 * 6)
    assert describe_run(kernel, run, {}, 1) == (
        f"    hdl r_2_4_6: {run.cycles:,} cycles, ratio {ratio:.2f} (amaranth)"
    )


def test_plans_of_device_kernels_are_kept_on_disk(uops_of, tmp_path, monkeypatch):
    from tg2hdl_backend import plan_cache

    kernel, _ = uops_to_kernel_ir(uops_of(gemv()))
    store = ContentCache("plans", root=tmp_path)
    first = plan_cache.cached_design(kernel, CompileOptions(), store)
    again, _ = uops_to_kernel_ir(uops_of(gemv()))

    def never(*_: object) -> None:
        raise AssertionError("planned again")

    planned = plan_cache.compile_program
    monkeypatch.setattr(plan_cache, "compile_program", never)
    second = plan_cache.cached_design(again, CompileOptions(), store)
    assert second.format() == first.format()
    with pytest.raises(AssertionError, match="planned again"):
        plan_cache.cached_design(again, CompileOptions(multipliers=2), store)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:50])
    monkeypatch.setattr(plan_cache, "compile_program", planned)
    third = plan_cache.cached_design(again, CompileOptions(), store)
    assert third.format() == first.format()


class _Doubling:
    """A plugin whose pass doubles what a kernel stores."""

    @hookimpl
    def tg2hdl_passes(self) -> list[PassDef]:
        return [PassDef("double", "stores twice the value", f"{__name__}:doubled")]


def doubled(kernel: KernelIR) -> KernelIR:
    """Kernel without loops that stores twice the value."""
    items = tuple(
        replace(i, value=IROp("add", i.dtype, (i.value, i.value))) if isinstance(i, IRBufStore) else i
        for i in kernel.loop_tree.items
    )
    return replace(kernel, loop_tree=LoopIR.from_items(items))


@pytest.mark.parametrize("way", ["kernel", "top module"])
def test_a_wrong_pass_of_a_plugin_is_found_in_every_way_to_hardware(uops_of, way):
    uops = uops_of(Tensor.empty(1, dtype=dtypes.int32) + 1)
    ways = {
        "kernel": lambda: compile_kernel(uops),
        "top module": lambda: compile_top_module(Tensor.empty(1, dtype=dtypes.int32) + 1),
    }
    with registry().extended(_Doubling(), distribution="doubling"), pytest.raises(ValidationError) as caught:
        ways[way]()
    assert "first made wrong by pass double of plugin doubling:_Doubling.0 (doubling)" in str(caught.value)


def test_passes_of_plugins_run_in_every_way_to_hardware(uops_of, monkeypatch):
    monkeypatch.setenv("TG2HDL_VALIDATE", "off")
    one = np.array([7], np.int32)
    uops = uops_of(Tensor.empty(1, dtype=dtypes.int32) + 1)
    source = KernelRunner.source(uops_to_kernel_ir(uops)[0], DeviceOptions("golden"))
    with registry().extended(_Doubling(), distribution="doubling"):
        output, _, _ = simulate_kernel(compile_kernel(uops), {1: one}, engine="amaranth")
        top, _, specs = compile_top_module(Tensor.empty(1, dtype=dtypes.int32) + 1)
        whole, _, _ = simulate_top(top, {(0, 1): one}, kernel_specs=specs, engine="amaranth")
        arrays = {0: np.zeros(1, np.int32), 1: one}
        # The golden model of a device evaluates what tinygrad asked for.
        KernelRunner.from_source(source).run(arrays, {})
    assert (output.tolist(), whole.tolist(), arrays[0].tolist()) == ([16], [16], [8])
