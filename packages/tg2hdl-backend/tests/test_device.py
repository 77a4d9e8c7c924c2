"""The tinygrad device HDL."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from tinygrad import Tensor, TinyJit, Variable, nn
from tinygrad.device import Device
from tinygrad.dtype import dtypes
from tinygrad.helpers import Context, Target
from tinygrad.uop.ops import Ops

from tg2hdl_backend import HDLRenderer
from tg2hdl_backend.device_options import DeviceOptions
from tg2hdl_ir import InputError, UnsupportedError

GOLDEN = "HDL::engine=golden"
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def run(program: str, **environment: str) -> str:
    env = {k: v for k, v in os.environ.items() if k not in ("DEV", "DEBUG")} | environment
    result = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_unmodified_program_finds_the_device():
    program = (
        "from tinygrad import Tensor, Device; print(Device.DEFAULT, (Tensor([1, 2, 3]) * 2).sum().item())"
    )
    assert run(program, DEV="HDL") == "HDL 12\n"
    assert run(program, DEV="HDL::engine=golden,multipliers=2") == "HDL 12\n"


def test_kernels_are_simulated_unless_that_takes_too_long(tmp_path):
    program = (
        "from tinygrad import Tensor, dtypes; (Tensor.empty(3, dtype=dtypes.int32) + 1).realize()\n"
        "(Tensor.empty(3 << 22, dtype=dtypes.int8) + 1).realize()"
    )
    lines = run(program, DEV="HDL::patience=1", DEBUG="2", TG2HDL_CACHE_DIR=str(tmp_path)).splitlines()
    small, large = (line.split(":")[1] for line in lines if line.startswith("    hdl "))
    assert small.endswith(" cycles (amaranth)")
    assert large.startswith(" 12,582,")
    assert large.endswith(" cycles (golden)")


def test_importing_the_finder_imports_nothing_else():
    program = (
        "import sys; import tg2hdl_device_finder as f; f.install(); f.install()\n"
        "print(sum(type(x).__module__ == 'tg2hdl_device_finder' for x in sys.meta_path), "
        "[m for m in sys.modules if m.split('.')[0] in ('tinygrad', 'numpy', 'amaranth', 'tg2hdl_backend')])"
    )
    assert run(program) == "2 []\n"


def test_golden_mode_does_not_import_amaranth():
    program = "import sys; from tinygrad import Tensor; (Tensor([1.0]) + 1).tolist(); print('amaranth' in sys.modules)"
    assert run(program, DEV="HDL::engine=golden") == "False\n"


def test_simulated_hardware_in_an_unmodified_program(tmp_path):
    program = (
        "from tinygrad import Tensor; x = Tensor([[1, 2], [3, 4]]).realize()\n"
        "Tensor.realize(y := x @ x, z := (x * 3).sum()); print(y.tolist(), z.item())"
    )
    output = run(program, DEV="HDL::engine=amaranth,multipliers=2", DEBUG="2", TG2HDL_CACHE_DIR=str(tmp_path))
    assert output.splitlines()[-1] == "[[7, 10], [15, 22]] 30"
    assert sum("    hdl " in line and " cycles" in line for line in output.splitlines()) == 2
    assert len(list(tmp_path.glob("plans/*/blob"))) == 2


def test_operations_on_the_device():
    with Context(DEV=GOLDEN):
        x = Tensor(X)
        np.testing.assert_array_equal((x @ x.T).numpy(), X @ X.T)
        np.testing.assert_allclose(x.softmax().numpy().sum(1), 1, rtol=1e-6)
        assert Tensor(X, device="HDL:1").sum().item() == 15


def test_in_place_update():
    with Context(DEV=GOLDEN):
        x = Tensor.zeros(5).contiguous().realize()
        x[1:3] = 2
        x.assign(x + 1).realize()
        assert x.tolist() == [1, 3, 3, 1, 1]


def test_jit_replays_with_new_inputs():
    with Context(DEV=GOLDEN):

        @TinyJit
        def double(x: Tensor) -> Tensor:
            return (x * 2).sum(1).realize()

        for n in range(4):
            assert double(Tensor([[1.0, 2], [3, n]]).realize()).tolist() == [6.0, 6.0 + 2 * n]
        assert pickle.loads(pickle.dumps(double))(Tensor([[1.0, 1], [1, 1]]).realize()).tolist() == [4, 4]


def test_variable_needs_no_new_kernel():
    with Context(DEV=GOLDEN):
        x, n = Tensor(X).realize(), Variable("n", 1, 3)
        assert [x[:, : n.bind(k)].sum().item() for k in (1, 2, 3)] == [3, 8, 15]


def test_training_on_the_device():
    with Context(DEV=GOLDEN):
        Tensor.manual_seed(1)
        model = nn.Linear(3, 2)
        with Tensor.train() if hasattr(Tensor, "train") else Context(TRAINING=1):
            optimizer = nn.optim.SGD(nn.state.get_parameters(model), lr=0.01)
            losses = []
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(Tensor(X)).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
    assert losses[2] < losses[1] < losses[0]


def test_renderer_asks_for_plain_sequential_code():
    renderer = HDLRenderer()
    assert (renderer.device, renderer.has_local, renderer.has_shared, renderer.supports_float4) == (
        "HDL",
        False,
        False,
        False,
    )
    assert renderer.global_max is None
    assert renderer.local_max is None
    assert Ops.MULACC not in renderer.code_for_op
    assert {
        dtypes.half,
        dtypes.bfloat16,
        dtypes.int64,
        dtypes.double,
        dtypes.bool,
    } <= renderer.supported_dtypes()
    again = pickle.loads(pickle.dumps(HDLRenderer(Target("HDL", "", "engine=golden"))))
    assert again.target.arch == "engine=golden"
    with pytest.raises(NotImplementedError, match="code_for_op only names the ops that hardware has"):
        renderer.code_for_op[Ops.ADD]("a", "b")


def test_source_of_a_kernel_carries_options_and_runs(uops_of):
    from tg2hdl_backend.kernel_runner import KernelRunner

    source = HDLRenderer(Target("HDL", "", "engine=golden,multipliers=4")).render(
        uops_of(Tensor.empty(3) + 1)
    )
    runner = KernelRunner.from_source(source)
    assert runner.options == DeviceOptions("golden", multipliers=4)
    arrays = {0: np.zeros(3, np.float32), 1: np.arange(3, dtype=np.float32)}
    assert runner.run(arrays, {}) is None
    assert arrays[0].tolist() == [1, 2, 3]


def test_options_are_parsed():
    assert DeviceOptions.parse("") == DeviceOptions()
    options = DeviceOptions.parse("engine=cxxrtl,multipliers=16,clock_mhz=50,patience=9")
    assert options == DeviceOptions("cxxrtl", 16, 50, 9)
    assert DeviceOptions.parse(str(options)) == options


def test_units_are_chosen_by_name(uops_of):
    pytest.importorskip("tg2hdl_fp32", reason="has the units")
    from tg2hdl_backend.kernel_runner import KernelRunner

    cycles = {}
    for unit in ("fp32.add.small", "fp32.add.fast"):
        options = DeviceOptions.parse(f"unit=add={unit}")
        assert DeviceOptions.parse(str(options)) == options
        runner = KernelRunner.from_source(
            HDLRenderer(Target("HDL", "", str(options))).render(uops_of(Tensor.empty(3) + 1))
        )
        cycles[unit] = runner.session().design.predicted_cycles()
    assert cycles["fp32.add.fast"] > cycles["fp32.add.small"]
    with pytest.raises(InputError, match=r"no unit for op 'add' is named 'my\.add'"):
        DeviceOptions.parse("unit=add=my.add")


@pytest.mark.parametrize("step", ["prepare", "session"])
def test_a_kernel_without_hardware_is_refused_with_a_way_out(uops_of, monkeypatch, step):
    from tg2hdl_backend import plan_cache
    from tg2hdl_backend.kernel_runner import KernelRunner

    def refuse(*_: object) -> None:
        raise UnsupportedError("no hardware computes sin(fp64) -> fp64", where="kernel E_3", hint="cast")

    monkeypatch.setattr(plan_cache, "compile_program", refuse)
    monkeypatch.setattr(plan_cache.ContentCache, "read", lambda *_: None)
    runner = KernelRunner.from_source(HDLRenderer().render(uops_of(Tensor.empty(3) + 1)))
    with pytest.raises(UnsupportedError) as error:
        getattr(runner, step)()
    assert str(error.value) == (
        "unsupported: no hardware computes sin(fp64) -> fp64\n  at: kernel E_3\n"
        "  hint: cast; DEV=HDL::engine=golden computes it without hardware"
    )


OPTION_ERRORS = {
    "speed=9": (
        "bad input: unknown device option 'speed'\n"
        "  at: DEV=HDL::speed=9\n"
        "  hint: allowed: engine=auto|golden|amaranth|cxxrtl|levelized|verilator, "
        "multipliers=1, 2, ..., clock_mhz=1, 2, ..., patience=1, 2, ..., unit=OP=UNIT"
    ),
    "engine=fast": (
        "bad input: device option engine cannot be 'fast'\n"
        "  at: DEV=HDL::engine=fast\n"
        "  hint: allowed: auto|golden|amaranth|cxxrtl|levelized|verilator"
    ),
    "unit=add": (
        "bad input: device option unit cannot be 'add'\n  at: DEV=HDL::unit=add\n  hint: allowed: OP=UNIT"
    ),
    "multipliers=0": (
        "bad input: device option multipliers cannot be '0'\n"
        "  at: DEV=HDL::multipliers=0\n"
        "  hint: allowed: 1, 2, ..."
    ),
    "multipliers": (
        "bad input: device option multipliers cannot be ''\n"
        "  at: DEV=HDL::multipliers\n"
        "  hint: allowed: 1, 2, ..."
    ),
}


@pytest.mark.parametrize("text", OPTION_ERRORS)
def test_bad_options_are_refused(text):
    with pytest.raises(InputError) as error:
        DeviceOptions.parse(text)
    assert str(error.value) == OPTION_ERRORS[text]


def test_device_is_listed_by_name():
    assert type(Device["HDL"]).__name__ == "HDLDevice"


def test_threads_compute_on_the_device():
    program = """
import sys
from threading import Thread
import numpy as np
from tinygrad import Tensor
import tg2hdl_backend
sys.setswitchinterval(1e-5)
wrong = []
def work(seed):
    rng = np.random.default_rng(seed)
    for n in range(6):
        a, b = (rng.integers(-9, 9, (2 + n, 2 + n)).astype(np.int32) for _ in range(2))
        try:
            wrong.append(not np.array_equal((Tensor(a) @ Tensor(b)).numpy(), a @ b))
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")
threads = [Thread(target=work, args=(n,)) for n in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(wrong), [w for w in wrong if w])
"""
    assert run(program, DEV="HDL::engine=golden").splitlines()[-1] == "24 []"
