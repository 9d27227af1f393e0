"""Random graphs through every preset, layout strategy and mode, compared with ONNX Runtime: `python -m tests.fuzz`.

Endless without --models; what fails is cut down to a few nodes, printed, and written to a file.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnxruntime

import passes
from tests.cutting_down import cut_down, with_outputs
from tests.random_graphs import random_graph
from workbench.external.tool_pass import ToolPass
from workbench.inference.evaluate import RANDOM
from workbench.io.exporting import to_bytes
from workbench.ir import DataType, Graph, Node, TensorType, graph_text
from workbench.ir.types import constant
from workbench.layout.problem.probe import GivenTimes
from workbench.layout.profile import load_profile
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.running import run_pipeline
from workbench.registry.pass_choice import choose
from workbench.rewrite import MODES, Example, History, Pass, PassContext, Rewrite, Rule, with_options
from workbench.rewrite.core import passes as running
from workbench.rewrite.core.rule import FindRewrite
from workbench.run.compare import compare
from workbench.run.inputs import output_orders, permute_inputs, turned
from workbench.run.randomness import is_random
from workbench.run.tolerances import BITS, tolerances_for

Arrays = dict[str, np.ndarray]
Compared = list[tuple[Arrays, Arrays]]  # inputs with the outputs of the original

PLAIN = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -3.25, 7.0])
HOSTILE = np.array([*PLAIN, np.nan, np.inf, -np.inf, 1e-45, 3.4e38, -3.4e38])
MILD = np.array([*PLAIN, np.nan, np.inf, -np.inf])
NOISE = 1e-6  # by which every value and input is moved, to see what rounding alone does
AMPLIFIED = 100  # times what the noise does is still rounding
TARGETS = ("cuda", "npu", "blocked")
EXTREMA = ("ReduceMin", "ReduceMax", "MaxPool", "GlobalMaxPool")
GROUPINGS = ("fuse_groups", "fuse_minimum")


@dataclass(frozen=True)
class Plan:
    """What a graph goes through: passes behind each other, in a mode, for a target."""

    title: str
    passes: tuple[Pass, ...]
    mode: str
    target: str = "cuda"

    def run(self, graph: Graph) -> History:
        context = PassContext(load_profile(self.target), GivenTimes({"Transpose": 1}), mode=self.mode)
        return run_pipeline(graph, self.passes, context, check_each=True)

    @property
    def is_fixpoint(self) -> bool:
        return self.passes[-1].name == "repeat" and Pipeline(self.passes).strategy is None

    def __str__(self) -> str:
        return f"{self.title}, {self.mode}, {self.target}"


def preset(name: str, mode: str, layout: str | None = None, target: str = "cuda") -> Plan:
    made = choose(preset=name, layout=layout).passes
    return Plan(f"{name}{f' with {layout}' if layout else ''}", made, mode, target)


def fused(plan: Plan, grouping: str) -> Plan:
    return replace(plan, title=f"{plan.title}, {grouping}", passes=(*plan.passes, passes.find_pass(grouping)()))


def alone(fragment: Fragment, mode: str) -> Plan:
    cls, example = fragment.cls, fragment.example
    return Plan(cls().name, (with_options(cls, example.options),), mode, example.target)


# ---- one graph ---------------------------------------------------------------------------


def failure(graph: Graph, plan: Plan, seed: int = 0, fired: Counter | None = None) -> str:
    """What is wrong with the graph behind the plan, its kind first ("numbers: ..."); "" where nothing is.

    fired: counts the rewrites of each pass.
    """
    try:
        session = opened(graph)
    except Exception:  # ONNX Runtime does not run the original
        return ""
    compared = list(_runs(graph, session, plan.mode, seed))
    if is_random(graph) and not all(compare(e, _run(_anew(session, graph), graph, i), BITS).ok for i, e in compared):
        return ""  # it draws other numbers each time
    try:
        history = plan.run(graph)
    except Exception as error:
        return f"exception: {type(error).__name__}: {error}"
    if fired is not None:
        fired.update(r.pass_name for step in history for r in step.rewrites)
    found = history.graph
    if not compared:
        return ""
    try:
        candidate = opened(found)
    except Exception as error:
        return f"refused by ONNX Runtime: {error}"
    if plan.is_fixpoint and (left := _second(found, plan)):
        return f"second run: {left}"
    orders = output_orders(graph, found)
    for inputs, expected in compared:
        try:
            numbers = turned(_run(_anew(candidate, found), found, permute_inputs(inputs, graph, found)), orders)
        except Exception as error:
            return f"does not run: {error}"
        wrong = _difference(graph, plan.mode, expected, numbers)
        if wrong and not (plan.mode != "exact" and _excused(graph, plan, inputs, expected, numbers)):
            return f"numbers: {wrong}"
    return ""


def _second(found: Graph, plan: Plan) -> str:
    """The first rewrite of a second run, or ""."""
    return next((f"{r.pass_name}: {r.sentence}" for step in plan.run(found) for r in step.rewrites), "")


def opened(graph: Graph) -> onnxruntime.InferenceSession:
    """An unoptimized session of the graph's export, on one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(to_bytes(graph), options)


