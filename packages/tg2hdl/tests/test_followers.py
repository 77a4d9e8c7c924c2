"""Requantization beside the convolution whose sums it reads: bits, cycles, multipliers, and the least starts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tg2hdl
from tg2hdl import Accelerator
from tg2hdl_backend.onnx_runtime import runtime_session
from tg2hdl_ir import PluginError
from tg2hdl_lower import family_named
from tg2hdl_lower.memory.choose import with_ring
from tg2hdl_top.sequencer.check import check_timeline

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")


class Layer(NamedTuple):
    """A convolution of codes, with a scale for each channel; `adds` the input of the layer before it."""

    outputs: int
    size: int = 1
    groups: int = 1
    pad: int = 0
    adds: bool = False
    pools: bool = False
    means: bool = False


class Net:
    """A file of layers, and inputs."""

    def __init__(self, path: Path, shape: tuple[int, int, int], *layers: Layer, dense: tuple[int, ...] = ()):
        self.path, rng, make = path, np.random.default_rng(5), onnx.helper.make_node
        arrays: dict[str, Any] = {"s": np.float32(0.03), "z": np.int8(0)}
        nodes = [make("DequantizeLinear", ["x", "s", "z"], ["d"])]
        now, channels, before = "d", shape[0], "d"

        def weights(n: int, *sizes: int) -> None:
            scales = rng.uniform(0.003, 0.01, sizes[0]).astype(np.float32)
            arrays[f"w{n}"] = rng.integers(-127, 128, sizes).astype(np.int8)
            arrays[f"b{n}"] = rng.integers(-2000, 2000, sizes[0]).astype(np.int32)
            arrays[f"sw{n}"], arrays[f"sb{n}"] = scales, scales * np.float32(0.03)
            arrays[f"zw{n}"], arrays[f"zb{n}"] = np.zeros(sizes[0], np.int8), np.zeros(sizes[0], np.int32)
            nodes.append(make("DequantizeLinear", [f"w{n}", f"sw{n}", f"zw{n}"], [f"dw{n}"], axis=0))
            nodes.append(make("DequantizeLinear", [f"b{n}", f"sb{n}", f"zb{n}"], [f"db{n}"], axis=0))

        def coded(name: str) -> str:
            nodes.append(make("QuantizeLinear", [name, "s", "z"], [f"{name}_q"]))
            nodes.append(make("DequantizeLinear", [f"{name}_q", "s", "z"], [f"{name}_d"]))
            return f"{name}_d"

        for n, layer in enumerate(layers):
            weights(n, layer.outputs, channels // layer.groups, layer.size, layer.size)
            pads = [layer.pad] * 4
            nodes.append(make("Conv", [now, f"dw{n}", f"db{n}"], [f"c{n}"], group=layer.groups, pads=pads))
            result = f"c{n}"
            if layer.adds:
                nodes.append(make("Add", [coded(result), before], [f"a{n}"]))
                result = f"a{n}"
            nodes.append(make("Relu", [result], [f"r{n}"]))
            before, now, channels = now, coded(f"r{n}"), layer.outputs
            if layer.means:
                nodes.append(make("GlobalAveragePool", [now], [f"m{n}"]))
                now = coded(f"m{n}")
            if layer.pools:
                nodes.append(make("MaxPool", [now], [f"p{n}"], kernel_shape=[2, 2], strides=[2, 2]))
                now = f"p{n}"
        for n, (inputs, outputs) in enumerate(pairwise(dense), len(layers)):
            if n == len(layers):
                nodes.append(make("Flatten", [now], ["flat"]))
                now = "flat"
            weights(n, outputs, inputs)
            nodes.append(make("Gemm", [now, f"dw{n}", f"db{n}"], [f"g{n}"], transB=1))
            now = coded(f"g{n}")
        last = nodes.pop().input[0]
        tensor, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.INT8
        graph = onnx.helper.make_graph(
            nodes,
            "net",
            [tensor("x", kind, [1, *shape])],
            [tensor(last, kind, None)],
            [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
        )
        opsets = [onnx.helper.make_opsetid("", 17)]
        onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
        self.x = rng.integers(-128, 128, (1, *shape)).astype(np.int8)
        session = runtime_session(path)
        (self.expected,) = session.run(None, {"x": self.x})

    def compiled(self, multipliers: int, schedule: str = "auto") -> Accelerator:
        """Hardware of the file."""
        options = tg2hdl.CompileOptions(multipliers=multipliers, schedule=schedule)
        return tg2hdl.compile(self.path, options=options)

    def check(self, accelerator: Accelerator) -> None:
        """Compare bits with ONNX Runtime, and cycles with the prediction."""
        result = accelerator.simulate(self.x)
        np.testing.assert_array_equal(result.output, self.expected)
        assert result.cycles.compute == accelerator.predicted_cycles

    def is_right(self, accelerator: Accelerator, **changed: Any) -> bool:
        """Whether a changed design has the same bits."""
        other = Accelerator(accelerator.captured, replace(accelerator.design, **changed))
        return bool(np.array_equal(other.simulate(self.x).output, self.expected))


def sums(accelerator: Accelerator) -> list[Any]:
    return [memory for memory in accelerator.design.buffers if memory.name.startswith("sums")]


CASES = {
    # Channels at once: a word is done every eight cycles. Pixels at once: every 72 cycles.
    "1x1": (Layer(16), (8, 12, 12), 16, 2),
    "3x3": (Layer(8, 3, pad=1), (8, 8, 8), 16, 1),
    # A sum of eight products in two cycles: one element at a time.
    "1x1, lanes along the sum": (Layer(4), (8, 5, 5), 4, 1),
    "depthwise": (Layer(16, 3, groups=16, pad=1), (16, 8, 8), 16, 2),
    # Means of what is requantized, of eight channels in turn.
    "mean": (Layer(16, means=True), (8, 9, 9), 16, 2),
    "mean, lanes along the sum": (Layer(4, means=True), (8, 9, 9), 4, 1),
}


@pytest.mark.parametrize("case", CASES)
def test_a_follower_starts_with_the_first_sums_and_reads_them_from_the_smallest_ring(
    tmp_path: Path, case: str
) -> None:
    layer, shape, multipliers, lanes = CASES[case]
    net = Net(tmp_path / "net.onnx", shape, layer)
    accelerator = net.compiled(multipliers)
    design = accelerator.design
    ((kernel, delay),) = design.sequencer.followers
    (memory,) = sums(accelerator)
    narrow, wide = accelerator.multipliers
    assert (narrow.count, wide.count, wide.blocks) == (multipliers, lanes, 4 * lanes)
    net.check(accelerator)

    early = replace(design.sequencer, followers=((kernel, delay - 1),))
    # A wrong sum may leave a mean as it is.
    assert layer.means or not net.is_right(accelerator, sequencer=early)
    with pytest.raises(PluginError, match=f"kernel 1 .* in cycle {delay - 1}, but"):
        check_timeline(early, design.kernels, design.buffers, design.sharing)
    if memory.ring > 1:
        smaller = with_ring(memory, memory.ring // 2, family_named("generic"))
        others = tuple(smaller if each is memory else each for each in design.buffers)
        assert not net.is_right(accelerator, buffers=others)
        with pytest.raises(PluginError, match=f"then needs more than {smaller.ring} words"):
            check_timeline(design.sequencer, design.kernels, others, design.sharing)
    else:
        assert memory.kind == "run-constant"


def test_cores_that_run_several_times_have_followers(tmp_path: Path) -> None:
    layers = Layer(16, 3, groups=16, pad=1), Layer(16)
    net = Net(tmp_path / "net.onnx", (16, 5, 5), *layers, *layers, *layers)
    accelerator = net.compiled(16)
    design = accelerator.design
    assert (len(design.kernels), len(design.core_plans)) == (12, 8)
    assert [kernel for kernel, _ in design.sequencer.followers] == [1, 3, 5, 7, 9, 11]
    assert accelerator.multipliers.blocks == 16 + 4 * 2
    net.check(accelerator)


def test_a_sum_with_an_earlier_result_follows(tmp_path: Path) -> None:
    """The convolution and its follower read the same words at the same time: each has a port."""
    net = Net(tmp_path / "net.onnx", (8, 4, 4), Layer(8, 3, pad=1), Layer(8, 3, pad=1, adds=True))
    accelerator = net.compiled(8)
    assert accelerator.multipliers.blocks == 8 + 4 * 1
    assert [memory.ring for memory in sums(accelerator)] == [1, 1]
    net.check(accelerator)
    net.check(net.compiled(8, "overlap"))


def test_lenet_has_few_multipliers_beside_those_of_the_budget(tmp_path: Path) -> None:
    layers = Layer(6, 5, pad=2, pools=True), Layer(16, 5, pools=True)
    net = Net(tmp_path / "net.onnx", (1, 28, 28), *layers, dense=(400, 120, 84, 10))
    accelerator = net.compiled(16)
    assert accelerator.multipliers.blocks == 20
    assert accelerator.predicted_cycles <= 26_863
    assert {memory.ring for memory in sums(accelerator)} == {1}
    net.check(accelerator)


def test_words_that_are_not_all_full_have_no_follower_of_several_lanes(tmp_path: Path) -> None:
    """The last lanes of some words are masked, so that lanes along them are not independent."""
    net = Net(tmp_path / "net.onnx", (4, 8, 8), Layer(4, 3, pad=1), Layer(8))
    net.check(net.compiled(24, "overlap"))


def test_explained(tmp_path: Path) -> None:
    net = Net(tmp_path / "net.onnx", (8, 8, 8), Layer(8, 3, pad=1))
    accelerator = net.compiled(16)
    (decision,) = (each for each in accelerator.design.decisions if each.rewrite == "follow")
    assert decision.taken == 1
    assert [each.cost.multipliers for each in decision.alternatives] == [80, 20]  # of both kernels
    assert "keeps the pace of r_8_8_8_8_3_3_sums: 16 elements in 72 cycles, 1 at once" in str(
        accelerator.design.format()
    )
    assert "follow" in str(accelerator.explain())
