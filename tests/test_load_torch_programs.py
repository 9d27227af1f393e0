"""Programs in `.pt2` files: hostile ones stop in a process of their own, and those with sizes that depend on data open."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.conftest import ROOT
from tests.loading import refusal, run
from tests.waiting import LIMIT_S
from workbench.formats.io import LoadError, load_model, program_process
from workbench.formats.io.program_data import copy_plain_data
from workbench.formats.io.size_expressions import is_of_sizes


def saved(path: Path, module, *args, **words) -> Path:
    import torch

    torch.export.save(torch.export.export(module.eval(), args, **words), path)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return saved(tmp_path_factory.mktemp("torch") / "small.pt2", torch.nn.Linear(4, 4), torch.ones(2, 4))


def changed(program: Path, target: Path, change) -> Path:
    """A copy whose description of the program `change` has edited."""
    with zipfile.ZipFile(program) as source, zipfile.ZipFile(target, "w") as copy:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("models/model.json"):
                described = json.loads(data)
                change(described)
                data = json.dumps(described).encode()
            copy.writestr(name, data)
    return target


# ---- sizes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "Pow(Integer(10), Integer(3000000000))",
        "Pow(Pow(Pow(Integer(10), Integer(1000)), Integer(1000)), Integer(1000))",
        "Pow(Integer(10), Mul(Integer(1000000), Integer(1000000)))",
        "Pow(Integer(10), Pow(Integer(10), Integer(9)))",
        "Pow(Integer(10), floor(Integer(10000000000)))",
        "PowByNatural(Integer(2), Integer(9999999999))",
        "LShift(Integer(1), Integer(9999999999))",
        "Integer('9' * 10)",
        "'9' * 10",
        "Symbol('s', integer='9' * 10)",
        "Float('1e3000000000')",
        "Float('1', precision=9999999999)",
        "Integer(" + "9" * 5000 + ")",
        "Mul(" + ", ".join(["Integer(18446744073709551616)"] * 400) + ")",
        "10 ** 3000000000",
        "1 << 9999999999",
        "-" * 5000 + "1",
        "(" * 5000 + "1" + ")" * 5000,
        "Add(" * 500 + "1" + ")" * 500,
        "Symbol('" + "s" * 20000 + "')",
        "Symbol('s', positive=__import__('os'))",
        "Symbol('a b')",
        "lambda: 1",
        "[1, 2]",
        "s0.__class__",
        "",
    ],
)
def test_no_expression_of_sizes_makes_a_huge_number_or_calls_what_is_not_known(expression):
    assert not is_of_sizes(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "Symbol('s77', positive=True, integer=True)",
        "Add(Mul(Integer(-1), Symbol('s0', integer=True)), Integer(9223372036854775807))",
        "Pow(Symbol('s0', integer=True), Integer(2))",
        "PowByNatural(Integer(2), Symbol('s0', positive=True, integer=True))",
        "FloorDiv(Add(Symbol('s1', integer=True), Integer(1)), Integer(2))",
        "Float('1.5', precision=53)",
        "s0 // 2 + 3*s1",
        "LessThan(Symbol('u0', integer=True), Integer(12))",
    ],
)
def test_expressions_that_torch_writes_are_of_sizes(expression):
    assert is_of_sizes(expression)


@pytest.mark.slow
def test_a_size_that_would_take_years_to_evaluate_is_refused(program, tmp_path):
    def plant(described):
        sizes = described["graph_module"]["graph"]["tensor_values"]["linear"]["sizes"]
        sizes[0] = {"as_expr": {"expr_str": "Pow(Integer(10), Integer(3000000000))", "hint": {"as_int": 3}}}

    told = refusal(changed(program, tmp_path / "bomb.pt2", plant))
    assert "has the size 'Pow(Integer(10), Integer(3000000000))'" in told


# ---- the process -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_program_is_read_in_a_process_of_its_own(program):
    """The one that opens it, such as the app's server, does not even import torch."""
    code = (
        "import sys; from workbench.formats.io import load_model\n"
        f"print(len(load_model({str(program)!r})), [m for m in ('torch',) if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"[1-9] \[\]\n", done.stdout)


def test_a_program_has_limits_of_time_and_of_memory(program, tmp_path, monkeypatch):
    with pytest.raises(LoadError, match=r"torch did not read the program within 0.2 s; export it"):
        program_process.exported(program, tmp_path, limit_s=0.2)
    monkeypatch.setattr(program_process, "MEMORY_BYTES", 50e6)
    assert "GB to read the program, more than the 0.1 GB that a file of this size may take" in refusal(program)
    assert not [child for child in psutil.Process().children() if "program_process" in " ".join(child.cmdline())]


def test_a_process_that_dies_is_a_sentence(program):
    def kill():
        for _ in range(500):
            found = [c for c in psutil.Process().children() if "workbench.formats.io.program_process" in c.cmdline()]
            if found:
                found[0].kill()
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    assert "torch's process ended while it read the program (SIGKILL); export it" in refusal(program)
    killer.join()


@pytest.mark.slow
def test_the_process_ends_with_the_one_that_started_it(program):
    code = f"from workbench.formats.io import load_model; load_model({str(program)!r})"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as application:
        begun = psutil.Process(application.pid)
        for _ in range(500):
            reading = [child for child in begun.children() if "workbench.formats.io.program_process" in child.cmdline()]
            if reading:
                break
            time.sleep(0.02)
        scratch = Path(reading[0].cmdline()[-1])
        application.kill()
    _, alive = psutil.wait_procs(reading, timeout=LIMIT_S)
    assert not alive and not (scratch / "answer.txt").exists()  # it did not go on to its end
    shutil.rmtree(scratch.parent)


# ---- names -----------------------------------------------------------------------------


def planted_name(described, where: str, name: str) -> None:
    graph = described["graph_module"]["graph"]
    match where:
        case "node":
            graph["nodes"][0]["name"] = name
        case "argument":
            graph["nodes"][0]["inputs"][0]["name"] = name
        case "target":
            graph["nodes"][0]["target"] = name
        case "value":
            graph["tensor_values"][name] = graph["tensor_values"].pop("linear")
        case "weight":
            described["graph_module"]["signature"]["input_specs"][0]["parameter"]["parameter_name"] = name
        case "forward":
            described["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = [name]
        case "keyword":
            leaf = {"type": None, "context": None, "children_spec": []}
            empty = {"type": "builtins.tuple", "context": "null", "children_spec": []}
            named = {"type": "builtins.dict", "context": json.dumps([name]), "children_spec": [leaf]}
            root = {"type": "builtins.tuple", "context": "null", "children_spec": [empty, named]}
            described["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = json.dumps([1, root])


def refused(path: Path) -> str:
    """The sentence of the check that the process makes first."""
    with pytest.raises(LoadError) as caught:
        copy_plain_data(path, path.with_name("copy.pt2"))
    return str(caught.value)


@pytest.mark.parametrize("where", ["node", "argument", "value", "forward", "keyword"])
@pytest.mark.parametrize("name", ["a b", "a.b", "x=1", "x: print(1)", "1x", "x,y"])
def test_names_of_values_and_arguments_are_identifiers(program, tmp_path, where, name):
    told = refused(changed(program, tmp_path / "m.pt2", lambda described: planted_name(described, where, name)))
    assert f"the program has the name {name!r}, which torch would take for source code" in told


@pytest.mark.parametrize(
    ("where", "name"), [("weight", 'w")+print("'), ("weight", "w\\"), ("target", "f()"), ("weight", "w\nx")]
)
def test_names_of_weights_and_operators_are_safe_in_source(program, tmp_path, where, name):
    told = refused(changed(program, tmp_path / "m.pt2", lambda described: planted_name(described, where, name)))
    assert "which torch would take for source code" in told


@pytest.mark.parametrize(
    "spec", ["{}", "[]", "[1]", "[1, 2]", "7", '[1, {"type": "builtins.tuple"}]', "null", '[1, {"type": 3}]']
)
def test_a_signature_that_is_none_is_a_sentence(program, tmp_path, spec):
    def plant(described):
        described["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = spec

    told = refused(changed(program, tmp_path / "m.pt2", plant))
    assert "signature" in told or "takes or returns" in told


# ---- sizes that depend on data -----------------------------------------------------------


def data_dependent():
    import torch
    from torch import nn

    class Mask(nn.Module):
        def forward(self, x):
            return x[x > 0]

    class Item(nn.Module):
        def forward(self, x, n):
            k = n.item()
            torch._check(k >= 2)
            torch._check(k <= 8)
            return x.narrow(0, 0, k) * 2

    class NonZero(nn.Module):
        def forward(self, x):
            rows = torch.nonzero(x[:, 0]).squeeze(1)
            return torch.cat([x[rows], x[rows]])

    class Keys(nn.Module):
        def __init__(self):
            super().__init__()
            names = ("my key", "b (2)", "it's", "a,b;c")
            self.blocks = nn.ModuleDict({name: nn.Linear(4, 4) for name in names})

        def forward(self, x):
            for block in self.blocks.values():
                x = block(x)
            return torch.nn.functional.gelu(x, approximate="tanh")

    x = torch.linspace(-1, 2, 16).reshape(4, 4)
    return {"mask": (Mask(), x), "item": (Item(), x, torch.tensor(3)), "nonzero": (NonZero(), x), "keys": (Keys(), x)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mask", "item", "nonzero", "keys"])
def test_programs_with_sizes_that_depend_on_data_and_any_names_of_modules_open(name, tmp_path):
    import torch

    torch.manual_seed(0)
    module, *args = data_dependent()[name]
    graph = load_model(saved(tmp_path / f"{name}.pt2", module, *args))
    given = dict(zip(graph.inputs, (arg.numpy() for arg in args), strict=True))
    with torch.no_grad():
        expected = module(*args).numpy()
    np.testing.assert_allclose(run(graph.source, given)[0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_an_operator_that_cannot_be_exported_is_named_and_nothing_is_coloured(tmp_path):
    import torch

    class Eigen(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvals(x).real

    told = refusal(saved(tmp_path / "m.pt2", Eigen(), torch.ones(4, 4)))
    assert "ONNX has no equivalent of the operator aten.linalg_eig.default; write the program without it" in told
    assert "\x1b" not in told and "\n" not in told
