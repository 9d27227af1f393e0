"""A result carries its evidence as a file, and a checker without the engine follows it."""

import json
import os
import random
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import workbench as wb
from tests.certifying import bound, certified, certified_plan, rewrites
from tests.commands import NHWC, NPU, RESNET, SAMPLES, SPEECH
from tests.conftest import CORPUS, ROOT
from tests.fuzz import fragments
from tests.random_graphs import random_graph
from tests.slow import thorough_unless
from workbench.checker.outcome import DoesNotHold
from workbench.evidence.certification.writing import NoCertificateError
from workbench.formats.io.exporting import export_onnx

MODELS = [*sorted(SAMPLES.glob("*.onnx")), *sorted(SAMPLES.glob("*/*.onnx*"))]
QUICK = {NPU.stem, "batchnorm", "undone", "bias_gelu"}
REAL = sorted(CORPUS.glob("*.onnx"))


def few(models):
    """Two real models, one of them with a free dim, in every run."""
    return [thorough_unless(path.stem in ("magika_v3_3", "ppocrv4_det"), path) for path in models]


# ---- from the model's own nodes to the output -------------------------------------------------


@pytest.mark.parametrize("preset", ["simplify", "normalize"])
@pytest.mark.parametrize(
    "model", [thorough_unless(path.stem in QUICK, path) for path in MODELS], ids=lambda path: path.stem
)
def test_the_log_gives_the_output(tmp_path, model, preset):
    found = certified(model, tmp_path, preset=preset)
    count = len(rewrites(found.content))
    assert f"the log leads from the model to 'out.onnx' (rewrites: {count:,}, passes: " in found.proven()


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["simplify", "normalize"])
@pytest.mark.parametrize("model", few(REAL), ids=lambda path: path.stem)
def test_the_log_of_a_real_model_gives_the_output(tmp_path, model, preset):
    found = certified(model, tmp_path, preset=preset, layout="optimal")
    assert re.search(r" runs [\d,]+ Transposes?, ", found.proven()) and bound(found.content)["kind"] == "transposes"


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_a_certificate_has_the_mode_and_the_edits_and_no_word_that_nobody_checks(tmp_path, mode):
    content = certified(SAMPLES / "algebra" / "undone.onnxtxt", tmp_path, preset="simplify", mode=mode).content
    assert content["mode"] == mode and rewrites(content)
    assert content.keys() == {"format", "version", "model", "output", "mode", "dims", "steps", "bounds", "digest"}
    assert all(rewrite.keys() <= {"rule", "edit"} for rewrite in rewrites(content))
    assert all(step.keys() == {"pass", "rewrites"} for step in content["steps"])


def test_bodies_are_followed(tmp_path):
    """`silero_vad` is one If, of which both branches are rewritten."""
    found = certified(SPEECH, tmp_path, passes=["fold_constants", "dead_nodes", "fold_shapes"])
    assert any(rewrite["edit"].get("inside") for rewrite in rewrites(found.content))
    found.check()


WITH_BODIES = """<ir_version: 10, opset_import: ["": 23]>
g (bool c, float[2] x) => (float[2] y) {
    n = Neg(x)
    y = If(c) <then_branch = t () => (float[2] a) { z = Identity(n) a = Relu(z) },
               else_branch = e () => (float[2] b) { two = Constant<value = float {2}>() b = Mul(n, two) }>
}"""


def test_a_rewrite_in_a_body_is_an_edit_of_the_body(tmp_path):
    model = tmp_path / "bodies.onnxtxt"
    model.write_text(WITH_BODIES)
    found = certified(model, tmp_path, preset="simplify")
    (inside,) = (told for rewrite in rewrites(found.content) for told in rewrite["edit"].get("inside", []))
    assert inside["node"] == "y" and [body["body"] for body in inside["bodies"]] == ["then_branch"]

    def change(content):
        (told,) = (told for rewrite in rewrites(content) for told in rewrite["edit"].get("inside", []))
        told["bodies"][0]["edit"]["insert"][0]["op"] = "Abs"

    with pytest.raises(DoesNotHold, match=r"of the Abs that computes 'a' there, the operator is Abs, not Relu"):
        found.edited(change).check()


