"""`--passes` takes the text of any pipeline: what the app, a link or a recipe says is what a command reads."""

from __future__ import annotations

import shlex

import onnx
import pytest

from tests.pages import fine, opened_sample, page
from workbench.formats.io.samples import FOLDER
from workbench.pipeline.registry.pass_choice import as_pipeline, choose
from workbench.pipeline.registry.pass_registry import library
from workbench.pipeline.registry.reading import preset, shortest_text

MODEL = FOLDER / "conv_relu_conv_relu.onnx"
NESTED = "fixpoint(fold_constants,fixpoint{rounds=2}(cancel_pairs,cancel_transposes)),dead_nodes"
QUOTED = 'fold_constants{max_bytes=64},layout_convert_layout{operators="Conv=NHWC,OHWI MaxPool=NCHW"},dead_nodes'


@pytest.mark.parametrize("text", [NESTED, QUOTED, "fold_constants, dead_nodes,", "fold_constants,dead_nodes,repeat"])
@pytest.mark.parametrize(
    "command",
    [
        ("optimize", MODEL, "-o", "OUT"),
        ("report", MODEL, "-o", "OUT.html"),
        ("explain", "dead_nodes", MODEL),
        ("groups", MODEL),
        ("memory", MODEL),
        ("streams", MODEL),
    ],
    ids=lambda words: words[0],
)
def test_every_command_reads_fixpoints_options_and_quotes(command, text, done, tmp_path):
    words = [str(tmp_path / word) if str(word).startswith("OUT") else word for word in command]
    done(*words, "--passes", text, "--target", "cuda")


@pytest.mark.parametrize(
    "command", [("optimize", MODEL, "-o", "OUT"), ("explain", "dead_nodes", MODEL), ("memory", MODEL)]
)
def test_a_text_that_cannot_be_read_is_a_sentence_that_quotes_all_of_it(command, refused):
    assert "'fixpoint(fold_constants,dead_nodes'" in refused(*command, "--passes", "fixpoint(fold_constants,dead_nodes")


@pytest.mark.parametrize("name", library.presets())
@pytest.mark.parametrize(
    "how", [{}, {"layout": "optimal"}, {"precision": "optimal"}, {"export_for": "onnxruntime"}], ids=str
)
def test_the_shortest_text_of_a_pipeline_is_read_as_that_pipeline(name, how):
    pipeline = choose(preset=name, **how)
    text = shortest_text(pipeline)
    assert choose(text) == pipeline and not text.endswith(",") and ",," not in text
    assert as_pipeline(str(preset(name))) == preset(name)


@pytest.mark.slow
def test_the_command_of_a_list_that_the_user_changed_does_the_same(done, tmp_path):
    at = page("optimize", opened_sample("resnet50_narrow"))
    at.session_state["preset"] = "simplify"
    fine(at.run())
    fine(at.checkbox(key="on_fold_batchnorm").set_value(False).run())
    words = shlex.split(at.code[0].value)
    assert words[:4] == ["python", "-m", "workbench", "optimize"] and "fixpoint(" in words[words.index("--passes") + 1]
    words[words.index("-o") + 1] = str(tmp_path / "out.onnx")
    done(*words[3:], "--no-verify")
    shown = [node.op_type for node in at.session_state["opened"].history.graph.nodes]
    assert sorted(node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node) == sorted(shown)
    assert "BatchNormalization" in shown