def _anew(session: onnxruntime.InferenceSession, graph: Graph) -> onnxruntime.InferenceSession:
    """The session; a new one if the graph draws numbers, of which a seed determines only those of the first run."""
    return opened(graph) if any(node.op in RANDOM for node in graph.nodes) else session


def _run(session: onnxruntime.InferenceSession, graph: Graph, inputs: Arrays) -> Arrays:
    found = zip(graph.outputs, session.run(list(graph.outputs), inputs), strict=True)
    return {name: array for name, array in found if isinstance(array, np.ndarray)}


def _runs(graph: Graph, session: onnxruntime.InferenceSession, mode: str, seed: int) -> Iterator[tuple[Arrays, Arrays]]:
    """Inputs on which the original runs, ordinary ones first, with its outputs."""
    pools = {"exact": (None, HOSTILE, HOSTILE), "ieee": (None, MILD, MILD), "fast": (None, None)}[mode]
    for turn, pool in enumerate(pools):
        inputs = _inputs(graph, np.random.default_rng((seed, turn)), pool, (2, 3, 1)[turn % 3])
        try:
            yield inputs, _run(_anew(session, graph), graph, inputs)
        except Exception:  # the original does not take these numbers: an index, a shape
            continue


def _inputs(graph: Graph, draw: np.random.Generator, pool: np.ndarray | None, dim: int) -> Arrays:
    """Floats from the pool, or standard normal; integers 0 and 1, which are indices and sizes too."""
    made = {}
    for name in graph.inputs:
        type_ = graph.tensor_type(name)
        shape, dtype = [d if isinstance(d, int) else dim for d in type_.shape], type_.dtype.numpy()
        if not np.issubdtype(dtype, np.floating):
            made[name] = draw.integers(0, 2, shape).astype(dtype)
            continue
        with np.errstate(over="ignore"):
            made[name] = np.asarray(draw.standard_normal(shape) if pool is None else draw.choice(pool, shape)).astype(
                dtype
            )
    return made


def _difference(graph: Graph, mode: str, expected: Arrays, found: Arrays) -> str:
    """What differs more than the mode lets it; "" where nothing does."""
    tolerance = BITS if mode == "exact" else tolerances_for(graph)
    comparison = compare(expected, found, tolerance)
    if not comparison.ok:
        return comparison.sentence
    if mode != "ieee":
        return ""
    for name, wanted in expected.items():
        if wanted.dtype.kind == "f":
            zero = (wanted == 0) & (found[name] == 0)
            if (np.signbit(wanted) != np.signbit(found[name]))[zero].any():
                return f"output '{name}' has zeros of another sign"
    return ""


# ---- what rounding may do ------------------------------------------------------------------


