"""What `check` says is what it checked: names in their quotation marks, both counts, exit codes, runs."""

import subprocess
import sys

import pytest
from onnx import TensorProto, helper

from tests.certifying import certified, rewrites, small_network
from tests.commands import NHWC
from tests.conftest import ROOT
from tests.forging import (
    RELU,
    changed,
    forged,
    model_of,
    node,
    refusal,
    rewriting,
)
from workbench.checker.outcome import DoesNotHold

TO_NEG = {"remove": [node("Relu", ["x"], ["y"])], "insert": [node("Neg", ["x"], ["y"])]}


@pytest.mark.parametrize(
    "name",
    [
        "fuse: each rewrite computes the same, proved here again by z3\n- order_for_memory",
        "\x1b[8m",
        "\ud800",
        "proven minimal",
        "\u202eevil",
        "",
    ],
)
def test_names_of_steps_are_names(tmp_path, name):
    said = refusal(forged(tmp_path, RELU, RELU, {"pass": name, "rewrites": []}))
    assert said.endswith("which is not a name of a pass") and said.isprintable()


def test_names_and_sentences_stay_in_their_quotation_marks_and_lines(tmp_path):
    odd = "y' is fine\n- proven: 'z\x1b[8m\u202e"
    model = model_of(RELU)
    model.graph.node[0].output[0] = model.graph.output[0].name = odd
    step = rewriting({"remove": [node("Relu", ["x"], [odd])], "insert": []})
    assert r"removes 'y\' is fine\n- proven: \'z\x1b[8m\u202e'" in refusal(forged(tmp_path, model, model, step))
    same = {"remove": [node("Relu", ["x"], [odd])], "insert": [node("Relu", ["x"], [odd])]}
    turned = rewriting(same | {"types": {odd: [1, [3, 2]]}}, rule=f"{odd}{'long' * 1000}")
    assert "has another type or shape" in refusal(forged(tmp_path, model, model, turned))
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 3
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 2
    found = forged(tmp_path, model_of(RELU.replace("y", "q")), model, turned)
    assert refusal(found).isprintable() and len(refusal(found)) < 500


def test_certificates_have_no_field_that_nothing_reads(tmp_path):
    said = refusal(forged(tmp_path, RELU, RELU, note="all of this is proven"))
    assert said == "the certificate's content has 'note', which is not read"
    found = forged(tmp_path, RELU, RELU)
    twice = found.path.read_text().replace('"steps":', '"steps": [{"pass": "proof"}], "steps":')
    assert "has a field twice" in refusal(found.written(twice))


def test_both_counts_of_transposes_are_said(tmp_path):
    found = certified(NHWC, tmp_path, layout="optimal")
    assert "in a runtime with kernels for 'workbench.Conv_NHWC_HWIO', 'out.onnx' runs 0 Transposes" in found.proven()
    assert "any other runtime, such as ONNX Runtime, inlines these functions and runs 4 Transposes" in found.proven()


# ---- the command -------------------------------------------------------------------------------


def test_exit_codes_answer_what_is_required(run, tmp_path):
    found = certified(small_network(tmp_path / "small.onnx"), tmp_path, passes=["sum_to_add", "order_for_memory"])
    words = ("check", found.model, found.output, found.path)
    code, said, _ = run(*words)
    assert code == 0 and said.startswith("'out.onnx' computes the same as 'small.onnx': not checked")
    code, said, _ = run(*words, "--require", "log,bounds,run", "--run", "2")
    assert (
        code == 0 and " equal to the last bit on 2 random inputs in ONNX Runtime without optimizations (seed " in said
    )
    layout = certified(found.model, tmp_path, passes=["layout_optimal"], target="cuda")
    assert run("check", layout.model, layout.output, layout.path, "--require", "log,bounds")[0] == 0
    other = layout.edited(lambda content: content["bounds"][0].update(in_order=[]))
    code, said, _ = run("check", other.model, other.output, other.path, "--require", "log,bounds")
    assert code == 1 and said.splitlines()[-1].startswith("required and not met: bounds")


@pytest.mark.parametrize(
    "words", [("--require", "run"), ("--require", "luck"), ("--run", "0"), ("--run", "many"), ("more",), ("--odd",)]
)
def test_wrong_usage_is_2(tmp_path, words):
    found = forged(tmp_path, RELU, RELU)
    command = [sys.executable, "-m", "workbench.checker", found.model, found.output, found.path, *words]
    ran = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 2 and not ran.stdout and "Traceback" not in ran.stderr


@pytest.mark.parametrize("words", [("--require", "run"), ("--require", "luck"), ("--run", "0")])
def test_wrong_usage_is_2_in_the_command_line_too(refused, tmp_path, words):
    found = forged(tmp_path, RELU, RELU)
    refused("check", found.model, found.output, found.path, *words)


