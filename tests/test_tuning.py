"""Tuning: candidates, budgets, errors that are allowed, bounds, evidence, recipes and their files, resuming."""

import json
import re
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.commands import NPU, SAMPLES, KeptWorker, commands_share, heeds_ctrl_c
from tests.conftest import ROOT
from tests.loading import saved
from tests.running import typed
from tests.test_tuning_halving import Simulated
from workbench.errors import UserError
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.interfaces.study.tuning import bounds, latency
from workbench.interfaces.study.tuning.budget import Budget, parse_budget
from workbench.interfaces.study.tuning.evidence import Evidence, dominates, evidence_of
from workbench.interfaces.study.tuning.graphs import CandidateGraph, error_fault
from workbench.interfaces.study.tuning.halving import MAX_ITERATIONS, WITHIN, Dropped, NothingRanError, Standing
from workbench.interfaces.study.tuning.last_run import LastRun, measured_last, originals_of
from workbench.interfaces.study.tuning.measuring import Batch, BatchMeasurer, BatchTimes, BudgetOverError, read_record
from workbench.interfaces.study.tuning.pipelines import EXECUTED, OBJECTIVES, TuneError, every_candidate
from workbench.interfaces.study.tuning.recipe import (
    BUDGET_ENDED,
    STOPPED_EARLY,
    VERSION,
    Recipe,
    load_recipe,
    save_recipe,
)
from workbench.interfaces.study.tuning.tune import TuneRequest, tune
from workbench.pipeline.registry.pass_choice import choose
from workbench.presentation.charts.pareto import pareto_chart
from workbench.run.compare import Comparison
from workbench.run.measurement.statistics import Ratio
from workbench.run.tolerances import BFLOAT16, FLOAT32

SMALL = SAMPLES / "conv_relu_conv_relu.onnx"


@pytest.fixture(scope="module", autouse=True)
def one_worker():
    worker = KeptWorker()
    with commands_share(worker):
        yield
    worker.end()


# ---- candidates, budgets, errors ---------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("error", [0.0, 1e-3, 1e-1])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_candidates_are_few_different_and_can_be_chosen(objective, error, device):
    found = every_candidate(objective, device, error, 600)
    assert (7 if objective == "size" else 10) <= len(found) <= 110
    assert len({one.label for one in found}) == len(found)
    for passes in {one.pipeline for one in found}:
        choose(list(passes.passes), export_for=passes.export_for, options=passes.options)
    assert all(one.backend == "onnxruntime" for one in found if one.pipeline.export_for)


def test_smaller_types_are_candidates_only_if_their_rounding_is_allowed():
    def dtypes(device, error):
        return {one.dtype for one in every_candidate("latency", device, error, 600)}

    assert dtypes("cpu", 1e-3) == {"float32"} and dtypes("cpu", 1e-2) == {"float32", "mixed", "bfloat16"}
    assert dtypes("cuda", 1e-3) == {"float32", "tf32", "float16"}


def test_operators_are_timed_in_long_tunings_only():
    def timed(seconds):
        return [one.label for one in every_candidate("latency", "cpu", 1e-3, seconds) if "measured" in one.label]

    assert timed(60) == [] and timed(600) == ["torch, simplify, layout measured"]


def test_a_budget_is_a_number_and_a_unit():
    assert [parse_budget(text) for text in ("90s", "10m", "1h", "1.5m")] == [90, 600, 3600, 90]


@pytest.mark.parametrize("text", ["", "0", "5", "10x", "-3s", "1m30s", "1e3s", "0s", "0.0h", "200h", "9999999s"])
def test_another_budget_is_refused(text):
    with pytest.raises(TuneError, match=r"^the budget "):
        parse_budget(text)


def test_a_budget_is_over_before_its_end():
    now = [0.0]
    budget = Budget(10, clock=lambda: now[0])
    assert not budget.is_closed_to_batches and budget.left_s == 10
    now[0] = 9.0
    assert budget.is_closed_to_batches and budget.left_s == 1
    now[0] = 12.0
    assert budget.left_s == 0


