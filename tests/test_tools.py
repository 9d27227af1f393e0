"""Optimizers of others as passes: what they changed as rewrites, failures as sentences, the user's own tools."""

import re
import textwrap

import numpy as np
import pytest

import passes
import workbench as wb
from tests.conftest import CORPUS, ROOT
from tests.running import outputs, plays_both_ways, random_inputs, typed
from tests.slow import thorough_unless
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.api import optimize
from workbench.interfaces.cli.exit_codes import BAD_INPUT, DONE, FAILED
from workbench.ir import from_text, graph_text
from workbench.pipeline.registry.contexts import pass_context
from workbench.rewrite import Exactness, run_pass
from workbench.rewrite.external.difference import difference
from workbench.rewrite.external.tool_call import ToolError
from workbench.rewrite.external.tool_pass import ToolPass

TOOLS = {name: cls for name, cls in passes.all_passes().items() if issubclass(cls, ToolPass)}
OPTIMIZERS = [name for name, cls in TOOLS.items() if cls.exactness is Exactness.ROUNDING]
RELU = "g (float[2,3] x) => (float[2,3] y) { a = Exp(x)  b = Neg(a)  y = Relu(b) }"


def optimized(graph, name, **words):
    """The tool's step."""
    return optimize(graph, [name], **words)[1]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder of own tools: writes a file there."""
    folder = tmp_path / "own tools"
    folder.mkdir()
    monkeypatch.setenv("WORKBENCH_TOOLS", str(folder))

    def write(name, text):
        (folder / name).write_text(textwrap.dedent(text))
        return folder / name

    return write


def statement(words):
    """A tool in Python that does this with the model."""
    return f"import os, time, onnx\n\ndef optimize(model):\n    {words}\n    return model\n"


# ---- each tool ----------------------------------------------------------------------


def without_names(graph):
    """The text without node names, and without attributes that have their default."""
    return re.sub(r"\[(\w+|\"[^\"]*\")\] ", "", " ".join(graph_text(graph).split()))


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", TOOLS)
def test_example(name):
    cls = TOOLS[name]
    if cls.missing():
        pytest.skip(cls.missing())
    for example in cls.extra_examples:
        graph = typed(example.before)
        step = run_pass(cls(), graph, pass_context("npu"), check_each=True)
        assert tuple(rewrite.sentence for rewrite in step.rewrites) == example.sentences, step.conclusion
        assert without_names(graph) == without_names(from_text(example.after))
        assert step.facts.version in step.conclusion and step.facts.peak_bytes > 10**7 and not step.facts.failed
        plays_both_ways(graph, step.rewrites, example.before)


def test_every_tool_that_the_project_names_is_a_pass():
    assert set(OPTIMIZERS) == {"onnxsim", "onnxslim", "onnxscript_optimizer", "onnxoptimizer", "ort_optimizer"}
    to_16_bits = {"ort_float16", "onnxconverter_float16", "modelopt_autocast"}
    quantizers = {"ort_quantize_dynamic", "ort_quantize_static", "modelopt_quantize"}
    assert set(TOOLS) == {*OPTIMIZERS, *to_16_bits, *quantizers}


@pytest.mark.slow
@pytest.mark.parametrize("name", [thorough_unless(name == "onnxslim", name) for name in OPTIMIZERS])
@pytest.mark.parametrize(
    "model", ["ppocr_cls_v2", *(thorough_unless(False, n) for n in ("resnet50_narrow", "silero_vad"))]
)
def test_every_moment_of_a_real_model_computes_the_same(model, name):
    """Each change of a tool stands for itself: any moment between two of them can be run."""
    graph = wb.load(ROOT / "sample_models" / f"{model}.onnx")
    with Verifier(graph) as verifier:
        history = optimize(graph, [name], verifier=verifier, verify="end")
        step = history[1]
        assert step.verdict.ok and step.rewrites and not step.facts.failed
        assert step.facts.uncompared in (
            "",
            step.facts.uncompared * ("does not run what the tool wrote" in step.conclusion),
        )
        for count in {1, len(step.rewrites) // 3, len(step.rewrites) // 2}:
            assert verifier.check(history.at(1, count)).ok


CORPUS_MODELS = sorted(CORPUS.glob("*.onnx")) if CORPUS.is_dir() else []


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        thorough_unless(p.stem in ("magika_v3_3", "ppocrv4_det", "ppocrv4_rec"), p)
        for p in CORPUS_MODELS
        if "unet" not in p.stem
    ],
    ids=lambda path: path.stem,
)
def test_real_models_are_equal_or_the_change_that_is_wrong_is_named(path):
    """By one tool in turn; benchmarks/compared.py has all on each."""
    name = ("onnxsim", "onnxslim", "ort_optimizer")[CORPUS_MODELS.index(path) % 3]
    graph = wb.load(path)
    with Verifier(graph) as verifier:
        history = optimize(graph, [name], verifier=verifier, verify="end")
    step = history[1]
    assert (not step.facts.failed and step.verdict.ok in (True, None)) or step.broken_by is not None


@pytest.mark.slow
def test_batch_norms_are_merged_one_by_one_though_names_mean_other_values():
    """onnxsim gives the convolution's old name to the batch-normed result."""
    if TOOLS["onnxsim"].missing():
        pytest.skip(TOOLS["onnxsim"].missing())
    step = optimized(wb.load(ROOT / "sample_models" / "resnet50_narrow.onnx"), "onnxsim")
    assert len(step.rewrites) == 53
    assert all(
        re.fullmatch(r"Conv '\S+' and BatchNormalization '\S+' become Conv '\S+'; 1 node fewer", r.sentence)
        for r in step.rewrites
    )
    assert len(step.facts.other_values) == 53
    assert "these names stand for other numbers in its result: 'r0', " in step.conclusion


