"""A strategy for layouts or element types changes nothing of what it wrote: read again and run again, the same file.

Compared is what is computed: nodes, names of values, constants, functions, inputs and outputs. A Cast that goes and
comes again may have another name, and types of values between nodes may be known better the first time, from what the
file before said.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import passes
from benchmarks.second_runs import computed
from sample_models.light import LIGHT_MODELS
from tests.conftest import CORPUS, ROOT
from tests.light_networks import light_file
from tests.slow import thorough_unless
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.interfaces import api
from workbench.ops import contracts
from workbench.pipeline.registry.pass_choice import choose
from workbench.pipeline.running import run_pipeline
from workbench.planning.layout.problem.operator_benchmark import GivenTimes
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext

SAMPLES = sorted(path for kind in ("onnx", "onnxtxt") for path in (ROOT / "sample_models").rglob(f"*.{kind}"))
STRATEGIES = [
    *(("layout", name) for name in passes.compared_strategies()),
    *(("precision", name) for name in passes.precision_strategies()),
]
NETWORKS = {"basic_pitch_nmp", "ppocr_cls_v2", "resnet50_narrow", "silero_vad"}  # which take seconds
QUICK = [path for path in SAMPLES if path.stem not in NETWORKS and path.parent.name not in ("algebra", "saturation")]
TIMES = {op: 1.0 if "_N" in op or op == "Transpose" else 100.0 for op in contracts()}
every_strategy = pytest.mark.parametrize(("kind", "strategy"), STRATEGIES)


def written(path: Path, out: Path, preset: str, kind: str, strategy: str, **options: object) -> None:
    target = "blocked" if strategy == "blocked" else "npu"
    pipeline = choose(preset=preset, **{kind: strategy}, **options)
    graph = load_model(path)
    export_onnx(run_pipeline(graph, pipeline, PassContext(load_profile(target), GivenTimes(TIMES))).graph, out)


def assert_second_run_changes_nothing(path: Path, folder: Path, *choice: str, **options: object) -> None:
    first, second = folder / "first.onnx", folder / "second.onnx"
    written(path, first, *choice, **options)
    written(first, second, *choice, **options)
    assert computed(second) == computed(first), f"{path.stem}: {' '.join(choice)}"


@pytest.mark.slow_after(1)
@every_strategy
def test_a_second_run_changes_no_small_sample(kind, strategy, tmp_path):
    for path in QUICK:
        assert_second_run_changes_nothing(path, tmp_path, "simplify", kind, strategy)


_FEW = ("squeezenet", "shufflenet", "magika_v3_3", "ppocrv4_rec")  # of light and real models


@pytest.mark.slow
@every_strategy
@pytest.mark.parametrize("preset", ["simplify", thorough_unless(False, "none"), thorough_unless(False, "normalize")])
def test_a_second_run_changes_no_sample(kind, strategy, preset, tmp_path):
    for path in SAMPLES:
        assert_second_run_changes_nothing(path, tmp_path, preset, kind, strategy)


@pytest.mark.slow
@pytest.mark.parametrize("name", [thorough_unless(name in _FEW, name) for name in LIGHT_MODELS])
@every_strategy
def test_a_second_run_changes_no_light_network(kind, strategy, name, tmp_path):
    assert_second_run_changes_nothing(light_file(name, tmp_path), tmp_path, "simplify", kind, strategy)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [thorough_unless(p.stem in _FEW, p) for p in sorted(CORPUS.glob("*.onnx")) if "unet" not in p.stem],
    ids=lambda path: path.stem,
)
@every_strategy
def test_a_second_run_changes_no_real_model(kind, strategy, path, tmp_path):
    assert_second_run_changes_nothing(path, tmp_path, "simplify", kind, strategy)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("strategy", passes.precision_strategies())
def test_nor_where_inputs_and_outputs_get_the_narrower_type(strategy, tmp_path):
    for name in ("conv_relu_conv_relu", "npu_types", "ppocr_cls_v2"):
        path = ROOT / "sample_models" / f"{name}.onnx"
        assert_second_run_changes_nothing(path, tmp_path, "simplify", "precision", strategy, io_as_computed=True)


# ---- causes ---------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    def save(text: str, opset: int = 17, **weights: np.ndarray) -> Path:
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]>\n{text}')
        model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
        onnx.save(model, tmp_path / "model.onnx")
        return tmp_path / "model.onnx"

    return save


HALVES_SWAPPED = """g (float[1,256] x, float[256,64] k) => (float[1,64] y{output}) <float[256,64] w, int64[1] a = {{0}},
    int64[1] b = {{128}}, int64[1] c = {{256}}, int64[1] axis = {{0}}> {{
    first = Slice(w, a, b, axis)
    second = Slice(w, b, c, axis)
    swapped = Concat<axis=0>(second, first)
    y = MatMul(x, swapped)
    {node}
}}"""


@pytest.mark.parametrize(
    ("output", "node", "slices"), [("", "", 0), (", float[256,64] z", "z = Mul(w, k)", 2)], ids=["gone", "read"]
)
def test_a_weight_that_is_cut_and_joined_anew_is_computed_if_it_is_gone_then(saved, output, node, slices):
    """The halves take as much as the weight beside them, and a file may grow by a tenth."""
    weight = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)
    graph = load_model(saved(HALVES_SWAPPED.format(output=output, node=node), w=weight))
    assert len(list(api.optimize(graph).graph.nodes_of(("Slice",)))) == slices


def test_a_constant_that_an_older_opset_has_as_an_attribute_is_not_shared(saved):
    path = saved(
        """g (float[1,2,1,3] x) => (float[2,3] y) <int64[1] axes = {0}> {
            s = Shape(x)  g = Gather(s, axes)  f = Cast<to=1>(g)
            a = Squeeze<axes=[0]>(x)  b = Squeeze<axes=[1]>(a)
            c = Unsqueeze<axes=[0]>(b)  d = Squeeze<axes=[0]>(c)
            y = Mul(d, f)
        }""",
        opset=11,
    )
    assert len(load_model(path).constants) == 2  # the axes 0, once, and the axes 1
    assert api.optimize(load_model(path), ["share_constants"])[1].rewrites == ()


def test_transposes_before_an_operator_that_a_strategy_converted_stay_there(saved):
    path = saved(
        """g (float[1,2,4,4] x, float[1,2,4,4] z) => (float[1,1,4,4] y) <float[1,4,1,1] w = {1, 2, 3, 4}> {
            c = Concat<axis=1>(x, z)
            y = Conv(c, w)
        }"""
    )
    laid_out = api.optimize(load_model(path), ["layout_greedy"], target="npu").graph
    export_onnx(laid_out, path)
    for graph in (laid_out, load_model(path)):
        assert [node.op for node in graph.nodes].count("Transpose") == 2
        assert api.optimize(graph, ["push_transposes"])[1].rewrites == ()
    export_onnx(laid_out, path, metadata=False)
    assert len(api.optimize(load_model(path), ["push_transposes"])[1].rewrites) == 1


def test_autocast_leaves_a_cast_of_what_is_no_float_as_it_is(saved):
    path = saved("g (bool[4] x) => (float16[4] y) { c = Cast<to=10>(x)  y = Neg(c) }")
    assert api.optimize(load_model(path), ["precision_autocast"])[1].rewrites == ()