@pytest.mark.parametrize(
    ("compared", "tolerance", "allowed", "fault"),
    [
        (Comparison((), 0.0, 0.0, True, True, ""), FLOAT32, 0.0, ""),
        (Comparison((), 1e-9, 1e-6, False, True, ""), FLOAT32, 1e-3, ""),
        (Comparison((), 1e-9, 0.5, False, True, ""), FLOAT32, 1e-3, ""),  # faint outputs, equal by the tolerance
        (
            Comparison((), 1e-9, 1e-6, False, True, ""),
            FLOAT32,
            1e-7,
            "relative error, 1.0e-06, is above the allowed 1e-07",
        ),
        (
            Comparison((), 0.1, 5e-2, False, True, ""),
            BFLOAT16,
            1e-3,
            "relative error, 5.0e-02, is above the allowed 0.001",
        ),
        (Comparison((), 0.1, 5e-2, False, False, ""), FLOAT32, 0.1, ""),  # the user allows more than the tolerance
        (Comparison((), None, None, False, False, ""), FLOAT32, 0.1, "differ from those of the original"),
    ],
)
def test_the_error_that_is_allowed_decides(compared, tolerance, allowed, fault):
    said = error_fault(compared, tolerance, allowed)
    assert fault in said and bool(fault) == bool(said)


# ---- bounds ---------------------------------------------------------------------------------------


