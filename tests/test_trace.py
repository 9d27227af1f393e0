"""A measurement as trace events: what a reader such as Perfetto needs, and that every number is the measured one."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from passes.fuse.fuse_groups import FuseGroups
from tests.commands import NPU
from workbench.backends.profiling.device_kernels import kernels_in
from workbench.backends.profiling.profile_result import DeviceKernel
from workbench.ir import Graph, from_text
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.measurement_result import Measurement, measurement_from_json
from workbench.run.measurement.trace import trace_document
from workbench.run.measurement.variants import Variant

TEXT = """g (float[64,64] x) => (float[64,64] y) {
    a = Relu(x)
    b = MatMul(a, x)
    c = Transpose(b)
    d = Add(b, c)
    e = Mul(d, d)
    y = Softmax(e)
}"""
IN_GROUP = ["Transpose_c", "Add_d", "Mul_e"]
BACKENDS = ("torch", "fused", "onnxruntime")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return from_text(TEXT)


@pytest.fixture(scope="module")
def found(graph, shared_worker) -> Measurement:
    inputs = {"x": np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)}
    wanted = {backend: Variant(graph, backend) for backend in BACKENDS}
    return measure_models(wanted, inputs=inputs, repeat=2, worker=shared_worker)


@pytest.fixture(scope="module")
def document(found, graph) -> dict[str, Any]:
    return trace_document(found, dict.fromkeys(BACKENDS, graph))


Slices = dict[tuple[str, str], list[dict[str, Any]]]  # by process and thread, in the order of time


def slices_of(document: dict[str, Any]) -> Slices:
    """The slices of each thread; a thread has one name, and no other has its number."""
    processes = {e["pid"]: e["args"]["name"] for e in named(document, "process_name")}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in named(document, "thread_name")}
    numbers = [*processes, *(tid for _, tid in threads)]
    assert len(set(numbers)) == len(numbers)
    slices: Slices = defaultdict(list)
    for event in of_phase(document, "X"):
        slices[processes[event["pid"]], threads[event["pid"], event["tid"]]].append(event)
    return {thread: sorted(events, key=lambda event: event["ts"]) for thread, events in slices.items()}


def named(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [event for event in of_phase(document, "M") if event["name"] == name]


def of_phase(document: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def arrows_of(document: dict[str, Any]) -> list[tuple[str, str]]:
    """The names of the slices that each arrow connects, found as Perfetto finds them: by the slice that came last.

    Events are sorted by time, those of one moment stay as they are in the file.
    """
    last: dict[tuple[int, int], dict[str, Any]] = {}  # of each thread
    begun: dict[int, dict[str, Any]] = {}
    found = []
    for event in sorted((e for e in document["traceEvents"] if e["ph"] in "Xsf"), key=lambda e: e["ts"]):
        thread = event["pid"], event["tid"]
        if event["ph"] == "X":
            last[thread] = event
            continue
        at = last[thread]
        assert at["ts"] <= event["ts"] <= at["ts"] + at["dur"]
        if event["ph"] == "s":
            assert event["id"] not in begun
            begun[event["id"]] = at
            continue
        assert event["bp"] == "e"
        found.append((begun.pop(event["id"])["name"], at["name"]))
    assert not begun
    return found


def one_after_the_other(slices: list[dict[str, Any]]) -> bool:
    """Compared in nanoseconds, as Perfetto reads times."""
    times = [(round(event["ts"] * 1e3), round(event["dur"] * 1e3)) for event in slices]
    return all(begin + length <= later for (begin, length), (later, _) in pairwise(times))


def of_variant(document: dict[str, Any], label: str) -> dict[str, Any]:
    (pid,) = (e["pid"] for e in named(document, "process_name") if e["args"]["name"] == label)
    return {"traceEvents": [event for event in document["traceEvents"] if event["pid"] == pid]}


@pytest.mark.slow
def test_the_document_is_json_without_nan(document):
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert not any(isinstance(value, float) and value < 0 for e in document["traceEvents"] for value in e.values())


@pytest.mark.slow
def test_slices_have_times_and_do_not_overlap(document):
    slices = slices_of(document)
    expected = {(label, thread) for label in BACKENDS for thread in ("operators", "nodes")}
    assert set(slices) == expected | {("fused", "kernels")}
    for events in slices.values():
        assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in events)
        assert one_after_the_other(events)


@pytest.mark.slow
def test_operators_are_those_that_were_measured(document, found):
    slices = slices_of(document)
    for label, variant in found.ran.items():
        drawn = slices[label, "operators"]
        assert [event["name"] for event in drawn] == [operator.name for operator in variant.operators]
        assert sum(event["dur"] for event in drawn) == pytest.approx(1e3 * variant.sum_ms, abs=1e-3 * len(drawn))
        for event, operator in zip(drawn, variant.operators, strict=True):
            assert event["dur"] == pytest.approx(1e3 * operator.time_ms, abs=2e-3)
            assert event["args"]["operator_type"] == operator.op
            told = [event["args"].get(key) for key in ("bytes", "flops", "dtype", "share_of_roof")]
            assert told == [operator.bytes, operator.flops, operator.dtype, operator.of_roof]


@pytest.mark.slow
def test_each_operator_has_an_arrow_to_its_node(document, found, graph):
    for label in ("torch", "onnxruntime"):
        names = [operator.name for operator in found.ran[label].operators]
        assert arrows_of(of_variant(document, label)) == [(name, name) for name in names if name in graph]
    nodes = slices_of(document)["torch", "nodes"]
    assert [(e["name"], e["args"]["operator_type"]) for e in nodes] == [(node.name, node.op) for node in graph.nodes]


@pytest.mark.slow
def test_what_a_library_made_itself_has_no_node(found, graph):
    variant = found.ran["onnxruntime"]
    (first, *others) = variant.operators
    own = replace(variant, operators=[replace(first, name="reorder_token_0"), *others])
    document = trace_document(replace(found, variants={"own": own}), {"own": graph})
    assert slices_of(document)["own", "operators"][0]["args"]["nodes"] == []
    assert len(slices_of(document)["own", "nodes"]) == len(others)


@pytest.mark.slow
def test_without_a_graph_there_are_operators_alone(found):
    expected = {(label, "operators") for label in BACKENDS}
    assert set(slices_of(trace_document(found, {}))) == expected | {("fused", "kernels")}


@pytest.mark.slow
def test_kernels_have_arrows_to_the_nodes_in_them(document, found):
    slices, kernels = slices_of(document), found.ran["fused"].kernels
    group = next(kernel for kernel in kernels if len(kernel.operators) > 1)
    assert list(group.operators) == IN_GROUP
    for event, kernel in zip(slices["fused", "kernels"], kernels, strict=True):
        assert (event["name"], event["args"]["by"]) == (kernel.group, kernel.by)
        assert event["dur"] == pytest.approx(1e3 * kernel.time_ms, abs=1e-3)
    arrows = arrows_of(of_variant(document, "fused"))
    for name in IN_GROUP:
        assert arrows.count((group.group, name)) == 2  # from the operator that calls the group, and from its kernel
    assert len(arrows) == sum(2 * len(kernel.operators) for kernel in kernels) + 1  # of Relu, which has no kernel
    for event in slices["fused", "nodes"]:
        assert (event["dur"] == 0) == (event["name"] in IN_GROUP) == ("group" in event["args"])


@pytest.mark.slow
@pytest.mark.parametrize("times", [0.1, 1.0, 50.0])
def test_kernels_do_not_overlap_however_long_they_took(found, graph, times):
    """Their times are of other runs than those of the operators."""
    fused = found.ran["fused"]
    kernels = [replace(kernel, time_ms=times * kernel.time_ms) for kernel in fused.kernels]
    changed = replace(found, variants={"fused": replace(fused, kernels=kernels)})
    document = trace_document(changed, {"fused": graph})
    slices = slices_of(document)
    assert all(one_after_the_other(events) for events in slices.values())
    assert min(event["ts"] for events in slices.values() for event in events) == 0
    arrows_of(document)


@pytest.mark.slow
def test_groups_that_a_pass_made_are_opened(graph, shared_worker):
    grouped = graph.copy()
    run_pass(FuseGroups(past_products=True), grouped, PassContext(load_profile("cpu")))
    inputs = {"x": np.ones((64, 64), np.float32)}
    found = measure_models({"m": Variant(grouped, "fused")}, inputs=inputs, repeat=1, worker=shared_worker)
    arrows = arrows_of(trace_document(found, {"m": grouped}))
    assert {target for _, target in arrows} >= set(IN_GROUP)


@pytest.mark.slow
def test_kernels_of_a_recorded_run_lie_on_their_streams(found, graph):
    """Those that overlap on one stream, as branches of a CUDA graph may, in rows of their own."""
    times = (("gemm", 7, 0, 2), ("add", 13, 1, 3), ("mul", 7, 1, 2), ("exp", 7, 2, 1))  # in microseconds
    kernels = tuple(DeviceKernel(name, stream, start / 1e3, time / 1e3) for name, stream, start, time in times)
    changed = replace(found, variants={"torch": replace(found.ran["torch"], device_kernels=kernels)})
    assert measurement_from_json(json.loads(json.dumps(changed.to_json()))).ran["torch"].device_kernels == kernels
    slices = slices_of(trace_document(changed, {"torch": graph})).items()
    of_run = {thread: events for (process, thread), events in slices if process == "torch, recorded"}
    assert {thread: [(e["name"], e["ts"], e["dur"]) for e in events] for thread, events in of_run.items()} == {
        "stream 7": [("gemm", 0, 2), ("exp", 2, 1)],
        "stream 7 (2)": [("mul", 1, 2)],
        "stream 13": [("add", 1, 3)],
    }


def test_kernels_are_the_events_of_torchs_profiler():
    """Here those of a CPU, which have the same fields."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.ones(64, 64) @ torch.ones(64, 64)
    kernels = kernels_in(profile.events(), torch.autograd.DeviceType.CPU)
    assert kernels_in(profile.events(), torch.autograd.DeviceType.CUDA) == []
    assert kernels[0].start_ms == 0 and "aten::mm" in {kernel.name for kernel in kernels}
    assert all(one.start_ms <= other.start_ms and one.time_ms > 0 for one, other in pairwise(kernels))


