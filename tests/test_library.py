"""The verbs of the library take paths where they take graphs, name their options, and have a version."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib

import numpy as np
import onnx
import pytest

import workbench as wb
from tests.conftest import ROOT
from tests.loading import saved
from workbench.formats.io.errors import LoadError
from workbench.interfaces import api
from workbench.pipeline.registry.pass_registry import library
from workbench.planning.layout.profile import profile_names

GRAPH = "g (float[1,2,4,4] x) => (float[1,2,4,4] y) { a = Relu(x)  b = Relu(a)  y = Sigmoid(b) }"


@pytest.fixture
def path(tmp_path):
    return saved(tmp_path, GRAPH)


def test_every_verb_that_takes_a_graph_takes_a_path():
    names = [name for name in wb.__all__ if inspect.isfunction(getattr(api, name))]
    taken = {name: next(iter(inspect.signature(getattr(api, name)).parameters.values()), None) for name in names}
    of_graphs = {
        name for name, first in taken.items() if first is not None and first.name in ("graph", "original", "graphs")
    }
    assert of_graphs == {
        *(
            "compile",
            "dot",
            "export",
            "groupings",
            "inspect",
            "layouts",
            "measure",
            "memory_plan",
            "optimize",
            "package",
        ),
        "verify",
    }
    assert all("Model" in str(taken[name].annotation) for name in of_graphs)


def test_paths_give_what_graphs_give(path, tmp_path):
    history = wb.optimize(path)
    assert len(history.graph) == 2 and len(wb.optimize(str(path)).graph) == 2
    out = wb.export(history.graph, tmp_path / "out.onnx").path
    assert wb.verify(path, out).ok and wb.verify(str(path), history.graph).ok
    assert wb.inspect(path).nodes == 3
    assert wb.dot(path).source == wb.dot(wb.load(path)).source
    assert wb.memory_plan(path).packed.total == wb.memory_plan(wb.load(path)).packed.total
    assert set(wb.groupings(path)) == set(wb.groupings(wb.load(path)))
    assert set(wb.layouts(path, timed=False)) == set(wb.layouts(wb.load(path), timed=False))
    x = np.ones((1, 2, 4, 4), np.float32)
    (found,) = (np.asarray(wb.compile(path)(x=x)["y"]),)
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-x)), rtol=1e-6)
    assert wb.measure({"before": path, "after": history.graph}, repeat=1)
    assert wb.export(path, tmp_path / "copy.onnx").bytes
    with pytest.raises(LoadError, match="there is no such file"):
        wb.optimize(tmp_path / "nothing.onnx")


def test_a_file_is_compared_as_it_is(path, tmp_path):
    """Not as it would be exported again: what a file holds that a graph does not is run too."""
    wrong = onnx.load(path)
    wrong.graph.node[2].op_type = "Tanh"
    onnx.save(wrong, tmp_path / "wrong.onnx")
    assert wb.verify(path, tmp_path / "wrong.onnx").ok is False


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda path, to: wb.export(path, to, opsets=3), r"export has no option 'opsets'; .*: external_data, check, opset, ir"),
        (lambda path, to: wb.optimize(path, kep=["x"]), "optimize has no option 'kep'; its further options are: opset, grow, keep"),
        (lambda path, to: wb.measure(path, repeats=3), r"measure has no option 'repeats'; .*, repeat, "),
        (lambda path, to: wb.package(path, to, devise="cpu"), r"package has no option 'devise'; .*: device"),
    ],
)  # fmt: skip
def test_an_unknown_option_is_answered_with_those_that_there_are(call, said, path, tmp_path):
    with pytest.raises(TypeError, match=said):
        call(path, tmp_path / "out")


def test_the_version_is_that_of_the_project(run):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert wb.__version__ == version
    assert run("--version")[:2] == (0, f"graph-workbench {version}\n")


def test_the_version_is_said_without_loading_the_commands():
    code = "import sys; from workbench.interfaces.cli.main import main; main(['--version']); print(sorted(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    assert "workbench.interfaces.cli.optimize" not in said and "onnxruntime" not in said


def test_the_help_of_optimize_begins_with_three_examples_and_names_what_can_be_chosen(run, capsys):
    with pytest.raises(SystemExit):
        run("optimize", "--help")
    said = capsys.readouterr().out
    usage, examples, names = said.split("\n\n")[:3]
    assert usage.startswith("usage: ") and "\n" not in usage
    assert examples.count(" optimize model.onnx -o model.opt.onnx") == len(examples.splitlines()) == 3
    assert {"simplify", "normalize"} <= set(re.findall(r"[\w-]+", names))
    strategies = [name for name, cls in library.strategies().items() if not cls.demonstration]
    for name in (*profile_names(), *strategies, *library.precision_strategies()):
        assert re.search(rf"[ ,:]{re.escape(name)}(,|\n|$)", names), name


def test_what_a_name_hides_is_escaped_in_errors(tmp_path):
    """Control characters, those of no width, and letters that show nothing."""
    hidden = {
        "\x1b[2J": r"\x1b[2J",
        "\u200b": r"\u200b",
        "\u3164": r"\u3164",
        "\u2800": r"\u2800",
        "\ufe0f": r"\ufe0f",
        "a\nb": r"a\nb",
        "\u202e": r"\u202e",
    }
    for raw, shown in hidden.items():
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {GRAPH}')
        model.graph.node[0].input[0] = f"x{raw}"
        onnx.save(model, tmp_path / "m.onnx")
        with pytest.raises(LoadError) as caught:
            wb.load(tmp_path / "m.onnx")
        assert raw not in str(caught.value) and f"x{shown}" in str(caught.value)
        with pytest.raises(LoadError) as caught:
            wb.load(tmp_path / f"no{raw}.onnx")
        assert raw not in str(caught.value) and f"no{shown}.onnx" in str(caught.value)
    assert "é中文ش" in str(LoadError("é中文ش"))
