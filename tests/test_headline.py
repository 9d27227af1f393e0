"""What is said first of a measurement: like with like, backends among each other apart, no factor of a busy machine."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.pages import fine, opened_sample, page, words
from workbench.formats.io.samples import FOLDER
from workbench.interfaces.cli.bench import _print_bench
from workbench.ir import from_text
from workbench.run.measurement.formatting import compared_backends, compared_pipelines, fastest_variant, speed_text
from workbench.run.measurement.measure import summarize_variants
from workbench.run.measurement.measurement_result import Measurement
from workbench.run.measurement.notes import launching_ms, notes_of, why_sums_differ
from workbench.run.measurement.statistics import ratio, spread_shows_load
from workbench.run.measurement.variants import Variant
from workbench.run.worker.machine import Machine

FACTOR = re.compile(r"\d+\.\d+x|ratio \d")
TIMES = {  # ONNX Runtime is much quicker than torch, and greedy makes it a tenth slower there
    "as loaded, torch": 20.0,
    "as loaded, onnxruntime": 1.0,
    "greedy, torch": 10.0,
    "greedy, onnxruntime": 1.1,
}


def found(busy: str = "", device: str = "cpu") -> Measurement:
    """A measurement with those times, steady to one percent, but those of `busy`."""
    graph = from_text("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    memory = {"counted": "values", "kind": "values", "weights_bytes": 0, "peak_bytes": 8}
    raw: dict[str, Any] = {}
    wanted = {}
    for label, time in TIMES.items():
        step, backend = label.split(", ")
        wanted[label] = Variant(graph, backend, "float32", step)
        times = [time * (1 + 0.001 * (turn % 3) + (turn % 4 if label == busy else 0)) for turn in range(20)]
        told = {
            "times_ms": times,
            "operators": [],
            "memory": memory,
            "fallbacks": {},
            "kernels": [],
            "streams": None,
            "error": None,
        }
        raw[label] = told | {"first_result_s": 1.0}
    variants = summarize_variants(raw, wanted, {id(graph): {}}, {"float32": None}, device)
    return Measurement(variants, Machine("cpu", "Xeon", 2, {}), {"float32": None}, {}, None, 3, [])


def test_a_variant_is_compared_with_the_first_of_its_own_backend_and_precision():
    alike = compared_pipelines(found().ran)
    assert [(label, first) for label, _, first in alike] == [
        ("greedy, torch", "as loaded, torch"),
        ("greedy, onnxruntime", "as loaded, onnxruntime"),
    ]
    assert alike[0][1].startswith("2.00x faster") and alike[1][1].startswith("1.10x slower")


def test_backends_are_compared_among_each_other_on_the_first_model_alone():
    ((label, said, first),) = compared_backends(found().ran)
    assert (label, first) == ("as loaded, onnxruntime", "as loaded, torch")
    assert said.startswith("20.00x faster")


def test_the_fastest_is_said_with_what_it_is_ahead_of(capsys):
    measured = found()
    label, said, second = fastest_variant(measured.ran)
    assert (label, second) == ("as loaded, onnxruntime", "greedy, onnxruntime") and said.startswith("1.10x faster")
    _print_bench(measured)
    assert f"fastest here: '{label}' is {said} '{second}'" in capsys.readouterr().out
    alike = {label: variant for label, variant in measured.ran.items() if variant.backend == "torch"}
    assert fastest_variant(alike) is None and fastest_variant({}) is None
    assert fastest_variant(found(label).ran) is None  # its median says that the other is faster, its minimum does not


def test_a_busy_machine_leaves_no_factor_but_who_is_faster_by_far():
    label, said, second = fastest_variant(found("greedy, onnxruntime").ran)
    assert (label, second) == ("as loaded, onnxruntime", "greedy, onnxruntime")
    assert said.startswith("faster (the machine was busy") and not FACTOR.search(said)


def test_launches_that_vary_on_a_gpu_are_no_busy_machine():
    """The device's own times, of a run that is recorded, tell; those of kernels that the host launches do not."""
    assert found("greedy, torch").ran["greedy, torch"].busy
    assert not found("greedy, torch", "cuda:0").ran["greedy, torch"].busy
    assert spread_shows_load("cuda:0", "cuda-graphs") and not spread_shows_load("cuda:0", "torch")
    assert spread_shows_load("cpu", "torch")


