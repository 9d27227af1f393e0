"""What is known of a value follows from the inputs: what a file declares of it, or ONNX's inference promises of the
elements of a sequence, is no ground for a rewrite and does not leave in a file."""

import numpy as np
import onnx
import onnxruntime
import pytest

import workbench as wb
from tests.loading import saved
from workbench.evidence.verification.verifier import Verifier

SQUEEZES = {
    "in value_info": """g (float[N,3,4] x) => (float[3,N,4] y) <float[3,N,4] s> {
        t = Transpose<perm=[1,0,2]>(x)  s = Squeeze(t)  y = Relu(s)
    }""",
    "as an output": "g (float[N,3,4] x) => (float[N,3,4] y) { r = Relu(x)  y = Squeeze(r) }",
    "as an output that is read": """g (float[N,3,4] x) => (float[N,3,4] s, float[N,3,4] y) {
        s = Squeeze(x)  y = Relu(s)
    }""",
    "of a body's input": """g (float[1,3] x, int64 n, bool c) => (float[3] y) {
        y = Loop(n, c, x) <body = b (int64 i, bool k, float[3,3] a) => (bool k2, float[3] z) {
            k2 = Identity(k)  z = Squeeze(a)
        }>
    }""",
    "of an If": """g (float[N,3] x, bool c) => (float[N,3] y) <float[N,3] s> {
        s = If(c) <then_branch = t () => (float[N,3] a) { a = Squeeze(x) },
                   else_branch = e () => (float[N,3] b) { b = Squeeze(x) }>
        y = Squeeze(s)
    }""",
}


def outputs(path, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options).run(None, inputs)


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("text", SQUEEZES.values(), ids=SQUEEZES)
def test_a_declared_shape_is_no_ground_for_a_rewrite(tmp_path, text, mode):
    """A Squeeze without axes removes the axis of N where N is 1, whatever the file says of its result."""
    path = saved(tmp_path, text)
    graph = wb.load(path)
    history = wb.optimize(graph, preset="simplify", mode=mode)
    wb.export(history.graph, tmp_path / "out.onnx")
    for size in (1, 2):
        inputs = {name: np.ones([size if isinstance(d, str) else d for d in graph.shape(name)], kind) for name, kind in
                  ((name, graph.tensor_type(name).dtype.numpy()) for name in graph.inputs)}  # fmt: skip
        for before, after in zip(outputs(path, inputs), outputs(tmp_path / "out.onnx", inputs), strict=True):
            np.testing.assert_array_equal(before, after)


def test_what_a_file_declares_of_its_outputs_is_written_again(tmp_path):
    """A number that follows is written; else the file's own word stays: callers read it."""
    graph = wb.load(saved(tmp_path, "g (float[N,4] x, int64[2] s) => (float[rows,8] y) { y = Reshape(x, s) }"))
    assert graph.shape("y") != ("rows", 8)
    wb.export(graph, tmp_path / "out.onnx")
    dims = onnx.load(tmp_path / "out.onnx").graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["rows", 8]


