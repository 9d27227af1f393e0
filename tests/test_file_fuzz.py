"""Damaged files of every kind open, or are refused in one sentence; nothing crashes, hangs or unpacks without bound."""

from __future__ import annotations

import io
import json
import sqlite3
import subprocess
import sys
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.conftest import ROOT
from tests.file_fuzz import KINDS
from tests.loading import refusal
from tests.pages import fine, opened_sample, page
from workbench.errors import MAX_SENTENCE, UserError, one_sentence, reading
from workbench.formats.io import LoadError, load_model
from workbench.formats.io.onnx_file import load_text
from workbench.interfaces.study.tuning.recipe import RecipeError, load_recipe
from workbench.presentation.view.node_numbers import NumbersError, read_numbers
from workbench.run.inputs import read_inputs
from workbench.run.npz import InputError
from workbench.run.records.changes import kept_times
from workbench.run.records.store import RecordsError, find_runs

QUICK = 25
MANY = {"program": 100, "link": 50}  # of the slow ones: torch, and pages of the app; else 400


def read_all(names, first, count, folder):
    """Try mutations in a process of its own; a crash or a hang ends it, and its last line tells the kind and the seed."""
    code = [sys.executable, "-m", "tests.file_fuzz", ",".join(names), str(first), str(count), str(folder)]
    done = subprocess.run(code, cwd=ROOT, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert not [line for line in lines if line.startswith("WRONG")]
    assert done.returncode == 0, f"it ended at {lines[-1]}: {done.stderr[-2000:]}"
    assert len(lines) == len(names) * count


@pytest.mark.slow
def test_some_damaged_files_of_each_kind(tmp_path):
    read_all([name for name in KINDS if name not in MANY], 0, QUICK, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_hundreds_of_damaged_files_of_each_kind(name, tmp_path):
    read_all([name], QUICK, MANY.get(name, 400), tmp_path)


# ---- sentences ---------------------------------------------------------------------------


def test_a_sentence_is_one_line_of_at_most_300_characters_and_keeps_what_to_do():
    told = one_sentence("'" + "n" * 5000 + "\n\x1b[31m' is wrong; export it again")
    assert len(told) == MAX_SENTENCE and told.endswith("' is wrong; export it again") and " ... " in told
    assert "\n" not in told and "\x1b" not in told


def test_any_exception_of_a_library_is_a_sentence_and_errors_of_the_system_stay():
    class OwnError(UserError):
        pass

    def sentence(error):
        with pytest.raises(OwnError) as caught, reading("the file", OwnError, "write it again"):
            raise error
        return str(caught.value)

    told = "the file is damaged, or has an unknown format (KeyError: 's'); write it again"
    assert sentence(KeyError("s")) == told
    assert sentence(MemoryError()) == "the file does not fit into memory; write it again"
    assert len(sentence(ValueError("x" * 10_000))) <= MAX_SENTENCE
    assert len(sentence(OwnError("x" * 10_000))) == MAX_SENTENCE
    with pytest.raises(FileNotFoundError), reading("the file", OwnError, "write it again"):
        raise FileNotFoundError


def test_a_fault_of_the_program_is_told_in_a_sentence_too():
    """The command's own module is replaced by one that fails, as none of ours is known to."""
    code = (
        "import sys, types; from workbench.interfaces.cli import main\n"
        "def fail(chosen): return {}['missing']\n"
        "sys.modules['workbench.interfaces.cli.passes'] = types.SimpleNamespace(HELP='', EXAMPLES=(), add_arguments=lambda c: None, run=fail)\n"
        "sys.argv = ['workbench', 'passes']; main.program()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    told = (
        "workbench: this is a fault of the program (KeyError: 'missing'; <string>, line 2); report it with the command"
    )
    assert done.returncode == 2 and done.stderr.startswith(told) and done.stderr.count("\n") == 1


# ---- .npz ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graph():
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[N,4] x, int64[2] s) => (float[N,4] y) { y = Relu(x) }'
    return load_text(text)[0]


def good_inputs():
    out = io.BytesIO()
    np.savez_compressed(out, x=np.ones((2, 4), np.float32), s=np.arange(2))
    return out.getvalue()


def damaged(name):
    """Archives that numpy reads in part, or not at all."""
    data = bytearray(good_inputs())
    if name == "deflate":
        data[60:70] = b"\xff" * 10
    elif name == "method":
        for signature, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            place = data.find(signature)
            data[place + at : place + at + 2] = (77).to_bytes(2, "little")
    elif name == "encrypted":
        place = data.find(b"PK\x01\x02")
        data[place + 8] |= 1
    elif name in ("no array", "header", "length", "objects", "long header"):
        arrays = {"x": _array(np.ones((2, 4), np.float32)), "s": _array(np.arange(2))}
        arrays["x"] = {
            "no array": b"not an array",
            "header": arrays["x"].replace(b"'shape'", b"'shade'"),
            "length": arrays["x"][:-4],
            "long header": b"\x93NUMPY\x02\x00" + (2**24).to_bytes(4, "little") + b" " * 2**24,
            "objects": arrays["x"].replace(b"'<f4'", b"'|O' "),
        }[name]
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for key, entry in arrays.items():
                archive.writestr(f"{key}.npy", entry)
        data = bytearray(out.getvalue())
    return bytes(data)


def _array(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.mark.parametrize(
    "name", ["deflate", "method", "encrypted", "no array", "header", "length", "objects", "long header"]
)
def test_a_damaged_npz_is_a_sentence(name, graph, tmp_path):
    file = tmp_path / "i.npz"
    file.write_bytes(good_inputs())
    read_inputs(file, graph)
    file.write_bytes(damaged(name))
    with pytest.raises(InputError, match=r"is not an \.npz file of plain arrays: .*; save the inputs with numpy.savez"):
        read_inputs(file, graph)


@pytest.mark.slow
def test_an_array_that_is_no_input_is_not_unpacked(graph, tmp_path):
    """1 MB that would become 1 GB: its name is enough to refuse it."""
    file = tmp_path / "i.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", _array(np.ones((2, 4), np.float32)))
        archive.writestr("s.npy", _array(np.arange(2)))
        with archive.open("more.npy", "w", force_zip64=True) as entry:
            heading = {"descr": "<f4", "fortran_order": False, "shape": (2**28,)}
            np.lib.format.write_array_header_1_0(entry, heading)
            for _ in range(64):
                entry.write(bytes(2**24))
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (10**9, 10**9))\n"
        "from pathlib import Path; from workbench.formats.io.onnx_file import load_text; from workbench.run.inputs import read_inputs\n"
        "text = '<ir_version: 10, opset_import: [\"\": 21]> g (float[N,4] x, int64[2] s) => (float[N,4] y) { y = Relu(x) }'\n"
        f"try: read_inputs({str(file)!r}, load_text(text)[0])\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "InputError" in done.stdout and "has an array 'more' that is not an input" in done.stdout, done.stderr