def arms_of(*backends):
    graph = typed("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    every = [one for one in every_candidate("latency", "cpu", 1e-3, 60) if one.backend in backends]
    return {one.label: (one, CandidateGraph(graph, one.label, 1)) for one in every}


def test_a_backend_that_is_far_slower_goes_with_all_its_candidates_and_is_not_opened_again():
    arms = arms_of("torch", "onnxruntime", "fused")
    times = {"torch": 1.4, "onnxruntime": 1.0, "fused": 5.0}
    simulated = Simulated({label: times[one.backend] for label, (one, _) in arms.items()}, noise=0.01)

    *_, last = latency.search_latency(arms, simulated, batch_size=8)
    fused = {label for label in arms if label.startswith("fused")}
    assert arms[last.best][0].backend == "onnxruntime"
    assert fused <= {*last.dropped} and all("more than passes can gain" in last.dropped[label].why for label in fused)
    assert [label for label in simulated.opened if label in fused] == ["fused, normalize"]
    assert {"torch, normalize", "torch, simplify"} <= {*simulated.opened}  # 1.4 is within SPAN and SPAN_OF_PRESETS


def test_a_backend_goes_when_the_pipelines_of_a_faster_one_leave_it_behind():
    arms = arms_of("torch", "onnxruntime")
    true = {label: 1.9 if one.backend == "torch" else 1.0 for label, (one, _) in arms.items()}
    true["onnxruntime, simplify"] = 0.6
    simulated = Simulated(true, noise=0.01)

    *_, last = latency.search_latency(arms, simulated, batch_size=8)
    assert last.best == "onnxruntime, simplify" and last.settled and last.remaining == (last.best,)
    assert [label for label in simulated.opened if label.startswith("torch")] == ["torch, normalize"]
    assert {*last.dropped} == {*arms} - {last.best}


@pytest.mark.slow
def test_the_whole_search_loses_at_most_3_percent_and_opens_few_of_the_candidates():
    """What passes gain is the same for the same kernels, up to one percent, and less in a compiler."""
    arms = arms_of("torch", "onnxruntime", "arena", "torch-compile", "fused")
    shares = []
    for seed in range(40):
        random, gains = np.random.default_rng(seed), {}

        def gain(*key, random=random, gains=gains):
            return gains.setdefault(key, random.uniform(0.97 if key[0] == "torch-compile" else 0.8, 1.03))

        true = {}
        for label, (one, _) in arms.items():
            presets = {"none": (), "normalize": ("normalize",), "simplify": ("normalize", "simplify")}[
                one.pipeline.preset
            ]
            kernels = "operators" if one.backend in EXECUTED else one.backend
            factors = [gain(kernels, part) for part in (*presets, *one.pipeline.more)]
            true[label] = 2 * gains.setdefault(one.backend, random.uniform(1, 4)) * np.prod(factors)
            true[label] *= random.uniform(0.99, 1.01)
        simulated = Simulated(true, seed=seed)
        *_, last = latency.search_latency(arms, simulated, batch_size=8)
        assert true[last.best] <= (1 + WITHIN) * min(true.values())
        assert simulated.runs <= len(arms) * MAX_ITERATIONS / 3
        assert {*last.remaining, *last.dropped} == {*arms} and not {*last.remaining} & {*last.dropped}
        shares.append(len({*simulated.opened}) / len(arms))
    assert np.mean(shares) < 0.5


def test_a_backend_with_the_kernels_of_one_that_is_far_behind_is_not_searched():
    arms = arms_of("torch", "arena", "fused")
    times = {"torch": 1.05, "arena": 1.0, "fused": 1.2}

    def searched(**others):
        true = {label: (times | others)[one.backend] for label, (one, _) in arms.items()}
        simulated = Simulated(true, noise=0.001)
        *_, last = latency.search_latency(arms, simulated, batch_size=8)
        return last.dropped, {label for label in simulated.opened if not label.endswith(", normalize")}

    _, opened = searched()
    assert {"arena, simplify", "torch, simplify"} <= opened
    _, opened = searched(fused=0.9)  # so near that another with the same kernels may be faster
    assert {"arena, simplify", "torch, simplify"} <= opened
    dropped, opened = searched(fused=0.8)
    assert "arena, simplify" in opened and "torch, simplify" not in opened
    why = "{} in float32 runs the kernels of arena in float32, whose pipelines are all too slow"
    assert {dropped[label].why for label in arms if label.startswith("torch")} == {why.format("torch")}


def test_an_addition_that_only_a_slower_preset_has_is_tried_with_it():
    arms = arms_of("fused")
    slow = {"none": 1.2, "normalize": 1.0, "simplify": 1.1}
    true = {label: slow[one.pipeline.preset] for label, (one, _) in arms.items()}
    true["fused, simplify, groups of least traffic"] = 0.8
    simulated = Simulated(true, noise=0.001)

    *_, last = latency.search_latency(arms, simulated, batch_size=8)
    assert last.best == "fused, simplify, groups of least traffic"
    assert "fused, simplify, layout greedy" not in simulated.opened  # `normalize` has it too and is faster


def test_what_adds_to_a_slower_preset_is_not_opened():
    arms = arms_of("torch", "onnxruntime")
    slow = {"none": 1.3, "normalize": 1.2, "simplify": 1.0}
    true = {label: slow[one.pipeline.preset] * 0.9 ** len(one.pipeline.more) for label, (one, _) in arms.items()}
    true = {label: time * (3 if arms[label][0].backend == "onnxruntime" else 1) for label, time in true.items()}
    simulated = Simulated(true, noise=0.01)

    *_, last = latency.search_latency(arms, simulated, batch_size=8)
    assert last.best == "torch, simplify, layout optimal, fused patterns"
    assert (
        last.dropped["torch, as it is"].why
        == "more passes are faster in torch in float32, so the unoptimized model was not tried"
    )
    assert (
        last.dropped["torch, normalize, layout greedy"].why
        == "the pipeline that it extends gains nothing in torch in float32"
    )
    assert not [label for label in simulated.opened if label.startswith(("torch, as it is", "torch, normalize, "))]
    assert "more than passes can gain" in last.dropped["onnxruntime, simplify"].why


def test_where_passes_make_it_slower_the_model_as_it_is_is_measured():
    arms = arms_of("torch")
    slow = {"none": 0.8, "normalize": 1.0, "simplify": 1.2}
    true = {label: slow[one.pipeline.preset] for label, (one, _) in arms.items()}
    *_, last = latency.search_latency(arms, Simulated(true, noise=0.01), batch_size=8)
    assert last.best == "torch, as it is"


def test_what_is_added_to_a_preset_is_tried_even_if_no_passes_seem_faster():
    arms = arms_of("torch")
    slow = {"none": 0.99, "normalize": 1.0, "simplify": 1.0}
    true = {label: slow[one.pipeline.preset] for label, (one, _) in arms.items()}
    true |= {label: 0.7 for label in true if label.endswith("layout optimal")}
    *_, last = latency.search_latency(arms, Simulated(true, noise=0.001), batch_size=8)
    assert last.best.endswith("layout optimal")


def test_what_the_best_adds_is_tried_behind_a_preset_that_was_slower_by_chance():
    arms = arms_of("onnxruntime")
    true = {label: 0.8 if one.pipeline.more else 1.0 for label, (one, _) in arms.items()}
    simulated = Simulated(true, noise=0.02)
    *_, last = latency.search_latency(arms, simulated, batch_size=8)
    written = {label for label in arms if label.endswith("for onnxruntime")}
    assert len(written) == 2 and written <= {*simulated.opened} and last.best in written


def test_presets_that_are_half_as_slow_again_end_a_backend():
    arms = arms_of("torch", "onnxruntime")
    true = {label: 1.8 if one.backend == "torch" else 1.0 for label, (one, _) in arms.items()}
    *_, last = latency.search_latency(arms, Simulated(true, noise=0.01), batch_size=8)
    assert (
        "with the best preset, more than further passes can gain" in last.dropped["torch, normalize, layout greedy"].why
    )


def test_a_best_that_fails_later_does_not_end_the_search():
    """It ran in the first comparison, and not beside the others."""
    arms = arms_of("torch", "onnxruntime")
    true = {label: 0.5 if label == "onnxruntime, normalize" else 1.0 for label in arms}
    simulated, looks = Simulated(true, noise=0.01), []

    def measure(labels, iterations):
        looks.append(labels)
        simulated.failing = ("onnxruntime, normalize",) if len(looks) > 1 else ()
        return simulated(labels, iterations)

    *_, last = latency.search_latency(arms, measure, batch_size=8)
    assert last.best != "onnxruntime, normalize" and {*last.remaining, *last.dropped} == {*arms}


def test_a_backend_whose_first_pipeline_fails_may_run_another():
    arms = arms_of("torch", "onnxruntime")
    true = {label: 1.0 if label == "onnxruntime, simplify" else 3.0 for label in arms}
    failing = ("onnxruntime, normalize",)
    *_, last = latency.search_latency(arms, Simulated(true, failing=failing), batch_size=8)
    assert last.best == "onnxruntime, simplify"
    assert last.dropped["onnxruntime, normalize"].why == "it does not run: no such kernel"


def test_every_candidate_may_fail():
    arms = arms_of("torch", "onnxruntime")
    with pytest.raises(NothingRanError, match="no such kernel"):
        list(latency.search_latency(arms, Simulated(dict.fromkeys(arms, 1.0), failing=[*arms]), batch_size=8))


def test_the_bound_of_memory_is_weights_inputs_and_what_is_in_use_at_once():
    text = "g (float[100] x) => (float[100] y) <float w = {2}> { a = Exp(x)  b = Mul(a, w)  y = Sin(b) }"
    graph = typed(text)
    assert bounds.memory_bound(graph, "arena") == 4 + 400 + 400  # each result lies over its operand
    assert bounds.memory_bound(graph, "fused") == 0


# ---- evidence ----------------------------------------------------------------------------------------


def evidence(label="a", **fields):
    return Evidence(label, "torch", "float32", "normalize", **fields)


def test_who_is_beaten_in_everything_is_dominated():
    one = evidence(latency_ratio=1.0, peak_bytes=100, peak_counted="values", max_rel_error=0.0)
    assert dominates(one, replace(one, latency_ratio=2.0)) and not dominates(replace(one, latency_ratio=2.0), one)
    assert not dominates(one, one)
    assert not dominates(one, replace(one, latency_ratio=0.5, peak_bytes=200))
    assert not dominates(one, replace(one, latency_ratio=2.0, peak_counted="process"))  # of other bytes


def test_the_evidence_has_every_candidate_with_its_reason_and_where_its_numbers_are_from():
    a, b, c, d, e = every_candidate("latency", "cpu", 1e-3, 60)[:5]
    batches = {one.label: BatchTimes([5.0] * 6, 50, "values") for one in (a, b, c, d)}
    last_times = {c.label: BatchTimes([1.0, 2.0, 3.0]), a.label: BatchTimes([2.0, 4.0, 6.0], busy=True)}
    exact = {label: Ratio(number, number, number, False) for label, number in {c.label: 1.0, a.label: 2.0}.items()}
    last_run = LastRun(last_times, c.label, exact, a.label, ("busy",))
    ratios = {b.label: Ratio(1.3, 1.2, 1.4, True), d.label: Ratio(1.1, 1.0, 1.2, False), **exact}
    dropped = {b.label: Dropped(2, "slow"), a.label: Dropped(1, "x")}
    found = evidence_of([a, b, c, d, e], {}, batches, ratios, ratios, dropped, last_run, c.label)
    assert [one.label for one in found] == [c.label, a.label, d.label, b.label, e.label]
    assert [one.measured_in for one in found] == ["last run", "last run", "its last round", "round 2", ""]
    assert [one.median_ms for one in found] == [2.0, 4.0, None, None, None], "of one run alone"
    assert [one.ratio for one in found] == [1.0, 2.0, 1.1, 1.3, None]
    assert found[1].original and found[3].busy and (found[0].min_ms, found[0].runs, found[3].runs) == (1.0, 3, 6)
    assert found[1].result == "the original, which these passes leave as it is" and found[3].result == "slow"
    assert found[4].why == "it was not measured: the tuning ended before that"


@pytest.mark.slow
def test_the_last_run_has_the_best_and_the_original_interleaved():
    graph = wb.load(SMALL)
    candidates = {one.label: one for one in every_candidate("latency", "cpu", 1e-3, 60)}
    labels = ["onnxruntime, simplify", "onnxruntime, simplify, for onnxruntime", "onnxruntime, as it is"]
    graphs = {"as it is": CandidateGraph(graph, "0", 1), "simplify": CandidateGraph(graph, "1", 1)}
    graphs["simplify, for onnxruntime"] = graphs["simplify"]
    arms = {label: (candidates[label], graphs[candidates[label].pipeline.label]) for label in labels}
    assert originals_of(arms, graphs, "torch") == ["onnxruntime, as it is"]
    same = {"onnxruntime, normalize": (candidates["onnxruntime, normalize"], CandidateGraph(graph, "0", 1))}
    assert originals_of(same, graphs, "onnxruntime") == [*same], "the passes left it as it is"

    ratios = {**dict.fromkeys(labels[:2], Ratio(1, 1, 1, False)), "slow": Ratio(2, 1.9, 2.1, False)}
    standing = Standing(3, 6, labels[0], ratios, (*labels[:2], "slow", "not measured"), {})
    with Verifier(graph) as verifier:
        measurer = BatchMeasurer(arms, verifier, "cpu", 1e-3, Budget(600))
        measurer.results[labels[0]] = BatchTimes([1e-9])  # of another moment
        found = measured_last(standing, labels[2:], measurer, batch_size=8)
        assert [*found.times] == labels and found.original == labels[2]
        assert {len(times.times_ms) for times in found.times.values()} == {MAX_ITERATIONS}
        assert found.ratios[found.fastest].ratio == 1
        typical = min if found.notes else np.median  # as the notes advise on a busy machine
        assert found.fastest == min(labels, key=lambda label: typical(found.times[label].times_ms))

        measurer.budget = Budget(1e-9)
        assert measured_last(standing, labels[2:], measurer, batch_size=3) == found, "it is recorded"
        with pytest.raises(BudgetOverError):
            measured_last(standing, labels[2:], measurer, batch_size=2)


def test_the_chart_joins_what_is_not_beaten_and_keeps_apart_what_peaks_count():
    rows = [
        evidence("a", latency_ratio=2.0, peak_bytes=1_000_000, peak_counted="values", pareto=True).row(),
        evidence("b", latency_ratio=1.0, peak_bytes=3_000_000, peak_counted="values", pareto=True).row(),
        evidence("c<b>", latency_ratio=3.0, peak_bytes=3_000_000, peak_counted="values", max_rel_error=1e-6).row(),
        evidence("d", latency_ratio=1.5, peak_bytes=2_000_000, peak_counted="process", pareto=True).row(),
        evidence("not measured").row(),
    ]
    figure = pareto_chart(rows)
    points = {trace.name: list(zip(trace.x, trace.y, strict=True)) for trace in figure.data}
    assert points == {
        "values, not beaten": [(1.0, 3.0), (2.0, 1.0)],
        "values, beaten": [(3.0, 3.0)],
        "process, not beaten": [(1.5, 2.0)],
        "process, beaten": [],
    }
    assert figure.data[1].text == ("c&lt;b&gt;<br>error 1.0e-06",)
    assert figure.layout.yaxis.title.text == "peak memory (MB)"
    assert all(not trace.x for trace in pareto_chart([]).data)


# ---- recipes -------------------------------------------------------------------------------------------


def recipe(**fields):
    return Recipe(
        **{
            "model_name": 'a "net"\\ \x7f ü',
            "model_sha256": "0" * 64,
            "objective": "latency",
            "device": "cpu",
            "device_name": "some CPU",
            "versions": {"torch": "2", "a b.c": "x"},
            "max_error": 1e-3,
            "seconds": 12.5,
            "ended": BUDGET_ENDED,
            "label": "torch, normalize",
            "backend": "torch",
            "dtype": "float32",
            "passes": ("fold_constants", "fuse_groups"),
            "options": {"fuse_groups.max_operators": 8},
            "target": "cuda",
            "mode": "ieee",
            "export_for": None,
            "notes": ("The machine was busy.",),
            "evidence": (
                evidence(median_ms=1.0, runs=4, original=True, ratio=1.0, ratio_low=float("-inf"), pareto=True),
                evidence("b", dropped_in=0, why='it\'s "wrong"\nhere'),
            ),
            **fields,
        }
    )


def test_a_recipe_is_read_as_it_was_written(tmp_path):
    for one in (recipe(), recipe(export_for="onnxruntime", options={}, passes=())):
        save_recipe(one, tmp_path / "r.toml")
        assert load_recipe(tmp_path / "r.toml") == one


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("version = 1", "version = 2"), f"is of version 2, and this program reads version {VERSION}"),
        (lambda text: text.replace("version = 1\n", ""), "is of version None"),
        (lambda text: text[:200], "is not TOML"),
        (lambda text: text + "\n[extra]\na = 1\n", "has the unknown key 'extra'"),
        (lambda text: text.replace("[run]", "[ran]"), "has the unknown key 'ran'"),
        (lambda text: text.replace('"fold_constants"', '"no_such"'), "cannot be run here: there is no pass 'no_such'"),
        (lambda text: text.replace("fuse_groups.max_operators", "fuse_groups.most"), "cannot be run here: pass fuse_groups has no option"),
        (lambda text: text.replace('target = "cuda"', 'target = "tpu"'), "cannot be run here: there is no target profile"),
        (lambda text: text.replace('mode = "ieee"', 'mode = "loose"'), "pipeline.mode must be one of"),
        (lambda text: text.replace('backend = "torch"\ndtype', 'backend = "tvm"\ndtype'), "run.backend must be one of"),
        (lambda text: re.sub(r"passes = \[[^]]*\]", 'passes = "all"', text), "pipeline.passes must be a list"),
        (lambda text: text.replace("seconds = 12.5", 'seconds = "long"'), "tuned.seconds must be a number"),
        (lambda text: text.replace("runs = 4", "walks = 4"), "a row of [[evidence]]"),
    ],
)  # fmt: skip
def test_a_recipe_that_is_broken_or_edited_wrongly_is_one_sentence(tmp_path, refused, change, said):
    file = tmp_path / "r.toml"
    save_recipe(recipe(), file)
    text = file.read_text(encoding="utf-8")
    assert change(text) != text
    file.write_text(change(text), encoding="utf-8")
    words = refused("optimize", SMALL, "--recipe", file, "-o", tmp_path / "o.onnx")
    assert words.startswith(f"workbench: the recipe '{file}'") and said in words and words.count("\n") == 1
    assert not (tmp_path / "o.onnx").exists()


