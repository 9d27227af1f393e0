"""What a run on a GPU exchanges with the host, on a device that is pretended, so that every machine shows it."""

from __future__ import annotations

import warnings
from collections import defaultdict

import numpy as np
import onnx
import pytest
import torch

import workbench as wb
from tests.conformance import RANDOM, array, cases, verdict
from tests.conftest import ROOT
from tests.pretend_gpu import GPU, DeviceTensor, PretendedGpu
from workbench.backends.torch.executor.crossings import crossings_of
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.errors import UserError
from workbench.formats.io.onnx_file import load_proto
from workbench.ir.text import from_text
from workbench.run.inputs import seed_inputs

# Operators that cross in ONNX's own cases, and why they have to.
CROSSING = {
    **dict.fromkeys(("NonZero", "Compress", "Unique"), "the size of the result depends on its operand's elements"),
    **dict.fromkeys(("NonMaxSuppression", "RoiAlign"), "computed on the host, box by box"),
    **dict.fromkeys(
        ("BitShift", "Div", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod"),
        "uint64 alone: whether a number is 2^63 or more, which torch cannot compute with",
    ),
    **dict.fromkeys(
        ("ConstantOfShape", "If", "Loop", "Pad", "Range", "Reshape"), "reads a number that an operator has computed"
    ),
}


def crossings(graph, inputs) -> list:
    with PretendedGpu():
        executor = TorchExecutor(graph, device=GPU)
        return [one for one in crossings_of(executor, executor.upload(inputs)) if one.node.op not in executor.fallbacks]


def on_pretended_gpu(graph, inputs) -> dict[str, np.ndarray]:
    with PretendedGpu():
        executor = TorchExecutor(graph, device=GPU)
        for _ in range(2):  # the second run reads what the first has kept on the device
            found = executor.run_tensors(executor.upload(inputs))
        assert all(isinstance(value, DeviceTensor) for value in found.values())
        return {name: value.host.numpy() for name, value in found.items()}


def test_the_pretended_device_refuses_operands_of_both():
    with PretendedGpu():
        there, here = torch.ones(3, device=GPU), torch.ones(3)
        assert there.device.type == "cuda" and (there + 1).device.type == "cuda"
        with pytest.raises(RuntimeError, match="expected on the same device"):
            there + here


def test_a_number_of_the_host_is_uploaded_once():
    """The mean over a dim that the graph asks its operand for: the Shape is the host's, the Div the device's."""
    graph = from_text(
        "g (float[N,8] x) => (float[N,8] y) <int64 one = {1}>"
        "{ s = Shape(x)  n = Gather(s, one)  d = Cast<to=1>(n)  y = Div(x, d) }"
    )
    inputs = {"x": np.arange(16, dtype=np.float32).reshape(2, 8)}
    assert crossings(graph, inputs) == []
    np.testing.assert_array_equal(on_pretended_gpu(graph, inputs)["y"], inputs["x"] / 8)


def test_another_shape_is_another_number():
    graph = from_text(
        "g (float[N,M] x) => (float[N,M] y) <int64 one = {1}>"
        "{ s = Shape(x)  n = Gather(s, one)  d = Cast<to=1>(n)  y = Div(x, d) }"
    )
    with PretendedGpu():
        executor = TorchExecutor(graph, device=GPU)
        for width in (8, 4, 8):
            x = np.ones((2, width), np.float32)
            (y,) = executor.run_tensors(executor.upload({"x": x})).values()
            np.testing.assert_array_equal(y.host.numpy(), x / width)


def test_a_crossing_is_named():
    graph = from_text("g (float[4] x) => (int64[1,M] y) { y = NonZero(x) }")
    (found,) = crossings(graph, {"x": np.ones(4, np.float32)})
    assert found.sentence == "NonZero 'NonZero_y' waits for the device, in aten.nonzero.default"


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_keeps_what_its_sizes_decide(mode):
    graph = from_text(
        "g (float[1,2,6,5] x) => (float[1,2,9,10] y) <int64[4] sizes = {1,2,9,10}>"
        f'{{ y = Resize<mode="{mode}", coordinate_transformation_mode="asymmetric">(x, , , sizes) }}'
    )
    inputs = seed_inputs(graph)
    assert crossings(graph, inputs) == []
    np.testing.assert_array_equal(on_pretended_gpu(graph, inputs)["y"], TorchExecutor(graph).run(inputs)["y"])


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("path", ["resnet50_narrow.onnx", "ppocr_cls_v2.onnx", "basic_pitch_nmp.onnx", "npu_path.onnx"])
@pytest.mark.parametrize("layout", [None, "optimal"])
def test_networks_stay_on_the_device(path, layout):
    graph = wb.optimize(wb.load(ROOT / "sample_models" / path), preset="simplify", layout=layout, target="cuda").graph
    assert crossings(graph, seed_inputs(graph)) == []


def test_an_image_enlarged_in_the_layout_of_the_hardware_stays_on_the_device():
    """What stopped the capture of a UNet: Resize_NHWC made its places on the host in each run."""
    graph = from_text(
        "g (float[1,4,8,8] x, float[4,4,3,3] w) => (float[1,4,16,16] y) <float[4] twice = {1,1,2,2}>"
        '{ a = Conv<pads=[1,1,1,1]>(x, w)  b = Resize<mode="nearest">(a, , twice)'
        "  y = Conv<pads=[1,1,1,1]>(b, w) }"
    )
    changed = wb.optimize(graph, preset="simplify", layout="optimal", target="cuda").graph
    assert any("NHWC" in node.op_type for node in changed.nodes)
    assert crossings(changed, seed_inputs(changed)) == []


@pytest.mark.slow
def test_every_operator_computes_the_same_there_and_crosses_only_where_it_must():
    """ONNX's own cases, run on the pretended device."""
    crossed, differing = defaultdict(list), []
    for name in sorted(cases()):
        if verdict(name).kind == "refused":
            continue
        model = onnx.ModelProto.FromString(cases()[name].model.SerializeToString())
        graph = load_proto(model)
        inputs = dict(zip(graph.inputs, map(array, cases()[name].data_sets[0][0]), strict=True))
        try:
            with PretendedGpu(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                executor = TorchExecutor(graph, device=GPU)
                tensors = executor.upload(inputs)
                found = crossings_of(executor, tensors)
                outputs = [_plain(value) for value in executor.run_tensors(tensors).values()]
        except UserError as error:
            if not any(reason in str(error) for reason in _OF_THE_PRETENCE):
                raise
            continue
        for crossing in found:
            if crossing.node.op not in executor.fallbacks:
                crossed[crossing.node.op].append(name)
        expected = TorchExecutor(graph).run_tensors(TorchExecutor(graph).upload(inputs)).values()
        if not RANDOM.fullmatch(name.split("_expanded")[0]) and not all(map(_is_same, outputs, expected)):
            differing.append(name)
    assert crossed.keys() == CROSSING.keys(), {op: crossed[op][:3] for op in crossed.keys() ^ CROSSING.keys()}
    assert differing == []


# A CPU under the device lacks what CUDA has.
_OF_THE_PRETENCE = ("CUDA generator", "half to float conversion", "fused_lstm_cell")


def _plain(value):
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.host if isinstance(value, DeviceTensor) else value


def _is_same(one, other) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if not isinstance(one, torch.Tensor):
        return type(one) is type(other) and bool(np.all(one == other))
    close = torch.allclose(one.double(), other.double(), 1e-5, 1e-6, equal_nan=True)  # attention has several kernels
    return one.dtype == other.dtype and close
