"""Layouts by measured time: the file of times, the strategies on given times, and real times on this machine."""

import sqlite3

import pytest

from passes.layout.layout_measured import LayoutMeasured
from passes.layout.layout_optimal import LayoutOptimal
from tests.commands import RESNET, report_of
from tests.running import typed
from workbench.planning.layout.problem.operator_benchmark import (
    GivenTimes,
    OperatorTimerError,
    Time,
    benchmark_of,
    distinguishable,
    transpose_benchmark,
)
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass, with_options
from workbench.run.measurement.operator_timer import DeviceOperatorTimer
from workbench.run.measurement.timing_cache import CacheError, cache_file
from workbench.run.worker.client import RunError

CHAIN = """g (float[1,2,8,8] x) => (float[1,2,8,8] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
    a = Conv(x, w)
    b = Relu(a)
    c = Conv(b, w)
    y = Relu(c)
}"""
TIMES = {"Conv": 300, "workbench.Conv_NHWC": 200, "Relu": 10, "Transpose": 60}


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    return cache_file()


@pytest.fixture(scope="module", autouse=True)
def worker(kept_worker):
    """The tests', and that of the commands in them."""
    return kept_worker


def given(times_us, name="cuda"):
    return PassContext(load_profile(name), GivenTimes(times_us))


def benchmarks_of(graph):
    return [benchmark for node in graph.nodes if (benchmark := benchmark_of(graph, node)) is not None]


def rows(file):
    with sqlite3.connect(file) as cache:
        return cache.execute("SELECT operator, signature, device, versions, best_ns FROM operator_times").fetchall()


# ---- the strategies, on given times ---------------------------------------------------------


def test_one_operator_at_a_time_does_not_begin_a_chain_that_pays_together():
    graph = typed(CHAIN)
    step = run_pass(LayoutMeasured(), graph, given(TIMES), check_each=True)
    assert step.after["transposes"] == 0 and not step.rewrites


def test_the_minimum_of_all_times_finds_the_chain():
    graph = typed(CHAIN)
    step = run_pass(with_options(LayoutOptimal, {"weigh": "time"}), graph, given(TIMES), check_each=True)
    assert step.after["transposes"] == 2
    assert step.facts.certified
    assert step.facts.lower_bound == (60 + 200 + 10 + 200 + 10 + 60) * 1000  # nanoseconds
    assert (
        "takes less than 0.540 ms, as operators were timed on given times, and this takes exactly that"
        in step.conclusion
    )
    assert "runs in NHWC, where it takes 200.0 us instead of 300.0 us" in step.rewrites[0].sentence


def test_where_time_is_weighed_a_demand_is_only_a_wish():
    graph = typed(CHAIN)
    slow = TIMES | {"workbench.Conv_NHWC": 400}
    step = run_pass(with_options(LayoutOptimal, {"weigh": "time"}), graph, given(slow))
    assert not step.rewrites and step.facts.certified
    assert step.facts.lower_bound == 620_000


def test_what_could_not_be_timed_is_left_and_nothing_is_claimed():
    graph = typed(CHAIN)
    unknown = {operator: time for operator, time in TIMES.items() if operator != "Relu"}
    step = run_pass(with_options(LayoutOptimal, {"weigh": "time"}), graph, given(unknown))
    assert step.facts.lower_bound is None and not step.facts.certified
    assert step.conclusion == "not proven minimal: not every operator could be timed"
    step = run_pass(LayoutMeasured(), typed(CHAIN), given({"Conv": 300, "workbench.Conv_NHWC": 100}))
    assert not step.rewrites  # no Transpose was timed


def test_a_follower_goes_back_where_it_loses():
    graph = typed(CHAIN)
    times = TIMES | {"workbench.Conv_NHWC": 100}
    step = run_pass(LayoutMeasured(), graph, given(times), check_each=True)
    assert [r.case for r in step.rewrites] == ["it pays", "it follows", "it pays", "it follows", "it does not pay"]
    assert step.after["transposes"] == 2