RANDOM = (
    {"preset": "simplify", "mode": "fast"},
    {"preset": "simplify", "mode": "exact", "layout": "greedy", "target": "npu"},
    {"layout": "optimal"},
    {"layout": "optimal", "target": "npu"},
    {"layout": "blocked", "target": "blocked"},
    {"passes": ["fuse_minimum"], "options": {"fuse_minimum.rules": "several"}},
    {"passes": ["fuse_groups", "inline_functions"]},
    {"passes": ["order_for_memory"]},
)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [thorough_unless(len(seeds) < 10, seeds) for seeds in (range(3), range(100, 200))])
def test_certificates_of_random_graphs_hold(tmp_path, seeds):
    """With examples of rules in them, as the fuzzer grows them; by every kind of evidence."""
    there, model = fragments(), tmp_path / "model.onnx"
    for seed in seeds:
        beside = random.Random(seed).choice(there)
        wb.export(random_graph(seed, [there[seed % len(there)].example.before, beside.example.before]), model)
        for words in RANDOM:
            certified(model, tmp_path, **words).check()
        certified_plan(model, tmp_path).check()


def test_weights_beside_the_model_are_read_and_hashed(tmp_path):
    graph = wb.load(RESNET)
    model = tmp_path / "model.onnx"
    export_onnx(graph, model, external_data=True)
    found = certified(model, tmp_path, preset="simplify")
    assert set(found.content["model"]["external"]) == {"model.onnx.data"}
    found.check()
    data = bytearray((tmp_path / "model.onnx.data").read_bytes())
    data[-1] ^= 1
    (tmp_path / "model.onnx.data").write_bytes(data)
    with pytest.raises(DoesNotHold, match=r"the weights in 'model\.onnx\.data' are not those"):
        found.check()


def test_every_way_to_store_a_constant_is_the_same_constant(tmp_path):
    """In typed fields and as bytes, in initializers and in Constant nodes, of all element types that numpy has."""
    arrays = {
        **{kind: np.arange(-3, 3).astype(kind) for kind in ("int8", "int16", "int32", "int64", "float16", "float32")},
        **{kind: np.arange(6).astype(kind) for kind in ("uint8", "uint16", "uint32", "uint64", "float64", "bool")},
        "complex64": np.array([1 + 2j, 3], np.complex64),
    }
    nodes, initializers, outputs = [], [], []
    for name, array in arrays.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        values = array.tolist()
        nodes.append(helper.make_node("Constant", [], [f"{name}_n"], value=numpy_helper.from_array(array)))
        initializers.append(helper.make_tensor(f"{name}_t", kind, array.shape, values))
        nodes += [helper.make_node("Identity", [f"{name}_{way}"], [f"{name}_{way}_out"]) for way in "nt"]
        outputs += [helper.make_tensor_value_info(f"{name}_{way}_out", kind, array.shape) for way in "nt"]
    texts = helper.make_tensor("text", TensorProto.STRING, [2], [b"a", b"bc"])
    nodes.append(helper.make_node("Constant", [], ["texts"], value=texts))
    nodes.append(helper.make_node("Identity", ["texts"], ["texts_out"]))
    outputs.append(helper.make_tensor_value_info("texts_out", TensorProto.STRING, [2]))
    for name, told in {"value_int": 3, "value_floats": [0.5, 1.5], "value_string": "a"}.items():
        nodes.append(helper.make_node("Constant", [], [name], **{name: told}))
        nodes.append(helper.make_node("Identity", [name], [f"{name}_out"]))
        kind = {"value_int": 7, "value_floats": 1, "value_string": 8}[name]
        outputs.append(helper.make_tensor_value_info(f"{name}_out", kind, [2] if name == "value_floats" else []))
    graph = helper.make_graph(nodes, "g", [], outputs, initializers)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    found = certified(path, tmp_path, passes=["dead_nodes"])
    found.check()
    found = certified(path, tmp_path, passes=["share_constants"])
    assert len(rewrites(found.content)) >= len(arrays)
    found.check()