# ---- models -------------------------------------------------------------------------------


def written(tmp_path, nodes, inputs, outputs, functions=(), value_info=(), opset=21):
    graph = helper.make_graph(nodes, "g", inputs, outputs, value_info=value_info)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def tensor(name, shape=(4,), kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def test_values_larger_than_any_memory_are_of_unknown_size(tmp_path, done):
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["y"])]
    shape = (2**62, 4)
    path = written(tmp_path, nodes, [tensor("x", shape)], [tensor("y", shape)])
    assert "values are not in the plan, since their size is not known" in done("memory", path)
    done("streams", path)
    done("inspect", path)


def test_a_value_of_no_element_type_has_no_type(tmp_path, done):
    path = written(tmp_path, [helper.make_node("Other", ["x"], ["y"], domain="local")], [tensor("x")], [tensor("y")])
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.UNDEFINED
    onnx.save(model, path)
    assert load_model(path).type("y") is None
    for command in ("memory", "streams", "inspect"):
        done(command, path)


@pytest.mark.parametrize("kind", ["seq(", "optional(", "body", "list"])
def test_a_text_that_is_nested_too_deep_does_not_end_the_process(tmp_path, kind):
    """ONNX's parser calls itself for each level; 100,000 of them overflow its stack."""
    deep = 100_000
    texts = {
        "body": "g (float[4] x, bool c) => (float[4] y) { " + "y = If(c) <then_branch = b () => (float[4] y) { " * deep,
        "list": "g (float[4] x) => (float[4] y) <float[4] w = " + "{" * deep,
    }
    text = texts.get(kind) or f"g ({kind * deep}float[4]{')' * deep} x) => (float[4] y) {{ y = Identity(x) }}"
    path = tmp_path / "m.onnxtxt"
    path.write_text(f'<ir_version: 10, opset_import: ["": 21]>\n{text}')
    assert "more than 300 nested brackets" in refusal(path)


def test_brackets_in_texts_and_comments_are_none(tmp_path):
    path = tmp_path / "m.onnxtxt"
    text = 'g (float[4] x) => (float[4] y) { y = Relu <note: string = "' + "(" * 1000 + '"> (x) }'
    path.write_text(f'<ir_version: 10, opset_import: ["": 21]>\n{text}'.replace("note: string", "note"))
    try:
        load_model(path)
    except LoadError as error:
        assert "brackets" not in str(error)


def test_functions_that_call_each_other_too_deep_are_a_sentence(tmp_path):
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    functions = [helper.make_function("local", f"f{i}", ["x"], ["y"], [_call(i)], imports) for i in range(300)]
    path = written(
        tmp_path, [helper.make_node("f0", ["x"], ["y"], domain="local")], [tensor("x")], [tensor("y")], functions
    )
    assert "Function call chain depth exceeds limit" in refusal(path)