def _excused(graph: Graph, plan: Plan, inputs: Arrays, expected: Arrays, found: Arrays) -> bool:
    """Do values that come near an overflow, or are no ordinary numbers in fast mode, a NaN whose place decides, or
    noise in every value (which cancellation or a threshold amplifies) explain the difference?"""
    mode = plan.mode
    values = [v for node in graph.nodes for v in node.outputs if _is_float(graph.type(v))]
    seen = with_outputs(graph, list(dict.fromkeys((*graph.outputs, *values))))
    try:
        numbers = _run(opened(seen), seen, inputs)
        if any(_beyond(array, mode) for array in (*numbers.values(), *(inputs.values() if mode == "fast" else ()))):
            return True
        if Pipeline(plan.passes).strategy is not None and _order_decides(graph, {**inputs, **numbers}):
            return True
        return any(_as_far(graph, seed, numbers, inputs, expected, found) for seed in range(3))
    except Exception:  # the graph with all its values as outputs is none that runs
        return False


def _order_decides(graph: Graph, numbers: Arrays) -> bool:
    """Whether an extremum is taken over a NaN: ONNX Runtime's result then depends on the order of the elements."""
    read = {value for node in graph.nodes_of(EXTREMA) for value in node.inputs if value in numbers}
    return any(numbers[value].dtype.kind == "f" and np.isnan(numbers[value]).any() for value in read)


def _is_float(type_: object) -> bool:
    return isinstance(type_, TensorType) and type_.dtype in (DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE)


def _beyond(array: np.ndarray, mode: str) -> bool:
    if array.dtype.kind != "f":
        return False
    if mode == "fast" and not (np.isfinite(array) & (array != 0)).all():
        return True
    size = np.abs(array[np.isfinite(array) & (array != 0)]).astype(np.float64)
    limit = float(np.finfo(array.dtype).max) ** 0.4
    return bool((size > limit).any() or (size < 1 / limit).any())


def _as_far(graph: Graph, seed: int, numbers: Arrays, inputs: Arrays, expected: Arrays, found: Arrays) -> bool:
    """Is each difference at most AMPLIFIED times that which noise in every value makes?"""
    draw = np.random.default_rng(seed)
    nodes, constants = [], dict(graph.constants)
    for node in graph.nodes:
        names = {v: f"{v}_still" for v in node.outputs if v in numbers and numbers[v].dtype.kind == "f"}
        nodes.append(node.replace(outputs=tuple(names.get(v, v) for v in node.outputs)))
        for value, still in names.items():
            noise = 1 + max(NOISE, float(np.finfo(numbers[value].dtype).eps)) * draw.uniform(
                -1, 1, numbers[value].shape
            )
            constants[f"{value}_noise"] = constant(noise.astype(numbers[value].dtype), f"{value}_noise")
            nodes.append(Node("Mul", (still, f"{value}_noise"), (value,), name=f"{value}_noisy"))
    noisy = with_outputs(graph, graph.outputs, nodes, constants)
    moved = _run(opened(noisy), noisy, {v: _moved(array, draw) for v, array in inputs.items()})
    return all(_far(expected[v], found[v]) <= AMPLIFIED * _far(expected[v], moved[v]) for v in found)


