"""Checks a certificate against its two models."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.checker.bounds import checked_bound, with_kernels
from workbench.checker.changes import (
    EXPORTING,
    LOADING,
    check_functions,
    check_pass,
    load_export_statements,
    runtime_operators,
)
from workbench.checker.declared_types import unconfirmed_type_statements
from workbench.checker.files import plain_model, read_proto, sha256_of
from workbench.checker.order import check_runs
from workbench.checker.outcome import DoesNotHold, Statement, Unreadable, escaped, in_quotes, listed, one_line
from workbench.checker.output import Output
from workbench.checker.plain import PlainModel
from workbench.checker.records import Fields, as_int, read_certificate
from workbench.checker.reevaluating import LocalRewrite, local_rewrite, reevaluated
from workbench.checker.replay import Replay, logged_edit
from workbench.checker.running import RunsCompared, compared_runs
from workbench.checker.versions import check_own_calls, check_versions

_MODES = ("exact", "ieee", "fast")
_LARGEST_SIZE = 2**31 - 1
_MAX_BOUNDS = 20
_STEP_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
LOG, BOUNDS, RUN = "log", "bounds", "run"
_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class CheckResult:
    """What the check found.

    answer: a sentence that says whether the output computes the same as the model.
    holds:  which of `LOG`, `BOUNDS` (every bound in the certificate is proven for the output) and `RUN` were checked
            and hold.
    """

    answer: str
    statements: Sequence[Statement]
    holds: frozenset[str]


def check_files(model: _Path, output: _Path, certificate: _Path, runs: int = 0) -> CheckResult:
    """runs: the number of random inputs on which both models run in ONNX Runtime.

    Raises DoesNotHold with the first statement that does not hold, Unreadable for a file that cannot be read.
    """
    try:
        return _checked(model, output, read_certificate(certificate), runs)
    except (DoesNotHold, Unreadable):
        raise
    except RecursionError:
        raise Unreadable("its bodies are nested too deep to be followed") from None
    except Exception as error:  # a hostile file may raise anything; its user gets a sentence
        raise Unreadable(f"following it failed ({type(error).__name__}: {escaped(str(error), 160)})") from error


def report_lines(checked: CheckResult) -> Iterator[str]:
    """The answer, then what is checked and what is not, each under a heading."""
    yield checked.answer
    for proven, heading in ((True, "checked:"), (False, "claimed, not checked:")):
        entries = [statement.sentence for statement in checked.statements if statement.proven is proven]
        yield from (heading, *(f"- {sentence}" for sentence in entries)) if entries else ()


def _checked(model: _Path, output: _Path, certificate: Fields, runs: int) -> CheckResult:
    before = _read(model)
    _check_same_file(certificate.record("model"), model, before, "the model")
    written = _read(output)
    dims = _dims(certificate, before, written)
    log = _Log(certificate, before, dims, keep_rewrites=bool(runs))
    log.follow()
    differs = log.graph.difference(written)
    if differs:
        raise DoesNotHold(f"the log does not lead to {in_quotes(_name(output))}: {differs}")
    result = Output(written, dims, in_quotes(_name(output)), runtime_operators(written, before))
    check_runs(written.steps, written.graph.producers, result.name)
    _check_same_file(certificate.record("output"), output, written, "the output")
    files = [
        Statement(f"{in_quotes(_name(model))} is the model of the certificate, by its SHA-256"),
        Statement(
            f"the log leads from the model to {in_quotes(_name(output))} (rewrites: {log.rewrite_count:,}, passes:"
            f" {log.passes:,}): nodes, attributes, operands, constants, bodies, functions, inputs and outputs"
        ),
    ]
    unconfirmed_types = list(unconfirmed_type_statements(() if log.changes else before.declared, result))
    differences = [*_inputs_made_constant(before, written), *unconfirmed_types]
    if result.unknown:
        differences.append(Statement(f"that a runtime has {listed(result.unknown)}", proven=False))
    records = list(certificate.records("bounds", "bound"))
    if len(records) > _MAX_BOUNDS:
        raise Unreadable(f"the certificate has more than {_MAX_BOUNDS} bounds")
    bounds = [checked_bound(record, result) for record in records]
    statements = [
        *files,
        *differences,
        *_transposes(result),
        *(statement for bound in bounds for statement in bound.statements),
        *log.statements,
    ]
    ran = compared_runs(before, written, result.dims, runs, log.mode, bool(unconfirmed_types)) if runs else None
    if log.rewrites:
        statements += reevaluated(log.rewrites, before, result, secrets.randbits(32))
    proven = bool(bounds) and all(bound.proven for bound in bounds)
    holds = {LOG: True, BOUNDS: proven, RUN: ran is not None and ran.equal}
    question = f"{in_quotes(_name(output))} computes the same as {in_quotes(_name(model))}"
    answer = _answer(not (log.changes or differences), ran)
    return CheckResult(f"{question}: {answer}", statements, frozenset(name for name, is_so in holds.items() if is_so))


def _transposes(output: Output) -> Iterator[Statement]:
    """What the file's Transposes move for a runtime with kernels for its other layouts, and for any other."""
    native, inlined = output.moved, output.moved_inlined
    if native.why or inlined.why:
        why = one_line(native.why or inlined.why)
        yield Statement(f"what its Transposes move cannot be inferred ({why})", proven=False)
        return
    if native == inlined:
        yield Statement(f"in {output.name}, any runtime runs {native}{output.with_dims}")
        return
    yield Statement(f"{with_kernels(output)}{output.name} runs {native}{output.with_dims}")
    yield Statement(f"any other runtime, such as ONNX Runtime, inlines these functions and runs {inlined}")


