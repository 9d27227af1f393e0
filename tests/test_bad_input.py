"""Bad model files on the command line: each gets one sentence on stderr and exit code 2, or 3 where only running is impossible."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import zipfile

import onnx
import pytest
from onnx import TensorProto, helper

from tests.conftest import ROOT
from tests.making import FLOAT, INT64, Bomb, X, constant, model, node, saved, value
from tests.waiting import LIMIT_S
from workbench.formats.io.errors import LoadError
from workbench.formats.io.onnx_file import load_proto

SAMPLES = sorted((ROOT / "sample_models").glob("*.onnx"))


# ---- bytes -----------------------------------------------------------------------------

_DRIVER = """
import contextlib, io, signal, sys
from workbench.__main__ import main
for path in sys.stdin.read().splitlines():
    print(path, end=" ", flush=True)
    signal.alarm(30)
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        command = ["inspect", path] if path.endswith("i.onnx") else ["optimize", path, "-o", path + ".out", "--no-verify"]
        code = main(command)
    told = [line for line in err.getvalue().splitlines() if not line.startswith("note: ")]
    one = code == 0 and not told or code == 2 and len(told) == 1 and told[0].startswith("workbench: ")
    print(code if one else "WRONG " + err.getvalue(), flush=True)
"""


def driven(paths):
    """The exit code for each file, all in one process of its own, so that a crash or a hang shows which file it was."""
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER],
        input="\n".join(map(str, paths)),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr[-2000:])
    codes = [line.split(" ", 1)[1] for line in done.stdout.splitlines()]
    assert not [c for c in codes if c not in ("0", "2")]
    assert len(codes) == len(paths)
    return list(map(int, codes))


def test_every_sample_cut_off(tmp_path):
    paths = []
    for sample in SAMPLES:
        data = sample.read_bytes()
        for cut in (1, 2, 5, 17, 100, len(data) // 3, len(data) // 2, len(data) - 100, len(data) - 1):
            paths.append(tmp_path / f"{sample.stem}_{cut}_i.onnx")
            paths[-1].write_bytes(data[:cut])
    assert set(driven(paths)) == {2}


def test_random_bytes(tmp_path):
    draw = random.Random(1)
    paths = []
    for number, length in enumerate([*range(1, 40), 100, 1000, 4096, 100_000, 1_000_000]):
        paths.append(tmp_path / f"{number}_i.onnx")
        paths[-1].write_bytes(draw.randbytes(length))
    assert set(driven(paths)) == {2}


@pytest.mark.slow
def test_one_changed_byte_near_the_head(tmp_path):
    """The structure of small models: names, types, lengths, kinds of attributes."""
    draw = random.Random(2)
    paths = []
    for number in range(120):
        data = bytearray(draw.choice(SAMPLES).read_bytes())
        at = draw.randrange(min(len(data), draw.choice((16, 200, 2000))))
        data[at] = data[at] ^ (1 << draw.randrange(8)) if number % 2 else draw.randrange(256)
        paths.append(tmp_path / f"{number}_{'i' if number % 4 else 'o'}.onnx")
        paths[-1].write_bytes(data)
    codes = driven(paths)
    assert codes.count(2) > 30 and codes.count(0) > 10  # some load, some do not


def test_a_name_that_is_not_utf8(refused, tmp_path):
    data = model([node("Relu", "x", "y", name="tell_tale")]).SerializeToString()
    path = saved(tmp_path, data.replace(b"tell_tale", b"tell\xfftale"))
    assert "not UTF-8" in refused("inspect", path)


def test_an_attribute_without_a_type(refused, tmp_path):
    made = model([node("Softmax", "x", "y", name="s", axis=1)])
    made.graph.node[0].attribute[0].ClearField("type")
    assert "attribute 'axis' of node 's'" in refused("inspect", saved(tmp_path, made))


# ---- files -----------------------------------------------------------------------------


def test_empty_missing_and_folder(refused, tmp_path):
    assert "empty" in refused("inspect", saved(tmp_path, b""))
    assert "no such file" in refused("inspect", tmp_path / "none.onnx")
    assert "folder" in refused("inspect", tmp_path)
    assert "too long" in refused("inspect", "n" * 5000 + ".onnx")


def test_text_that_is_no_graph(refused, tmp_path):
    assert "textual syntax" in refused("inspect", saved(tmp_path, b"hello", "a.onnxtxt"))
    assert "not text" in refused("inspect", saved(tmp_path, b"\xff\xfe\x00", "a.txt"))


@pytest.mark.parametrize("name", ["m.pt", "m.pth", "m.pkl", "m.onnx", "zip.pt", "zip.onnx"])
def test_pickles_are_refused_and_not_opened(refused, tmp_path, name):
    proof, path = tmp_path / "proof", tmp_path / name
    data = pickle.dumps(Bomb(str(proof)))
    if name.startswith("zip"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", data)
    else:
        path.write_bytes(data)
    assert "torch.export.save" in refused("inspect", path)
    assert not proof.exists()


# ---- external data ---------------------------------------------------------------------


def external(location):
    weight = TensorProto(name="w", data_type=FLOAT, dims=[1, 4], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    return model([node("Add", "x w", "y")], constants=[weight])


@pytest.mark.parametrize(
    ("location", "sentence"),
    [
        ("/etc/hostname", "outside the model's folder"),
        ("../secret.bin", "outside the model's folder"),
        ("inner/../../secret.bin", "outside the model's folder"),
        ("..\\secret.bin", "outside the model's folder"),
        ("link.bin", "outside the model's folder"),
        ("", "outside the model's folder"),
        (".", "is missing"),
        ("a\0b", "not the name of a file"),
    ],
)
def test_external_data_that_is_not_beside_the_model(refused, tmp_path, location, sentence):
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    folder = tmp_path / "model"
    (folder / "inner").mkdir(parents=True)
    os.symlink(tmp_path / "secret.bin", folder / "link.bin")
    path = saved(folder, external(location))
    assert sentence in refused("inspect", path)
    assert sentence in refused("optimize", path, "-o", tmp_path / "o.onnx")
    assert not (tmp_path / "o.onnx").exists()


# ---- graphs ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (model([node("Add", "x b", "a", name="n"), node("Relu", "a", "b"), node("Relu", "b", "y")]), "cycle"),
        (model([node("Add", "x i", "y")], (value("x", [4]), value("i", [4], INT64))), "ill-typed"),
        (model([node("MatMul", "x z", "y")], (X, value("z", [5, 2]))), "ill-typed"),
        (model([node("Transpose", "x", "y", perm=[5, 7])]), "ill-typed"),
        (model([node("Reshape", "x s", "y")], constants=[constant("s", [-1, -1])]), "ill-typed"),
        (model([node("Relu", "x", "y"), node("Tanh", "x", "y")]), "defined twice"),
        (model([node("Relu", "z", "y")]), "which is not defined"),
        (model([node("Relu", "x", "a")]), "output 'y' of graph"),
        (model([node("Relu", "x", "y")], (X, X)), "two inputs"),
        (model([]), "output 'y' of graph"),
        (onnx.ModelProto(ir_version=10), "no graph"),
    ],
)
def test_graphs_that_are_not_whole(refused, tmp_path, made, sentence):
    assert sentence in refused("inspect", saved(tmp_path, made))


def test_functions_without_end_or_without_measure(refused, tmp_path):
    def function(name, *called):
        imports = [helper.make_opsetid("", 23), helper.make_opsetid("d", 1)]
        values = ["a", *(f"v{i}" for i in range(1, len(called))), "b"]
        nodes = [node(op, a, b, domain=domain) for (domain, op), a, b in zip(called, values, values[1:], strict=False)]
        return helper.make_function("d", name, ["a"], ["b"], nodes, imports)

    made = model([node("f0", "x", "y", domain="d")], domain="d")
    made.functions.append(function("f0", ("d", "f0")))
    assert "calls itself" in refused("inspect", saved(tmp_path, made))
    del made.functions[:]
    made.functions.extend(function(f"f{i}", ("d", f"f{i + 1}"), ("d", f"f{i + 1}")) for i in range(40))
    made.functions.append(function("f40", ("", "Relu")))
    assert "expands to more than 1,000,000 nodes" in refused("inspect", saved(tmp_path, made))


@pytest.mark.slow
def test_an_unknown_operator_is_shown_and_verified_with_a_stand_in(run, tmp_path):
    made = model([node("Frobnicate", "x", "y", name="n", domain="acme")], domain="acme", outputs=(value("y", [1, 4]),))
    path = saved(tmp_path, made)
    code, out, err = run("inspect", path)
    assert code == 0 and "Frobnicate 1" in out and "operator" in err and "Frobnicate' of node 'n'" in err
    for words in (("optimize", path, "-o", tmp_path / "out.onnx"), ("verify", path, path)):
        code, out, _ = run(*words)
        assert code == 0 and "Nothing here runs 'acme.Frobnicate': on both sides a function of the operands" in out
    assert "Frobnicate" in run("bench", path)[2]


def test_an_unknown_operator_of_onnx_itself_is_written_as_it_was(run, tmp_path):
    made = model([node("Frobnicate", "x", "y", name="n")], outputs=(value("y", [1, 4]),))
    path = saved(tmp_path, made)
    assert "operator 'Frobnicate' of node 'n' (Frobnicate) is unknown in opset 23" in run("inspect", path)[2]
    assert run("optimize", path, "-o", tmp_path / "out.onnx")[0] == 0
    (written,) = onnx.load(tmp_path / "out.onnx").graph.node
    assert (written.op_type, written.domain) == ("Frobnicate", "")


def field(number, data):
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number):
    return bytes([number & 127 | 128]) + _varint(number >> 7) if number > 127 else bytes([number])


def nested(depth):
    """`depth` levels of If, written byte by byte, as protobuf's own writer stops at about 30."""
    body = field(1, node("Identity", "x", "o0").SerializeToString())
    body += field(2, b"b0") + field(12, value("o0", [1, 4]).SerializeToString())
    for i in range(1, depth):
        other = helper.make_graph([node("Relu", "x", f"e{i}")], f"e{i}", [], [value(f"e{i}", [1, 4])])
        bodies = ((b"then_branch", body), (b"else_branch", other.SerializeToString()))
        attributes = b"".join(field(5, field(1, n) + field(6, g) + _varint(20 << 3) + _varint(5)) for n, g in bodies)
        step = field(1, b"c") + field(2, b"o%d" % i) + field(3, b"n%d" % i) + field(4, b"If") + attributes
        body = field(1, step) + field(2, b"b%d" % i) + field(12, value(f"o{i}", [1, 4]).SerializeToString())
    inputs = (X, value("c", [], TensorProto.BOOL))
    graph = body + b"".join(field(11, i.SerializeToString()) for i in inputs)
    return _varint(8) + _varint(10) + field(7, graph) + field(8, helper.make_opsetid("", 23).SerializeToString())


