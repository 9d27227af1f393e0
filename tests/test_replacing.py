"""Files are replaced whole or not at all: on a full disk, in a process that is killed, beside others that are written."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.conftest import ROOT
from tests.slow import thorough_unless
from tests.waiting import LIMIT_S
from workbench.errors import UserError
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.formats.io.proto_file import open_proto, write_proto
from workbench.support.files import check_outputs, replacing, write_text

GOOD = "what was there before\n"
WAYS = {
    "model": ["optimize", "M", "--no-verify", "-o", "X"],
    "report of optimize": ["optimize", "M", "--no-verify", "-o", "out.onnx", "--report", "X"],
    "certificate": ["optimize", "M", "--no-verify", "-o", "out.onnx", "--certificate", "X"],
    "certificate of memory": ["memory", "M", "--certificate", "X"],
    "report": ["report", "M", "-o", "X"],
    "dot": ["report", "M", "-o", "out.html", "--dot", "X"],
    "lesson": ["lesson", "export", ROOT / "lessons" / "02_why_a_transpose.md", "-o", "X"],
}
IN_PROCESS = {
    "inputs": "from workbench.run.inputs import write_inputs; import numpy; write_inputs({place!r}, {{'x': numpy.ones(4000)}})",
    "profile": (
        "import os; os.environ['WORKBENCH_PROFILES'] = os.path.dirname({place!r});"
        "from dataclasses import replace; from workbench.planning.layout.profile import load_profile, save_profile;"
        "save_profile(replace(load_profile('cuda'), name='mine', title='t' * 60))"
    ),
    "text": "from workbench.support.files import write_text; write_text({place!r}, 'x' * 30000)",
}
# Modules that write into folders of their own, which nobody names, or only add lines to a record.
WRITE_ELSEWHERE = {
    "interfaces/study/cluster/device_actor.py",
    "interfaces/study/cluster/on_ray.py",
    "interfaces/study/cluster/file_transfer.py",
    "formats/io/__init__.py",
    "formats/io/encodings.py",
    "formats/io/program_data.py",
    "formats/io/program_process.py",
    "interfaces/study/sweep/record.py",
    "support/owned_folders.py",
    "backends/torch/fused/compiling_ahead.py",
    "run/tasks/__main__.py",
    "run/worker/process.py",
    "backends/process_memory.py",
    "backends/tensors.py",
    "interfaces/study/tuning/measuring.py",
    "interfaces/ui/state/model_inputs.py",
    "interfaces/ui/state/reducing.py",
    "interfaces/ui/state/uploads.py",
    "interfaces/ui/widgets/bundled_component.py",
}


def in_a_process(code: str, folder: Path, largest: int | None = None) -> subprocess.CompletedProcess:
    """Run code in a process whose files can grow to so many bytes: what a full disk does, for one file."""
    limit = "" if largest is None else f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({largest},) * 2)\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", limit + code]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S)


def assert_kept(code: str, folder: Path, place: Path) -> None:
    """The code writes the file; with a disk too small by a fifth of it the old one stays, and nothing beside it."""
    done = in_a_process(code, folder)
    assert done.returncode == 0, done.stderr
    size = place.stat().st_size
    assert size > len(GOOD)
    place.write_text(GOOD)
    before = {path for path in folder.iterdir() if path.name != "out.onnx"}
    failed = in_a_process(code, folder, size * 4 // 5)
    assert failed.returncode != 0 and "File too large" in failed.stderr, failed.stderr
    assert place.read_text() == GOOD
    assert {path for path in folder.iterdir() if path.name != "out.onnx"} == before


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="NOT TESTED: Windows has no limit for the size of files")
@pytest.mark.parametrize("way", [thorough_unless(way == "model", way) for way in WAYS])
def test_a_full_disk_leaves_the_file_of_before(way, tmp_path, tmp_path_factory):
    place = tmp_path / {"model": "x.onnx", "lesson": "x.html"}.get(way, "x.txt")
    small = tmp_path_factory.mktemp("model") / "small.onnx"
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) { a = Identity(x) y = Relu(a) }'
    onnx.save(onnx.parser.parse_model(text), small)
    words = [str({"X": place, "M": small}.get(word, word)) for word in WAYS[way]]
    assert_kept(f"from workbench.__main__ import main; raise SystemExit(main({words!r}))", tmp_path, place)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="NOT TESTED: Windows has no limit for the size of files")
@pytest.mark.parametrize("kind", [thorough_unless(kind == "inputs", kind) for kind in IN_PROCESS])
def test_a_full_disk_leaves_what_the_app_and_the_library_write(kind, tmp_path):
    place = tmp_path / ("mine.toml" if kind == "profile" else "x.npz")
    assert_kept(IN_PROCESS[kind].format(place=str(place)), tmp_path, place)


@pytest.mark.slow
def test_one_module_writes_the_files_that_users_name():
    """Any other that opens a file for writing is listed above, with the reason."""
    writers = set()
    for path in sorted((ROOT / "workbench").rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        if any(_writes(call) for call in calls):
            writers.add(str(path.relative_to(ROOT / "workbench")))
    drafts = {
        "support/files.py",
        "formats/io/exporting.py",
        "formats/io/proto_file.py",
        "planning/layout/profile.py",
        "run/inputs.py",
    }
    assert writers == WRITE_ELSEWHERE | drafts


def _writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("write_text", "write_bytes") and isinstance(call.func, ast.Attribute):
        return True
    modes = [a.value for a in call.args[1:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return name in ("open", "savez") and (name == "savez" or any(set(mode) & set("wax") for mode in modes))


# ---- permissions, links, drafts ----------------------------------------------------------


def test_permissions_and_links_stay(tmp_path):
    place, link = tmp_path / "report.json", tmp_path / "link.json"
    place.write_text(GOOD)
    place.chmod(0o640)
    link.symlink_to(place)
    write_text(link, "new")
    assert link.is_symlink() and place.read_text() == "new"
    assert stat.S_IMODE(place.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "report.json"]


def test_a_pipe_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        write_text(pipe, "told")
        assert reader.communicate()[0] == "told"
    assert pipe.is_fifo()


def test_an_exception_while_writing_changes_nothing(tmp_path):
    place = tmp_path / "a.txt"
    place.write_text(GOOD)
    with pytest.raises(KeyboardInterrupt), replacing(place) as draft:
        draft.write_text("half")
        raise KeyboardInterrupt
    assert place.read_text() == GOOD and [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="NOT TESTED: root may write anywhere")
def test_a_folder_that_takes_no_new_file_is_told_before_the_work(tmp_path):
    place = tmp_path / "a.txt"
    place.write_text(GOOD)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(UserError, match="cannot be written"):
            check_outputs([str(place)], [])
    finally:
        tmp_path.chmod(0o700)


def test_what_a_killed_process_left_is_removed_and_what_another_writes_is_not(tmp_path):
    place = tmp_path / "a.txt"
    begin = f"from workbench.support.files import replacing\nwith replacing({str(place)!r}) as draft:\n    draft.write_text('half')\n"
    killed = in_a_process(f"{begin}    import os; os._exit(9)", tmp_path)
    assert killed.returncode == 9 and len(list(tmp_path.iterdir())) == 1
    with replacing(place) as other:
        other.write_text("mine")
        assert len(list(tmp_path.iterdir())) == 1  # the draft of the killed one is gone
        write_text(tmp_path / "b.txt", "another's")
        assert other.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]


# ---- a model and its weights -------------------------------------------------------------


def model_with(value: float, folder: Path) -> Path:
    weights = onnx.numpy_helper.from_array(np.full((2000,), value, np.float32), "w")
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[2000] x) => (float[2000] y) { y = Add(x, w) }'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(weights)
    path = folder / f"source{value:g}.onnx"
    onnx.save(model, path)
    return path


def computed(path: Path) -> float:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": np.zeros(2000, np.float32)})
    assert np.ptp(result) == 0
    return float(result[0])


def export_of(path: Path, target: Path) -> str:
    return (
        "from workbench.formats.io import load_model; from workbench.formats.io.exporting import export_onnx\n"
        f"export_onnx(load_model({str(path)!r}), {str(target)!r}, external_data=True)\n"
    )


def dying_at(call: int) -> str:
    """Code that ends the process in place of this call of os.replace or os.unlink, as the system might."""
    return (
        "import os, pathlib, itertools\n"
        "counted = itertools.count(1)\n"
        "def or_die(act):\n"
        "    def acting(*args, **words):\n"
        f"        if 'model.onnx' in str(args) and next(counted) == {call}: os._exit(9)\n"
        "        return act(*args, **words)\n"
        "    return acting\n"
        "os.replace, pathlib.Path.unlink = or_die(os.replace), or_die(pathlib.Path.unlink)\n"
    )


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_model_and_its_weights_change_together_or_not_at_all(call, tmp_path):
    """Killed before the weights are moved, before the model is, before the old weights are removed."""
    sources, place = tmp_path / "sources", tmp_path / "out" / "model.onnx"
    sources.mkdir()
    place.parent.mkdir()
    one, two, three = (model_with(value, sources) for value in (1, 2, 3))
    export_onnx(load_model(one), place, external_data=True)
    assert computed(place) == 1
    killed = in_a_process(dying_at(call) + export_of(two, place), tmp_path)
    assert killed.returncode == 9, killed.stderr
    assert computed(place) == (2 if call == 3 else 1)
    written = export_onnx(load_model(three), place, external_data=True)
    assert computed(place) == 3
    assert sorted(place.parent.iterdir()) == sorted(written.files) and len(written.files) == 2


def test_weights_of_a_model_that_is_replaced_go_with_it(tmp_path):
    place = tmp_path / "model.onnx"
    for value in (1, 2, 3, 4):
        source = model_with(value, tmp_path)
        written = export_onnx(load_model(source), place, external_data=value < 4)
        source.unlink()
        assert computed(place) == value
        assert sorted(tmp_path.iterdir()) == sorted(written.files)
    assert written.files == (place,)


def test_a_message_is_written_together_with_its_weights(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.formats.io.proto_file.LARGEST_FILE", 1000)
    place = tmp_path / "model.onnx"
    for value in (1, 2, 3):
        source = open_proto(model_with(value, tmp_path))
        write_proto(place, source.model, source.read_weight)
        assert computed(place) == value
    assert len(list(tmp_path.glob("model.onnx*"))) == 2