def _moved(array: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """The array with noise, if it holds floats."""
    if array.dtype.kind != "f":
        return array
    noise = max(NOISE, float(np.finfo(array.dtype).eps)) * draw.uniform(-1, 1, array.shape)
    return np.asarray(array * (1 + noise)).astype(array.dtype)


def _far(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference; infinite where shapes, NaN, infinities, integers or signs of zeros differ."""
    comparison = compare({"a": a}, {"a": b})
    if comparison.max_abs_error is None or (a.dtype.kind != "f" and comparison.max_abs_error):
        return np.inf
    return comparison.max_abs_error


# ---- many graphs ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Fragment:
    """An example of a pass; `key` is what it shows."""

    key: str
    cls: type[Pass]
    example: Example


def fragments() -> list[Fragment]:
    """Every example of every pass but demonstrations, optimizers of others and the one whose option names inputs."""
    found = []
    for name, cls in passes.all_passes().items():
        if name != "free_dims" and not cls.demonstration and not cls.missing() and not issubclass(cls, ToolPass):
            found += [Fragment(f"{name}.{rule.name}", cls, rule.example) for rule in cls.rules]
            found += [Fragment(name, cls, example) for example in cls.own_examples]
    return found


@contextmanager
def counting(fired: Counter) -> Iterator[None]:
    """Count every match of every rule, under "pass.rule"."""
    follow = running.follow_rules

    def counted(rules: Sequence[Rule], graph: Graph, options: Pass, *more: object) -> Iterator[Rewrite]:
        noted = [replace(rule, match=_noted(rule, f"{options.name}.{rule.name}", fired)) for rule in rules]
        return follow(noted, graph, options, *more)

    running.follow_rules = counted
    try:
        yield
    finally:
        running.follow_rules = follow


def _noted(rule: Rule, key: str, fired: Counter) -> FindRewrite:
    def match(graph: Graph, node: Node, options: Pass) -> Rewrite:
        found = rule.match(graph, node, options)
        fired[key] += 1
        return found

    return match


@dataclass(frozen=True)
class Failure:
    """A plan that fails on a graph, cut down."""

    seed: int
    plan: Plan
    wrong: str
    graph: Graph

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.plan}: {self.wrong}\n{graph_text(self.graph)}"


@dataclass
class Fuzzer:
    """Random graphs one after the other; what fired least so far is part of the next.

    fired: how often each rule, and each pass, found something to do.
    taken: how often its example was part of a graph because it had fired so little.
    """

    fired: Counter = field(default_factory=Counter)
    taken: Counter = field(default_factory=Counter)
    graphs: int = 0
    optimizations: int = 0

    def failures(self, seeds: Iterator[int] | range) -> Iterator[Failure]:
        """What fails on the graphs of these seeds."""
        there = fragments()
        with counting(self.fired):
            for seed in seeds:
                draw = random.Random(seed)
                rare = min(there, key=lambda one: (self.fired[one.key] + self.taken[one.key], draw.random()))
                self.taken[rare.key] += 1
                beside = draw.choice(there)
                graph = random_graph(seed, [rare.example.before, beside.example.before])
                self.graphs += 1
                yield from self._failures_of(graph, seed, plans(self.graphs, rare))

    def _failures_of(self, graph: Graph, seed: int, plans: list[Plan]) -> Iterator[Failure]:
        for plan in plans:
            self.optimizations += 1
            wrong = failure(graph, plan, seed, self.fired)
            if not wrong:
                continue
            kind = wrong.partition(":")[0]
            small = cut_down(graph, lambda g, p=plan, k=kind: failure(g, p, seed).partition(":")[0] == k)
            yield Failure(seed, plan, failure(small, plan, seed), small)


def plans(index: int, fragment: Fragment) -> list[Plan]:
    """`simplify`, a layout strategy, every other time with groups behind it, and the fragment's pass alone; modes,
    strategies and targets by turns."""
    modes, strategies = list(MODES), list(passes.compared_strategies())
    exact = fragment.cls().is_bit_equal()
    mode, target = modes[index // len(strategies) % len(modes)], TARGETS[index % len(TARGETS)]
    laid_out = preset("default", mode, strategies[index % len(strategies)], target)
    return [
        preset("simplify", modes[index % len(modes)]),
        fused(laid_out, GROUPINGS[index // 2 % len(GROUPINGS)]) if index % 2 else laid_out,
        alone(fragment, "exact" if exact else fragment.example.mode),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--models", type=int, help="how many graphs; endless without it")
    parser.add_argument("--folder", type=Path, default=Path("."), help="where models that fail are written")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    seeds = itertools.count(given.seed) if given.models is None else range(given.seed, given.seed + given.models)
    fuzzer, failed = Fuzzer(), 0
    try:
        for found in fuzzer.failures(seeds):
            failed += 1
            (given.folder / f"fuzz-{found.seed}.onnx").write_bytes(to_bytes(found.graph))
            print(found, flush=True)
    except KeyboardInterrupt:
        pass
    never = [one.key for one in fragments() if not fuzzer.fired[one.key]]
    print(f"{fuzzer.graphs:,} graphs, {fuzzer.optimizations:,} optimizations, {failed} failures")
    print(f"never fired: {', '.join(never) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