def _call(i):
    return (
        helper.make_node("Relu", ["x"], ["y"])
        if i == 299
        else helper.make_node(f"f{i + 1}", ["x"], ["y"], domain="local")
    )


def test_wrong_declared_types_of_values_stop_no_search_for_kernels(tmp_path):
    """PRelu, whose kernels depend on the element type, in a model that declares a wrong shape for its result."""
    nodes = [helper.make_node("PRelu", ["x", "s"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    path = written(tmp_path, nodes, [tensor("x"), tensor("s")], [tensor("y")], value_info=[tensor("a", (1,))], opset=16)
    assert load_model(path).shape("a") == (4,)


@pytest.mark.parametrize(
    ("attribute", "told"),
    [
        (helper.make_attribute("kernel_shape", 2), "'kernel_shape' of the type INT; the operator takes INTS"),
        (helper.make_attribute("kernel_shape", "2"), "'kernel_shape' of the type STRING; the operator takes INTS"),
        (
            onnx.AttributeProto(name="kernel_shape", type=onnx.AttributeProto.GRAPH),
            "of the type GRAPH; the operator takes INTS",
        ),
        (helper.make_attribute("ceil_mode", 1), "lacks the attribute 'kernel_shape', which the operator needs"),
        (onnx.AttributeProto(name="other", type=onnx.AttributeProto.TENSOR), "'other' without a value"),
    ],
)
def test_attributes_of_another_type_are_a_sentence(tmp_path, attribute, told):
    node = helper.make_node("MaxPool", ["x"], ["y"])
    node.attribute.append(attribute)
    if attribute.name == "other":
        node.attribute.append(helper.make_attribute("kernel_shape", [2, 2]))
    shape = (1, 3, 8, 8)
    assert told in refusal(written(tmp_path, [node], [tensor("x", shape)], [tensor("y", shape)]))


def test_a_node_that_makes_nothing_is_planned(tmp_path, done):
    nodes = [helper.make_node("Sink", ["x"], [], domain="local"), helper.make_node("Relu", ["x"], ["y"])]
    done("memory", written(tmp_path, nodes, [tensor("x")], [tensor("y")]))


# ---- recipes, numbers, links ------------------------------------------------------------------


def test_numbers_that_no_float_holds_are_sentences(tmp_path):
    recipe = tmp_path / "r.toml"
    KINDS["recipe"].make(recipe)
    load_recipe(recipe)
    recipe.write_text(recipe.read_text().replace("seconds = 9.5", f"seconds = {'9' * 400}"))
    with pytest.raises(RecipeError, match=r"tuned\.seconds is too large a number; correct it"):
        load_recipe(recipe)
    with pytest.raises(NumbersError, match="is not a number; leave it empty"):
        read_numbers("n.json", json.dumps({"conv": int("9" * 400)}), ["conv"])


def test_a_link_with_a_step_of_thousands_of_digits_opens_its_model():
    at = page("optimize", opened_sample("npu_types"))
    for key in ("step", "rewrite"):
        at.query_params[key] = "9" * 5000
    fine(at.run())


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("dims", "1"),
        ("versions", "[]"),
        ("median_ms", "fast"),
        ("peak_bytes", "much"),
        ("threads", 1.5),
    ],
)
def test_a_row_of_the_kept_runs_that_was_not_written_here_is_a_sentence(tmp_path, column, value, refused):
    file = tmp_path / "runs.sqlite"
    KINDS["database"].make(file)
    with sqlite3.connect(file) as database:
        ((table,),) = database.execute("select name from sqlite_master where type = 'table'").fetchall()
        database.execute(f"update {table} set {column} = ?", (value,))
    database.close()
    told = refused("runs", "--url", f"sqlite:///{file}")
    assert f"has a {column} of another type; delete that row" in told or "cannot be used" in told


def test_a_record_of_a_kept_run_without_times_is_a_sentence(tmp_path):
    file = tmp_path / "runs.sqlite"
    KINDS["database"].make(file)
    runs = find_runs(url=f"sqlite:///{file}")
    with sqlite3.connect(file) as database:
        ((table,),) = database.execute("select name from sqlite_master where type = 'table'").fetchall()
        database.execute(f"update {table} set record = ?", ('{"variants": {"a": {"times_ms": []}}}',))
    database.close()
    with pytest.raises(RecordsError, match="the record of run 1 is damaged"):
        kept_times(runs, f"sqlite:///{file}")


def test_a_long_name_of_a_model_is_cut_in_what_a_command_says(tmp_path, refused):
    name = "n" * 100_000
    path = written(tmp_path, [helper.make_node("Relu", ["x"], ["y"], name)], [tensor("x")], [tensor("y")])
    told = refused("extract", path, "--from", "x", "--to", name, "-o", tmp_path / "part.onnx")
    assert f"'{'n' * 200}...'" in told and len(told) < 1000
