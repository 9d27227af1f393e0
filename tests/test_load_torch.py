"""Loading from torch: programs, factories, and pickles that are never opened."""

from __future__ import annotations

import io
import json
import pickle
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.loading import refusal, run
from tests.making import Bomb
from workbench.formats.io import LoadError, load_model, load_torch
from workbench.ir import check

# ---- programs --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    torch = pytest.importorskip("torch")

    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)
            self.register_buffer("scale", torch.full((4, 1, 1), 2.0))

        def forward(self, x, extra):
            return {"out": torch.relu(self.conv(x) * self.scale) + extra[0]}

    torch.manual_seed(0)
    args = (torch.randn(2, 3, 8, 8), [torch.randn(4, 6, 6)])
    dims = {"x": {0: torch.export.Dim("batch", min=1, max=64)}, "extra": [None]}
    path = tmp_path_factory.mktemp("torch") / "small.pt2"
    torch.export.save(torch.export.export(Small().eval(), args, dynamic_shapes=dims), path)
    return path


@pytest.mark.slow
def test_a_torch_program(program):
    import torch

    graph = load_model(program)
    check(graph)
    assert graph.opset_imports[""] == 23
    assert len(graph.dims) == 1
    x, extra = torch.randn(5, 3, 8, 8), torch.randn(4, 6, 6)
    with torch.no_grad():
        expected = torch.export.load(program).module()(x, [extra])["out"].numpy()
    given = dict(zip(graph.inputs, (x.numpy(), extra.numpy()), strict=True))
    np.testing.assert_allclose(run(graph.source, given)[0], expected, rtol=1e-4, atol=1e-6)


# ---- pickles ---------------------------------------------------------------------------


def bomb(target: Path) -> bytes:
    import torch

    out = io.BytesIO()
    torch.save((Bomb(target),), out)
    return out.getvalue()


def rewritten(program: Path, target: Path, change) -> Path:
    """A copy of the archive; `change` gets (name without the root, data) and returns data or more entries."""
    with zipfile.ZipFile(program) as source, zipfile.ZipFile(target, "w") as copy:
        root = source.namelist()[0].split("/")[0]
        for name in source.namelist():
            inner = name.removeprefix(f"{root}/")
            for entry, data in change(inner, source.read(name)).items():
                copy.writestr(f"{root}/{entry}", data)
    return target


def test_the_bomb_works(tmp_path):
    """Else the tests below would prove nothing: torch.export.load itself runs it."""
    import torch

    mark = tmp_path / "ran"
    with pytest.raises(Exception):  # noqa: B017
        torch.load(io.BytesIO(bomb(mark)), weights_only=True)
    assert not mark.exists()
    torch.load(io.BytesIO(bomb(mark)), weights_only=False)
    assert mark.exists()


@pytest.mark.slow
def test_a_pickle_among_the_sample_inputs_is_not_opened(program, tmp_path):
    mark = tmp_path / "ran"
    bad = rewritten(
        program,
        tmp_path / "bad.pt2",
        lambda name, data: {name: bomb(mark) if name.startswith("data/sample_inputs/") else data},
    )
    assert len(load_model(bad)) == len(load_model(program))
    assert not mark.exists()


@pytest.mark.slow
@pytest.mark.parametrize("part", ["weights", "constants"])
def test_a_pickled_weight_is_refused(program, tmp_path, part):
    mark = tmp_path / "ran"

    def change(name, data):
        if name == f"data/{part}/model_{part}_config.json":
            entry = {"path_name": "tensor_9" if part == "constants" else "weight_9", "is_param": True}
            config = {"config": {"w": {**entry, "use_pickle": True, "tensor_meta": None}}}
            return {name: json.dumps(config), f"data/{part}/{entry['path_name']}": bomb(mark)}
        return {name: data}

    told = refusal(rewritten(program, tmp_path / "bad.pt2", change))
    assert "pickle" in told and "runs code" in told
    assert not mark.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "entry",
    [
        f"data/{name}"
        for name in ("constants/custom_obj_0", "constants/opaque_obj_0", "weights/model.pt", "constants/model.pt")
    ],
)
def test_pickled_objects_and_old_forms_are_refused(program, tmp_path, entry):
    mark = tmp_path / "ran"

    def change(name, data):
        return {name: data, entry: bomb(mark)} if name == "archive_format" else {name: data}

    assert f"'{entry}', which may run code" in refusal(rewritten(program, tmp_path / "bad.pt2", change))
    assert not mark.exists()