def test_transposes_that_go_are_not_said_to_take_less_than_nothing():
    graph = typed("""g (float[1,2,8,8] x) => (float[1,2,1,1] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
        a = Conv(x, w)
        y = GlobalAveragePool(a)
    }""")
    times = TIMES | {"workbench.Conv_NHWC": 100, "GlobalAveragePool": 10, "workbench.GlobalAveragePool_NHWC": 10}
    step = run_pass(LayoutMeasured(), graph, given(times), check_each=True)
    assert "its transposes 60.0 us less than before; 60.0 us gained" in step.rewrites[1].sentence


def test_a_difference_within_the_noise_is_none():
    assert distinguishable(Time(100, 10), Time(105, 3)) == (100, 100)
    assert distinguishable(Time(100, 1), Time(105, 3)) == (100, 105)


def test_a_target_without_an_operator_timer_says_what_to_do():
    with pytest.raises(OperatorTimerError, match="has no device to time operators on; run through"):
        run_pass(LayoutMeasured(), typed(CHAIN), PassContext(load_profile("cuda")))


def test_the_table_counts_nodes_of_one_shape_once():
    graph = typed(CHAIN)
    step = run_pass(with_options(LayoutOptimal, {"weigh": "time"}), graph, given(TIMES))
    table = {time.operator: time for time in step.facts.times}
    assert table["Conv"].nodes == table["Conv"].converted == 2
    assert (table["Conv"].us, table["Conv"].other_us) == (300, 200)
    assert table["Relu"].nodes == 2
    assert table["Transpose"].other_us is None


# ---- benchmarks -------------------------------------------------------------------------------


def test_a_benchmark_is_told_by_operator_types_attributes_and_small_constants():
    graph = typed("""g (float[1,2,4,4] x, float[1,2,4,4] z) => (float[1,2,6,6] y, float[1,2,6,6] u)
        <int64[8] p = {0,0,1,1,0,0,1,1}, int64[8] q = {0,0,2,2,0,0,0,0}, float c = {0}> {
        y = Pad(x, p, c)
        u = Pad(z, q, c)
    }""")
    one, other = benchmarks_of(graph)
    assert one != other and one.operator == "Pad"
    assert one.signature == ("float[1,2,4,4], constant int64[8] [0, 0, 1, 1, 0, 0, 1, 1], constant float[]")


def test_nothing_is_timed_whose_shapes_are_not_known():
    assert benchmarks_of(typed("g (float[N] x) => (float[N] y) { y = Relu(x) }")) == []
    graph = typed(CHAIN)
    assert transpose_benchmark(graph, graph.tensor_type("x").with_shape((1, 8, 1, 1)), (0, 2, 3, 1)) is None


# ---- real times ----------------------------------------------------------------------------


@pytest.mark.slow
def test_times_are_taken_once_and_remembered(own_cache, worker):
    benchmarks = benchmarks_of(typed(CHAIN))
    first = DeviceOperatorTimer(worker).times(benchmarks, "cpu")
    assert len(rows(own_cache)) == len(first.by_benchmark) == 2  # two convolutions alike, two Relus alike
    assert all(time.best > 0 for time in first.by_benchmark.values())
    with sqlite3.connect(own_cache) as cache:
        cache.execute("UPDATE operator_times SET best_ns = 123456789")
    again = DeviceOperatorTimer(worker).times(benchmarks, "auto")
    assert {time.best for time in again.by_benchmark.values()} == {123456789}  # read, not taken
    assert again.device == first.device


@pytest.mark.slow
def test_another_version_or_device_is_timed_anew(own_cache, worker):
    benchmarks = benchmarks_of(typed(CHAIN))
    DeviceOperatorTimer(worker).times(benchmarks, "cpu")
    with sqlite3.connect(own_cache) as cache:
        cache.execute("UPDATE operator_times SET best_ns = 1, versions = 'another torch'")
    again = DeviceOperatorTimer(worker).times(benchmarks, "cpu")
    assert all(time.best > 1 for time in again.by_benchmark.values())
    assert len(rows(own_cache)) == 4


def test_one_that_does_not_run_alone_leaves_the_others_their_times(own_cache, worker):
    graph = typed("""g (float[2] x) => (float[2] y, float[1] u) <int64[1] i = {7}> {
        y = Relu(x)
        u = Gather(x, i)
    }""")
    found = DeviceOperatorTimer(worker).times(benchmarks_of(graph), "cpu")
    assert [benchmark.operator for benchmark in found.by_benchmark] == ["Relu"]


