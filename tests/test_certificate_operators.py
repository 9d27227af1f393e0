"""What the checker knows of operators is a list of its own, and agrees with what the engine knows."""

import re

import pytest
from onnx import helper

from workbench.checker.files import plain_model
from workbench.checker.grouping_problem import GROUPING_RULES, grouping_problem
from workbench.checker.kernels import LayoutKernel, layout_kernels
from workbench.checker.operators import ELEMENTWISE_OPERATORS, IMAGE_OPERATORS, is_defined
from workbench.formats.opsets.lowering import NotWritable, lowered_to
from workbench.ir import Graph
from workbench.ir.text import OPSET
from workbench.ir.to_proto import to_proto
from workbench.ops import contracts
from workbench.ops.channels_last import FUSED_CONVOLUTIONS
from workbench.ops.fusion_kinds import FusionKind
from workbench.ops.npu import own_function
from workbench.planning.layout.profile import built_in_names, load_profile

RUNTIMES = ("ai.onnx", "workbench")


@pytest.mark.parametrize("kind", [FusionKind.ELEMENTWISE, FusionKind.BROADCAST])
def test_elementwise_operators_are_those_of_the_engine(kind):
    own = {name for name, contract in contracts().items() if contract.fusion == kind}
    assert {name for name in own if not name.startswith(RUNTIMES)} - {"Identity"} <= ELEMENTWISE_OPERATORS


def test_no_other_operator_is_elementwise():
    kinds = {name: contract.fusion for name, contract in contracts().items()}
    assert all(kinds[name] in (FusionKind.ELEMENTWISE, FusionKind.BROADCAST) for name in ELEMENTWISE_OPERATORS)


def joined(source, user):
    """Whether the checker may put an operator and one that reads it into one group, by the widest rules."""

    def called(name, reads, makes):
        domain, _, op_type = name.rpartition(".")
        return helper.make_node(op_type, reads, makes, domain=domain)

    nodes = [called(source, ["x", "", ""], ["a"]), called(user, ["a", "", ""], ["y"])]
    types = dict.fromkeys("xay", (1, (4, 4)))
    return bool(grouping_problem(nodes, ("y",), types, (), 21, {}, GROUPING_RULES["several"]).joined)


def test_operators_are_grouped_as_by_the_engine():
    """By the widest rules everything may be followed, but by a product; what is opaque is in no group."""
    for name, contract in contracts().items():
        if name.startswith(RUNTIMES) or callable(contract.fusion) or name == "Constant":
            continue
        assert joined(name, "Relu") == (contract.fusion != FusionKind.OPAQUE), name
        follows = contract.fusion not in (FusionKind.OPAQUE, FusionKind.FUSABLE)
        assert joined("Relu", name) == follows, name


def test_operators_of_onnx_runtime_are_those_of_the_engine():
    own = {name for name in contracts() if name.startswith("com.microsoft.")}
    assert all(is_defined("com.microsoft", name.removeprefix("com.microsoft."), 1) for name in own)
    assert not is_defined("com.microsoft", "Hide", 1)


def test_what_onnx_defines_depends_on_the_opset():
    for name, opset, defined in (
        ("Swish", 23, False),
        ("Swish", 24, True),
        ("Upsample", 9, True),
        ("Upsample", 10, False),
        ("Relu", 7, True),
        ("Relu", 0, False),
        ("Hide", 21, False),
    ):
        assert is_defined("", name, opset) is defined, name
    assert is_defined("ai.onnx.ml", "Scaler", 3) and not is_defined("ai.onnx.ml", "Scaler", 0)
    assert not is_defined("ai.onnx.ml", "Relu", 3)


def test_operators_that_targets_demand_can_be_held():
    for name in built_in_names():
        demanded = {op for op in load_profile(name).required_layouts if "." not in op}
        assert demanded <= IMAGE_OPERATORS


CHANNELS_LAST = [
    "AveragePool",
    "BatchNormalization",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "DepthToSpace",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "GridSample",
    "GroupNormalization",
    "InstanceNormalization",
    "LRN",
    "LpPool",
    "MaxPool",
    "MaxPoolWithIndices",
    "MaxUnpool",
    "QLinearConv",
    "SpaceToDepth",
]
NAMES = [f"{name}_NHWC" for name in CHANNELS_LAST] + [
    f"{name}_{a}" for name in ("Conv", "MaxPool") for a in ("NWC", "NDHWC")
]
NAMES += [f"Conv_NHWC_{weights}" for weights in ("OHWI", "HWIO", "HWOI")]
NAMES += [f"{name}_NHWC{weights}" for name in FUSED_CONVOLUTIONS for weights in ("", "_HWIO")]
BLOCKED = [
    f"{name}_NCHW{size}c" for name in ("Conv", "MaxPool", "AveragePool", "GlobalAveragePool") for size in (8, 16)
]
BLOCKED += ["BatchNormalization_NCHW8c", "Conv_NCHW_NCHW8c"]


@pytest.mark.parametrize("name", [*NAMES, *BLOCKED])
def test_the_engine_s_functions_for_other_layouts_are_known_by_their_bodies(name):
    """At every opset at which they can be written."""
    base, _, layout = name.partition("_")
    functions = [own_function(each) for each in (name, *([base] if base in FUSED_CONVOLUTIONS else []))]
    graph = Graph(functions={f.key: f for f in functions}, opset_imports={"": OPSET, "workbench": 1})
    layout = re.sub("_(OHWI|HWIO|HWOI)$", "", layout)
    block = int(re.search(r"\d+", layout)[0]) if name in BLOCKED else 0
    operator = "Conv" if base in FUSED_CONVOLUTIONS else base.removesuffix("WithIndices")
    written = 0
    for opset in (9, 13, 17, OPSET):
        try:
            model = to_proto(lowered_to(graph, opset))
        except NotWritable:
            continue
        written += 1
        kernels = layout_kernels(plain_model(model, None, "m.onnx"))
        assert kernels == {("workbench", name, ""): LayoutKernel(operator, layout, block)}
    assert written
