"""A Loop of zero turns returns what it collected in the shape that the file gives it, after any passes."""

import numpy as np
import onnx
import onnxruntime
import pytest

import workbench as wb
from workbench.backends.torch.executor.executor import TorchExecutor

X = np.ones((2, 3), np.float32)
STATES = ("float[2,3]", "float[2,q]", "float[?,?]")
RESULTS = {
    "state": ("v = Neg (u)", ("float[2,3]", "float[2,q]", "float[?,3]", "float[?,?]", "float[N,M]")),
    "of outside": ("v = Neg (x)", ("float[2,3]", "float[?,?]")),
    "larger": ("t = Concat <axis=0> (u, u)  v = Relu (t)", ("float[4,3]", "float[?,3]", "float[?,?]")),
    "declared inside": ("t = Abs (u)  v = Identity (t)", ("float[?,?]", "float[2,3]")),
}
CASES = [(state, name, type_) for state in STATES for name, (_, types) in RESULTS.items() for type_ in types]


def model(state, name, type_):
    inside = " <float[2,3] t>" if name == "declared inside" else ""
    text = f"""<ir_version: 9, opset_import: ["": 18]>
        g (float[2,3] x, int64 n) => (float[a,b] z, float[k,c,d] y) <bool go = {{1}}> {{
            z, y = Loop (n, go, x) <body = body (int64 i, bool c, {state} u) => (bool e, {state} w, {type_} v){inside} {{
                e = Identity (c)  f = Neg (u)  w = Neg (f)  {RESULTS[name][0]}
            }}>
        }}"""
    return onnx.parser.parse_model(text)


def results(path, turns):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": X, "n": np.array(turns, np.int64)})


@pytest.mark.parametrize("case", CASES, ids=lambda case: ", ".join(case))
def test_what_is_collected_in_zero_turns_has_the_shape_of_the_file(case, tmp_path):
    onnx.save(model(*case), tmp_path / "m.onnx")
    graph = wb.load(tmp_path / "m.onnx")
    history = wb.optimize(graph)
    assert len(history.graph.node("Loop_z").bodies["body"]) < len(graph.node("Loop_z").bodies["body"])
    wb.export(graph, tmp_path / "as_loaded.onnx")
    wb.export(history.graph, tmp_path / "out.onnx")
    wb.export(wb.load(tmp_path / "out.onnx"), tmp_path / "again.onnx")
    for turns in (0, 2):
        expected = results(tmp_path / "m.onnx", turns)
        for name in ("as_loaded", "out", "again"):
            for one, other in zip(expected, results(tmp_path / f"{name}.onnx", turns), strict=True):
                assert one.shape == other.shape, name
                np.testing.assert_array_equal(one, other)
        own = TorchExecutor(history.graph).run({"x": X, "n": np.array(turns, np.int64)})
        assert own["y"].shape == expected[1].shape


LOOP = """{z}, {y} = Loop (n, go, {x}) <body = {b} (int64 i{b}, bool c{b}, {state} u{b}) => (bool e{b}, {state} w{b}, {result} v{b})
    {{ e{b} = Identity (c{b})  f{b} = Neg (u{b})  w{b} = Neg (f{b})  v{b} = Neg (u{b}) }}>"""
PLACES = {
    "in an If": """g (float[2,3] x, int64 n) => (y) <bool p = {1}, bool go = {1}> {
        q = Equal (n, n)  y = If (q) <then_branch = t () => (float[a,b,c] y1) { ONE },
                                      else_branch = e () => (float[d,k,l] y2) { TWO }> }""",
    "in a Loop": """g (float[2,3] x, int64 n) => (y) <bool go = {1}, int64 one = {1}> {
        z, y = Loop (one, go, x) <body = o (int64 io, bool co, float[2,3] uo) => (bool eo, float[2,3] wo, y1)
            { eo = Identity (co)  wo = Neg (uo)  ONE }> }""",
    "two with the same names inside": """g (float[2,3] x, int64 n) => (y1, y2) <bool go = {1}> { ONE SAME }""",
    "in a function": """g (float[2,3] x, int64 n) => (y) { y = f.k (x, n) }
        <domain: "f", opset_import: ["": 18]> k (x, n) => (y1) { go = Constant <value = bool {1}> ()  ONE }""",
}
SIZES = [("float[2,3]", "float[2,3]"), ("float[?,?]", "float[2,3]"), ("float[2,3]", "float[?,?]")]


# What follows in a function from other values than declared ones is not known without inlining it.
PLACED = [(place, *sizes) for place in PLACES for sizes in SIZES if (place, sizes) != ("in a function", SIZES[2])]


@pytest.mark.parametrize(("place", "state", "result"), PLACED)
def test_wherever_the_loop_is(place, state, result, tmp_path):
    loops = {
        "ONE": LOOP.format(z="z1", y="y1", x="x", b="b", state=state, result=result),
        "TWO": LOOP.format(z="z2", y="y2", x="x", b="d", state=state, result=result),
        "SAME": LOOP.format(z="z2", y="y2", x="z1", b="b", state=result, result=state),
    }
    text = PLACES[place]
    for word, loop in loops.items():
        text = text.replace(word, loop)
    onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18, "f": 1]> {text}'), tmp_path / "m.onnx")
    wb.export(wb.optimize(tmp_path / "m.onnx").graph, tmp_path / "out.onnx")
    for turns in (0, 2):
        both = [results(tmp_path / name, turns) for name in ("m.onnx", "out.onnx")]
        for one, other in zip(*both, strict=True):
            assert one.shape == other.shape
            np.testing.assert_array_equal(one, other)
