"""The measuring code: on a clock that only moves when told, on work of known cost, and on real models."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.ir import Edit, Graph, from_text
from workbench.ir.types import constant
from workbench.run.caches import flusher, last_cache_bytes
from workbench.run.ceilings import ceilings
from workbench.run.client import Worker
from workbench.run.interleave import Repetitions, by_turns, repetitions
from workbench.run.measure import MeasureError, Variant, combined, measure_models
from workbench.run.process_memory import growth
from workbench.run.profile import median_operators, profile
from workbench.run.statistics import is_busy, is_stable, ratio, spread
from workbench.run.torch_executor import TorchExecutor


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
    times = by_turns(runs, Repetitions(warmup=1, least=3, most=3), clock=lambda: clock.now)
    assert times == {"a": [1, 2, 3], "b": [10, 20, 30]}
    assert "".join(clock.order) == "ab" * 4


def test_a_steady_run_is_repeated_no_more_than_needed():
    clock = Clock()
    times = by_turns({"a": clock.work("a", [5.0] * 1000)}, Repetitions(warmup=3), clock=lambda: clock.now)
    assert len(times["a"]) == 10
    assert len(clock.order) == 13


def test_a_noisy_run_is_repeated_until_the_median_is_known():
    clock = Clock()
    costs = np.random.default_rng(0).normal(10.0, 0.4, 1000)
    times = by_turns({"a": clock.work("a", costs)}, Repetitions(warmup=0), clock=lambda: clock.now)
    assert 10 < len(times["a"]) < 200
    assert is_stable(times["a"])
    assert not is_stable([9.0, 10.0, 11.0, 12.0, 8.0])


def test_a_bound_ends_what_never_settles():
    rng = np.random.default_rng(1)
    clock = Clock()
    times = by_turns({"a": clock.work("a", rng.uniform(1, 9, 1000))}, Repetitions(warmup=0), clock=lambda: clock.now)
    assert len(times["a"]) == 200
    clock = Clock()
    slow = by_turns({"a": clock.work("a", rng.uniform(1e3, 9e3, 1000))}, Repetitions(warmup=0), clock=lambda: clock.now)
    assert len(slow["a"]) == 10  # 20 s are over long before, and ten runs are the least


def test_a_number_of_repetitions_is_kept_to():
    assert repetitions(7, 2) == Repetitions(warmup=2, least=7, most=7)


def test_every_run_is_told():
    heard: list[str] = []
    by_turns({"a": Clock().work("a", [1.0] * 9)}, Repetitions(1, 2, 2), heard.append)
    assert heard == ["warming up", "run 1 of 2", "run 2 of 2"]


def test_statistics():
    times = [float(t) for t in range(1, 102)]
    found = spread(times)
    assert found.pop("median_error_ms") == pytest.approx(1.57 * 50 / 101**0.5)
    assert found == {"min_ms": 1.0, "median_ms": 51.0, "p90_ms": 91.0, "p99_ms": 100.0, "iqr_ms": 50.0}
    half = ratio([t / 2 for t in times], times)
    assert half == {"ratio": 0.5, "ratio_low": 0.5, "ratio_high": 0.5}
    noisy = ratio([1.0, 2.0, 9.0, 1.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0])
    assert noisy["ratio_low"] < noisy["ratio"] <= noisy["ratio_high"]
    few = ratio([1.0, 9.0, 2.0], [2.0, 2.0, 2.0])
    assert (few["ratio_low"], few["ratio_high"]) == (0.5, 4.5)
    assert is_busy([1.0, 1.0, 2.0, 2.0])
    assert not is_busy([1.0, 1.01, 1.02, 1.03])


def test_the_interval_of_a_ratio_holds_the_truth():
    """Two runs of known cost, one a fifth slower, under noise that both meet: 95 of 100 intervals hold 1.2."""
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        moment = rng.gamma(2.0, 0.1, 25)  # what the machine does besides, in every turn
        first, second = (cost + moment + rng.gamma(2.0, 0.02, 25) for cost in (10.0, 12.0))
        found = ratio(second, first)
        true = (12.0 + 0.24) / (10.0 + 0.24)  # with the noise's own medians, near enough
        hits += found["ratio_low"] - 0.004 <= true <= found["ratio_high"] + 0.004
    assert hits >= 180


def test_what_a_run_takes_of_the_process_is_seen():
    size = 96 * 2**20
    assert 0.9 * size <= growth(lambda: np.ones(size, np.uint8).sum()) <= 1.5 * size
    assert growth(lambda: None) < 0.1 * size


def test_an_emptied_cache_is_larger_than_the_cache():
    assert last_cache_bytes("cpu") >= 2**18
    flusher("cpu")()


def test_ceilings_are_measured():
    found = ceilings("cpu", "float32")
    assert found["flops_per_s"] > 1e8
    assert found["bytes_per_s"] > 1e8


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
    assert [o["op"] for o in found.operators] == ["Relu", "MatMul", "Transpose", "Add", "Relu"]
    assert [o["allocated_bytes"] for o in found.operators] == [KIB256] * 5
    # x stays, for the caller holds it; b and c are read by Add, whose result is d
    assert max(moment["peak_bytes"] for moment in found.timeline) == 4 * KIB256
    assert found.at_peak["op"] == "Add"
    values = {value["value"]: value for value in found.at_peak["values"]}
    assert set(values) == {"x", "b", "c", "d"}
    assert values["b"]["made_by"] == found.operators[1]["name"]
    assert values["b"]["read_last_by"] == found.operators[3]["name"]
    assert sum(value["bytes"] for value in values.values()) == 4 * KIB256


def test_a_view_allocates_nothing_and_keeps_its_storage_alive():
    text = "g (float[4,6] x) => (float[24] y) <int64[1] s = {24}> { a = Relu(x) v = Reshape(a, s) y = Relu(v) }"
    executor = TorchExecutor(from_text(text))
    found = profile(executor, executor.upload({"x": np.ones((4, 6), np.float32)}))
    assert [o["allocated_bytes"] for o in found.operators] == [96, 0, 96]
    kept = next(value for value in found.at_peak["values"] if value["value"] == "a")
    assert kept["read_last_by"] == found.operators[2]["name"]  # through its view


def test_each_operators_median_is_taken():
    executor = TorchExecutor(from_text(CHAIN))
    tensors = executor.upload({"x": np.ones((256, 256), np.float32)})
    profiles = [profile(executor, tensors) for _ in range(3)]
    merged = median_operators(profiles)
    for index, operator in enumerate(merged):
        assert operator["time_ms"] == sorted(p.operators[index]["time_ms"] for p in profiles)[1]
    assert merged[2]["start_ms"] == pytest.approx(merged[0]["time_ms"] + merged[1]["time_ms"])


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


@pytest.fixture(scope="module")
def worker():
    with Worker() as own:
        yield own


IMAGE = {"x": np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)}


def test_backends_and_element_types_in_one_run(worker):
    graph = conv_graph()
    wanted = combined({"m": graph}, ["torch", "onnxruntime"], ["float32"]) | {"bf16": Variant(graph, dtype="bfloat16")}
    assert list(wanted) == ["torch", "onnxruntime", "bf16"]
    found = measure_models(wanted, inputs=IMAGE, repeat=4, warmup=1, cold=True, worker=worker)
    assert {label: (v["backend"], v["dtype"]) for label, v in found["variants"].items()} == {
        "torch": ("torch", "float32"),
        "onnxruntime": ("onnxruntime", "float32"),
        "bf16": ("torch", "bfloat16"),
    }
    assert set(found["ceilings"]) == {"float32", "bfloat16"}
    assert found["variants"]["torch"]["ratio"] == 1.0
    for variant in found["variants"].values():
        assert len(variant["times_ms"]) == 4
        assert variant["cold_median_ms"] > 0
        assert variant["first_result_s"] > 0
        assert "whole run" in variant["difference"]


def test_work_is_counted_per_operator(worker):
    found = measure_models({"f32": Variant(conv_graph()), "bf16": Variant(conv_graph(), dtype="bfloat16")},
                           inputs=IMAGE, repeat=2, worker=worker)  # fmt: skip
    conv, relu = found["variants"]["f32"]["operators"]
    assert conv["flops"] == 2 * 8 * 16 * 16 * 27
    assert conv["bytes"] == 4 * (3 * 256 + 8 * 256 + 8 * 27)
    assert relu["bytes"] == 4 * 2 * 8 * 256
    assert found["variants"]["bf16"]["operators"][1]["bytes"] == relu["bytes"] // 2


def test_the_error_against_float32_stands_beside_the_speed(worker):
    graph = conv_graph()
    reference = TorchExecutor(graph).run(IMAGE)
    wanted = combined({"m": graph}, ["torch"], ["float32", "mixed", "bfloat16"])
    found = measure_models(wanted, inputs=IMAGE, reference=reference, repeat=1, worker=worker)["variants"]
    assert found["float32"]["error"]["max_rel_error"] == 0
    assert 0 < found["bfloat16"]["error"]["max_rel_error"] < 0.1
    assert all(variant["error"]["ok"] for variant in found.values())


def test_weights_are_counted_as_they_lie_in_memory(worker):
    wanted = combined({"m": conv_graph()}, ["torch"], ["float32", "bfloat16"])
    found = measure_models(wanted, inputs=IMAGE, repeat=1, worker=worker)["variants"]
    assert found["float32"]["memory"]["weights_bytes"] == 8 * 27 * 4
    assert found["bfloat16"]["memory"]["weights_bytes"] == 8 * 27 * 2


def test_the_peak_of_the_timeline_is_what_lives_then(worker):
    found = measure_models({"m": conv_graph()}, inputs=IMAGE, repeat=1, worker=worker)["variants"]["m"]["memory"]
    largest = max(found["timeline"], key=lambda moment: moment["peak_bytes"])
    assert largest["name"] == found["at_peak"]["name"]
    assert sum(value["bytes"] for value in found["at_peak"]["values"]) == largest["peak_bytes"]
    assert found["peak_bytes"] == found["weights_bytes"] + largest["peak_bytes"]


def test_a_variant_that_fails_does_not_take_the_others_with_it(worker):
    graph = conv_graph()
    wanted = {"good": Variant(graph), "bad": Variant(graph, "onnxruntime", "bfloat16")}
    found = measure_models(wanted, inputs=IMAGE, repeat=2, worker=worker)["variants"]
    assert len(found["good"]["times_ms"]) == 2
    assert found["bad"] == {
        "step": "bad",
        "backend": "onnxruntime",
        "dtype": "bfloat16",
        "failed": "ONNX Runtime is measured with the model's own types; use a torch backend.",
    }


def test_cuda_graphs_say_that_they_need_cuda(worker):
    found = measure_models({"g": Variant(conv_graph(), "cuda-graphs")}, inputs=IMAGE, repeat=1, worker=worker)
    assert "need a CUDA device" in found["variants"]["g"]["fallbacks"]["cuda-graphs"]


def test_compiled_computes_the_same(worker):
    graph = conv_graph()
    reference = TorchExecutor(graph).run(IMAGE)
    wanted = combined({"m": graph}, ["torch", "torch-compile"], ["float32"])
    found = measure_models(wanted, inputs=IMAGE, reference=reference, repeat=2, worker=worker)["variants"]
    assert found["torch-compile"]["error"]["ok"]
    assert found["torch-compile"]["fallbacks"] == {}, "needs a C++ compiler, as torch.compile does on a CPU"
    assert "fused by the compiler" in found["torch-compile"]["difference"]


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
    assert "runs operator by operator" in found["variants"]["c"]["fallbacks"]["torch-compile"]


def test_bad_wishes_are_sentences(worker):
    for wish, words in (
        ({"backend": "tvm"}, "no backend 'tvm'; use torch, cuda-graphs"),
        ({"dtype": "int8"}, "no element type 'int8'"),
        ({"repeat": 0}, "at least one run"),
    ):
        with pytest.raises(MeasureError, match=words):
            measure_models({"a": conv_graph()}, inputs=IMAGE, worker=worker, **wish)
