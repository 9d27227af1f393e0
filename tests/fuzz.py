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

import passes
from tests.cutting_down import cut_down
from tests.random_graphs import random_graph
from workbench.evidence.verification.pass_files.numeric_faults import numeric_fault, runs_of_original
from workbench.evidence.verification.verifier import has_halves
from workbench.formats.io.exporting import to_bytes
from workbench.ir import Graph, Node, graph_text
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.registry.pass_choice import choose
from workbench.pipeline.running import run_pipeline
from workbench.planning.layout.problem.operator_benchmark import GivenTimes
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import MODES, Example, History, Pass, PassContext, Rewrite, Rule, with_options
from workbench.rewrite.core import passes as running
from workbench.rewrite.core.rule import FindRewrite
from workbench.rewrite.external.tool_pass import ToolPass

TARGETS = ("cuda", "npu", "blocked")
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

    @property
    def moves_layouts(self) -> bool:
        return Pipeline(self.passes).strategy is not None

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
    compared = runs_of_original(graph, plan.mode, seed)
    if compared is None:
        return ""
    try:
        history = plan.run(graph)
    except Exception as error:
        return f"exception: {type(error).__name__}: {error}"
    if fired is not None:
        fired.update(r.pass_name for step in history for r in step.rewrites)
    found = history.graph
    if compared and plan.is_fixpoint and (left := _second(found, plan)):
        return f"second run: {left}"
    fault = numeric_fault(graph, found, plan.mode, compared, moves_layouts=plan.moves_layouts)
    if fault.startswith("numbers:") and plan.mode == "exact" and has_halves(graph):
        # ONNX Runtime computes float16 in float32 between Casts, and leaves out those that nothing else reads.
        fault = numeric_fault(graph, found, "ieee", compared, moves_layouts=plan.moves_layouts)
    if fault.startswith("numbers:") and history.is_narrowed():
        return ""  # hostile numbers leave the range of float16; test_precision.py compares what does not
    return fault


def _second(found: Graph, plan: Plan) -> str:
    """The first rewrite of a second run, or ""."""
    return next((f"{r.pass_name}: {r.sentence}" for step in plan.run(found) for r in step.rewrites), "")


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
            found += [Fragment(name, cls, example) for example in cls.extra_examples]
    return found


@contextmanager
def counting(fired: Counter) -> Iterator[None]:
    """Count every match of every rule, under "pass.rule"."""
    follow = running.apply_rules

    def counted(rules: Sequence[Rule], graph: Graph, pass_: Pass, *more: object) -> Iterator[Rewrite]:
        noted = [replace(rule, match=_noted(rule, f"{pass_.name}.{rule.name}", fired)) for rule in rules]
        return follow(noted, graph, pass_, *more)

    running.apply_rules = counted
    try:
        yield
    finally:
        running.apply_rules = follow


def _noted(rule: Rule, key: str, fired: Counter) -> FindRewrite:
    def match(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
        found = rule.match(graph, node, pass_)
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
    strategies and targets in turn."""
    modes, strategies = list(MODES), list(passes.compared_strategies())
    exact = fragment.cls().is_bit_equal()
    mode, target = modes[index // len(strategies) % len(modes)], TARGETS[index % len(TARGETS)]
    laid_out = preset("normalize", mode, strategies[index % len(strategies)], target)
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