def test_a_recipe_that_is_none_is_refused(tmp_path, refused):
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    assert "is not TOML" in refused("optimize", SMALL, "--recipe", tmp_path / "binary.toml", "-o", tmp_path / "o.onnx")
    assert "cannot be read" in refused("optimize", SMALL, "--recipe", tmp_path / "none.toml", "-o", tmp_path / "o.onnx")
    assert "cannot be read" in refused("optimize", SMALL, "--recipe", tmp_path, "-o", tmp_path / "o.onnx")


@pytest.mark.parametrize(
    "more", [("--layout", "greedy"), ("--target", "npu"), ("--mode", "fast"), ("--relayout-inputs",)]
)
def test_a_recipe_says_all_that_passes_do(tmp_path, refused, more):
    save_recipe(recipe(), tmp_path / "r.toml")
    said = refused("optimize", SMALL, "--recipe", tmp_path / "r.toml", "-o", tmp_path / "o.onnx", *more)
    assert f"{more[0]} cannot be given with --recipe" in said
    said = refused("optimize", SMALL, "--recipe", tmp_path / "r.toml", "-o", tmp_path / "o.onnx", "--preset", "none")
    assert "not allowed with argument" in said


def test_options_of_a_precision_need_one_beside_a_recipe_too(tmp_path, refused):
    save_recipe(recipe(), tmp_path / "r.toml")
    written = ("--recipe", tmp_path / "r.toml", "-o", tmp_path / "o.onnx")
    assert "need --precision" in refused("optimize", SMALL, *written, "--max-error", "0.1")


