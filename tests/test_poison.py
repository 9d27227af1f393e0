"""Plans that run with poison: NaN in what is free must not show in any result, whatever the operator, planner or model."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import onnx
import pytest
import torch

import workbench as wb
from sample_models.light import LIGHT_MODELS
from tests.conformance import RANDOM, array, cases
from tests.conftest import CORPUS
from tests.light_networks import light_file
from tests.slow import thorough_unless
from tests.test_streams_run import poisoned as poisoned_on_streams
from workbench.backends.torch.arena.arena_run import ArenaRun
from workbench.backends.torch.arena.run_plan import plan_of_run
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.backends.torch.streams.launches import launches_of
from workbench.backends.torch.streams.select_run import copied
from workbench.errors import UserError
from workbench.formats.io.onnx_file import load_proto
from workbench.planning.memory.planners import planners
from workbench.run.inputs import seed_inputs
from workbench.run.runnable_dims import settle_dims

pytestmark = pytest.mark.slow
SIMPLIFIED = ("unet_sd15_raw",)  # as loaded it computes a gigabyte of constants in each run
REAL = sorted(CORPUS.glob("*.onnx"))
FEW = ("squeezenet", "shufflenet", "ppocr_cls_v2", "ddddocr_det_yolox")  # of light and real ones


def is_equal(one, other) -> bool:
    """To the last bit, except for what a matrix product in place of a convolution rounds otherwise."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if not isinstance(one, torch.Tensor):
        return np.array_equal(one, other)
    if not one.is_floating_point():
        return torch.equal(one, other)
    same_shape = one.shape == other.shape and one.dtype == other.dtype
    return same_shape and torch.allclose(one.double(), other.double(), rtol=1e-4, atol=1e-5, equal_nan=True)


def poisoned(executor, tensors, planner="exact"):
    """Outputs of a run with poison, and for the planner that runs use, of the run behind it without."""
    plan = plan_of_run(executor, tensors, planner)
    with torch.inference_mode():
        arena = ArenaRun(executor, tensors, plan)
        runs = (arena.run_poisoned, arena.run) if planner == "exact" else (arena.run_poisoned,)
        return [copied(list(run())) for run in runs]


def of_case(number: int, name: str) -> tuple[str, str]:
    """What becomes of one of ONNX's own cases, in an arena and, every fourth, on streams."""
    case = cases()[name]
    try:
        executor = TorchExecutor(load_proto(onnx.ModelProto.FromString(case.model.SerializeToString())))
        given = (array(value) for value in case.data_sets[0][0])
        tensors = executor.upload(dict(zip(executor.graph.inputs, given, strict=True)))
        expected = copied(list(executor.run_tensors(tensors).values()))
    except UserError:
        return "refused", "refused"
    if RANDOM.fullmatch(name.split("_expanded")[0]):
        return "random", "random"
    in_arena = word(poisoned(executor, tensors), expected)
    return in_arena, word(on_streams(executor, tensors), expected) if number % 4 == 0 else "left out"


def word(runs, expected) -> str:
    return "equal" if all(is_equal(found, expected) for found in runs) else "wrong"


def on_streams(executor, tensors):
    """Outputs of runs with poison, in some orders that the streams allow."""
    with torch.inference_mode():
        launches = launches_of(executor, tensors)
        return [poisoned_on_streams(launches, random.Random(seed)) for seed in range(2)]


def test_onnx_s_own_cases():
    names = sorted(cases())[::4]  # those next to each other are of one operator
    found = {name: of_case(number, name) for number, name in enumerate(names)}
    assert [name for name, ways in found.items() if "wrong" in ways] == []
    counts = Counter(found.values())
    assert counts["equal", "equal"] > 85 and counts["equal", "left out"] > 255


def failure_with(executor, dims) -> str | None:
    try:
        executor.run(seed_inputs(executor.graph, dims))
    except UserError as error:
        return str(error)
    return None


def check(number, graph):
    """By the planner that runs use, and by another in turn: all of them on a model would take minutes."""
    executor = TorchExecutor(graph)
    dims = settle_dims(graph, lambda dims: failure_with(executor, dims))
    tensors = executor.upload(seed_inputs(graph, dims))
    expected = copied(list(executor.run_tensors(tensors).values()))
    others = [name for name in planners() if name != "exact"]
    for planner in ("exact", others[number % len(others)]):
        for found in poisoned(executor, tensors, planner):
            assert is_equal(found, expected), planner


@pytest.mark.parametrize("name", [thorough_unless(name in FEW, name) for name in LIGHT_MODELS])
def test_light_networks(name, tmp_path):
    check(list(LIGHT_MODELS).index(name), wb.load(light_file(name, tmp_path)))


@pytest.mark.skipif(not REAL, reason=f"the corpus of real models is not at {CORPUS}")
@pytest.mark.parametrize("path", [thorough_unless(path.stem in FEW, path) for path in REAL], ids=lambda path: path.stem)
def test_real_models(path):
    graph = wb.load(path)
    if path.stem in SIMPLIFIED:
        graph = wb.optimize(graph, preset="simplify").graph
    check(REAL.index(path), graph)