def test_inputs_and_outputs_in_another_layout_are_in_the_log(tmp_path):
    found = certified(RESNET, tmp_path, layout="optimal", relayout_inputs=True, preset="normalize")
    told = [rewrite["edit"].get("types", {}) for rewrite in rewrites(found.content)]
    assert {"gpu_0/data_0": [1, [1, 224, 224, 3]]} in told
    found.check()


# ---- bounds ----------------------------------------------------------------------------------------

LAYOUTS = (
    ("optimal", "cuda", "bytes"),
    ("optimal", "cuda", "count"),
    ("optimal", "npu", "bytes"),
    ("optimal", "nchw", "count"),
    ("blocked", "blocked", "bytes"),
    ("blocked", "cuda", "bytes"),
)
STEPS = (
    *("fuse_minimum", "fuse_minimum{rules=wider}", "fuse_minimum{rules=several}"),
    *("precision_optimal", "precision_optimal{type=bfloat16,weigh=count}", "precision_optimal{io=as-computed}"),
    "precision_optimal_with_layout",
)
PROVEN = (NHWC, RESNET, SAMPLES / "ppocr_cls_v2.onnx", NPU, SAMPLES / "npu_types.onnx", SAMPLES / "two_orders.onnx")


def holds_bounds(found):
    return "bounds" in found.check().holds


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "model", [thorough_unless(path in (NHWC, RESNET), path) for path in PROVEN], ids=lambda path: path.stem
)
@pytest.mark.parametrize(("strategy", "target", "weigh"), LAYOUTS)
def test_a_layout_of_a_strategy_with_a_proof_is_proven(tmp_path, model, strategy, target, weigh):
    option = f"layout_{strategy.replace('-', '_')}.weigh"
    found = certified(model, tmp_path, layout=strategy, target=target, options={option: weigh})
    assert bound(found.content)["weigh"] == weigh and holds_bounds(found), found.told()


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "model", [thorough_unless(path in (NHWC, RESNET), path) for path in PROVEN], ids=lambda path: path.stem
)
@pytest.mark.parametrize("step", STEPS)
def test_groups_and_types_of_a_step_with_a_proof_are_proven(tmp_path, model, step):
    found = certified(model, tmp_path, passes=[step])
    assert holds_bounds(found), found.told()


@pytest.mark.slow
@pytest.mark.parametrize(
    "stem",
    ["bert_12l_raw", *(thorough_unless(False, name) for name in ("ddddocr_det_yolox", "ppocrv4_det", "unet_sd15_raw"))],
)
def test_layouts_and_types_of_real_models_are_proven(tmp_path, stem):
    model = next((path for path in REAL if path.stem == stem), None)
    if model is None:
        pytest.skip(f"NOT TESTED: {stem} is not in the corpus beside the repository")
    for words in ({"layout": "optimal"}, {"passes": ["precision_optimal"]}):
        found = certified(model, tmp_path, **words)
        assert holds_bounds(found), found.told()


@pytest.mark.slow
def test_a_strategy_that_is_no_minimum_is_not_proven_to_be_one(tmp_path):
    """`basic_pitch_nmp` needs no Transpose at all if its Tensors run in another order too, as `optimal` finds."""
    model = SAMPLES / "basic_pitch_nmp.onnx"
    found = certified(model, tmp_path, layout="blocked", target="cuda")
    assert not holds_bounds(found) and "proven is only that no alternative moves less than 0 bytes" in found.told()
    assert holds_bounds(certified(model, tmp_path, layout="optimal"))


def test_the_last_of_two_layouts_is_asked_for(tmp_path):
    passes = ["layout_optimal", "layout_optimal{weigh=count}"]
    assert bound(certified(NHWC, tmp_path, passes=passes, target="cuda").content)["weigh"] == "count"


def test_a_step_after_the_proof_is_seen(tmp_path):
    """The proof is of the file, whatever came after the step that minimized."""
    passes = ["layout_optimal", "layout_record_then_insert"]
    found = certified(RESNET, tmp_path, passes=passes, target="nchw")
    assert holds_bounds(found)