def test_sizes_are_fixed_or_freed_before_the_passes_of_a_recipe(tmp_path, done):
    """It was tuned for these sizes or for others; what the file takes is the user's choice."""
    save_recipe(recipe(), tmp_path / "r.toml")
    cases = (("N", ("--dims", "N=3", "--fix-dims"), 3), ("2", ("--free-dims", "x:0=M"), "M"))
    for size_before, words, size in cases:
        text = f"g (float[{size_before},4] x) => (float[{size_before},4] y) {{ a = Neg(x)  y = Relu(a) }}"
        model = saved(tmp_path, text)
        done("optimize", model, "--recipe", tmp_path / "r.toml", "-o", tmp_path / "o.onnx", *words)
        assert load_model(tmp_path / "o.onnx").tensor_type("x").shape == (size, 4)


# ---- the command ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_smallest_file_needs_no_run_and_its_recipe_makes_it(tmp_path, done):
    made = tmp_path / "r.toml"
    out = json.loads(done("tune", SAMPLES / "resnet50_narrow.onnx", "--for", "size", "-o", made, "--json"))
    best, *others = out["evidence"]
    assert tomllib.loads(made.read_text()) == out and out["tuned"]["chosen"] == best["label"]
    assert all(best["file_bytes"] <= one["file_bytes"] for one in others) and best["ratio"] == 1.0
    assert all("median_ms" not in one for one in out["evidence"])
    assert any(one["why"].startswith("its graph is the same as that of") for one in others)
    assert not (tmp_path / "r.toml.part").exists()
    written = ("-o", tmp_path / "o.onnx", "--no-metadata")
    said = done("optimize", SAMPLES / "resnet50_narrow.onnx", "--recipe", made, *written)
    assert "--backend onnxruntime --dtype float32 --device cpu" in said
    assert (tmp_path / "o.onnx").stat().st_size == best["file_bytes"]