def test_a_file_of_times_that_is_none_is_one_sentence(own_cache, worker):
    own_cache.parent.mkdir(parents=True)
    own_cache.write_bytes(b"not a database" * 100)
    with pytest.raises(CacheError, match="delete it, or set WORKBENCH_CACHE"):
        DeviceOperatorTimer(worker).times(benchmarks_of(typed(CHAIN)), "cpu")


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path, monkeypatch, worker):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        CacheError, match=r"file for operator times cannot be created \(File exists\); set WORKBENCH_CACHE"
    ):
        DeviceOperatorTimer(worker).times(benchmarks_of(typed(CHAIN)), "cpu")


@pytest.mark.parametrize("number", ["NULL", "'abc'", "-5", "1e300"])
def test_what_is_no_time_in_the_file_is_timed_anew(own_cache, worker, number):
    benchmarks = benchmarks_of(typed(CHAIN))
    DeviceOperatorTimer(worker).times(benchmarks, "cpu")
    with sqlite3.connect(own_cache) as cache:
        cache.execute(f"UPDATE operator_times SET best_ns = {number}")
    again = DeviceOperatorTimer(worker).times(benchmarks, "cpu")
    assert all(isinstance(time.best, int) and time.best > 0 for time in again.by_benchmark.values())


def test_a_device_that_is_not_here_is_one_sentence(own_cache, worker):
    with pytest.raises(RunError, match="cannot be timed on 'cuda:7': this machine has cpu"):
        DeviceOperatorTimer(worker).times(benchmarks_of(typed(CHAIN)), "cuda:7")


def test_progress_is_told_and_may_stop(own_cache, worker):
    class StopError(Exception):
        pass

    def stop(words, share):
        assert words.startswith("timing operators on ") and 0 <= share <= 1
        raise StopError

    with pytest.raises(StopError):
        DeviceOperatorTimer(worker, stop).times(benchmarks_of(typed(CHAIN)), "cpu")


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "arguments",
    [
        ("--layout", "measured", "--target", "cuda"),
        ("--layout", "optimal", "--target", "cuda", "--option", "layout_optimal.weigh=time"),
    ],
)
def test_on_a_real_network_the_result_is_verified_and_the_times_are_told(done, tmp_path, own_cache, arguments):
    report = report_of(done, tmp_path, RESNET, *arguments)
    assert report["totals"]["verified"] is True
    table = report["layout"]["times"]
    assert {"Conv", "Relu", "Transpose"} <= {row["operator"] for row in table}
    assert all(row["us"] > 0 and row["nodes"] > 0 for row in table)
    assert report["layout"]["strategy"] == arguments[1]
    if arguments[1] == "optimal":
        assert report["layout"]["certified"] is True and report["layout"]["weigh"] == "time"


@pytest.mark.slow
def test_the_command_line_prints_the_times(done, tmp_path, own_cache):
    said = done(
        "optimize", RESNET, "-o", tmp_path / "out.onnx", "--layout", "measured", "--target", "cuda", "--no-verify"
    )
    assert "us in the other layout" in said and "all with --report" in said


def test_times_are_of_the_element_type_that_is_asked_for(worker, own_cache):
    """Each type has rows of its own, and the sentence of a strategy names device and type."""
    graph = typed(CHAIN)
    benchmarks = benchmarks_of(graph)
    timer = DeviceOperatorTimer(worker)
    whole, narrow = timer.times(benchmarks, "cpu"), timer.times(benchmarks, "cpu", "bfloat16")
    assert narrow.device == f"{whole.device}, in bfloat16"
    assert {row[2] for row in rows(own_cache)} == {whole.device, narrow.device}
    before = rows(own_cache)
    timer.times(benchmarks, "cpu", "bfloat16")
    assert rows(own_cache) == before
    context = PassContext(load_profile("cuda"), timer)
    step = run_pass(LayoutMeasured(device="cpu", dtype="bfloat16"), graph, context)
    assert step.facts.device == narrow.device
