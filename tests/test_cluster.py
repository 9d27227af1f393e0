"""Jobs and their files, without Ray: files on their way, folders that are left, records in the database, progress."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from benchmarks.sweep import simulate
from tests.commands import SAMPLES
from tests.conftest import ROOT
from workbench.errors import UserError
from workbench.formats.io import LoadError, load_model
from workbench.formats.io.model_files import files_of
from workbench.interfaces.study.cluster import file_transfer
from workbench.interfaces.study.cluster.file_transfer import ReceivedFiles, check_size, manifest_of, pieces_of
from workbench.interfaces.study.cluster.jobs import JobsProgress, OnThisMachine
from workbench.interfaces.study.sweep.blocks import Matrix
from workbench.interfaces.study.sweep.matrix import run_matrix
from workbench.interfaces.study.sweep.model_variants import model_file_at
from workbench.run.records.store import find_runs
from workbench.run.worker.machine import source_digest
from workbench.support.owned_folders import owned_folder

SMALL = SAMPLES / "conv_relu_conv_relu.onnx"


@pytest.fixture(scope="module", autouse=True)
def worker(kept_worker):
    return kept_worker


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A model whose weights lie in a folder beside it."""
    (tmp_path / "driver" / "weights").mkdir(parents=True)
    file = tmp_path / "driver" / "m.onnx"
    onnx.save(onnx.load(SMALL), file, save_as_external_data=True, location="weights/all.data", size_threshold=0)
    return file


def moved(manifest, path: str = "/no/such/"):
    """The manifest as another machine sees it, which has no such folder."""
    return tuple(replace(one, path=path + one.name) for one in manifest)


def pieces(manifest):
    return {one.sha256: lambda one=one: pieces_of(one) for one in manifest}


# ---- files --------------------------------------------------------------------------------------------


def test_the_files_of_a_model_are_its_own_and_those_of_its_weights(outside):
    assert files_of(outside) == [outside, outside.parent / "weights" / "all.data"]
    assert files_of(SMALL) == [SMALL]
    with pytest.raises(LoadError, match=r"^none.onnx: there is no such file$"):
        files_of(outside.with_name("none.onnx"))


def test_weights_outside_of_the_models_folder_are_not_sent(outside):
    model = onnx.load(outside, load_external_data=False)
    for tensor in model.graph.initializer:
        next(entry for entry in tensor.external_data if entry.key == "location").value = "../secret"
    (outside.parent.parent / "secret").write_bytes(bytes(10**6))
    onnx.save(model, outside)
    with pytest.raises(LoadError, match=r"is at '../secret', outside the model's folder"):
        manifest_of(str(outside))


def test_files_arrive_as_they_were_sent_and_are_sent_once(outside, tmp_path, monkeypatch):
    monkeypatch.setattr(file_transfer, "PIECE", 100)
    manifest = manifest_of(str(outside))
    (tmp_path / "node").mkdir()
    node = ReceivedFiles(tmp_path / "node")
    assert node.path_of(manifest) == outside  # a shared disk
    assert node.path_of(moved(manifest)) is None
    node.receive(moved(manifest), pieces(manifest))
    place = node.path_of(moved(manifest))
    assert [path.read_bytes() for path in files_of(place)] == [path.read_bytes() for path in files_of(outside)]
    assert len(load_model(place)) == len(load_model(SMALL))
    node.keep_only([moved(manifest)])
    assert node.path_of(moved(manifest)) == place
    node.keep_only([])
    assert node.path_of(moved(manifest)) is None and not any((tmp_path / "node").iterdir())


def test_another_file_at_the_same_path_is_not_taken_for_it(outside, tmp_path):
    manifest = manifest_of(str(outside))
    (tmp_path / "node").mkdir()
    weights = outside.parent / "weights" / "all.data"
    weights.write_bytes(bytes(weights.stat().st_size))
    assert ReceivedFiles(tmp_path / "node").path_of(manifest) is None
    with pytest.raises(UserError, match="was changed while it was sent"):
        ReceivedFiles(tmp_path / "node").receive(manifest, pieces(manifest))
    assert ReceivedFiles(tmp_path / "node").path_of(manifest) is None


