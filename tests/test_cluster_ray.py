"""Three Ray nodes on this machine, each as a machine of its own: a driver is killed, then a node, and nothing is lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import psutil
import pytest

from tests.commands import SAMPLES, heeds_ctrl_c
from tests.conftest import ROOT
from tests.nodes import Counting, Nodes, Priority, running_nodes
from tests.test_tuning import Unmeasuring
from tests.waiting import until
from workbench.interfaces.study.cluster import choose_executor, on_ray
from workbench.interfaces.study.cluster.choose_executor import executor_on
from workbench.interfaces.study.cluster.jobs import Executor, OnThisMachine
from workbench.interfaces.study.sweep.blocks import Block, Matrix
from workbench.interfaces.study.sweep.matrix import rows_of, run_matrix
from workbench.interfaces.study.sweep.model_variants import model_file_at
from workbench.interfaces.study.tuning.job import TuneJob
from workbench.interfaces.study.tuning.tune import TuneRequest
from workbench.run.worker.device_queue import turn

pytestmark = pytest.mark.slow

MODELS = [
    str(SAMPLES / f"{name}.onnx")
    for name in ("conv_relu_conv_relu", "npu_path", "npu_reshape_add", "tvm_two_convs_nhwc", "bias_add_dropout")
]
REPEAT = 3


def matrix_of(*models: str, **fields: Any) -> Matrix:
    fields = {"repeat": REPEAT, **fields}
    return Matrix({model: model_file_at(model, target="cuda", layouts=("greedy",)) for model in models}, **fields)


@pytest.fixture(scope="module")
def nodes():
    with running_nodes() as started:
        for name in "abc":
            started.start(name)
        started.cluster.wait_for_nodes()
        yield started


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('runs')}/runs.sqlite"


@pytest.fixture(scope="module", autouse=True)
def database(url):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS_URL", url)
        yield


def kept(url: str) -> list[tuple[str, str, str]]:
    """Model, variant and measurement of each row."""
    path = url.removeprefix("sqlite:///")
    if not os.path.exists(path):
        return []
    with contextlib.closing(sqlite3.connect(path)) as database:
        try:
            return database.execute("SELECT model_name, label, measurement FROM workbench_runs_v1").fetchall()
        except sqlite3.OperationalError:  # the table is just being made
            return []


@dataclass
class Story:
    """by_killed: rows that the killed driver had kept. lost: the place of the killed node."""

    by_killed: list[tuple[str, str, str]]
    lost: str
    killed_at: float
    blocks: list[Block]
    notes: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def by_killed(nodes: Nodes, url: str, database: None) -> list[tuple[str, str, str]]:
    """A driver is killed after its first block; what it had kept."""
    command = [
        sys.executable,
        "-m",
        "workbench",
        "matrix",
        *MODELS,
        "--layouts",
        "greedy",
        "--target",
        "cuda",
        "--repeat",
        str(REPEAT),
    ]
    command += ["--on", nodes.address, "--record", "database"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        until(lambda: bool(kept(url)), lambda: driver.poll() is None)
        driver.send_signal(signal.SIGKILL)
    return kept(url)


@pytest.fixture(scope="module")
def executor(nodes: Nodes, by_killed: list[tuple[str, str, str]]):
    with executor_on(nodes.address) as joined:
        yield joined


@pytest.fixture(scope="module")
def story(executor: Executor, nodes: Nodes, by_killed: list[tuple[str, str, str]]) -> Story:
    """The same matrix goes on from here, and a node is killed meanwhile."""
    found = Story(by_killed, nodes.place("a"), 0.0, [])

    def kill(words: str, share: float) -> None:
        at_work = {actor.device.place for actor in executor._actors if actor.device and actor.job is not None}
        if not found.killed_at and found.lost in at_work:
            found.killed_at = time.time()
            nodes.kill("a")

    found.blocks = list(run_matrix(matrix_of(*MODELS), "database", executor, kill))
    found.notes = executor.notes
    return found


def test_every_block_is_there_once_though_the_driver_and_a_node_were_killed(story, url):
    assert story.killed_at and story.by_killed
    assert [block.model for block in story.blocks] == MODELS
    assert not any(block.failed for block in story.blocks)
    variants = ("as loaded", "simplify", "greedy")
    assert sorted(row[:2] for row in kept(url)) == sorted(itertools.product(MODELS, variants))


def test_what_the_killed_driver_had_kept_is_not_measured_again(story, url):
    assert {*story.by_killed} <= {*kept(url)}
    before = {model for model, _, _ in story.by_killed}
    assert {block.model for block in story.blocks if block.ran is None} == before
    assert len(before) < len(MODELS)


def test_what_the_killed_node_was_measuring_is_measured_by_another(story):
    measured = [block for block in story.blocks if block.ran is not None]
    assert len(measured) >= 3  # one on each node when it was killed
    assert story.notes == [f"{story.lost} was lost while it ran a job, which was started again"]
    assert all(block.ran.ended > story.killed_at and block.ran.place != story.lost for block in measured)


def test_no_device_measures_two_blocks_at_once(story):
    places = [block.ran for block in story.blocks if block.ran is not None]
    for place in {ran.place for ran in places}:
        spans = sorted((ran.started, ran.ended) for ran in places if ran.place == place)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_the_same_matrix_without_ray_has_the_same_keys_and_finds_all(story):
    worker = Unmeasuring()
    here = list(run_matrix(matrix_of(*MODELS), "database", OnThisMachine(worker)))
    worker.end()
    assert [block.key for block in here] == [block.key for block in story.blocks]
    assert rows_of(here) == rows_of(story.blocks)


# ---- on the nodes that are left --------------------------------------------------------------------------


@pytest.mark.usefixtures("story")
def test_who_measures_on_a_node_otherwise_is_waited_for(executor, nodes, monkeypatch):
    heard: list[str] = []
    with contextlib.ExitStack() as others:
        for name in nodes.nodes:
            monkeypatch.setenv("WORKBENCH_QUEUE", str(nodes.turns(name)))
            others.enter_context(turn("cpu", lambda ahead: None, "another's job"))

        def hear(words: str, share: float) -> None:
            heard.append(words)
            if "waiting for its turn" in words:
                others.close()

        (block,) = run_matrix(matrix_of(MODELS[0]), None, executor, hear)
    assert any("1 job before it on cpu: another's job" in words for words in heard)
    assert block.measurement is not None


def test_a_model_that_the_node_lacks_is_sent_with_its_weights(executor, tmp_path, monkeypatch):
    file = tmp_path / "outside.onnx"
    model = onnx.load(SAMPLES / "conv_relu_conv_relu.onnx")
    onnx.save(model, file, save_as_external_data=True, location="outside.data", size_threshold=0)
    manifest_of, pieces_of, sent = on_ray.manifest_of, on_ray.pieces_of, []

    def elsewhere(path: str) -> Any:
        """As on a disk that the node does not have."""
        return tuple(replace(one, path=f"/no/such{one.path}") for one in manifest_of(path))

    def read(one: Any) -> Any:
        sent.append(one.name)
        return pieces_of(replace(one, path=one.path.removeprefix("/no/such")))

    monkeypatch.setattr(on_ray, "manifest_of", elsewhere)
    monkeypatch.setattr(on_ray, "pieces_of", read)
    executor.devices("cpu")
    found = list(run_matrix(matrix_of(str(file), repeat=1), None, executor))
    assert [block.failed for block in found] == [""]
    assert sorted(sent) == ["outside.data", "outside.onnx"]
    assert not executor._sent  # it left the store when nobody needed it any more


def test_tunings_on_nodes_have_the_recipes_that_this_machine_makes(executor, tmp_path):
    (kind,) = {device.kind for device in executor.devices("cpu")}
    asked = [
        (TuneJob(model, TuneRequest("size"), record=str(tmp_path / f"{number}.part")), kind)
        for number, model in enumerate(MODELS[:2])
    ]
    there = sorted(executor.run(asked, lambda progress: None), key=lambda outcome: outcome.index)
    worker = Unmeasuring()
    here = OnThisMachine(worker)
    here.devices("cpu")
    for found, own in zip(there, here.run(asked, lambda progress: None), strict=True):
        assert (found.failed, own.failed) == ("", "")
        assert replace(found.answer.recipe, seconds=0) == replace(own.answer.recipe, seconds=0)
    worker.end()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may raise a priority")
def test_measurements_have_the_usual_priority_though_ray_lowers_that_of_its_workers(executor):
    devices = executor.devices("cpu")
    asked = [(Priority(), device.kind) for device in devices]
    assert [found.answer for found in executor.run(asked, lambda progress: None)] == [os.nice(0)] * len(devices)
    assert not any("niceness" in note for note in executor.notes)


def test_a_kind_of_which_no_device_is_left_is_said_and_given_up_after_a_while(executor, monkeypatch):
    monkeypatch.setattr(on_ray, "WAIT_LIMIT_S", 1.0)
    (device, *_) = executor.devices("cpu")
    kind, heard = replace(device.kind, name="TPU"), []
    (outcome,) = executor.run([(SimpleNamespace(files=(), record=None), kind)], heard.append)
    assert heard[0].waiting == "waiting for a device 'TPU, 1 threads', none of which is left"
    assert outcome.failed.startswith("no device 'TPU, 1 threads' is left, and none was added within 1 s")


def test_a_job_whose_process_dies_goes_on_elsewhere_with_its_record(executor, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "MAX_TRIES", 2)
    monkeypatch.setattr(on_ray, "_PROGRESS_S", 0.2)
    (device, *_) = executor.devices("cpu")
    jobs = [Counting(str(tmp_path / "once")), Counting(str(tmp_path / "always"), always=True)]
    (first, second) = sorted(
        executor.run([(job, device.kind) for job in jobs], lambda progress: None), key=lambda found: found.index
    )
    assert first.failed == "" and (tmp_path / "once").read_text().split() == ["1", "2", "3", "4"]
    assert second.failed.startswith("its process was lost 2 times, last on ")
    assert (tmp_path / "always").read_text().split() == ["1", "2"]


def test_a_device_that_no_node_has_is_one_sentence(executor):
    with pytest.raises(on_ray.ClusterError, match="no node of the cluster has a free device 'cuda'"):
        executor.devices("cuda")


def test_a_cluster_that_is_none_is_one_sentence_in_a_limited_time(refused, monkeypatch):
    monkeypatch.setattr(choose_executor, "JOIN_LIMIT_S", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = refused("matrix", MODELS[0], "--on", f"127.0.0.1:{silent.getsockname()[1]}")
        assert "no Ray cluster answers at 127.0.0.1" in said and "within 3 s; check that its head runs" in said
    assert "'here' is not an address of a Ray cluster; write --on ray, or host:port of its head" in refused(
        "matrix", MODELS[0], "--on", "here"
    )


def test_ctrl_c_keeps_what_is_done_and_ends_a_ray_of_ones_own(tmp_path):
    runs = f"sqlite:///{tmp_path}/runs.sqlite"
    words = ["matrix", MODELS[0], str(SAMPLES / "resnet50_narrow.onnx"), "--on", "ray", "--repeat", "300"]
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as short:
        places = {"TMPDIR": short, "WORKBENCH_QUEUE": f"{tmp_path}/turns", "WORKBENCH_RUNS_URL": runs}
        command = [sys.executable, "-m", "workbench", *words]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **places},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heeds_ctrl_c,
        ) as driver:
            until(lambda: bool(kept(runs)), lambda: driver.poll() is None)
            driver.send_signal(signal.SIGINT)
            out, err = driver.communicate()
        assert (driver.returncode, out, err) == (130, "", "workbench: stopped\n")
        assert {row[0] for row in kept(runs)} == {MODELS[0]}
        assert not [*Path(short).glob("wb-ray-*"), *Path(short).glob("graph-workbench-node-*")]
        assert not [one for one in psutil.process_iter(["cmdline"]) if short in " ".join(one.info["cmdline"] or ())]
