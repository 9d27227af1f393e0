"""A history as JSON for `--report`; the keys of that file are defined only here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from workbench.analysis.metrics import step_metrics
from workbench.planning.fusion.fusion_facts import FusionFacts
from workbench.planning.layout.problem.cost_model import TIME
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.layout.strategies.strategy_facts import layout_facts, layout_step
from workbench.planning.memory.order_facts import OrderFacts
from workbench.planning.precision.precision_facts import TRAFFIC, PrecisionFacts
from workbench.planning.saturation.saturation_facts import SaturationFacts
from workbench.presentation.explanations.digest import ChangeKind, change_digest
from workbench.rewrite import History, Step
from workbench.rewrite.core.history import StepVerdict
from workbench.rewrite.external.tool_pass import ToolFacts


def history_report(history: History) -> dict[str, Any]:
    """`steps`, `totals`, `digest` and `layout`; errors of the totals are the largest of any step."""
    done = history.steps[1:]
    verdicts = [s.verdict for s in history.steps if s.verdict is not None]
    totals = {
        "rewrites": sum(len(s.rewrites) for s in done),
        **_measured(history.steps[0].before, history.steps[-1].after),
        "seconds": round(sum(s.seconds for s in done), 4),
        "verified": all(v.ok is True for v in verdicts) if verdicts else None,
        "max_abs_error": _largest([v.max_abs_error for v in verdicts]),
        "max_rel_error": _largest([v.max_rel_error for v in verdicts]),
    }
    layout = layout_step(history)
    return {
        "target": history.target,
        "mode": history.mode,
        "steps": [step_report(s) for s in done],
        "left_out": [
            {"pass": o.step, "rewrite": o.sentence, "id": str(o.rewrite or ""), "why": o.why} for o in history.excluded
        ],
        "totals": totals,
        "digest": [_kind_report(kind) for kind in change_digest(history).kinds],
        "layout": None if layout is None else _layout_report(layout),
    }


def _kind_report(kind: ChangeKind) -> dict[str, Any]:
    """One kind of change. places: indices of step and rewrite."""
    return {
        "title": kind.title,
        "pass": kind.pass_name,
        "rule": kind.rule,
        "times": len(kind.places),
        "operators": kind.operators,
        "nodes": kind.nodes,
        "bytes_written": kind.bytes,
        "results": None if kind.exactness is None else kind.exactness.value,
        "places": [[place.step, place.rewrite] for place in kind.places],
    }


def step_report(step: Step) -> dict[str, Any]:
    return {
        "pass": step.pass_name,
        "step": step.label,
        "options": dict(step.options),
        "rewrites": len(step.rewrites),
        **_measured(step.before, step.after),
        "seconds": round(step.seconds, 4),
        **_verdict_report(step.verdict),
        "broken_by": None if step.broken_by is None else step.rewrites[step.broken_by].sentence,
        "sentences": [rewrite.sentence for rewrite in step.rewrites],
        **(_fusion_report(step.facts) if isinstance(step.facts, FusionFacts) else {}),
        **({"order": asdict(step.facts)} if isinstance(step.facts, OrderFacts) else {}),
        **({"precision": _precision_report(step.facts)} if isinstance(step.facts, PrecisionFacts) else {}),
        **({"tool": asdict(step.facts)} if isinstance(step.facts, ToolFacts) else {}),
        **({"saturation": _saturation_report(step.facts)} if isinstance(step.facts, SaturationFacts) else {}),
    }


def _fusion_report(facts: FusionFacts) -> dict[str, Any]:
    """The groups of a fusing pass with their memory traffic, and why groups end."""
    return {
        "groups": [asdict(group) for group in facts.groups],
        "traffic": asdict(facts.traffic),
        "refusals": dict(facts.refusals),
    }


def _precision_report(facts: PrecisionFacts) -> dict[str, Any]:
    """The Casts that a precision strategy left, their distance from the minimum, and what stayed in float32."""
    return {
        "strategy": facts.strategy,
        "type": facts.type,
        "casts": facts.casts,
        "bytes_converted": facts.bytes_converted,
        "bound_bytes": facts.bound if facts.weigh == "bytes" else None,
        "bound_casts": facts.bound if facts.weigh == "count" else None,
        "bytes_transposed": 2 * facts.transposes.bytes_moved,
        "bound_bytes_with_transposes": facts.bound if facts.weigh == TRAFFIC else None,
        "bound_ns": facts.bound if facts.weigh == TIME else None,
        "times": [asdict(time) for time in facts.times] if facts.device else None,
        "certified": facts.certified,
        "recorded": not facts.unrecorded,
        "error": None if facts.fitted is None else facts.fitted.error,
        "kept": [asdict(kept) for kept in facts.kept],
    }


def _saturation_report(facts: SaturationFacts) -> dict[str, Any]:
    """The certificate of each region."""
    regions = [{**asdict(region), "certified": region.certified} for region in facts.regions]
    return {**asdict(facts), "regions": regions}


def _layout_report(step: Step) -> dict[str, Any]:
    """The transposes that a layout strategy left, and their distance from the minimum, if known."""
    facts, cases = layout_facts(step), Counter(rewrite.case for rewrite in step.rewrites)
    return {
        "strategy": step.pass_.strategy if isinstance(step.pass_, LayoutStrategy) else "",
        **{name: step.after[name] for name in ("transposes", "elements_moved", "bytes_moved")},
        "lower_bound": facts.lower_bound,
        "weigh": facts.weigh,
        "certified": facts.certified,
        "proof": facts.sentence,
        "gap": facts.gap,
        "times": [asdict(time) for time in facts.times] if facts.device else None,
        "by_case": dict(sorted(cases.items())),
    }


def _measured(before: Mapping[str, int | None], after: Mapping[str, int | None]) -> dict[str, int | None]:
    times = (("before", before), ("after", after))
    return {f"{metric.name}_{when}": result[metric.name] for metric in step_metrics() for when, result in times}


def _verdict_report(verdict: StepVerdict | None) -> dict[str, Any]:
    if verdict is None:
        return {"verified": None, "max_abs_error": None, "max_rel_error": None}
    return {
        "verified": verdict.ok,
        "max_abs_error": verdict.max_abs_error,
        "max_rel_error": verdict.max_rel_error,
        "verdict": verdict.sentence,
    }


def _largest(errors: Sequence[float | None]) -> float | None:
    known = [e for e in errors if e is not None]
    return max(known) if known else None
