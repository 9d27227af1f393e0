"""Free dims that are too small for a kernel: sizes that run are found as `optimize` finds them, and none is negative."""

from __future__ import annotations

import json

import pytest

import workbench as wb
from tests.loading import saved
from tests.pages import fine, opened_file, page, words
from tests.running import typed
from workbench.analysis.inference.bound_sizes import bound_types, sizes_fit
from workbench.analysis.metrics import measurements_of
from workbench.formats.io import load_model

# A spectrogram as a speech model computes it: a convolution as long as a window of samples.
SPECTRUM = """g (float[batch,samples] x) => (float[batch,1,T,C] y) <int64[1] one = {1}, float[1,1,400] w = {ONES}> {
    u = Unsqueeze(x, one)  c = Conv<strides=[160]>(u, w)  p = Mul(c, c)  i = Unsqueeze(p, one)
    t = Transpose<perm=[0,1,3,2]>(i)  y = Relu(t) }""".replace("ONES", ",".join(["0.5"] * 400))
POOLED = """g (float[N,1,H,W] x) => (float[N,1,A,B] y) {
    p = MaxPool<kernel_shape=[300,300]>(x)  t = Transpose<perm=[0,1,3,2]>(p)  y = Relu(t) }"""
PADDED = """g (float[N,T] x) => (float[N,S] y) <int64[4] pads = {0,-40,0,-40}> { p = Pad(x, pads)  y = Relu(p) }"""
KINDS = {"spectrum": SPECTRUM, "pool": POOLED, "pads": PADDED}


@pytest.mark.parametrize("kind", KINDS)
def test_inspect_finds_sizes_that_run(kind, run, tmp_path):
    path = saved(tmp_path, KINDS[kind])
    code, said, _ = run("inspect", path, "--json")
    found = json.loads(said)
    assert code == 0 and found["flops"] >= 0 and found["elements_moved"] >= 0 and found["unknown_flops"] == 0
    assert all("-" not in value["bound"] for value in (*found["inputs"], *found["outputs"]))
    graph = load_model(path, found["dims"])
    assert sizes_fit(graph)
    assert min(min(type_.shape) for type_ in bound_types(graph).values() if type_.shape) >= 1
    said = run("optimize", path, "-o", tmp_path / "out.onnx")[2]
    assert all(f"{name}={size}" in said for name, size in found["dims"].items() if size != load_model(path).dims[name])


def test_what_a_user_binds_stays_and_nothing_is_negative(run, tmp_path):
    path = saved(tmp_path, SPECTRUM)
    found = json.loads(run("inspect", path, "--json", "--dims", "samples=32,batch=1")[1])
    assert found["dims"] == {"batch": 1, "samples": 32}
    assert found["flops"] >= 0 and found["elements_moved"] == 0 and found["unknown_flops"] > 0


def test_no_metric_of_any_graph_is_negative():
    for text in KINDS.values():
        graph = typed(text)
        graph.dims = dict.fromkeys(("batch", "samples", "N", "H", "W", "T"), 7)
        assert not sizes_fit(graph)
        assert all(number is None or number >= 0 for number in measurements_of(graph).values())
        assert wb.inspect(graph, given=graph.dims).flops >= 0


def test_sizes_that_fit_are_kept():
    graph = typed(SPECTRUM)
    graph.dims = {"batch": 3, "samples": 400}
    assert sizes_fit(graph) and wb.inspect(graph).dims == {"batch": 3, "samples": 400}
    graph.dims = {"batch": 0, "samples": 400}  # an empty batch is no window that does not fit
    assert sizes_fit(graph)


def test_optimize_counts_with_sizes_that_run(run, tmp_path):
    said = run("optimize", saved(tmp_path, SPECTRUM), "-o", tmp_path / "out.onnx", "--steps")[1]
    first = next(line for line in said.splitlines() if "as loaded" in line)
    assert not any(word.startswith("-") and word != "-" for word in first.split())


def test_the_app_shows_sizes_that_run(tmp_path):
    at = fine(page("open", opened_file(saved(tmp_path, SPECTRUM))).run())
    assert "-1,0" not in words(at) and at.session_state["opened"].summary.flops > 0