@pytest.mark.slow
def test_memory_is_a_counter_at_the_operators_times(document, found):
    for label in ("torch", "fused"):
        timeline, drawn = found.ran[label].memory.timeline, slices_of(document)[label, "operators"]
        counted = defaultdict(list)
        for event in of_phase(of_variant(document, label), "C"):
            counted[event["name"]].append((event["ts"], event["args"]["bytes"]))
        during, after = counted["live memory while an operator runs"], counted["live memory after an operator"]
        assert [size for _, size in during] == [moment.peak_bytes for moment in timeline]
        assert [size for _, size in after] == [moment.live_bytes for moment in timeline]
        assert [time for time, _ in during] == [event["ts"] for event in drawn]
        assert [time for time, _ in after] == pytest.approx([event["ts"] + event["dur"] for event in drawn])
    assert not of_phase(of_variant(document, "onnxruntime"), "C")  # it tells no timeline


@pytest.mark.slow
def test_the_machine_and_what_failed_are_told(found, graph, shared_worker):
    broken = from_text("g (float[64,64] x) => (float[64,64] y) <int64[1] s = {5}> { y = Reshape(x, s) }")
    assert trace_document(found, {})["otherData"]["machine"] == found.machine.to_json()
    inputs = {"x": np.ones((64, 64), np.float32)}
    both = measure_models({"good": graph, "bad": broken}, inputs=inputs, repeat=1, worker=shared_worker)
    document = trace_document(both, {"good": graph, "bad": broken})
    assert list(document["otherData"]["failed"]) == ["bad"]
    assert [event["args"]["name"] for event in named(document, "process_name")] == ["good"]


def test_bench_writes_it(done, refused, kept_worker, tmp_path):
    trace, record = tmp_path / "t.json", tmp_path / "r.json"
    done("bench", NPU, "--repeat", 2, "--trace", trace, "--json", record)
    document, written = json.loads(trace.read_text()), json.loads(record.read_text())
    assert list(slices_of(document)) == [(str(NPU), "operators"), (str(NPU), "nodes")]
    total = sum(event["dur"] for event in slices_of(document)[str(NPU), "operators"])
    assert total == pytest.approx(1e3 * written["variants"][str(NPU)]["sum_ms"], abs=0.1)
    assert len(arrows_of(document)) == len(written["variants"][str(NPU)]["operators"])
    assert "its folder does not exist" in refused("bench", NPU, "--trace", tmp_path / "none" / "t.json")
    assert "read or written already" in refused("bench", NPU, "--trace", NPU)
