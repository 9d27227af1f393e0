"""The measuring code: on a clock that only moves when told, on work of known cost, and on real models."""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import workbench as wb
from tests.recording import record
from workbench.backends.onnxruntime.session_run import SessionRun
from workbench.backends.process_memory import rss_growth
from workbench.backends.profiling import ceilings as ceiling
from workbench.backends.profiling.caches import flusher, last_level_cache_bytes
from workbench.backends.profiling.ceilings import Roofs, ceilings
from workbench.backends.profiling.profile import median_operators, profile
from workbench.backends.profiling.profile_result import OperatorRun
from workbench.backends.profiling.roofline import share_of_roof, with_work
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.backends.torch.prepared import compiled
from workbench.ir import Edit, Graph, from_text
from workbench.ir.types import constant
from workbench.run.measurement.interleave import Repetitions, interleaved, repetitions
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.notes import notes_of
from workbench.run.measurement.statistics import LatencyStats, Ratio, is_busy, is_stable, ratio, spread
from workbench.run.measurement.variants import MeasureError, Variant, combined
from workbench.run.measurement.wait_idle import wait_for_sleep
from workbench.run.worker.client import Worker

SMALL_MODEL = "g (float[4] x) => (float[4] y) { y = Relu(x) }"


class Clock:
    """Seconds that pass only when something takes them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def work(self, label: str, costs_ms):
        """A run that takes the next of `costs_ms` each time."""
        costs = iter(costs_ms)

        def run() -> float:
            cost = next(costs)
            self.now += cost / 1e3
            self.order.append(label)
            return cost

        return run


def test_variants_take_turns_and_warm_up_does_not_count():
    clock = Clock()
    runs = {"a": clock.work("a", [100, 1, 2, 3]), "b": clock.work("b", [200, 10, 20, 30])}
    times = interleaved(runs, Repetitions(warmup=1, min_runs=3, max_runs=3), clock=lambda: clock.now)
    assert times == {"a": [1, 2, 3], "b": [10, 20, 30]}
    assert "".join(clock.order) == "ab" * 4


def test_a_steady_run_is_repeated_no_more_than_needed():
    clock = Clock()
    times = interleaved({"a": clock.work("a", [5.0] * 1000)}, Repetitions(warmup=3), clock=lambda: clock.now)
    assert len(times["a"]) == 10
    assert len(clock.order) == 13


def test_a_noisy_run_is_repeated_until_the_median_is_known():
    clock = Clock()
    costs = np.random.default_rng(0).normal(10.0, 0.4, 1000)
    times = interleaved({"a": clock.work("a", costs)}, Repetitions(warmup=0), clock=lambda: clock.now)
    assert 10 < len(times["a"]) < 200
    assert is_stable(times["a"])
    assert not is_stable([9.0, 10.0, 11.0, 12.0, 8.0])


def test_a_bound_ends_what_never_settles():
    rng = np.random.default_rng(1)
    clock = Clock()
    times = interleaved({"a": clock.work("a", rng.uniform(1, 9, 1000))}, Repetitions(warmup=0), clock=lambda: clock.now)
    assert len(times["a"]) == 200
    clock = Clock()
    slow = interleaved(
        {"a": clock.work("a", rng.uniform(1e3, 9e3, 1000))}, Repetitions(warmup=0), clock=lambda: clock.now
    )
    assert len(slow["a"]) == 10  # 20 s are over long before, and ten runs are the least


@pytest.mark.parametrize(("after", "runs"), [(0, 1), (4, 2), (5, 3)])
def test_who_asks_to_end_gets_the_turns_that_are_done_and_at_least_one(after, runs):
    clock, heard = Clock(), []
    found = interleaved(
        {"a": clock.work("a", [5.0] * 1000), "b": clock.work("b", [5.0] * 1000)},
        Repetitions(warmup=2),
        heard.append,
        lambda: clock.now,
        is_enough=lambda: len(heard) >= 2 * after,
    )
    assert [len(times) for times in found.values()] == [runs] * 2


def test_a_number_of_repetitions_is_kept_to():
    assert repetitions(7, 2) == Repetitions(warmup=2, min_runs=7, max_runs=7)


def test_every_run_is_told():
    heard: list[str] = []
    interleaved({"a": Clock().work("a", [1.0] * 9)}, Repetitions(1, 2, 2), heard.append)
    assert heard == ["warming up", "run 1 of 2", "run 2 of 2"]


def test_statistics():
    times = [float(t) for t in range(1, 102)]
    found = spread(times)
    assert found.median_error_ms == pytest.approx(1.57 * 50 / 101**0.5)
    assert found == LatencyStats(1.0, 51.0, found.median_error_ms, p90_ms=91.0, p99_ms=100.0, iqr_ms=50.0)
    half = ratio([t / 2 for t in times], times)
    assert half == Ratio(0.5, ratio_low=0.5, ratio_high=0.5, ratio_busy=True)
    assert not ratio([1.0, 1.01, 1.02], [2.0, 2.0, 2.0]).ratio_busy
    noisy = ratio([1.0, 2.0, 9.0, 1.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0])
    assert noisy.ratio_low < noisy.ratio <= noisy.ratio_high
    few = ratio([1.0, 9.0, 2.0], [2.0, 2.0, 2.0])
    assert (few.ratio_low, few.ratio_high) == (0.5, 4.5)
    assert is_busy([1.0, 1.0, 2.0, 2.0])
    assert not is_busy([1.0, 1.01, 1.02, 1.03])


def test_the_interval_of_a_ratio_holds_the_truth():
    """Two runs of known cost, one a fifth slower, under noise that both meet: 95 of 100 intervals hold 1.2."""
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        moment = rng.gamma(2.0, 0.1, 25)  # what the machine does besides, in every iteration
        first, second = (cost + moment + rng.gamma(2.0, 0.02, 25) for cost in (10.0, 12.0))
        found = ratio(second, first)
        true = (12.0 + 0.24) / (10.0 + 0.24)  # with the noise's own medians, near enough
        hits += found.ratio_low - 0.004 <= true <= found.ratio_high + 0.004
    assert hits >= 180


def test_what_a_run_takes_of_the_process_is_seen():
    size = 96 * 2**20
    assert 0.9 * size <= rss_growth(lambda: np.ones(size, np.uint8).sum()) <= 1.5 * size
    assert rss_growth(lambda: None) < 0.1 * size


@pytest.mark.parametrize("tells_states", [True, False])
def test_the_next_run_waits_until_the_threads_of_this_one_sleep(tells_states, monkeypatch, tmp_path):
    """Even in a time in which the system's clock does not tick, so that a running thread takes no CPU time.

    Where the system does not tell the states of threads, one that gets no processor for a while is taken to sleep.
    """
    if not tells_states:
        monkeypatch.setattr("workbench.run.measurement.wait_idle._TASKS", tmp_path / "none")
    ended = []
    for _ in range(5):
        spinning = threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"a", b"b", 100_000))  # without the GIL
        spinning.start()
        wait_for_sleep()
        spinning.join(timeout=0.005)  # only its end is left
        ended.append(not spinning.is_alive())
        spinning.join()
    assert all(ended) if tells_states else any(ended)


def test_an_emptied_cache_is_larger_than_the_cache():
    assert last_level_cache_bytes("cpu") >= 2**18
    flusher("cpu")()


@pytest.mark.slow
def test_ceilings_are_measured():
    found = ceilings("cpu", ["float32", "mixed"])
    assert set(found) == {"float32", "mixed"}
    for roofs in found.values():
        assert roofs.flops_per_s > 1e8
        assert roofs.bytes_per_s > 1e8


def test_the_best_of_all_ceilings_stays(monkeypatch):
    """A busy moment lowers no roof, and a free one raises it."""
    monkeypatch.setattr(ceiling, "_best", {})
    monkeypatch.setattr(ceiling, "_VALID_S", 0)
    for rate, best in ((2.0, 2.0), (1.0, 2.0), (3.0, 3.0)):
        assert ceiling._highest("cpu", "copy", lambda device, what, repeats, rate=rate: rate) == best

    def no_memory(device: str, what: str, repeats: int) -> float:
        raise MemoryError

    assert ceiling._highest("cpu", "copy", no_memory) == 3.0
    assert ceiling._highest("cpu", "float32", no_memory) is None


def test_short_jobs_do_not_measure_the_ceilings_each(monkeypatch):
    monkeypatch.setattr(ceiling, "_best", {})
    monkeypatch.setattr(ceiling, "_measured_at", {})
    clock = [1000.0]
    monkeypatch.setattr(ceiling, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    asked: list[int] = []

    def rate(device: str, what: str, repeats: int) -> float:
        asked.append(repeats)
        return float(len(asked))

    for now, best, repeats in ((1000.0, 1.0, [7]), (1059.0, 1.0, [7]), (1061.0, 2.0, [7, 2]), (1100.0, 2.0, [7, 2])):
        clock[0] = now
        assert ceiling._highest("cpu", "copy", rate) == best
        assert asked == repeats


# ---- operators and memory, of known size --------------------------------------------------

CHAIN = """g (float[256,256] x) => (float[256,256] y) {
    a = Relu(x)
    b = MatMul(a, x)
    c = Transpose(b)
    d = Add(b, c)
    y = Relu(d)
}"""
KIB256 = 256 * 256 * 4


def test_operators_and_what_lives_at_the_peak():
    executor = TorchExecutor(from_text(CHAIN))
    tensors = executor.upload({"x": np.ones((256, 256), np.float32)})
    found = profile(executor, tensors)
    assert [o.op for o in found.operators] == ["Relu", "MatMul", "Transpose", "Add", "Relu"]
    assert [o.allocated_bytes for o in found.operators] == [KIB256] * 5
    # x stays, for the caller holds it; b and c are read by Add, whose result is d
    assert max(moment.peak_bytes for moment in found.timeline) == 4 * KIB256
    assert found.at_peak.op == "Add"
    values = {value.value: value for value in found.at_peak.values}
    assert set(values) == {"x", "b", "c", "d"}
    assert values["b"].made_by == found.operators[1].name
    assert values["b"].read_last_by == found.operators[3].name
    assert sum(value.bytes for value in values.values()) == 4 * KIB256


def test_a_view_allocates_nothing_and_keeps_its_storage_alive():
    text = "g (float[4,6] x) => (float[24] y) <int64[1] s = {24}> { a = Relu(x) v = Reshape(a, s) y = Relu(v) }"
    executor = TorchExecutor(from_text(text))
    found = profile(executor, executor.upload({"x": np.ones((4, 6), np.float32)}))
    assert [o.allocated_bytes for o in found.operators] == [96, 0, 96]
    kept = next(value for value in found.at_peak.values if value.value == "a")
    assert kept.read_last_by == found.operators[2].name  # through its view


def test_each_operators_median_is_taken():
    executor = TorchExecutor(from_text(CHAIN))
    tensors = executor.upload({"x": np.ones((256, 256), np.float32)})
    profiles = [profile(executor, tensors) for _ in range(3)]
    merged = median_operators(profiles)
    for index, operator in enumerate(merged):
        assert operator.time_ms == sorted(p.operators[index].time_ms for p in profiles)[1]
    assert merged[2].start_ms == pytest.approx(merged[0].time_ms + merged[1].time_ms)


# ---- whole measurements --------------------------------------------------------------------


def conv_graph() -> Graph:
    graph = from_text(
        """g (float[1,3,16,16] x) => (float[1,8,16,16] y) <float[8,3,3,3] w> {
            a = Conv<pads = [1,1,1,1]>(x, w)
            y = Relu(a)
        }"""
    )
    weights = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    graph.apply(Edit(constants={"w": constant(weights)}))
    return graph


@pytest.fixture
def worker(shared_worker):
    return shared_worker


IMAGE = {"x": np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)}


@pytest.mark.slow
def test_backends_and_element_types_in_one_run(worker):
    graph = conv_graph()
    wanted = combined({"m": graph}, ["torch", "onnxruntime"], ["float32"]) | {"bf16": Variant(graph, dtype="bfloat16")}
    assert list(wanted) == ["torch", "onnxruntime", "bf16"]
    found = measure_models(wanted, inputs=IMAGE, repeat=4, warmup=1, cold=True, worker=worker)
    assert {label: (v.backend, v.dtype) for label, v in found.variants.items()} == {
        "torch": ("torch", "float32"),
        "onnxruntime": ("onnxruntime", "float32"),
        "bf16": ("torch", "bfloat16"),
    }
    assert set(found.ceilings) == {"float32", "bfloat16"}
    assert found.variants["torch"].ratio.ratio == 1.0
    for variant in found.variants.values():
        assert len(variant.times_ms) == 4
        assert variant.cold_median_ms > 0
        assert variant.first_result_s > 0
        assert "whole run" in variant.difference


@pytest.mark.slow
def test_work_is_counted_per_operator(worker):
    found = measure_models({"f32": Variant(conv_graph()), "bf16": Variant(conv_graph(), dtype="bfloat16")},
                           inputs=IMAGE, repeat=2, worker=worker)  # fmt: skip
    conv, relu = found.variants["f32"].operators
    assert conv.flops == 2 * 8 * 16 * 16 * 27
    assert conv.bytes == 4 * (3 * 256 + 8 * 256 + 8 * 27)
    assert relu.bytes == 4 * 2 * 8 * 256
    assert found.variants["bf16"].operators[1].bytes == relu.bytes // 2


def moved(text: str, inputs: dict[str, np.ndarray], dtype: str | None = None) -> dict[str, int | None]:
    """By operator, the bytes that a run of the graph is said to move."""
    executor = TorchExecutor(from_text(text), dtype=dtype)
    found = profile(executor, executor.upload(inputs)).operators
    return {op.op: op.bytes for op in with_work(found, executor.graph, {})}


def test_of_a_table_what_is_picked_counts():
    table = "float[1000,8] t"
    found = moved(f"g ({table}, int64[3] i) => (float[3,8] y) {{ y = Gather(t, i) }}",
                  {"t": np.ones((1000, 8), np.float32), "i": np.arange(3)})  # fmt: skip
    assert found == {"Gather": 2 * 3 * 8 * 4 + 3 * 8}
    assert moved(f"g ({table}) => (int64[2] y) {{ y = Shape(t) }}", {"t": np.ones((1000, 8), np.float32)}) == {
        "Shape": 2 * 8
    }


def test_repeated_elements_count_once():
    text = """g (float[1,8] x) => (float[100,8] z) <int64[2] s = {100, 8}> {
        e = Expand(x, s)
        y = Relu(e)
        z = Add(y, y)
    }"""
    found = moved(text, {"x": np.ones((1, 8), np.float32)})
    assert found["Relu"] == 8 * 4 + 100 * 8 * 4
    assert found["Add"] == 2 * 100 * 8 * 4  # one operand, read once


def test_bytes_are_those_of_the_types_that_ran():
    text = "g (float[16,16] x) => (float[16,16] z) { y = MatMul(x, x) r = Relu(y) z = Softmax(r) }"
    inputs = {"x": np.ones((16, 16), np.float32)}
    assert moved(text, inputs) == {"MatMul": 2048, "Relu": 2048, "Softmax": 2048}
    mixed = moved(text, inputs, "mixed")  # the product reads float32 and writes bfloat16
    assert mixed == {"MatMul": 1024 + 512, "Relu": 512 + 512, "Softmax": 512 + 512}


def test_each_operator_stands_under_the_roof_of_its_own_type():
    roofs = {"mixed": None, "float32": Roofs(1e9, 1e9),
             "bfloat16": Roofs(4e9, 1e9)}  # fmt: skip
    operator = OperatorRun("n", "MatMul", 1.0, flops=400_000, bytes=100_000, dtype="float32")
    assert share_of_roof(operator, roofs) == pytest.approx(0.4)
    assert share_of_roof(replace(operator, dtype="bfloat16"), roofs) == pytest.approx(0.1)
    assert share_of_roof(replace(operator, dtype=None), roofs) == pytest.approx(0.1)  # of memory alone
    assert share_of_roof(replace(operator, flops=None, bytes=None), roofs) is None


@pytest.mark.slow
def test_a_mixed_run_has_a_roof_for_each_type(worker):
    text = "g (float[16,16] x) => (float[16,16] z) { y = Relu(x) z = MatMul(y, y) }"
    inputs = {"x": np.ones((16, 16), np.float32)}
    found = measure_models({"m": Variant(from_text(text), dtype="mixed")}, inputs=inputs, repeat=1, worker=worker)
    assert set(found.ceilings) == {"mixed", "bfloat16", "float32"}
    assert [op.dtype for op in found.variants["m"].operators] == ["float32", "bfloat16"]
    assert all(op.of_roof > 0 for op in found.variants["m"].operators)


@pytest.mark.slow
def test_the_error_against_float32_stands_beside_the_speed(worker):
    graph = conv_graph()
    reference = TorchExecutor(graph).run(IMAGE)
    wanted = combined({"m": graph}, ["torch"], ["float32", "mixed", "bfloat16"])
    found = measure_models(wanted, inputs=IMAGE, reference=reference, repeat=1, worker=worker).variants
    assert found["float32"].error.max_rel_error == 0
    assert 0 < found["bfloat16"].error.max_rel_error < 0.1
    assert all(variant.error.ok for variant in found.values())


@pytest.mark.slow
def test_weights_are_counted_as_they_lie_in_memory(worker):
    wanted = combined({"m": conv_graph()}, ["torch"], ["float32", "bfloat16"])
    found = measure_models(wanted, inputs=IMAGE, repeat=1, worker=worker).variants
    assert found["float32"].memory.weights_bytes == 8 * 27 * 4
    assert found["bfloat16"].memory.weights_bytes == 8 * 27 * 2


def test_the_peak_of_the_timeline_is_what_lives_then(worker):
    found = measure_models({"m": conv_graph()}, inputs=IMAGE, repeat=1, worker=worker).variants["m"].memory
    largest = max(found.timeline, key=lambda moment: moment.peak_bytes)
    assert largest.name == found.at_peak.name
    assert sum(value.bytes for value in found.at_peak.values) == largest.peak_bytes
    assert found.peak_bytes == found.weights_bytes + largest.peak_bytes
    assert found.counted == "values"


@pytest.mark.slow
def test_the_first_session_does_not_pay_for_the_library():
    with Worker() as fresh:
        graph = conv_graph()
        wanted = {label: Variant(graph, "onnxruntime") for label in ("first", "second")}
        found = measure_models(wanted, inputs=IMAGE, repeat=1, worker=fresh).variants
    first, second = (found[label].memory for label in wanted)
    assert first.peak_bytes == first.process_bytes + IMAGE["x"].nbytes
    assert first.peak_bytes < second.peak_bytes + 10e6  # kernels' tables are larger than that


BROKEN = "g (float[1,3,16,16] x) => (float[1,8,16,16] y) <int64[1] s = {5}> { y = Reshape(x, s) }"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not tie threads to processors")
def test_onnx_runtime_is_timed_on_the_processor_that_its_pool_leaves_free(tmp_path, monkeypatch):
    wb.export(from_text(SMALL_MODEL), tmp_path / "m.onnx")
    session, seen = SessionRun(str(tmp_path / "m.onnx"), {"x": np.zeros(4, np.float32)}, "cpu", None), []
    allowed = os.sched_getaffinity(0)
    monkeypatch.setattr(session, "outputs", lambda: seen.append(os.sched_getaffinity(0)))
    session.time_ms()
    assert seen == [{min(allowed)}] and os.sched_getaffinity(0) == allowed
    monkeypatch.setattr(session, "outputs", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        session.time_ms()
    assert os.sched_getaffinity(0) == allowed, "what fails gives the processors back too"


def test_a_variant_that_fails_does_not_take_the_others_with_it(worker):
    wanted = {"good": Variant(conv_graph()), "bad": Variant(from_text(BROKEN))}
    found = measure_models(wanted, inputs=IMAGE, repeat=2, worker=worker).variants
    assert len(found["good"].times_ms) == 2
    assert set(found["bad"].to_json()) == {"step", "backend", "dtype", "failed"}
    assert "Reshape" in found["bad"].failed


@pytest.mark.slow
def test_what_a_backend_cannot_be_asked_for_is_left_out_and_said_once(worker):
    wanted = combined({"m": conv_graph()}, ["torch", "onnxruntime"], ["float32", "bfloat16", "mixed"])
    found = measure_models(wanted, inputs=IMAGE, repeat=1, worker=worker)
    assert len(found.variants) == 4
    (note,) = (note for note in found.notes if "ONNX Runtime" in note)
    assert note.endswith("types: 'onnxruntime, bfloat16', 'onnxruntime, mixed' left out.")
    with pytest.raises(MeasureError, match="own types; use float32, or a torch backend for float16"):
        measure_models({"m": conv_graph()}, inputs=IMAGE, backend="onnxruntime", dtype="float16", worker=worker)


def test_a_model_of_whole_numbers_is_not_converted(worker):
    graph = from_text("g (int64[2] x) => (int64[2] y) { y = Add(x, x) }")
    wanted = combined({"m": graph}, ["torch"], ["float32", "float16"])
    found = measure_models(wanted, inputs={"x": np.arange(2)}, repeat=1, worker=worker)
    assert [note for note in found.notes if "converted" in note] == [
        "Nothing was converted in 'float16': no value is of float32, so the model ran in its own types."
    ]
    floats = measure_models({"m": Variant(conv_graph(), dtype="bfloat16")}, inputs=IMAGE, repeat=1, worker=worker)
    assert not any("converted" in note for note in floats.notes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CHAIN.replace("float[256,256] x", "float[N,255] x"), r"'b' takes input 'x' as float\[N,255\], and 'a' as"),
        (CHAIN.replace("float[256,256] x", "double[256,256] x"), r"as double\[256,256\], and 'a' as float\[256,256\];"),
        (CHAIN.replace("float[256,256] x", "float[256] x"), r"as float\[256\], and"),
        (CHAIN.replace(" x", " z").replace("x)", "z)"), r"'a' and 'b' have different inputs \(x and z\)"),
    ],
)
def test_models_that_take_other_inputs_are_one_sentence(worker, text, words):
    inputs = {"x": np.ones((256, 256), np.float32)}
    with pytest.raises(MeasureError, match=words):
        measure_models({"a": from_text(CHAIN), "b": from_text(text)}, inputs=inputs, worker=worker)


@pytest.mark.slow
def test_empty_tensors_run(worker):
    graph = from_text("g (float[0,3] x) => (float[0,3] y) { y = Relu(x) }")
    wanted = combined({"m": graph}, ["torch", "onnxruntime"], ["float32"])
    found = measure_models(wanted, inputs={"x": np.ones((0, 3), np.float32)}, repeat=1, worker=worker)
    assert all(variant.operators is not None for variant in found.variants.values())


def test_notes_name_each_thing_once():
    quiet = replace(record({"quiet": [1.0]}).ran["quiet"], busy=False, stable=True)
    busy = replace(quiet, busy=True)
    found = {"a": busy, "b": busy, "c": replace(quiet, stable=False), "d": quiet}
    spread, unsure = notes_of(found, "cpu")
    assert "busy with something else while 'a', 'b' ran" in spread
    assert unsure.startswith("The median of 'c' is not known")


def test_cuda_graphs_say_that_they_need_cuda(worker):
    found = measure_models({"g": Variant(conv_graph(), "cuda-graphs")}, inputs=IMAGE, repeat=1, worker=worker)
    assert "need a CUDA device" in found.variants["g"].fallbacks["cuda-graphs"]


@pytest.mark.slow
def test_compiled_computes_the_same(worker):
    graph = conv_graph()
    reference = TorchExecutor(graph).run(IMAGE)
    wanted = combined({"m": graph}, ["torch", "torch-compile"], ["float32"])
    found = measure_models(wanted, inputs=IMAGE, reference=reference, repeat=2, worker=worker).variants
    assert found["torch-compile"].error.ok
    assert found["torch-compile"].fallbacks == {}, "needs a C++ compiler, as torch.compile does on a CPU"
    assert "fused by the compiler" in found["torch-compile"].difference


@pytest.mark.slow
def test_what_depends_on_numbers_is_not_compiled(worker):
    """A branch that a tensor's number takes must not be frozen into the compiled run."""
    graph = from_text(
        """g (bool c, float[2] x) => (float[2] y) {
            y = If (c) <
                then_branch = t () => (float[2] p) { p = Relu(x) },
                else_branch = e () => (float[2] q) { q = Neg(x) }
            >
        }"""
    )
    inputs = {"c": np.array(True), "x": np.array([-1.0, 2.0], np.float32)}
    found = measure_models({"c": Variant(graph, "torch-compile")}, inputs=inputs, repeat=1, worker=worker)
    assert "runs operator by operator" in found.variants["c"].fallbacks["torch-compile"]


def test_bad_wishes_are_sentences(worker):
    for wish, words in (
        ({"backend": "tvm"}, "no backend 'tvm'; use torch, cuda-graphs"),
        ({"dtype": "int8"}, "no element type 'int8'"),
        ({"repeat": 0}, "at least one run"),
    ):
        with pytest.raises(MeasureError, match=words):
            measure_models({"a": conv_graph()}, inputs=IMAGE, worker=worker, **wish)


@pytest.mark.slow
def test_the_compiler_prepacks_constant_weights():
    """inductor counts the convolutions whose weights it packs."""
    from torch._dynamo.utils import counters
    from torch._inductor import config

    executor = TorchExecutor(conv_graph())
    counters.clear()
    with config.patch(force_disable_caches=True):  # what comes from a cache is not counted
        found = compiled(executor, executor.upload(IMAGE), lambda stage: None)
    assert found.reason is None, "needs a C++ compiler, as torch.compile does on a CPU"
    assert counters["inductor"]["mkldnn_conv_weight_pack_matcher_count"] == 1
    for name, expected in executor.run(IMAGE).items():
        np.testing.assert_allclose(found.run()[name].numpy(), expected, rtol=1e-5, atol=1e-6)