def test_an_order_is_proven_where_one_operator_needs_as_much(tmp_path):
    found = certified(NHWC, tmp_path, passes=["order_for_memory"])
    assert "values take 802,816 bytes at most" in found.proven() and "in any order" in found.proven()


def test_an_order_is_else_not_proven(tmp_path):
    found = certified(RESNET, tmp_path, passes=["order_for_memory"])
    assert "in the order of 'out.onnx' its 175 computed values take 903,168 bytes at most" in found.proven()
    assert "that no order takes less; proven is only that one operator alone needs" in found.told()


@pytest.mark.parametrize(("outputs", "io", "size"), [("", "float32", 72), (", float[2,2] x", "as-computed", 48)])
def test_casts_of_inputs_with_a_default_and_of_inputs_that_are_outputs_count(tmp_path, outputs, io, size):
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2,2] x, float[2,2] w) => (float[2,2] y{outputs}) <float[2,2] w = {{1, 2, 3, 4}}> {{
            y = MatMul(x, w)
        }}""")
    onnx.save(model, tmp_path / "model.onnx")
    found = certified(tmp_path / "model.onnx", tmp_path, passes=[f"precision_optimal{{io={io}}}"])
    assert f"Casts, which read and write {size} bytes" in found.proven() and holds_bounds(found), found.told()


def test_a_pass_that_minimizes_nothing_asks_nothing(tmp_path):
    assert certified(NHWC, tmp_path, passes=["fuse_groups", "layout_greedy"]).content["bounds"] == []


@pytest.mark.parametrize("model", [RESNET, *sorted((SAMPLES / "memory").glob("*.onnx"))], ids=lambda path: path.stem)
def test_a_plan_of_memory_is_proven_by_what_is_in_use_at_one_step(tmp_path, model):
    found = certified_plan(model, tmp_path)
    assert "no two of them share bytes while in use" in found.proven() and holds_bounds(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", few([path for path in REAL if path.stem != "ppocrv4_rec"]), ids=lambda path: path.stem
)
def test_a_plan_of_a_real_model_is_checked(tmp_path, model):
    assert "no two of them share bytes while in use" in certified_plan(model, tmp_path).proven()


def test_a_plan_for_another_order_than_that_of_the_file_has_no_certificate(tmp_path, refused):
    model = SAMPLES / "memory" / "branches.onnx"
    said = refused("memory", model, "--order", "depth_first", "--certificate", tmp_path / "c.json")
    assert "this one is for 'depth_first'; write the file in another order first" in said


# ---- the commands --------------------------------------------------------------------------------


def test_optimize_writes_it_and_check_says_what_is_checked(done, tmp_path):
    out, path = tmp_path / "o.onnx", tmp_path / "c.json"
    words = ("--layout", "optimal", "--target", "cuda", "--no-verify", "--certificate", path)
    assert f"check {RESNET} {out} {path}" in done("optimize", RESNET, "-o", out, *words)
    said = done("check", RESNET, out, path)
    checked, _, word = said.partition("claimed, not checked:\n")
    answer, _, proven = checked.partition("\nchecked:\n")
    assert answer.startswith("'o.onnx' computes the same as 'resnet50_narrow.onnx': not checked")
    assert (
        proven.startswith("- 'resnet50_narrow.onnx' is the model")
        and "- proven: no alternative moves less than" in proven
    )
    assert "- loading: opset 9 to 23; nodes taken out: 1 Softmax; nodes put in: 1 Softmax" in word
    assert "- that each rewrite computes the same" in word


def test_memory_writes_it_too(done, tmp_path, refused):
    model, path = SAMPLES / "memory" / "colouring.onnx", tmp_path / "c.json"
    done("memory", model, "--certificate", path)
    said = done("check", model, model, path)
    assert "in the order of 'colouring.onnx', 5 of the 5 values that it computes lie in an arena of 9,216 bytes" in said
    sentence = refused("memory", model, "--passes", "dead_nodes", "--certificate", path)
    assert "leave out --passes" in sentence


def test_what_does_not_hold_is_exit_code_1_and_what_is_no_certificate_2(run, done, tmp_path):
    out, path = tmp_path / "o.onnx", tmp_path / "c.json"
    done("optimize", NHWC, "-o", out, "--no-verify", "--certificate", path)
    code, said, _ = run("check", NPU, out, path)
    assert code == 1 and said.startswith("does not hold: 'npu_path.onnx' is not the model of the certificate")
    path.write_text("{}")
    code, _, err = run("check", NHWC, out, path)
    assert code == 2 and "it is not a certificate of Graph Workbench" in err


def test_where_verification_fails_there_is_none(run, tmp_path):
    words = ("--layout", "wrong-on-purpose", "--target", "npu", "--certificate", tmp_path / "c.json")
    words += ("--on-failure", "stop")
    code, _, _ = run("optimize", SAMPLES / "npu_reshape_add.onnx", "-o", tmp_path / "o.onnx", *words)
    assert code == 1 and not (tmp_path / "c.json").exists()


def test_a_torch_program_has_none(refused, tmp_path):
    words = ("-o", tmp_path / "o.onnx", "--certificate", tmp_path / "c.json")
    sentence = refused("optimize", "--torch", "tests.torch_bert:bert", *words)
    assert "export it as .onnx first" in sentence


def test_a_failed_history_is_refused_by_the_library(tmp_path):
    from workbench.evidence.verification.verifier import Verifier

    graph = wb.load(SAMPLES / "npu_reshape_add.onnx")
    with Verifier(graph) as verifier:
        words = {"layout": "wrong-on-purpose", "target": "npu", "verify": "end", "on_failure": "stop"}
        history = wb.optimize(graph, **words, verifier=verifier)
    with pytest.raises(NoCertificateError, match="verification failed at layout_wrong_on_purpose"):
        wb.certificate(history, graph.source, graph.source, tmp_path / "c.json")


def test_without_a_certificate_nothing_of_it_is_imported(tmp_path):
    code = (
        "import sys; from workbench.__main__ import main; "
        f"main(['optimize', {str(NHWC)!r}, '-o', {str(tmp_path / 'o.onnx')!r}, '--no-verify']); "
        "print([name for name in sys.modules if name.startswith(('workbench.evidence.certification', 'workbench.checker'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_the_checker_alone_loads_nothing_of_the_engine(tmp_path, run):
    """`python -m workbench.checker` says the same, with no module of ours but its own."""
    found = certified(NHWC, tmp_path, layout="optimal")
    words = [str(NHWC), str(found.output), str(found.path)]
    command = [sys.executable, "-X", "importtime", "-m", "workbench.checker", *words]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == run("check", *words)[1]
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    ours = {name for name in loaded if name.startswith(("workbench", "passes")) and "checker" not in name}
    assert "workbench.checker.replay" in loaded and ours <= {"workbench"}  # whose verbs are imported at first use


def test_it_is_json_that_any_reader_reads(tmp_path):
    def refuse(word):
        raise AssertionError(word)

    found = certified(RESNET, tmp_path, preset="simplify")
    content = json.loads(found.path.read_text(), parse_constant=refuse)
    assert content["format"] == "graph-workbench certificate" and content["version"] == 3
    assert bound(certified(NHWC, tmp_path, layout="optimal").content)["kind"] == "transposes"


@pytest.mark.slow
@pytest.mark.parametrize("sample", ["ppocr_cls_v2", "silero_vad"])
def test_each_process_writes_the_same_bytes(sample, tmp_path):
    """Whatever the order of its sets, which Python draws anew at each start."""
    written = []
    for seed in ("1", "2"):
        model, evidence = tmp_path / f"{seed}.onnx", tmp_path / f"{seed}.json"
        words = [sys.executable, "-m", "workbench", "optimize", SAMPLES / f"{sample}.onnx", "-o", model]
        words += ["--layout", "optimal", "--target", "cuda", "--no-verify", "--certificate", evidence]
        subprocess.run(words, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True)
        written.append((model.read_bytes(), evidence.read_bytes()))
    assert written[0] == written[1]