def test_an_optimizer_of_onnx_runtime_is_switched_off():
    step = optimized(typed(TOOLS["ort_optimizer"].extra_examples[0].before), "ort_optimizer")
    assert step.rewrites
    off = {"ort_optimizer.without": "TransposeOptimizer"}
    assert not optimized(typed(TOOLS["ort_optimizer"].extra_examples[0].before), "ort_optimizer", options=off).rewrites


@pytest.mark.slow
def test_tools_stand_in_any_place_of_a_pipeline():
    graph = wb.load(ROOT / "sample_models" / "resnet50_narrow.onnx")
    with Verifier(graph) as verifier:
        names = ["ort_optimizer", "fold_batchnorm", "layout_greedy", "onnxscript_optimizer", "dead_nodes"]
        history = optimize(graph, names, verifier=verifier)
    assert [step.pass_name for step in history.steps[1:]] == names
    assert all(step.verdict.ok for step in history.steps[1:])


def test_a_converter_to_float16_keeps_what_its_patterns_name():
    """A part that exchanges values in float16 is one rewrite."""
    graph = typed("g (float[2,3] x) => (float[2,3] y) { a = Exp(x)  b = Neg(a)  c = Abs(b)  y = Sqrt(c) }")
    with Verifier(graph) as verifier:
        step = optimized(graph, "ort_float16", verifier=verifier, options={"ort_float16.keep": "Neg*"})
    assert [rewrite.sentence for rewrite in step.rewrites] == [
        "Exp 'Exp_a', Abs 'Abs_c' and Sqrt 'Sqrt_y' run in float16; 4 nodes more"
    ]
    assert step.verdict.ok and not step.facts.other_values


def test_in_exact_mode_no_tool_runs():
    assert optimized(typed(RELU), "ort_optimizer", mode="exact").facts is None


# ---- failures ------------------------------------------------------------------------

