"""Bad input on the command line: each gets one sentence on stderr and exit code 2, or 3 where only running is impossible."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.conftest import ROOT
from workbench.__main__ import main
from workbench.errors import printable

SAMPLES = sorted((ROOT / "sample_models").glob("*.onnx"))
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
X, Y = helper.make_tensor_value_info("x", FLOAT, [1, 4]), helper.make_tensor_value_info("y", FLOAT, None)


def node(op, inputs, outputs, **more):
    return helper.make_node(op, inputs.split(), outputs.split(), **more)


def model(nodes, inputs=(X,), outputs=(Y,), constants=(), domain=None):
    imports = [helper.make_opsetid("", 23), *([helper.make_opsetid(domain, 1)] if domain else [])]
    graph = helper.make_graph(nodes, "g", list(inputs), list(outputs), list(constants))
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def value(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name, numbers):
    return numpy_helper.from_array(np.array(numbers), name)


def saved(tmp_path, made, name="bad.onnx"):
    path = tmp_path / name
    path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    return str(path)


@pytest.fixture
def run(capsys, tmp_path):
    def run(*arguments):
        code = main([str(a) for a in arguments])
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        return code, said.out, said.err

    return run


@pytest.fixture
def refused(run, tmp_path):
    """Run a command that must end with code 2; its sentence."""

    def refused(*arguments):
        code, _, err = run(*arguments)
        assert code == 2
        assert err.startswith("workbench: ") and err.endswith("\n") and err.count("\n") == 1, err
        return err

    return refused


@pytest.fixture
def unverified(run, tmp_path):
    """Optimize a model that can be shown, not run: code 3, the file written, the reason told."""

    def unverified(path, *arguments):
        assert run("inspect", path)[0] == 0
        out = tmp_path / "out.onnx"
        code, said, _ = run("optimize", path, "-o", out, *arguments)
        assert code == 3 and out.exists()
        return next(line for line in said.splitlines() if "It can not be verified" in line)

    return unverified


# ---- bytes ------------------------------------------------------------------------------

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
        timeout=120,
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


# ---- files ------------------------------------------------------------------------------


def test_empty_missing_and_folder(refused, tmp_path):
    assert "empty" in refused("inspect", saved(tmp_path, b""))
    assert "no such file" in refused("inspect", tmp_path / "none.onnx")
    assert "folder" in refused("inspect", tmp_path)
    assert "too long" in refused("inspect", "n" * 5000 + ".onnx")


def test_text_that_is_no_graph(refused, tmp_path):
    assert "textual syntax" in refused("inspect", saved(tmp_path, b"hello", "a.onnxtxt"))
    assert "not text" in refused("inspect", saved(tmp_path, b"\xff\xfe\x00", "a.txt"))


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


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


# ---- external data ------------------------------------------------------------------------


def external(location):
    weight = TensorProto(name="w", data_type=FLOAT, dims=[1, 4], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    return model([node("Add", "x w", "y")], constants=[weight])


@pytest.mark.parametrize(
    ("location", "sentence"),
    [
        ("none.bin", "'none.bin' is missing"),
        ("/etc/hostname", "outside the model's folder"),
        ("../secret.bin", "outside the model's folder"),
        ("inner/../../secret.bin", "outside the model's folder"),
        ("..\\secret.bin", "outside the model's folder"),
        ("link.bin", "outside the model's folder"),
        ("", "outside the model's folder"),
        (".", "is missing"),
        ("a\0b", "no name of a file"),
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


# ---- graphs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (model([node("Add", "x b", "a", name="n"), node("Relu", "a", "b"), node("Relu", "b", "y")]), "cycle"),
        (model([node("Add", "x i", "y")], (value("x", [4]), value("i", [4], INT64))), "ill-typed"),
        (model([node("MatMul", "x z", "y")], (X, value("z", [5, 2]))), "ill-typed"),
        (model([node("Transpose", "x", "y", perm=[5, 7])]), "ill-typed"),
        (model([node("Reshape", "x s", "y")], constants=[constant("s", [-1, -1])]), "ill-typed"),
        (model([node("Relu", "x", "y"), node("Tanh", "x", "y")]), "made twice"),
        (model([node("Relu", "z", "y")]), "which nothing makes"),
        (model([node("Relu", "x", "a")]), "made by no node"),
        (model([node("Relu", "x", "y")], (X, X)), "two inputs"),
        (model([]), "made by no node"),
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
    assert "unfolds into more than 1,000,000 nodes" in refused("inspect", saved(tmp_path, made))


def test_an_unknown_operator_is_shown_and_not_verified(run, unverified, tmp_path):
    made = model([node("Frobnicate", "x", "y", name="n", domain="acme")], domain="acme", outputs=(value("y", [1, 4]),))
    path = saved(tmp_path, made)
    code, out, err = run("inspect", path)
    assert code == 0 and "Frobnicate 1" in out and "operator" in err and "Frobnicate' of node 'n'" in err
    assert "Frobnicate" in unverified(path)
    code, out, _ = run("verify", path, path)
    assert code == 3 and out.startswith("not verified: ")
    assert "Frobnicate" in run("bench", path)[2]


def test_an_unknown_operator_of_onnx_itself_is_shown_and_not_written(run, refused, tmp_path):
    made = model([node("Frobnicate", "x", "y", name="n")], outputs=(value("y", [1, 4]),))
    path = saved(tmp_path, made)
    assert "operator 'Frobnicate' of node 'n' (Frobnicate) is unknown in opset 23" in run("inspect", path)[2]
    assert "not valid ONNX" in refused("optimize", path, "-o", tmp_path / "o.onnx")
    assert not (tmp_path / "o.onnx").exists()


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


def test_bodies_in_bodies(run, refused, tmp_path):
    path = saved(tmp_path, nested(30))
    code, out, _ = run("inspect", path)
    assert code == 0 and "If 29" in out
    assert run("optimize", path, "-o", tmp_path / "o.onnx", "--layout", "greedy")[0] == 0
    assert "nested deeper" in refused("inspect", saved(tmp_path, nested(200)))
    assert "nested deeper" in refused("inspect", saved(tmp_path, nested(3000)))


# ---- names ----------------------------------------------------------------------------------


def named(name):
    nodes = [node("Relu", "x", "m", name="n"), node("Sigmoid", "m", "y")]
    made = model(nodes, (value("x", ["N", 4]),), (value("y", ["N", 4]),))
    made.graph.node[0].name = name
    made.graph.input[0].name = made.graph.node[0].input[0] = name + "x"
    made.graph.node[0].output[0] = made.graph.node[1].input[0] = name + "m"
    made.graph.node[1].output[0] = made.graph.output[0].name = name + "y"
    return made


WEIRD = [
    "<img src=x onerror=alert(1)>",
    "a\nb",
    'a"b',
    "a\\b\\",
    "a'b; DROP",
    "caf\u00e9 \u2028 \U0001f600",
    "\x01\x07\x1b[31m\x7f",
    "{}()[]<>,=;%&|\t",
    " ",
    "n" * 100_000,
]


@pytest.mark.parametrize("name", WEIRD, ids=lambda name: ascii(name[:12]))
def test_names_are_only_text(run, tmp_path, name):
    path, out = saved(tmp_path, named(name)), tmp_path / "out.onnx"
    code, said, _ = run("inspect", path)
    assert code == 0 and printable(name + "x") in said
    assert all(line.isprintable() for line in said.splitlines())
    code, _, _ = run("optimize", path, "-o", out, "--layout", "greedy", "--report", tmp_path / "r.json")
    assert code == 0
    written = onnx.load(out)
    onnx.checker.check_model(written)
    assert [v.name for v in (*written.graph.input, *written.graph.output)] == [name + "x", name + "y"]
    assert written.graph.node[0].name == name


def test_a_terminal_without_such_letters(tmp_path):
    path = saved(tmp_path, named("caf\u00e9"))
    ended = subprocess.run(
        [sys.executable, "-m", "workbench", "inspect", path],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert ended.returncode == 0 and b"caf\\xe9x" in ended.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk_is_a_sentence():
    command = [sys.executable, "-u", "-m", "workbench", "passes"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=60)
    assert ended.returncode == 2 and ended.stderr == "workbench: the system refused: No space left on device\n"


@pytest.mark.parametrize("name", WEIRD, ids=lambda name: ascii(name[:12]))
def test_names_survive_the_text_form(tmp_path, name):
    from workbench.ir import from_text, to_text
    from workbench.loading import load_model

    graph = load_model(saved(tmp_path, named(name)))
    back = from_text(to_text(graph))
    assert (back.inputs, back.outputs) == (graph.inputs, graph.outputs)
    assert [(n.name, n.op_type, n.inputs, n.outputs) for n in back.nodes] == [
        (n.name, n.op_type, n.inputs, n.outputs) for n in graph.nodes
    ]


# ---- dims and memory ----------------------------------------------------------------------------


@pytest.fixture
def symbolic(tmp_path):
    made = model([node("Relu", "x", "y")], (value("x", ["N", 4]),), (value("y", ["N", 4]),))
    return saved(tmp_path, made, "symbolic.onnx")


@pytest.mark.parametrize("command", ["inspect", "optimize", "verify", "bench"])
@pytest.mark.parametrize(
    ("dims", "sentence"),
    [
        ("N=-1", "at least 1, not -1"),
        ("N=0", "at least 1, not 0"),
        ("N=abc", "must be a whole number, not 'abc'"),
        ("N=1.5", "must be a whole number"),
        ("N=", "must be a whole number"),
        ("N", "name=number"),
        ("=3", "name=number"),
        ("M=3", "no dimension 'M'; it has N"),
        ("N=2,M=3", "no dimension 'M'"),
        ("N=" + "9" * 5000, "must be a whole number"),
    ],
)
def test_dims_that_are_none(refused, symbolic, tmp_path, command, dims, sentence):
    more = {"optimize": ["-o", tmp_path / "o.onnx"], "verify": [symbolic]}.get(command, [])
    assert sentence in refused(command, symbolic, *more, "--dims", dims)


def test_a_huge_dim(run, refused, unverified, symbolic):
    assert "needs 16000.0 GB" in unverified(symbolic, "--dims", "N=999999999999")
    assert "needs 16000.0 GB" in refused("bench", symbolic, "--dims", "N=999999999999")
    code, out, _ = run("verify", symbolic, symbolic, "--dims", "N=999999999999")
    assert code == 3 and "needs 16000.0 GB" in out
    assert "below 2^63" in refused("inspect", symbolic, "--dims", "N=99999999999999999999")


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
    told = unverified(saved(tmp_path, made), "--layout", "greedy")
    assert "needs" in told and "free" in told


def test_more_axes_than_an_array_can_have(unverified, tmp_path):
    made = model([node("Relu", "x", "y")], (value("x", [1] * 300),), (value("y", [1] * 300),))
    assert "300 axes" in unverified(saved(tmp_path, made))


# ---- words of the command line --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "required: COMMAND"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["explain"], "required: PASS"),
        (["explain", "nope"], "no pass 'nope'; there are: "),
        (["inspect"], "give either a model file or --torch"),
        (["inspect", "MODEL", "--torch", "a:b"], "give either a model file or --torch"),
        (["inspect", "MODEL", "more"], "unrecognized arguments: more"),
        (["optimize", "MODEL"], "required: -o/--output"),
        (["optimize", "MODEL", "-o", "OUT", "--passes", "fold_constants,nope"], "no pass 'nope'"),
        (["optimize", "MODEL", "-o", "OUT", "--preset", "nope"], "no preset 'nope'; there are: default"),
        (["optimize", "MODEL", "-o", "OUT", "--preset", "none", "--passes", "dead_nodes"], "not allowed with"),
        (["optimize", "MODEL", "-o", "OUT", "--target", "nope"], "no target profile 'nope'; there are: cuda, npu"),
        (["optimize", "MODEL", "-o", "OUT", "--target", "../profiles/npu"], "no target profile"),
        (["optimize", "MODEL", "-o", "OUT", "--layout", "nope"], "no layout strategy 'nope'; there are: greedy"),
        (["optimize", "MODEL", "-o", "OUT", "--option", "nope"], "pass.field=value"),
        (["optimize", "MODEL", "-o", "OUT", "--option", "nope.a=1"], "is for no pass that runs"),
        (["optimize", "MODEL", "-o", "OUT", "--option", "fold_constants.a=1"], "has no option 'a'"),
        (["optimize", "MODEL", "-o", "OUT", "--option", "fold_constants.max_bytes=big"], "must be a number"),
        (["optimize", "MODEL", "-o", "OUT", "--option", "fold_constants.max_bytes=-1"], "fold_constants.max_bytes"),
        (["optimize", "MODEL", "-o", "OUT", "--seed", "-1"], "whole number from 0 up, not '-1'"),
        (["optimize", "MODEL", "-o", "OUT", "--seed", "x"], "whole number from 0 up, not 'x'"),
        (["optimize", "--torch", "a", "-o", "OUT"], "package.module:function"),
        (["optimize", "--torch", "no_such_module_here:f", "-o", "OUT"], "cannot be imported"),
        (["bench", "MODEL", "--device", "tpu"], "invalid choice: 'tpu'"),
        (["bench", "MODEL", "--backend", "jax"], "invalid choice: 'jax'"),
        (["bench", "MODEL", "--dtype", "int8"], "invalid choice: 'int8'"),
        (["bench", "MODEL", "--repeat", "0"], "at least 1, not 0"),
        (["bench", "MODEL", "--repeat", "-3"], "at least 1, not -3"),
        (["bench", "MODEL", "OTHER"], "different inputs"),
        (["verify", "MODEL", "OTHER"], "Only the first model has an input"),
    ],
    ids=lambda part: " ".join(part)[:60] if isinstance(part, list) else "",
)
def test_words_that_mean_nothing(refused, tmp_path, arguments, sentence):
    other = saved(tmp_path, model([node("Relu", "z", "y")], (value("z", [1, 4]),)), "other.onnx")
    words = {"MODEL": str(ROOT / "sample_models/npu_path.onnx"), "OUT": str(tmp_path / "out.onnx"), "OTHER": other}
    assert sentence in refused(*(words.get(a, a) for a in arguments))
    assert not (tmp_path / "out.onnx").exists()


# ---- places to write ----------------------------------------------------------------------------------


def test_places_that_cannot_be_written(refused, symbolic, tmp_path):
    assert "folder does not exist" in refused("optimize", symbolic, "-o", tmp_path / "no/out.onnx")
    assert "it is a folder" in refused("optimize", symbolic, "-o", tmp_path)
    assert "folder does not exist" in refused(
        "optimize", symbolic, "-o", tmp_path / "o.onnx", "--report", tmp_path / "no/r"
    )
    assert "folder does not exist" in refused("bench", symbolic, "--json", tmp_path / "no/r.json")
    assert not (tmp_path / "o.onnx").exists()
    assert "cannot be written" in refused("optimize", symbolic, "-o", "/proc/out.onnx", "--no-verify")
    assert "cannot be written" in refused("optimize", symbolic, "-o", tmp_path / ("n" * 300), "--no-verify")


def test_nothing_that_is_read_is_overwritten(refused, symbolic, tmp_path):
    before = Path(symbolic).read_bytes()
    os.symlink(symbolic, tmp_path / "link.onnx")
    own = tmp_path / "own.npz"
    np.savez(own, x=np.ones((2, 4), np.float32))
    for same in (symbolic, tmp_path / "link.onnx", f"{tmp_path}/../{tmp_path.name}/symbolic.onnx"):
        assert "read or written already" in refused("optimize", symbolic, "-o", same)
    assert "read or written already" in refused("optimize", symbolic, "-o", tmp_path / "o", "--report", symbolic)
    assert "read or written already" in refused("optimize", symbolic, "-o", tmp_path / "o", "--report", tmp_path / "o")
    assert "read or written already" in refused("optimize", symbolic, "-o", own, "--inputs", own)
    assert "read or written already" in refused("bench", symbolic, "--json", symbolic)
    assert Path(symbolic).read_bytes() == before


# ---- inputs of one's own ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"z": np.ones((1, 4), np.float32)}, "has no array 'x'"),
        ({"x": np.ones((1, 4), np.float32), "z": np.ones(1)}, "that is no input"),
        ({"x": np.ones((1, 5), np.float32)}, "shape [1, 5]"),
        ({"x": np.ones(4, np.float32)}, "shape [4]"),
        ({"x": np.ones((1, 4), np.complex64)}, "complex64"),
        ({"x": np.full((1, 4), "a")}, "float"),
    ],
)
def test_arrays_that_do_not_fit(refused, symbolic, tmp_path, arrays, sentence):
    np.savez(tmp_path / "own.npz", **arrays)
    for command in (
        ["optimize", symbolic, "-o", tmp_path / "o.onnx"],
        ["verify", symbolic, symbolic],
        ["bench", symbolic],
    ):
        assert sentence in refused(*command, "--inputs", tmp_path / "own.npz")


def test_files_that_are_no_arrays(refused, symbolic, tmp_path):
    own, proof = tmp_path / "own.npz", tmp_path / "proof"

    def told():
        return refused("verify", symbolic, symbolic, "--inputs", own)

    assert "no inputs file" in told()
    np.savez(own, x=np.array([[Bomb(str(proof))] * 4], dtype=object))
    assert "not an .npz file of plain arrays" in told()
    assert not proof.exists()
    own.write_bytes(pickle.dumps(Bomb(str(proof))))
    assert "not an .npz file" in told()
    assert not proof.exists()
    own.write_bytes(b"hello")
    assert "not an .npz file" in told()
    with open(own, "wb") as file:
        np.save(file, np.ones((1, 4), np.float32))
    assert "without a name" in told()
    np.savez_compressed(own, x=np.random.default_rng(0).standard_normal((1, 4)).astype(np.float32))
    whole = own.read_bytes()
    draw = random.Random(3)
    for _ in range(60):
        data = bytearray(whole)
        data[draw.randrange(len(data))] = draw.randrange(256)
        own.write_bytes(data[: draw.choice((len(data), draw.randrange(len(data))))])
        main_code = main(["verify", symbolic, str(tmp_path / "none.onnx"), "--inputs", str(own)])
        assert main_code == 2