@pytest.mark.slow
def test_bodies_in_bodies(run, refused, tmp_path):
    path = saved(tmp_path, nested(30))
    code, out, _ = run("inspect", path)
    assert code == 0 and "If 29" in out
    assert run("optimize", path, "-o", tmp_path / "o.onnx", "--layout", "greedy", "--target", "cuda")[0] == 0
    assert "nested deeper" in refused("inspect", saved(tmp_path, nested(200)))
    assert "nested deeper" in refused("inspect", saved(tmp_path, nested(3000)))


# ---- memory ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        model(
            [node("ConstantOfShape", "s", "c"), node("ReduceSum", "c", "r", keepdims=0), node("Add", "x r", "y")],
            constants=[constant("s", [10**6, 10**6])],
        ),
        model([node("Expand", "x s", "c"), node("ReduceSum", "c", "y")], constants=[constant("s", [10**6, 10**6, 4])]),
        model([node("Relu", "x", "y")], (value("x", [10**6, 10**6]),)),
        model([node("Relu", "x", "y")], (value("x", [2**62, 2**62]),)),
        model(
            [node("Range", "a b c", "r"), node("Shape", "r", "y")],
            (),
            (value("y", [1], INT64),),
            [constant("a", 0), constant("b", 10**12), constant("c", 1)],
        ),
        model(
            [node("Tile", "w n", "r"), node("Shape", "r", "y")],
            (),
            (value("y", [1], INT64),),
            [constant("w", [2] * 4), constant("n", [10**12])],
        ),
        model(
            [node("Concat", f"v{i} v{i}" if i else "x x", f"v{i + 1}" if i < 49 else "y", axis=0) for i in range(50)]
        ),
    ],
    ids=["ConstantOfShape", "Expand", "input", "overflow", "Range", "Tile", "doubling"],
)
def test_more_memory_than_the_machine_has(unverified, tmp_path, made):
    told = unverified(saved(tmp_path, made), "--layout", "greedy", "--target", "cuda")
    assert "needs" in told and "free" in told