SEQUENCES = {
    "sizes subtracted": """g (float[2,8] x, int64[2] sizes, int64 i, int64 j) => (int64[1] n) {
        s = SplitToSequence<axis=1>(x, sizes)
        p = SequenceAt(s, i)
        q = SequenceAt(s, j)
        hp = Shape<start=1, end=2>(p)
        hq = Shape<start=1, end=2>(q)
        n = Sub(hp, hq)
    }""",
    "one shape for another": """g (float[2,8] x, int64[2] sizes, int64 i, int64 j) => (float[A,B] y) {
        s = SplitToSequence<axis=1>(x, sizes)
        p = SequenceAt(s, i)
        q = SequenceAt(s, j)
        h = Shape(q)
        z = ConstantOfShape(h)
        w = Shape(p)
        v = ConstantOfShape(w)
        y = Concat<axis=1>(z, v)
    }""",
    "an expansion": """g (float[2,8] x, int64[2] sizes, int64 i, int64 j) => (float[A,B] y) {
        s = SplitToSequence<axis=1>(x, sizes)
        p = SequenceAt(s, i)
        q = SequenceAt(s, j)
        h = Shape(p)
        r = Reshape(p, h)
        k = Shape(q)
        y = Reshape(q, k)
        z = Concat<axis=1>(r, y)
    }""",
    "inside a body": """g (float[2,8] x, int64[2] sizes, int64 i, int64 j) => (int64[1] n) <bool c = {1}> {
        s = SplitToSequence<axis=1>(x, sizes)
        n = If(c) <then_branch = t () => (int64[1] a) {
            p = SequenceAt(s, i)
            q = SequenceAt(s, j)
            hp = Shape<start=1, end=2>(p)
            hq = Shape<start=1, end=2>(q)
            a = Sub(hp, hq)
        }, else_branch = e () => (int64[1] b) { b = Shape<start=0, end=1>(x) }>
    }""",
    "of a map": """g (float[2,8] x, int64[2] sizes, int64 i, int64 j) => (int64[1] n) {
        s = SplitToSequence<axis=1>(x, sizes)
        m = SequenceMap(s, s) <body = b (float[2,M] a, float[2,M] c) => (float[2,M] d) { d = Relu(a) }>
        p = SequenceAt(m, i)
        q = SequenceAt(s, j)
        hp = Shape<start=1, end=2>(p)
        hq = Shape<start=1, end=2>(q)
        n = Sub(hp, hq)
    }""",
}


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("text", SEQUENCES.values(), ids=SEQUENCES)
def test_elements_of_a_sequence_are_of_any_size(tmp_path, text, mode):
    path = saved(tmp_path, text)
    history = wb.optimize(wb.load(path), preset="simplify", mode=mode)
    wb.export(history.graph, tmp_path / "out.onnx")
    inputs = {
        "x": np.arange(16, dtype=np.float32).reshape(2, 8),
        "sizes": np.array([3, 5], np.int64),
        "i": np.array(0, np.int64),
        "j": np.array(1, np.int64),
    }
    for before, after in zip(outputs(path, inputs), outputs(tmp_path / "out.onnx", inputs), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_state_that_is_a_sequence_is_not_of_its_first_elements_shape(tmp_path):
    """ONNX's inference gives the result of the Loop the type of the state before it."""
    text = """g (float[3] x, float[4] y, int64 n, int64 i) => (int64[1] h) <bool c = {1}> {
        s = SequenceConstruct(x)
        t = Loop(n, c, s) <body = b (int64 k, bool go, seq(float[3]) a) => (bool more, seq(float[3]) z) {
            more = Identity(go)  z = SequenceInsert(a, y)
        }>
        e = SequenceAt(t, i)
        h = Shape(e)
    }"""
    path = saved(tmp_path, text)
    history = wb.optimize(wb.load(path), preset="simplify")
    wb.export(history.graph, tmp_path / "out.onnx")
    inputs = {"x": np.ones(3, np.float32), "y": np.ones(4, np.float32)}
    inputs |= {"n": np.array(1, np.int64), "i": np.array(1, np.int64)}
    assert outputs(tmp_path / "out.onnx", inputs)[0].tolist() == outputs(path, inputs)[0].tolist() == [4]


def test_a_loop_of_no_turns_shares_no_size_with_its_body(tmp_path):
    text = """g (float[N] x, int64 n, bool c) => (int64[2] h) {
        o = Loop(n, c) <body = b (int64 i, bool k) => (bool k2, float[N] a) { k2 = Identity(k)  a = Relu(x) }>
        h = Shape(o)
    }"""
    path = saved(tmp_path, text)
    wb.export(wb.optimize(wb.load(path), preset="simplify").graph, tmp_path / "out.onnx")
    for turns in (0, 2):
        inputs = {"x": np.ones(3, np.float32), "n": np.array(turns, np.int64), "c": np.array(True)}
        assert outputs(tmp_path / "out.onnx", inputs)[0].tolist() == outputs(path, inputs)[0].tolist()


@pytest.mark.parametrize(
    "text",
    [
        """g (float[2,N] x, float[2,M] y, int64 i, int64 j) => (int64[A] a, int64[A] b) {
            s = SequenceConstruct(x, y)  p = SequenceAt(s, i)  q = SequenceAt(s, j)  a = Shape(p)  b = Shape(q)
        }""",
        *SEQUENCES.values(),
    ],
)
def test_no_symbol_of_inference_is_written(tmp_path, text):
    """Other runtimes have symbols of these names of their own; ONNX Runtime refuses a file where they collide."""
    wb.export(wb.load(saved(tmp_path, text)), tmp_path / "out.onnx")
    written = onnx.load(tmp_path / "out.onnx").graph
    given = {d.dim_param for v in (*written.input, *written.output) for d in v.type.tensor_type.shape.dim}
    for info in written.value_info:
        assert {d.dim_param for d in info.type.tensor_type.shape.dim} <= given | {""}
        assert not info.type.sequence_type.elem_type.tensor_type.HasField("shape")
    onnxruntime.InferenceSession(str(tmp_path / "out.onnx"))
    inferred = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "out.onnx"), strict_mode=True, data_prop=True)
    assert inferred.graph.output