def test_a_model_that_is_random_is_not_compared(tmp_path):
    text = "g (float[2,3] x) => (float[2,3] y) { r = RandomNormalLike(x) y = Add(x, r) }"
    found = forged(tmp_path, text, text).check(runs=2)
    assert (
        "not compared, since the model gives different results in each run" in found.answer and "run" not in found.holds
    )


@pytest.mark.parametrize(("dims", "size"), [({}, 2), ({"N": 0}, 2), ({"N": 5}, 5)])
def test_a_run_says_its_sizes_and_none_is_empty(tmp_path, dims, size):
    text = "g (float[N,3] x) => (float[N,3] y) {{ y = {}(x) }}"
    found = forged(tmp_path, text.format("Relu"), text.format("Relu"), dims=dims).check(runs=1)
    assert "equal to the last bit on 1 random input, and 2 with NaN, infinities or the largest numbers," in found.answer
    assert f", with N={size} in ONNX Runtime" in found.answer
    with pytest.raises(DoesNotHold, match="the output's 'y' differs"):
        forged(tmp_path, text.format("Relu"), text.format("Neg"), rewriting(TO_NEG), dims=dims).check(runs=1)


def test_inputs_with_a_default_are_given_too(tmp_path):
    def give(model):
        model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]))

    text = "g (float[2,3] x) => (float[2,3] y) <float[3] w = {1, 1, 1}> { y = Mul(x, w) }"
    model, output = changed(text, give), changed(text.replace("Mul(x, w)", "Identity(x)"), give)
    edit = {"remove": [node("Mul", ["x", "w"], ["y"])], "insert": [node("Identity", ["x"], ["y"])]}
    forged(tmp_path, model, output, rewriting(edit)).check(runs=1)
    with pytest.raises(DoesNotHold, match="the output's 'y' differs"):
        forged(tmp_path, model, output, rewriting(edit)).check(runs=10)  # in a single one all of x may be zeros


def test_an_output_that_does_not_run_is_found(tmp_path):
    text = "g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }"
    odd = "g (float[2,3] x) => (float[2,3] y) { y = com.microsoft.Odd(x) }"
    insert = [node("Odd", ["x"], ["y"]) | {"domain": "com.microsoft"}]
    step = rewriting({"remove": [node("Relu", ["x"], ["y"])], "insert": insert})
    with pytest.raises(DoesNotHold, match="ONNX Runtime loads the model, but not the output"):
        forged(tmp_path, text, odd, step).check(runs=1)


def test_an_output_for_which_there_is_no_kernel_is_not_compared(tmp_path):
    words = {"passes": ["precision_greedy"], "options": {"precision_greedy.type": "bfloat16"}}
    found = certified(small_network(tmp_path / "small.onnx"), tmp_path, **words).check(runs=1)
    assert "not compared, since ONNX Runtime cannot run the output here" in found.answer and "NOT_IMPL" in found.answer
    assert "run" not in found.holds


# ---- rewrites by themselves ----------------------------------------------------------------------


def test_rewrites_are_evaluated_by_themselves(tmp_path):
    words = {"passes": ["sum_to_add", "fold_batchnorm", "layout_optimal"], "target": "cuda"}
    found = certified(small_network(tmp_path / "small.onnx"), tmp_path, **words)
    statements = found.check(runs=1).statements
    checked = "\n".join(one.sentence for one in statements if one.proven)
    count = len(rewrites(found.content))
    assert f"for {count} of {count} rewrites, the removed and the inserted nodes alone give equal results on" in checked


def test_a_rewrite_that_rests_on_its_operands_is_named(tmp_path):
    text = "g (float[2,3] x) => (float[2,3] y) {{ a = Abs(x) y = {}(a) }}"
    edit = {"remove": [node("Relu", ["a"], ["y"])], "insert": [node("Identity", ["a"], ["y"])]}
    found = forged(tmp_path, text.format("Relu"), text.format("Identity"), rewriting(edit)).check(runs=2)
    told = "\n".join(one.sentence for one in found.statements if not one.proven)
    assert "equal to the last bit on 2 random inputs" in found.answer
    assert "1 of 1 rewrites give different results alone" in told and "'rewrite 1 (fold_constants)'" in told


def test_a_rewrite_in_a_body_is_not_evaluated(tmp_path):
    text = """g (float[2,3] x, bool c) => (float[2,3] y) {{
        y = If(c) <then_branch = t () => (float[2,3] o) {{ o = {}(x) }}, else_branch = e () => (float[2,3] p) {{ p = Abs(x) }}>
    }}"""
    inner = {"remove": [node("Max", ["x"], ["o"])], "insert": [node("Identity", ["x"], ["o"])]}
    edit = {"inside": [{"node": "y", "bodies": [{"body": "then_branch", "edit": inner}]}]}
    found = forged(tmp_path, text.format("Max"), text.format("Identity"), rewriting(edit)).check(runs=2)
    assert "1 of 1 rewrites cannot be evaluated alone" in [one.sentence for one in found.statements]