def test_the_recipe_of_another_file_is_applied_and_said(tmp_path, run):
    save_recipe(recipe(), tmp_path / "r.toml")
    code, _, err = run("optimize", SMALL, "--recipe", tmp_path / "r.toml", "-o", tmp_path / "o.onnx")
    assert code == 0 and "note: the recipe was tuned for another file" in err


@pytest.mark.slow
def test_what_cannot_be_tuned_is_one_sentence(tmp_path, refused):
    out = tmp_path / "r.toml"
    assert "there is no objective 'speed'" in refused("tune", SMALL, "-o", out, "--for", "speed")
    assert "the budget must be more than 0" in refused("tune", SMALL, "-o", out, "--budget", "0s")
    assert "must be a number of at least 0, not -1.0" in refused("tune", SMALL, "-o", out, "--max-error", "-1")
    assert "must be a number of at least 0, not nan" in refused("tune", SMALL, "-o", out, "--max-error", "nan")
    assert "ended before any candidate was measured" in refused("tune", SMALL, "-o", out, "--budget", "0.001s")
    if Path("/proc").is_dir():  # where nobody may write
        assert "'/proc/r.toml' cannot be written" in refused("tune", SMALL, "-o", "/proc/r.toml")
    assert "its folder does not exist" in refused("tune", SMALL, "-o", tmp_path / "no" / "r.toml")
    wb.export(wb.load(SMALL), tmp_path / "m.onnx")
    assert "is read or written already" in refused("tune", tmp_path / "m.onnx", "-o", tmp_path / "m.onnx")
    assert not out.exists()


