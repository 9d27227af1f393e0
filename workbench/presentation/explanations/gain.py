"""What an optimization gained: nodes, latency, memory, and whether the result is equal, each with its evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from workbench.errors import counted
from workbench.formats.opsets.written import at_written_opset
from workbench.presentation.explanations.digest import Digest, change_digest
from workbench.presentation.explanations.digest_text import digest_html, digest_markdown
from workbench.presentation.explanations.summary import Summary
from workbench.presentation.explanations.time_changes import (
    NAMES_OF_BACKENDS,
    TimeChange,
    TimeChanges,
    changes_by_kind,
    changes_by_operator,
    changes_by_pass,
)
from workbench.rewrite import History
from workbench.rewrite.core.history import StepVerdict
from workbench.run.measurement.measurement_result import MeasuredVariant, Measurement
from workbench.run.verdict_words import error_text, verdict_word

BEFORE, AFTER = "original", "result"  # the labels of the two variants
_MAX_CHANGES = 8
_COLOURS = {"faster": "#2e7d32", "slower": "#c62828", "": "#808080"}


@dataclass(frozen=True)
class Figure:
    """One number of the card: "nodes", "261 → 125", "". better: whether it improved; None: neither."""

    label: str
    value: str
    detail: str = ""
    better: bool | None = None

    def __str__(self) -> str:
        return f"{self.label} {self.value}" + (f" ({self.detail})" if self.detail else "")

    @property
    def caption(self) -> str:
        """What stands below the value: its label and evidence."""
        return self.label + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True, repr=False)
class Gain:
    """The result of an optimization beside the original.

    figures: nodes, latency, memory, error, opset, as far as they are known.
    digest: the kinds of change, with their times if these were measured, and not on a busy machine.
    by_operator, by_pass, by_change: where the time went; None if nothing was measured.
    """

    figures: tuple[Figure, ...]
    digest: Digest
    by_operator: TimeChanges | None = None
    by_pass: TimeChanges | None = None
    by_change: TimeChanges | None = None

    @property
    def sentence(self) -> str:
        """ "nodes 261 → 125; latency 3.04 → 1.97 ms (34 to 36 % less time in ONNX Runtime on this CPU); ..." """
        return "; ".join(map(str, self.figures)) + "."

    @property
    def markdown(self) -> str:
        """The figures and the digest, as Markdown."""
        return f"{self.sentence[:1].upper()}{self.sentence[1:]}\n\n{digest_markdown(self.digest)}"

    def __repr__(self) -> str:
        return f"<Gain: {self.sentence}>"

    def _repr_html_(self) -> str:
        """The card, and the waterfalls, for a notebook."""
        parts = [card_html(self.figures), digest_html(self.digest)]
        by = {"operator": self.by_operator, "pass": self.by_pass, "kind of change": self.by_change}
        for what, changes in by.items():
            if changes is not None:
                parts.append(f"<p>Latency by {what}, in ms</p>{waterfall_html(changes)}")
        return "".join(parts)


def gain_of(history: History, measurement: Measurement | None = None) -> Gain:
    """What the history gained. measurement: of BEFORE and AFTER by one backend; None if nothing was measured."""
    written, digest = at_written_opset(history.graph)[1], change_digest(history)
    opset = Figure("opset", " → ".join(f"{number}" for number in dict.fromkeys((written.before, written.opset))))
    if measurement is None:
        return Gain((nodes_figure(history), error_figure(history), opset), digest)
    before, after = (measurement.ran.get(label) for label in (BEFORE, AFTER))
    if before is None or after is None:
        failed = "; ".join(f"{label}: {why}" for label, why in measurement.failures.items())
        latency = Figure("latency", "not measured", failed)
        return Gain((nodes_figure(history), latency, error_figure(history), opset), digest)
    figures = latency_figure(before, after), memory_figure(before, after), error_figure(history, after)
    by_change, timed = changes_by_kind(before, after, history, digest)
    return Gain(
        (nodes_figure(history), *figures, opset),
        digest if after.ratio.ratio_busy else timed,  # a kind claims no more than the card does
        changes_by_operator(before, after),
        changes_by_pass(before, after, history),
        by_change,
    )


def figures_of_files(
    before: Summary, after: Summary, verdict: StepVerdict | None, measurement: Measurement | None
) -> tuple[Figure, ...]:
    """One file beside another. verdict, measurement: None before they are known; the labels are BEFORE and AFTER."""
    counts = [
        _counts_figure("nodes", before.nodes, after.nodes),
        _counts_figure("transposes", before.transposes, after.transposes),
    ]
    first, last = before.weight_bytes, after.weight_bytes
    weights = Figure(
        "weights", f"{first / 1e6:,.2f} → {last / 1e6:,.2f} MB", "", None if first == last else last < first
    )
    ran = {} if measurement is None else measurement.ran
    if BEFORE in ran and AFTER in ran:
        times = [latency_figure(ran[BEFORE], ran[AFTER]), memory_figure(ran[BEFORE], ran[AFTER])]
    else:
        failures = {} if measurement is None else measurement.failures
        times = [Figure("latency", "not measured", "; ".join(f"{label}: {why}" for label, why in failures.items()))]
    return (*counts, weights, *times, _verdict_figure(verdict))


def nodes_figure(history: History) -> Figure:
    return _counts_figure("nodes", history[0].before["nodes"] or 0, history[-1].after["nodes"] or 0)


def _counts_figure(label: str, first: int, last: int) -> Figure:
    return Figure(label, f"{first:,} → {last:,}", better=None if first == last else last < first)


def latency_figure(before: MeasuredVariant, after: MeasuredVariant) -> Figure:
    """The two medians, and the interval of their ratio as percent of the time."""
    place = f"in {NAMES_OF_BACKENDS.get(after.backend, after.backend)} here"
    values = f"{ms_text(before.latency.median_ms)} → {ms_text(after.latency.median_ms)} ms"
    ratio = after.ratio
    if ratio.ratio_busy:
        least = f"{ms_text(before.latency.min_ms)} → {ms_text(after.latency.min_ms)} ms"
        return Figure("latency", values, f"busy machine, not comparable; minima {least}")
    low, high = sorted((100 * (1 - ratio.ratio_low), 100 * (1 - ratio.ratio_high)))
    if low <= 0 <= high:
        return Figure("latency", values, f"no clear gain {place}: {-high:+.0f} to {-low:+.0f} % of the time")
    if high < 0:
        return Figure("latency", values, f"{_span(-high, -low)} % more time {place}", better=False)
    return Figure("latency", values, f"{_span(low, high)} % less time {place}", better=True)


def memory_figure(before: MeasuredVariant, after: MeasuredVariant) -> Figure:
    """The two peaks. Of a process it is one number without an interval, which varies by megabytes: no gain is given."""
    first, last = before.memory.peak_bytes, after.memory.peak_bytes
    is_of_process = after.memory.counted == "process"
    return Figure(
        "peak memory",
        f"{first / 1e6:,.1f} → {last / 1e6:,.1f} MB",
        f"{after.memory.counted}, ± some MB" if is_of_process else after.memory.counted,
        None if is_of_process or abs(last - first) < 0.01 * first else last < first,
    )


def error_figure(history: History, after: MeasuredVariant | None = None) -> Figure:
    """Whether the result computes what the original computes; NOT EQUAL if one step does not."""
    verdict = history[-1].verdict if history.failed is None else history.failed.verdict
    if verdict is None:
        error = None if after is None or after.error is None else after.error.max_rel_error
        if error is None:
            return Figure("result", "not compared")
        return Figure("result", f"error {error:.1e}", "relative to ONNX Runtime on the original")
    return _verdict_figure(verdict)


def _verdict_figure(verdict: StepVerdict | None) -> Figure:
    if verdict is None:
        return Figure("result", "not compared")
    if verdict.ok is None:
        return Figure("result", "not verified", better=False)
    if not verdict.ok:
        return Figure("result", "NOT EQUAL", f"error {error_text(verdict)}", better=False)
    evidence = error_text(verdict) if verdict.bit_equal else f"relative error {error_text(verdict)}"
    return Figure("result", verdict_word(verdict), evidence, better=None if verdict.is_close else True)


def ms_text(value: float) -> str:
    """The number as text, with three significant digits."""
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:,.{max(digits, 0)}f}"


def _span(low: float, high: float) -> str:
    """ "13 to 15", or "14" where both round to the same number."""
    first, last = f"{low:.0f}", f"{high:.0f}"
    return first if first == last else f"{first} to {last}"


def card_html(figures: Iterable[Figure]) -> str:
    """The figures in one row: the number large, its label and its evidence small below."""
    cells = []
    for figure in figures:
        better = "" if figure.better is None else ("faster" if figure.better else "slower")
        colour = "inherit" if not better else _COLOURS[better]
        cells.append(
            f'<div><div style="font-size:1.15em;font-weight:600;color:{colour}">{escape(figure.value)}</div>'
            f'<div style="font-size:0.8em;opacity:0.75">{escape(figure.caption)}</div></div>'
        )
    return f'<div style="display:flex;flex-wrap:wrap;gap:0.3em 1.8em">{"".join(cells)}</div>'


def waterfall_html(changes: TimeChanges) -> str:
    """A table with one bar a row, from the latency before to the latency after."""
    widest = max(changes.before_ms, changes.after_ms, 1e-9)
    rows, at = (
        [_bar("original", "", 0.0, changes.before_ms, widest, f"{ms_text(changes.before_ms)} ms")],
        changes.before_ms,
    )
    for change in changes.largest(_MAX_CHANGES):
        kind = "faster" if change.ms < 0 else "slower"
        rows.append(_bar(change.label, kind, min(at, at + change.ms), abs(change.ms), widest, _change_text(change)))
        at += change.ms
    rows.append(_bar("result", "", 0.0, changes.after_ms, widest, f"{ms_text(changes.after_ms)} ms"))
    return f'<table style="width:100%;border-collapse:collapse">{"".join(rows)}</table>'


def _bar(label: str, kind: str, start: float, length: float, widest: float, words: str) -> str:
    left, width = 100 * max(start, 0.0) / widest, max(100 * length / widest, 0.2)
    bar = f"margin-left:{left:.2f}%;width:{min(width, 100 - left):.2f}%;background:{_COLOURS[kind]};height:0.9em"
    return (
        f'<tr><td style="text-align:right;white-space:nowrap;padding:0 0.6em">{escape(label)}</td>'
        f'<td style="width:60%"><div style="{bar}"></div></td><td style="white-space:nowrap">{escape(words)}</td></tr>'
    )


def _change_text(change: TimeChange) -> str:
    counts = counted(len(change.operators_before), "operator")
    return f"{change.ms:+,.3f} ms; {counts} before, {len(change.operators_after):,} after"