def test_a_model_that_is_too_large_is_not_sent(monkeypatch):
    monkeypatch.setattr(file_transfer, "MAX_BYTES", 1000)
    with pytest.raises(UserError, match="copy it to the same path on each machine"):
        check_size(manifest_of(str(SMALL)))


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = (
        "import sys, time; from workbench.support.owned_folders import owned_folder\n"
        "with owned_folder('left-') as folder: print(folder, flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) as other:
        left = Path(other.stdout.readline().strip())
        with owned_folder("left-") as own:
            assert left.is_dir() and own.is_dir()  # its process lives
        other.send_signal(signal.SIGKILL)
    assert left.is_dir() and not own.exists()
    with owned_folder("left-"):
        assert not left.exists()


def test_a_folder_that_another_user_could_have_made_is_left_alone(tmp_path, monkeypatch):
    """Its lock may be a pipe, whose opening never ends."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    planted, dear = tmp_path / "left-planted", tmp_path / "dear"
    planted.mkdir(mode=0o755)
    os.mkfifo(planted / "owner.lock")
    dear.mkdir(mode=0o700)
    (dear / "owner.lock").touch()
    (tmp_path / "left-link").symlink_to(dear)
    with owned_folder("left-"):
        pass
    assert planted.is_dir() and (dear / "owner.lock").is_file()


# ---- the record in the database ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_matrix_goes_on_from_the_database_and_keeps_each_run_once(done, tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/runs.sqlite"
    monkeypatch.setenv("WORKBENCH_RUNS_URL", url)
    words = ("matrix", SMALL, "--repeat", 1, "--record", "database")
    first, before = done(*words), find_runs()
    assert len(before) == 2
    assert done(*words) == first and find_runs() == before
    done(*words, "--backend", "torch,onnxruntime")  # another question
    assert len(find_runs()) == 2 + 4


@pytest.mark.slow
def test_a_model_that_changes_meanwhile_is_not_measured_under_the_old_ones_key(outside, worker, monkeypatch):
    monkeypatch.delenv("WORKBENCH_RUNS_URL", raising=False)
    (first,) = run_matrix(matrix := Matrix({"m": model_file_at(str(outside))}, repeat=1), None, OnThisMachine(worker))
    assert first.measurement is not None
    weights = outside.parent / "weights" / "all.data"
    weights.write_bytes(bytes(weights.stat().st_size))
    (second,) = run_matrix(matrix, None, OnThisMachine(worker))
    assert second.key == first.key and "was changed after the command began" in second.failed


@pytest.mark.slow
def test_a_run_says_which_program_measured(done, tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_RUNS_URL", f"sqlite:///{tmp_path}/runs.sqlite")
    done("matrix", SMALL, "--repeat", 1)
    assert {run.versions["workbench"] for run in find_runs()} == {source_digest()}


# ---- the command ---------------------------------------------------------------------------------------


def test_without_ray_its_absence_is_one_sentence(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    before = dict(os.environ)
    said = refused("matrix", SMALL, "--on", "ray")
    assert os.environ == before, "a token for a Ray that did not start would be asked of every later one"
    assert said == "workbench: Ray is not installed; `pip install -e '.[ray]'` in the project's folder adds it\n"
    assert "measured here; leave out --on" in refused("matrix", "--plan", "oneflow", "--on", "ray")


def test_progress_says_how_much_is_done_and_about_how_long_still():
    half = {"stage": "s", "done": 1, "total": 2}
    assert JobsProgress(0, 4, 2, {0: half, 1: half}).share == 0.25
    assert JobsProgress(0, 4, 2, {}, seconds=9).remaining_text == ""
    assert JobsProgress(2, 4, 2, {}, seconds=600).remaining_text == ", about 10 min left"
    assert JobsProgress(1, 101, 2, {}, seconds=360).remaining_text == ", about 10.0 h left"


# ---- the simulation of docs/results.md -------------------------------------------------------------------


def test_simulated_devices_share_blocks_and_wait_for_one_driver():
    never = 1e15
    assert simulate([10.0] * 8, 2, driver_s=0.0, mtbf_s=never).seconds == 40
    assert simulate([10.0] * 8, 8, driver_s=0.0, before_s=5.0, mtbf_s=never).seconds == 15
    busy = simulate([1.0] * 100, 50, driver_s=1.0, mtbf_s=never)  # the driver is what they wait for
    assert 100 <= busy.seconds <= 102 and busy.driver_busy > 0.97
    assert busy.devices_busy == pytest.approx(100 / (50 * busy.seconds))


def test_a_simulated_device_that_is_lost_begins_its_block_again():
    found = simulate([100.0] * 200, 4, driver_s=0.0, mtbf_s=1000.0)
    assert 5 <= found.lost <= 60  # about a tenth
    assert found.seconds > 200 * 100 / 4 and found.devices_busy < 1