def test_more_axes_than_an_array_can_have(unverified, tmp_path):
    made = model([node("Relu", "x", "y")], (value("x", [1] * 300),), (value("y", [1] * 300),))
    assert "300 axes" in unverified(saved(tmp_path, made))


# ---- what would end the process in ONNX's shape inference ------------------------------


FATAL = {
    "a Split of two outputs and one number": (
        "Split",
        ["x"],
        ["y", "z"],
        {"axis": 1, "num_outputs": 1},
        "num_outputs=1 and 2 outputs",
    ),
    "a first operand left out": ("EyeLike", [""], ["y"], {}, "has no first operand"),
    "batches before the first axis": ("GatherND", ["x", "i"], ["y"], {"batch_dims": -5}, "batch_dims=-5"),
}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(("op", "operands", "results", "attributes", "said"), FATAL.values(), ids=FATAL)
def test_what_ends_shape_inference_is_refused_before(tmp_path, op, operands, results, attributes, said):
    call = helper.make_node(op, operands, results, **attributes)
    outputs = [value(name, None) for name in results]
    made = model([call], inputs=(X, value("i", [1, 1], INT64)), outputs=outputs)
    done = subprocess.run(
        [sys.executable, "-m", "workbench", "inspect", saved(tmp_path, made)], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, said in done.stderr, done.stderr.count("\n")) == (2, True, 1)


@pytest.mark.parametrize("perm", [[1], [0, 2], [0, 0], [0, 1, 2]])
def test_a_perm_that_is_none_is_refused(perm):
    made = model([helper.make_node("Transpose", ["x"], ["y"], perm=perm)])
    with pytest.raises(LoadError, match="the graph is ill-typed"):
        load_proto(made)