def test_a_model_that_does_not_run_is_one_sentence(tmp_path, refused):
    wb.export(typed("g (float[N,3] x, float[M,3] y) => (float[N,3] z) { z = Add(x, y) }"), tmp_path / "m.onnx")
    said = refused("tune", tmp_path / "m.onnx", "--dims", "N=2,M=3", "-o", tmp_path / "r.toml")
    assert said.count("\n") == 1 and "The run failed" in said


def test_a_record_that_a_kill_cut_off_is_read_up_to_there(tmp_path, refused):
    part = tmp_path / "r.toml.part"
    line = json.dumps({"key": "k", "found": {"a": {"times_ms": [1.0]}}})
    part.write_text(f"{line}\n{line[:20]}")
    assert read_record(part) == {"k": Batch({"a": BatchTimes([1.0])})} and part.read_text() == f"{line}\n"
    part.write_text('{"other": 1}\n')
    with pytest.raises(UserError, match="does not hold the measurements of a tuning; delete or move it"):
        read_record(part)
    assert "does not hold the measurements" in refused("tune", SMALL, "-o", tmp_path / "r.toml", "--budget", "60s")


# ---- whole tunings ------------------------------------------------------------------------------------------


class Unmeasuring(KeptWorker):
    """Refuses to measure."""

    def request(self, kind, **fields):
        assert kind != "measure"
        return super().request(kind, **fields)


