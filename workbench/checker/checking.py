"""Checks a certificate against the two models that it is of."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from workbench.checker.evidence import StepDone, checked_evidence
from workbench.checker.files import plain_model, read_proto, sha256_of
from workbench.checker.order import check_runs
from workbench.checker.outcome import DoesNotHold, Statement, Unreadable
from workbench.checker.plain import PlainModel, PlainNode
from workbench.checker.records import Fields, as_whole, read_certificate
from workbench.checker.replay import LoggedEdit, Replay, logged_edit

# What a mode allows, from most exact on.
_ALLOWED = {"exact": ("bits",), "ieee": ("bits", "rounding"), "fast": ("bits", "rounding", "signs")}
_MOST_NAMED = 6  # operators in a statement
LOADING, EXPORTING = "loading", "exporting"
_Path = str | os.PathLike[str]


def check_files(model: _Path, output: _Path, certificate: _Path) -> list[Statement]:
    """The statements of the certificate that hold, and those that are only the word of the engine or of a solver.

    Raises DoesNotHold with the first that does not, Unreadable for a file that cannot be read.
    """
    try:
        return list(_checked(model, output, read_certificate(certificate)))
    except RecursionError:
        raise Unreadable("its bodies are nested too deep to be followed") from None


def report_lines(statements: Sequence[Statement]) -> Iterator[str]:
    """What is checked, then what is not, with a line above each."""
    for proven, head in ((True, "checked:"), (False, "not checked, the word of the engine or of a solver:")):
        found = [statement.sentence for statement in statements if statement.proven is proven]
        yield from (head, *(f"- {sentence}" for sentence in found)) if found else ()


def _checked(model: _Path, output: _Path, certificate: Fields) -> Iterator[Statement]:
    before = _read(model)
    _check_same_file(certificate.record("model"), model, before, "the model")
    yield Statement(f"'{_name(model)}' is the model that the certificate is of, by its SHA-256")
    written = _read(output)
    written.bind({symbol: as_whole(n, f"dims, '{symbol}'") for symbol, n in certificate.named("dims").items()})
    graph = Replay(before)
    steps = list(certificate.records("steps", "step"))
    changing = [number for number, step in enumerate(steps) if step.items("rewrites") and not _is_frame(step)]
    bounds: list[Statement] = []
    counted = passes = 0
    for number, step in enumerate(steps):
        name, replaced = step.text("pass"), []
        passes += not _is_frame(step)
        for rewrite in step.records("rewrites", "rewrite"):
            counted += not _is_frame(step)
            where = name if _is_frame(step) else f"rewrite {counted:,} ({_rule(rewrite, name)})"
            if not _is_frame(step):
                _check_exactness(rewrite, certificate, where)
            edit = logged_edit(rewrite.record("edit"))
            if edit.opsets is not None and not _is_frame(step):
                raise DoesNotHold(f"{where} changes the opset, which only {LOADING} and {EXPORTING} do")
            if _is_frame(step):
                bounds.append(_frame_statement(name, edit, graph))
            graph.apply(edit, where)
            replaced.append(frozenset(call.key for call in edit.remove))
        if step.has("evidence"):
            last = not any(later > number for later in changing)
            bounds += checked_evidence(step.record("evidence"), StepDone(name, graph, written, replaced, last))
    differs = graph.difference(written)
    if differs:
        raise DoesNotHold(f"the log does not give '{_name(output)}': {differs}")
    check_runs(written.order, graph, f"'{_name(output)}'")
    _check_same_file(certificate.record("output"), output, written, "the output")
    yield Statement(
        f"the log gives '{_name(output)}', from the model's own nodes on (rewrites: {counted:,}, passes: {passes:,}):"
        " nodes, attributes, operands, constants, bodies, functions, inputs and outputs"
    )
    if before.defaults:
        yield Statement(f"inputs with a default value count as constants: {len(before.defaults):,}", proven=False)
    yield from bounds
    if counted:
        yield Statement("that each rewrite computes the same is not checked here", proven=False)


def _read(path: _Path) -> PlainModel:
    return plain_model(read_proto(path), Path(path).parent, _name(path))


def _check_same_file(told: Fields, path: _Path, read: PlainModel, what: str) -> None:
    """Raises DoesNotHold if the file, or one with its weights, has another SHA-256."""
    if sha256_of(path) != told.text("sha256"):
        raise DoesNotHold(f"'{_name(path)}' is not {what} that the certificate is of: its SHA-256 differs")
    said = told.named("external")
    if set(read.beside) != set(said):
        raise DoesNotHold(f"'{_name(path)}' has its weights in other files than the certificate says")
    for location, file in read.beside.items():
        if sha256_of(file) != said[location]:
            raise DoesNotHold(f"the weights in '{location}' are not those that the certificate is of: SHA-256 differs")


def _is_frame(step: Fields) -> bool:
    """Whether it is no pass, but what loading or exporting did."""
    return step.text("pass") in (LOADING, EXPORTING)


def _rule(rewrite: Fields, name: str) -> str:
    return rewrite.text("rule") if rewrite.has("rule") else name


def _check_exactness(rewrite: Fields, certificate: Fields, where: str) -> None:
    mode, exactness = certificate.text("mode"), rewrite.text("exactness")
    if mode not in _ALLOWED:
        raise Unreadable(f"the certificate's mode is '{mode[:40]}'; there are {', '.join(_ALLOWED)}")
    if exactness not in _ALLOWED[mode]:
        raise DoesNotHold(f"{where} is of the exactness '{exactness[:40]}', which the mode {mode} does not allow")
    if not rewrite.has("rule"):
        return
    rules = certificate.record("rules")
    if rules.record(rewrite.text("rule")).text("exactness") != exactness:
        raise DoesNotHold(f"{where} is of another exactness than its rule")


def _frame_statement(name: str, edit: LoggedEdit, before: Replay) -> Statement:
    """What loading or exporting changed, in words."""
    opsets = {} if edit.opsets is None else edit.opsets
    moved = [
        f"opset{f' of {domain}' if domain else ''} {before.opsets.get(domain, 'absent')} to {opsets[domain]}"
        for domain in opsets
        if opsets[domain] != before.opsets.get(domain)
    ]
    parts = [
        *moved,
        f"nodes taken out: {_operators(edit.remove)}" if edit.remove else "",
        f"nodes put in: {_operators(edit.insert)}" if edit.insert else "",
        f"constants changed or added: {len(edit.constants):,}" if edit.constants else "",
        f"functions changed or added: {len(edit.functions):,}" if edit.functions else "",
        f"inputs and outputs of another type: {len(edit.types):,}" if edit.types else "",
    ]
    return Statement(f"{name}: {'; '.join(filter(None, parts)) or 'unused constants and opsets left out'}", False)


def _operators(calls: Iterable[PlainNode]) -> str:
    """How many of each operator, the most frequent first."""
    counts = Counter(call.operator for call in calls).most_common()
    more = f" and {len(counts) - _MOST_NAMED:,} other operators" if len(counts) > _MOST_NAMED else ""
    return ", ".join(f"{count:,} {operator}" for operator, count in counts[:_MOST_NAMED]) + more


def _name(path: _Path) -> str:
    return os.path.basename(path)