def _answer(is_same: bool, ran: RunsCompared | None) -> str:
    """is_same: whether both files contain the same computation; only metadata may differ."""
    clauses = ["checked: it has the same nodes and constants"] if is_same else []
    clauses += [] if ran is None else [ran.sentence]
    return ", and is ".join(clauses) or "not checked; --run N compares them on N random inputs"


def _inputs_made_constant(before: PlainModel, written: PlainModel) -> Iterator[Statement]:
    frozen = [value for value in before.feed_inputs if value in before.defaults and value not in written.feed_inputs]
    if frozen:
        yield Statement(f"inputs of the model that are constants in the output: {listed(frozen)}", proven=False)


class _Log:
    """Follows the steps of a certificate, beginning with the model. changes: the number of edits, loading and exporting
    included."""

    def __init__(self, certificate: Fields, model: PlainModel, dims: Mapping[str, int], keep_rewrites: bool) -> None:
        """dims: the sizes that the certificate assigns to symbolic dims. keep_rewrites: to evaluate each alone."""
        self.rewrites: list[LocalRewrite] | None = [] if keep_rewrites else None
        self.certificate = certificate
        self.mode = certificate.text("mode")
        if self.mode not in _MODES:
            raise Unreadable(f"the certificate's mode is {in_quotes(self.mode)}; there are {', '.join(_MODES)}")
        self.model, self.dims = model, dims
        self.graph = Replay(model)
        self.rewrite_count = self.passes = self.changes = 0
        self.statements: list[Statement] = []

    def follow(self) -> None:
        steps = list(self.certificate.records("steps", "step"))
        for number, step in enumerate(steps):
            name = step.text("pass")
            if not _STEP_NAME.fullmatch(name):
                raise Unreadable(f"step {number + 1:,} has the name {in_quotes(name)}, which is not a name of a pass")
            if (name == LOADING and number) or (name == EXPORTING and number < len(steps) - 1):
                raise DoesNotHold(
                    f"step {number + 1:,} is called {name}; {LOADING} is the first step, and {EXPORTING} the last"
                )
            if name in (LOADING, EXPORTING):
                self._follow_load_or_export(step, name)
            else:
                self._follow_pass(step, name)
        if self.rewrite_count and self.rewrites is None:
            self.statements.append(Statement("that each rewrite computes the same", proven=False))

    def _follow_load_or_export(self, step: Fields, name: str) -> None:
        for rewrite in step.records("rewrites", "rewrite"):
            edit = logged_edit(rewrite.record("edit"))
            self.changes += 1
            check_functions(edit, self.graph, self.model, True, name)
            before = self.graph.opsets.get("", 0)
            check_own_calls(edit, before, (edit.opsets or self.graph.opsets).get("", 0), name)
            self.statements += load_export_statements(name, edit, self.graph)
            self.graph.apply(edit, name)

    def _follow_pass(self, step: Fields, name: str) -> None:
        self.passes += 1
        for rewrite in step.records("rewrites", "rewrite"):
            self.rewrite_count, self.changes = self.rewrite_count + 1, self.changes + 1
            rule = rewrite.text("rule") if rewrite.has("rule") else name
            where = f"rewrite {self.rewrite_count:,} ({escaped(rule)})"
            edit = logged_edit(rewrite.record("edit"))
            check_functions(edit, self.graph, self.model, False, where)
            check_versions(edit, self.graph.opsets.get("", 0), where)
            self.statements += check_pass(edit, self.graph, self.dims, where)
            if self.rewrites is not None:
                self.rewrites.append(local_rewrite(edit, self.graph, where))
            self.graph.apply(edit, where)


def _dims(certificate: Fields, *models: PlainModel) -> dict[str, int]:
    """The sizes that the certificate assigns to symbolic dims of inputs.

    Raises DoesNotHold for a symbol that no input has.
    """
    results = {symbol: as_int(n, f"dims, {in_quotes(symbol)}") for symbol, n in certificate.named("dims").items()}
    huge = next((symbol for symbol, size in results.items() if not 0 <= size <= _LARGEST_SIZE), None)
    if huge is not None:
        raise Unreadable(f"the certificate's size of {in_quotes(huge)} is not from 0 to {_LARGEST_SIZE:,}")
    unknown = sorted(results.keys() - {symbol for model in models for symbol in model.symbols})
    if unknown:
        raise DoesNotHold(f"the certificate has sizes for {listed(unknown)}, which are not sizes of any input")
    return results


def _read(path: _Path) -> PlainModel:
    return plain_model(read_proto(path), Path(path).parent, _name(path))


def _check_same_file(fields: Fields, path: _Path, read: PlainModel, what: str) -> None:
    """Raises DoesNotHold if the file, or one with its weights, has another SHA-256."""
    name = in_quotes(_name(path))
    if sha256_of(path) != fields.text("sha256"):
        raise DoesNotHold(f"{name} is not {what} of the certificate: its SHA-256 differs")
    digests = fields.named("external")
    if set(read.weight_files) != set(digests):
        raise DoesNotHold(f"{name} has its weights in other files than the certificate says")
    for location, file in read.weight_files.items():
        if sha256_of(file) != digests[location]:
            raise DoesNotHold(f"the weights in {in_quotes(location)} are not those of the certificate: SHA-256 differs")


def _name(path: _Path) -> str:
    return os.path.basename(path)