@pytest.mark.slow
def test_a_tuning_that_goes_on_measures_nothing_again(tmp_path):
    graph, request = wb.load(SMALL), TuneRequest(budget_s=240)
    part = tmp_path / "part"
    with Verifier(graph) as verifier:
        first = tune(graph, request, verifier, record=part)
    other = Unmeasuring()
    with Verifier(graph, worker=other) as verifier:
        again = tune(graph, request, verifier, record=part)
    other.end()
    assert again == replace(first, seconds=again.seconds)


@pytest.mark.slow
def test_a_tuning_that_is_stopped_gives_the_best_so_far():
    graph = wb.load(SMALL)
    batches = []

    def hear(words):
        batches.append(words)

    with Verifier(graph) as verifier:
        found = tune(
            graph,
            TuneRequest(budget_s=240),
            verifier,
            on_progress=hear,
            is_enough=lambda: any("best so far" in words for words in batches),
        )
    best = found.evidence[0]
    assert found.ended == STOPPED_EARLY and (best.ratio, best.median_ms, best.measured_in) == (
        1,
        None,
        "its last round",
    )
    assert any(one.why.startswith("it was not measured") for one in found.evidence)


def tuning(*arguments):
    command = [sys.executable, "-m", "workbench", "tune", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, preexec_fn=heeds_ctrl_c)


def wait_for_batches(part, process, seconds=120):
    """Two: the first may be written a moment before it is compared, and only then there is a best."""
    ends = time.monotonic() + seconds
    while not (part.exists() and part.read_text().count("\n") >= 2):
        assert time.monotonic() < ends and process.poll() is None
        time.sleep(0.1)


@pytest.mark.slow
def test_a_process_that_was_killed_goes_on(tmp_path, done):
    made, part = tmp_path / "r.toml", tmp_path / "r.toml.part"
    with tuning(SMALL, "--budget", "240s", "-o", made) as process:
        wait_for_batches(part, process)
        process.kill()
        code = process.wait()
    kept = part.read_text().splitlines()[0]
    assert code == -signal.SIGKILL and not made.exists()
    done("tune", SMALL, "--budget", "240s", "-o", made)
    first = json.loads(kept)["found"]
    recipe_ = load_recipe(made)
    ratios = {one.label: one.ratio for one in recipe_.evidence}
    assert {*first} <= {label for label, ratio in ratios.items() if ratio is not None}
    last = [one for one in recipe_.evidence if one.measured_in == "last run"]
    assert recipe_.evidence[0] in last and sum(one.original for one in last) == 1
    number = "min_ms" if recipe_.notes else "median_ms"
    assert len({one.runs for one in last}) == 1 and last[0] == min(last, key=lambda one: getattr(one, number))
    assert all(one.median_ms is None for one in recipe_.evidence if one not in last)
    done("optimize", SMALL, "--recipe", made, "-o", tmp_path / "o.onnx")


# ---- several models ------------------------------------------------------------------------------------------


def test_several_models_have_a_recipe_each(tmp_path, run):
    other, broken = tmp_path / "other.onnx", tmp_path / "broken.onnx"
    wb.export(typed("g (float[4] x) => (float[4] y) { a = Neg(x) y = Neg(a) }"), other)
    wb.export(typed("g (float[N,4] x) => (float[5] y) <int64[1] s = {5}> { y = Reshape(x, s) }"), broken)
    folder = tmp_path / "recipes"
    code, out, err = run("tune", other, broken, SMALL, "--for", "size", "-o", folder)
    assert code == 1 and err.startswith(f"{broken}: The run failed")
    assert sorted(path.name for path in folder.iterdir()) == ["conv_relu_conv_relu.toml", "other.toml"]
    assert load_recipe(folder / "other.toml").model_name == "other.onnx" and out.count("wrote ") == 2


def test_two_models_of_one_name_are_one_sentence(tmp_path, refused):
    wb.export(wb.load(SMALL), tmp_path / SMALL.name)
    said = refused("tune", SMALL, tmp_path / SMALL.name, "-o", tmp_path / "recipes")
    assert "two models are called 'conv_relu_conv_relu'" in said
    assert "there is no such file" in refused("tune", SMALL, tmp_path / "none.onnx", "-o", tmp_path / "recipes")
    assert "give either model files or --torch" in refused("tune", "-o", tmp_path / "recipes")
    assert "cannot be the folder of the recipes" in refused("tune", SMALL, NPU, "-o", tmp_path / SMALL.name)