FAILURES = {
    "raises": ("raise KeyError('no such thing')", "it ended with KeyError: 'no such thing'"),
    "crashes": ("os.abort()", "The run crashed (SIGABRT)"),
    "is killed": ("os.kill(os.getpid(), 9)", "The run was killed from outside (signal 9)"),
    "exits": ("os._exit(3)", "The run's process ended with code 3"),
    "hangs": ("time.sleep(60)", "The run took more than its limit of 2 s and was stopped"),
    "eats memory": ("held = bytearray(2**30); time.sleep(60)", "of memory, more than its limit of 0.5 GB"),
    "returns nothing": ("model = None", "it ended with AttributeError"),
    "returns no model": ("model.graph.node[0].op_type = ''", "its result cannot be run: operator '' of node 'Exp_a'"),
    "loses an output": ("del model.graph.output[:]; del model.graph.node[:]", "the file contains no graph"),
    "renames the output": (
        "model.graph.node[-1].output[0] = 'z'; model.graph.output[0].name = 'z'",
        "its result has the outputs 'z', not 'y'",
    ),
    "adds an input": (
        "model.graph.input.append(onnx.helper.make_tensor_value_info('w', 1, [1]))",
        "its result has inputs that the model does not have: 'w'",
    ),
    "makes a cycle": ("model.graph.node[0].input[0] = 'b'", "has a cycle"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", [thorough_unless(case in ("raises", "crashes", "hangs"), case) for case in FAILURES])
def test_a_failure_is_a_sentence_and_the_pipeline_goes_on(case, own):
    words, sentence = FAILURES[case]
    own("hostile.py", statement(words))
    limits = {"hostile.seconds": 2 if case == "hangs" else 20, "hostile.megabytes": 500}
    history = optimize(
        typed(RELU.replace("b = Neg(a)", "c = Identity(a)  b = Neg(c)")), ["hostile", "remove_noops"], options=limits
    )
    step = history[1]
    assert not step.rewrites and step.facts.failed
    assert step.conclusion.startswith("failed, and the step changes nothing: ")
    assert sentence in step.conclusion
    assert "\n" not in step.conclusion
    assert history[2].rewrites, "what comes after it runs"


def test_a_tool_that_is_not_installed_is_said(monkeypatch):
    cls = TOOLS["onnxsim"]
    monkeypatch.setattr(cls, "packages", ("no_such_package",))
    assert "Not available: no_such_package is not installed; pip install no_such_package." in cls.summary()
    step = optimized(typed(RELU), "onnxsim")
    assert step.conclusion == (
        "failed, and the step changes nothing: no_such_package is not installed; pip install no_such_package"
    )


def test_a_tool_can_be_cancelled(own):
    own("slow.py", statement("time.sleep(60)"))

    class Stop(BaseException):  # as the app's
        pass

    def stop(words, share):
        assert words == "slow runs"
        raise Stop

    with pytest.raises(Stop):
        run_pass(passes.find_pass("slow")(), typed(RELU), pass_context("npu", on_progress=stop))


# ---- wrong results --------------------------------------------------------------------


@pytest.mark.slow
def test_a_wrong_change_is_found_left_out_and_the_others_stay(own, tmp_path, run):
    own("wrong.py", statement("model.graph.node[0].op_type = 'Sin'; model.graph.node[2].op_type = 'Abs'"))
    model = tmp_path / "m.onnx"
    wb.export(typed(RELU.replace("Relu", "Softplus")), model)
    code, out, _ = run("optimize", model, "--passes", "wrong", "-o", tmp_path / "o.onnx")
    assert code == FAILED
    assert "wrong: rewrite 1 of 2 broke it: Exp 'Exp_a' becomes Sin 'Exp_a'" in out, out
    assert not (tmp_path / "o.onnx").exists()
    code, out, _ = run(
        "optimize", model, "--passes", "wrong,dead_nodes", "--on-failure", "skip", "-o", tmp_path / "o.onnx"
    )
    assert code == DONE
    assert out.count("left out of wrong: ") == 2


def test_an_output_is_compared_whatever_name_has_its_numbers(own):
    own("swaps.py", statement("model.graph.node[1].op_type = 'Abs'"))
    graph = typed(RELU)
    with Verifier(graph) as verifier:
        step = optimized(graph, "swaps", verifier=verifier)
    assert step.verdict.ok is False and step.broken_by == 0


# ---- the difference of two graphs -------------------------------------------------------


def changes(before, after, same=None):
    before, after = typed(before), typed(after)
    found = difference(before, after, same)
    inputs = random_inputs(before)
    expected = outputs(after, inputs)
    for change in found.changes:
        before.apply(change.edit)
    given = outputs(before, inputs)
    assert all(np.array_equal(expected[name], given[name]) for name in expected)
    return found


def test_two_changes_apart_are_two_and_what_is_between_stays():
    before = "g (float[4] x) => (float[4] y) { a = Exp(x)  b = Neg(a)  c = Abs(b)  y = Sqrt(c) }"
    after = "g (float[4] x) => (float[4] y) { a = Sin(x)  b = Neg(a)  c = Abs(b)  d = Abs(c)  y = Sqrt(d) }"
    found = changes(before, after)
    assert [[node.op for node in change.removed] for change in found.changes] == [["Exp"], ["Sqrt"]]
    assert [[node.op for node in change.inserted] for change in found.changes] == [["Sin"], ["Abs", "Sqrt"]]


def test_a_name_that_means_another_value_is_no_match():
    before = "g (float[4] x) => (float[4] y) { a = Exp(x)  b = Sin(a)  y = Abs(b) }"
    after = "g (float[4] x) => (float[4] y) { b = Exp(x)  a = Sin(b)  y = Abs(a) }"
    assert len(changes(before, after).changes) == 3
    by_numbers = changes(before, after, {"b": "a", "a": "b", "y": "y"})
    assert not by_numbers.changes and by_numbers.other_values == ("a", "b")


def test_changes_that_would_make_a_cycle_wait_for_each_other():
    before = "g (float[4] x) => (float[4] y) { v = Exp(x)  w = Neg(v)  y = Add(v, w) }"
    after = "g (float[4] x) => (float[4] y) { w = Sin(x)  v = Abs(w)  y = Add(v, w) }"
    assert len(changes(before, after).changes) == 2


def test_constants_are_matched_by_their_elements():
    before = (
        "g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {1, 2}> { c = Add(x, a)  y = Mul(c, b) }"
    )
    after = "g (float[2] x) => (float[2] y) <float[2] z = {1, 2}> { c = Add(x, z)  y = Mul(c, z) }"
    assert not changes(before, after).changes
    other = "g (float[2] x) => (float[2] y) <float[2] a = {1, 3}, float[2] b = {1, 2}> { c = Add(x, a)  y = Mul(c, b) }"
    assert [change.removed[0].op for change in changes(before, other).changes] == ["Add"]


def test_a_body_is_compared_by_what_it_says():
    branch = "t () => (float[2] r) {{ r = {op}(x) }}"
    text = "g (bool c, float[2] x) => (float[2] y) {{ y = If(c) <then_branch = {0}, else_branch = {1}> }}"
    graph = typed(text.format(branch.format(op="Exp"), "e () => (float[2] s) { s = Neg(x) }"))
    assert not difference(graph, graph.copy(), None).changes
    other = typed(text.format(branch.format(op="Sin"), "e () => (float[2] s) { s = Neg(x) }"))
    assert len(difference(graph, other, None).changes) == 1
    sizes = [
        typed(text.format(f"t () => (float[{n}] r) {{ r = Exp(x) }}", "e () => (float[2] s) { s = Neg(x) }"))
        for n in "ab"
    ]
    assert not difference(*sizes, None).changes, "a name of a size is made up by whoever infers shapes"


def test_another_interface_is_refused():
    with pytest.raises(ToolError, match="its result has the outputs 'z', not 'y'"):
        difference(
            typed("g (float x) => (float y) { y = Neg(x) }"), typed("g (float x) => (float z) { z = Neg(x) }"), None
        )


def test_another_type_of_an_output_is_refused():
    with pytest.raises(ToolError, match=r"its result gives 'y' as float16\[], not float\[]"):
        difference(
            typed("g (float x) => (float y) { y = Neg(x) }"),
            typed("g (float x) => (float16 y) { y = Cast<to=10>(x) }"),
            None,
        )


# ---- the user's own ----------------------------------------------------------------------


def test_a_command_is_a_pass(own, tmp_path, done):
    own("copies.toml", 'title = "Copies"\ncommand = "cp {input} {output}"')
    assert "copies" in done("passes") and "Copies" in done("passes")
    step = optimized(typed(RELU), "copies")
    assert not step.rewrites and not step.facts.failed
    assert step.conclusion.endswith(" MB of memory")


def test_a_function_is_a_pass_with_its_docstring_as_words(own, done):
    own("halve.py", '"""Halves everything.\n\nMore."""\n' + statement("pass"))
    assert passes.find_pass("halve").summary() == "Halves everything."
    assert "Halves everything." in done("explain", "halve")


BROKEN = {
    "no.toml": ("command = 'cp {input}'", "its command must have {input} and {output}"),
    "no_keys.toml": ("command = 'cp {input} {output}'\nlevel = 'x'", "'level' is not one of title, command, about"),
    "not.toml": ("command = ", "it is not TOML"),
    "number.toml": ("title = 1", "its values must be text"),
    "no.py": ("x = 1", "it has no function `optimize(model)`"),
    "syntax.py": ("def optimize(:", "line 1 is not Python"),
    "Big-Name.py": ("def optimize(model): return model", "the file's name must be small letters"),
    "onnxsim.py": ("def optimize(model): return model", "there is another pass 'onnxsim'; rename the file"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_no_tool_is_named_with_the_reason(name, own, run):
    text, reason = BROKEN[name]
    file = own(name, text)
    (said,) = (fault for fault in passes.broken().values() if str(file) in fault)
    assert reason in said
    assert set(TOOLS) <= set(passes.all_passes())


def test_a_command_that_fails_says_what_it_said(own, run, tmp_path):
    own("fails.toml", "command = \"sh -c 'echo no such model >&2; exit 4' {input} {output}\"")
    assert (
        "the command ended with code 4; its last line was: no such model" in optimized(typed(RELU), "fails").conclusion
    )
    own("absent.toml", "command = 'no-such-program {input} {output}'")
    assert (
        "'no-such-program' cannot be started: No such file or directory" in optimized(typed(RELU), "absent").conclusion
    )
    code, _, err = run("optimize", tmp_path / "x.onnx", "--passes", "no_tool", "-o", tmp_path / "y.onnx")
    assert code == BAD_INPUT and err


def test_options_are_limits_and_are_checked(refused, tmp_path):
    wb.export(typed(RELU), tmp_path / "m.onnx")
    said = refused(
        "optimize",
        tmp_path / "m.onnx",
        "--passes",
        "onnxslim",
        "--option",
        "onnxslim.seconds=0",
        "-o",
        tmp_path / "o.onnx",
    )
    assert "option onnxslim.seconds must be at least 1" in said