def test_launching_is_told_apart_where_kernels_are_launched_one_by_one():
    """ResNet-50 in float16 on an H200, in ms: 3.9 as launched, 0.55 recorded."""
    eager = why_sums_differ(0.55, 3.9, "torch", {}, False, "cuda:0")
    assert eager.endswith("the whole run 3.900 ms: 3.350 ms (86%) is launching them one by one.")
    assert launching_ms(0.55, 3.9, "torch", {}, "cuda:0") == pytest.approx(3.35)
    assert launching_ms(0.55, 0.56, "cuda-graphs", {}, "cuda:0") == 0.0
    assert "launched together" in why_sums_differ(0.55, 0.56, "cuda-graphs", {}, False, "cuda:0")
    assert launching_ms(0.55, 3.9, "cuda-graphs", {"cuda-graphs": "runs operator by operator"}, "cuda:0") > 3
    assert launching_ms(0.55, 3.9, "torch", {}, "cpu") == 0.0
    assert "hidden" in why_sums_differ(4.0, 3.9, "torch", {}, False, "cuda:0")


@pytest.mark.parametrize("busy", [label for label in TIMES if label != "as loaded, torch"])
def test_no_factor_is_given_of_a_variant_that_a_busy_machine_ran(busy, capsys):
    measured = found(busy)
    compared = [*compared_pipelines(measured.ran), *compared_backends(measured.ran)]
    assert compared and not any(busy in (label, first) for label, _, first in compared)
    assert "so no factor is shown" in notes_of(measured.ran, "cpu")[0]
    _print_bench(measured)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(busy)]
    assert lines and all(" busy " in line for line in lines), "the table has none either"


def test_against_what_a_busy_machine_ran_there_is_no_factor():
    measured = found("as loaded, torch").ran
    assert [label for label, _, _ in compared_pipelines(measured)] == ["greedy, onnxruntime"]
    assert compared_backends(measured) == []


def test_runs_of_a_busy_machine_are_not_compared_in_numbers():
    assert not FACTOR.search(speed_text(ratio([1.0, 9.0, 2.0, 8.0, 1.0, 7.0], [2.0] * 6)))


@pytest.mark.slow
def test_the_command_line_and_the_app_compare_the_same_pairs(done):
    """On a busy machine they compare none of them, and say so."""
    one = FOLDER / "conv_relu_conv_relu.onnx"
    said = done("bench", one, one, "--backend", "torch,onnxruntime", "--repeat", "3")
    pairs = set(re.findall(r"^(?:across backends and precisions: )?'(.*?)' is .* '(.*?)'$", said, re.M))
    assert pairs <= {
        *((f"{one} (2), {backend}", f"{one}, {backend}") for backend in ("torch", "onnxruntime")),
        (f"{one}, onnxruntime", f"{one}, torch"),
    }
    assert len(pairs) == 3 or " busy " in said
    at = page("run", opened_sample(one.stem)).run()
    next(m for m in at.multiselect if m.label == "Backends").set_value(["torch", "onnxruntime"])
    next(n for n in at.number_input if n.label == "Repetitions").set_value(3)
    fine(next(b for b in at.button if b.label == "Measure").click().run())
    shown = words(at).replace("\\", "")
    assert "Backends and precisions compared: **onnxruntime** is " in shown or "so no factor is shown" in shown
    assert not any(line.startswith("**onnxruntime** is") for line in shown.splitlines())
    assert "Fastest here: **" in shown or "so no factor is shown" in shown