FIXED = {
    "a branch for another size": """g (float[N,4] x) => (float[q] y)
        <int64 zero = {0}, int64 one = {1}, int64[1] ax = {0}, int64[1] m1 = {-1}> {
        s = Shape(x)
        n = Gather(s, zero)
        e = Equal(n, one)
        y = If(e) <then_branch = t () => (float[q1] o) { o = Squeeze(x, ax) },
                   else_branch = u () => (float[q2] o2) { o2 = Reshape(x, m1) }>
    }""",
    "an empty input": "g (float[N,3] x, float[0,3] em) => (float[M,3] y) { y = Concat<axis=0>(em, x) }",
    "sizes of a body": """g (float[N,4] x, bool c) => (float[N,4] y) {
        y = If(c) <then_branch = t () => (float[N,4] a) { a = Relu(x) },
                   else_branch = e () => (float[N,4] b) { b = Neg(x) }>
    }""",
}


@pytest.mark.parametrize("preset", ["simplify", "normalize"])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("text", FIXED.values(), ids=FIXED)
def test_dims_are_fixed_before_the_passes_run(tmp_path, text, size, preset):
    """What is written is what was compared, ONNX Runtime loads it, and a second run changes nothing."""
    path = saved(tmp_path, text)
    graph = wb.load(path, {"N": size})
    with Verifier(graph, given=("N",)) as verifier:
        history = wb.optimize(graph, preset=preset, fix_dims=True, verifier=verifier, verify="end")
    assert history[-1].verdict.ok, history[-1].verdict.sentence
    wb.export(history.graph, tmp_path / "out.onnx")
    (shape, *_) = [value.shape for value in onnxruntime.InferenceSession(str(tmp_path / "out.onnx")).get_inputs()]
    assert shape[0] == size
    again = wb.optimize(wb.load(tmp_path / "out.onnx"), preset=preset)
    assert [rewrite.sentence for step in again.steps for rewrite in step.rewrites] == []


def test_an_unread_result_of_attention_is_fixed_too(tmp_path):
    text = """g (float[B,2,S,4] q, float[B,2,T,4] k, float[B,2,T,4] v) => (float[B,2,S,4] y) {
        y, pk, pv, qk = Attention<qk_matmul_output_mode=2>(q, k, v)
    }"""
    graph = wb.load(saved(tmp_path, text, header='<ir_version: 11, opset_import: ["": 23]>\n'))
    wb.export(wb.optimize(graph, preset="simplify", fix_dims=True).graph, tmp_path / "out.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=True)


def test_dims_that_had_to_be_found_are_those_that_are_fixed(tmp_path):
    """The model runs only with an even N; what is fixed is what runs."""
    text = "g (float[1,N] x) => (float[M,48] y) <int64[2] s = {-1, 48}> { y = Reshape(x, s) }"
    graph = wb.load(saved(tmp_path, text))
    with Verifier(graph) as verifier:
        history = wb.optimize(graph, preset="simplify", fix_dims=True, verifier=verifier, verify="end")
        assert verifier.settled["N"] % 48 == 0
        assert history[-1].verdict.ok and history.graph.shape("x") == (1, verifier.settled["N"])


STATES = {
    "kept": ("s2 = Relu(s)", (2, "N")),
    "kept through another loop": (
        """c2 = Identity(k)
        s2 = Loop(i, c2, s) <body = d (int64 j, bool m, float[2,N] u) => (bool m2, float[2,N] v) {
            m2 = Identity(m)  v = Neg(u)
        }>""",
        (2, "N"),
    ),
    "grown": ("s2 = Concat<axis=1>(s, x)", None),
    "exchanged for another size": ("s2 = Transpose(s)", None),
}


@pytest.mark.parametrize(("line", "shape"), STATES.values(), ids=STATES)
def test_a_state_of_a_loop_keeps_its_sizes_if_the_body_does(tmp_path, line, shape):
    """By induction over the turns; what the file declares of it is not asked."""
    text = f"""g (float[2,N] x, int64 n, bool c) => (float[2,N] y) {{
        y = Loop(n, c, x) <body = b (int64 i, bool k, float[2,N] s) => (bool k2, float[2,N] s2) {{
            k2 = Identity(k)
            {line}
        }}>
    }}"""
    graph = wb.load(saved(tmp_path, text))
    assert graph.shape("y") == shape
    assert graph.nodes[0].bodies["body"].shape("s") == shape


def test_of_two_states_that_depend_on_each_other_none_is_believed(tmp_path):
    text = """g (float[2] x, float[3] z, int64 n, bool c) => (float[2] y, float[3] w) {
        y, w = Loop(n, c, x, z) <body = b (int64 i, bool k, float[2] s, float[3] t) => (bool k2, float[2] a, float[3] b2) {
            k2 = Identity(k)  a = Relu(t)  b2 = Neg(s)
        }>
    }"""
    graph = wb.load(saved(tmp_path, text))
    assert graph.shape("y") is None and graph.shape("w") is None