@pytest.mark.slow
@pytest.mark.parametrize("field", ["expr_str", "name", "guards_code"])
def test_code_in_the_description_of_a_program_does_not_run(program, tmp_path, field):
    mark = tmp_path / "ran"
    code = f"__import__('os').mkdir({str(mark)!r})"

    def planted(item):
        if isinstance(item, dict):
            if field == "guards_code" and "guards_code" in item:
                return {**item, "guards_code": [code]}
            return {k: code if k == field and isinstance(v, str) else planted(v) for k, v in item.items()}
        return [planted(v) for v in item] if isinstance(item, list) else item

    def change(name, data):
        return {name: json.dumps(planted(json.loads(data))) if name == "models/model.json" else data}

    bad = rewritten(program, tmp_path / "bad.pt2", change)
    if field == "guards_code":
        load_model(bad)
    else:
        assert "the program has the" in refusal(bad)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.pkl", "model.pickle", "model.onnx", "model"])
@pytest.mark.parametrize("form", ["pickle", "torch"])
def test_pickles_are_refused(tmp_path, name, form):
    mark = tmp_path / "ran"
    path = tmp_path / name
    path.write_bytes(pickle.dumps(Bomb(mark)) if form == "pickle" else bomb(mark))
    told = refusal(path)
    assert "a pickle runs code when it is opened" in told and "torch.export.save" in told
    assert not mark.exists()


@pytest.mark.slow
def test_a_pt2_that_is_none(tmp_path):
    path = tmp_path / "m.pt2"
    path.write_bytes(b"not a zip")
    assert "not a program saved by torch.export" in refusal(path)
    path.write_bytes(bomb(tmp_path / "ran"))
    assert "not a program of torch.export" in refusal(path)
    assert not (tmp_path / "ran").exists()


# ---- factories -------------------------------------------------------------------------

FACTORY = """
import torch
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 3)
        self.drop = torch.nn.Dropout(0.5)
    def forward(self, x, scale=1.0):
        return self.drop(self.lin(x)) * scale
def plain(): return M(), (torch.ones(2, 4),)
def full(): return M(), (torch.ones(2, 4),), {"scale": torch.tensor(2.0)}, {"x": {0: torch.export.Dim("rows")}, "scale": None}
def exported(): return torch.export.export(M().eval(), (torch.ones(2, 4),))
def wrong(): return 7
def broken(): raise RuntimeError("no weights here")
def unexportable():
    class Bad(torch.nn.Module):
        def forward(self, x): return x if x.sum() > 0 else -x
    return Bad(), (torch.ones(2),)
"""


@pytest.fixture
def factories(tmp_path, monkeypatch) -> str:
    (tmp_path / "my_factories.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_factories", raising=False)
    return "my_factories"


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", ["plain", "full", "exported"])
def test_factories(factories, name):
    graph = load_torch(f"{factories}:{name}")
    check(graph)
    assert not any(node.op_type == "Dropout" for node in graph.nodes)
    assert (len(graph.dims) == 1) == (name == "full")


@pytest.mark.parametrize(
    ("factory", "sentence"),
    [
        ("my_factories:wrong", "the factory must return"),
        ("my_factories:broken", "the factory failed: RuntimeError: no weights here"),
        ("my_factories:unexportable", "torch.export failed"),
        ("my_factories:none", "has no 'none'"),
        ("no_such_module:f", "cannot be imported"),
        ("my_factories", "package.module:function"),
    ],
)
def test_factories_that_do_not_work(factories, factory, sentence):
    with pytest.raises(LoadError) as caught:
        load_torch(factory)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


# ---- what unfolds ---------------------------------------------------------------------------


def with_entry(program: Path, path: Path, name: str, size: int) -> Path:
    """The program with one more entry, of zeros, packed."""
    with zipfile.ZipFile(program) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        root = old.namelist()[0].split("/", 1)[0]
        for entry in old.namelist():
            new.writestr(entry, old.read(entry))
        with new.open(f"{root}/{name}", "w", force_zip64=True) as entry:
            for _ in range(size >> 20):
                entry.write(b"\0" * 2**20)
    return path


@pytest.mark.slow
def test_an_entry_that_unfolds_far_is_refused_before_it_does(program, tmp_path):
    path = with_entry(program, tmp_path / "bomb.pt2", "data/weights/weight_77", 256 << 20)
    assert path.stat().st_size < 2**20
    told = refusal(path)
    assert "weight_77' in the archive expands from" in told and "to 268 MB, which weights never do" in told


@pytest.mark.slow
def test_an_entry_that_the_program_does_not_name_is_not_read(program, tmp_path):
    from workbench.formats.io.torch_program import open_program

    path = with_entry(program, tmp_path / "more.pt2", "data/weights/weight_77", 48 << 20)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    open_program(path, scratch)
    assert (scratch / "program.pt2").stat().st_size < 2**20
    assert len(load_model(path)) == len(load_model(program))
