"""Checks a certificate against the two models that it is of."""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.checker.changes import EXPORTING, LOADING, check_functions, check_pass, frame_statements
from workbench.checker.declared import declared_statements
from workbench.checker.evidence import OF_THE_GRAPH, StepDone, checked_evidence, transposes
from workbench.checker.files import plain_model, read_proto, sha256_of
from workbench.checker.order import check_runs
from workbench.checker.outcome import DoesNotHold, Statement, Unreadable, escaped, in_quotes, listed
from workbench.checker.output import Output
from workbench.checker.plain import PlainModel, PlainNode
from workbench.checker.records import Fields, as_whole, read_certificate
from workbench.checker.reevaluating import LocalRewrite, local_rewrite, reevaluated
from workbench.checker.replay import Replay, logged_edit
from workbench.checker.running import RunsCompared, compared_runs

# What a mode allows, from most exact on.
_ALLOWED = {
    "exact": ("bits",),
    "ieee": ("bits", "rounding", "step"),
    "fast": ("bits", "rounding", "step", "signs"),
}
_LARGEST_SIZE = 2**31 - 1
_MOST_GRAPHS = 10  # on the way to the output, of which a certificate has an order or a plan
_STEP_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
LOG, BOUNDS, RUN = "log", "bounds", "run"
_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Checked:
    """answer: whether the output computes the same as the model, in a sentence. holds: of `LOG`, `BOUNDS` (every bound
    that the certificate has is proven of the output) and `RUN`, those that were checked."""

    answer: str
    statements: Sequence[Statement]
    holds: frozenset[str]


def check_files(model: _Path, output: _Path, certificate: _Path, runs: int = 0) -> Checked:
    """runs: how many random inputs both models are run on, in ONNX Runtime.

    Raises DoesNotHold with the first statement that does not hold, Unreadable for a file that cannot be read.
    """
    try:
        return _checked(model, output, read_certificate(certificate), runs)
    except (DoesNotHold, Unreadable):
        raise
    except RecursionError:
        raise Unreadable("its bodies are nested too deep to be followed") from None
    except Exception as error:  # what nobody foresaw in a hostile file is no traceback, and nothing is checked
        raise Unreadable(f"following it failed ({type(error).__name__}: {escaped(str(error), 160)})") from error


def report_lines(checked: Checked) -> Iterator[str]:
    """The answer, then what is checked, then what is not, with a line above each."""
    yield checked.answer
    for proven, head in ((True, "checked:"), (False, "claimed, not checked:")):
        entries = [statement.sentence for statement in checked.statements if statement.proven is proven]
        yield from (head, *(f"- {sentence}" for sentence in entries)) if entries else ()


def _checked(model: _Path, output: _Path, certificate: Fields, runs: int) -> Checked:
    before = _read(model)
    _check_same_file(certificate.record("model"), model, before, "the model")
    written = _read(output)
    out = Output(written, _dims(certificate, before, written), in_quotes(_name(output)))
    log = _Log(certificate, before, out.dims, keep=bool(runs))
    log.follow()
    differs = log.graph.difference(written)
    if differs:
        raise DoesNotHold(f"the log does not give {in_quotes(_name(output))}: {differs}")
    check_runs(written.order, written.graph.nodes, out.makers, in_quotes(_name(output)))
    _check_same_file(certificate.record("output"), output, written, "the output")
    files = [
        Statement(f"{in_quotes(_name(model))} is the model that the certificate is of, by its SHA-256"),
        Statement(
            f"the log gives {in_quotes(_name(output))}, from the model's own nodes on (rewrites: {log.count:,}, passes:"
            f" {log.passes:,}): nodes, attributes, operands, constants, bodies, functions, inputs and outputs"
        ),
    ]
    hints = list(declared_statements(() if log.changes else before.declared, out))
    unlike = [*_frozen(before, written), *hints]
    results = [checked_evidence(record, step, out) for record, step in log.evidence]
    statements = [*files, *unlike, *transposes(out), *(statement for one in results for statement in one.statements)]
    statements += [*log.statements, *_exactness_statements(log)]
    ran = compared_runs(before, written, out.dims, runs, log.mode, bool(hints)) if runs else None
    if log.rewrites:
        statements += reevaluated(log.rewrites, before, out, secrets.randbits(32))
    bounds = [one.proven for one in results if one.bound]
    holds = {LOG: True, BOUNDS: bool(bounds) and all(bounds), RUN: ran is not None and ran.equal}
    question = f"{in_quotes(_name(output))} computes the same as {in_quotes(_name(model))}"
    answer = _answer(not (log.changes or unlike), ran)
    return Checked(f"{question}: {answer}", statements, frozenset(what for what, so in holds.items() if so))


def _answer(alike: bool, ran: RunsCompared | None) -> str:
    """alike: whether both files are the same but for what computes nothing."""
    words = ["checked: it has the same nodes and constants"] if alike else []
    words += [] if ran is None else [ran.words]
    return ", and is ".join(words) or "not checked; --run N compares them on N random inputs"


def _frozen(before: PlainModel, written: PlainModel) -> Iterator[Statement]:
    frozen = [value for value in before.given if value in before.defaults and value not in written.given]
    if frozen:
        yield Statement(f"inputs of the model that are constants in the output: {listed(frozen)}", proven=False)


class _Log:
    """The steps of a certificate, followed from the model on. evidence: with the step that each is of. changes: how
    many edits there are, loading and exporting included."""

    def __init__(self, certificate: Fields, model: PlainModel, dims: Mapping[str, int], keep: bool) -> None:
        """dims: the sizes that it is of. keep: whether rewrites are kept, to be evaluated by themselves."""
        self.rewrites: list[LocalRewrite] | None = [] if keep else None
        self.certificate = certificate
        self.mode = certificate.text("mode")
        if self.mode not in _ALLOWED:
            raise Unreadable(f"the certificate's mode is {in_quotes(self.mode)}; there are {', '.join(_ALLOWED)}")
        self.model, self.dims = model, dims
        self.graph = Replay(model)
        self.count = self.passes = self.changes = self.with_law = self.graphs = 0
        self.exactness: Counter[str] = Counter()
        self.statements: list[Statement] = []
        self.evidence: list[tuple[Fields, StepDone]] = []

    def follow(self) -> None:
        steps = list(self.certificate.records("steps", "step"))
        changing = [number for number, step in enumerate(steps) if _changes_nodes(step)]
        for number, step in enumerate(steps):
            name = step.text("pass")
            if not _STEP_NAME.fullmatch(name):
                raise Unreadable(f"step {number + 1:,} has the name {in_quotes(name)}, which is no name of a pass")
            if (name == LOADING and number) or (name == EXPORTING and number < len(steps) - 1):
                raise DoesNotHold(f"step {number + 1:,} is called {name}, which is the first or the last of all")
            replaced = list(self._frame(step, name) if name in (LOADING, EXPORTING) else self._pass(step, name))
            if step.has("evidence"):
                later = any(place > number for place in changing)
                self._enter(step.record("evidence"), name, replaced, later)

    def _enter(self, record: Fields, name: str, replaced: Sequence[frozenset[str]], later: bool) -> None:
        """Keep the evidence. later: whether steps after it change the graph, which it may be of."""
        before = None
        if later and record.text("kind") in OF_THE_GRAPH:
            before = self.graph.as_model()
            self.graphs += 1
        if self.graphs > _MOST_GRAPHS:
            raise Unreadable(f"it has evidence of more than {_MOST_GRAPHS} graphs on the way to the output")
        self.evidence.append((record, StepDone(name, replaced, before, later)))

    def _frame(self, step: Fields, name: str) -> Iterator[frozenset[str]]:
        for rewrite in step.records("rewrites", "rewrite"):
            edit = logged_edit(rewrite.record("edit"))
            self.changes += 1
            check_functions(edit, self.graph, self.model, True, name)
            self.statements += frame_statements(name, edit, self.graph)
            self.graph.apply(edit, name)
            yield frozenset(call.key for call in edit.remove)

    def _pass(self, step: Fields, name: str) -> Iterator[frozenset[str]]:
        self.passes += 1
        for rewrite in step.records("rewrites", "rewrite"):
            self.count, self.changes = self.count + 1, self.changes + 1
            rule = rewrite.text("rule") if rewrite.has("rule") else name
            where = f"rewrite {self.count:,} ({escaped(rule)})"
            self._check_exactness(rewrite, where)
            edit = logged_edit(rewrite.record("edit"))
            check_functions(edit, self.graph, self.model, False, where)
            self.statements += check_pass(edit, self.graph, self.dims, where)
            if self.rewrites is not None:
                self.rewrites.append(local_rewrite(edit, self.graph, where))
            self.graph.apply(edit, where)
            yield frozenset(call.key for call in edit.remove)

    def _check_exactness(self, rewrite: Fields, where: str) -> None:
        exactness = rewrite.text("exactness")
        if exactness not in _ALLOWED[self.mode]:
            sentence = f"the exactness {in_quotes(exactness)}, which the mode {self.mode} does not allow"
            raise DoesNotHold(f"{where} is of {sentence}")
        self.exactness[exactness] += 1
        if not rewrite.has("rule"):
            return
        rule = self.certificate.record("rules").record(rewrite.text("rule"))
        self.with_law += rule.has("law") and bool(rule.text("law"))
        if rule.text("exactness") != exactness:
            raise DoesNotHold(f"{where} is of another exactness than its rule")


def _changes_nodes(step: Fields) -> bool:
    """Whether a step changes what evidence is of: more than the attributes and the omitted operands of nodes."""
    for rewrite in step.records("rewrites", "rewrite"):
        edit = logged_edit(rewrite.record("edit"))
        removed, inserted = ([_reads_and_writes(call) for call in calls] for calls in (edit.remove, edit.insert))
        bodies = any(any(call.bodies) for call in edit.insert)
        if removed != inserted or bodies or edit.inside or edit.drop or edit.constants:
            return True
    return False


def _reads_and_writes(call: PlainNode) -> tuple[object, ...]:
    """The operator, the operands that are not omitted, and the results."""
    operands = [(place, operand) for place, operand in enumerate(call.inputs) if operand]
    return (call.operator, call.overload, operands, call.outputs)


def _exactness_statements(log: _Log) -> Iterator[Statement]:
    if not log.count:
        return
    entries = {
        "bits": "change no bit",
        "rounding": "change rounding",
        "step": "change the rounding of quantized values",
        "signs": "change signs of zero, infinities or NaN",
    }
    parts = [f"{log.exactness[kind]:,} {words}" for kind, words in entries.items() if log.exactness[kind]]
    yield Statement(f"its mode is {log.mode}; of its rewrites {', '.join(parts)}", proven=False)
    without = log.count - log.with_law
    laws = f"{log.with_law:,} name a law of numbers, {without:,} have none"
    same = "that each rewrite computes the same is not checked" if log.rewrites is None else "of its rewrites"
    yield Statement(f"{same}{' here: ' if log.rewrites is None else ' '}{laws}", proven=False)


def _dims(certificate: Fields, *models: PlainModel) -> dict[str, int]:
    """Numbers for sizes of the inputs. Raises DoesNotHold for a name that none of them has."""
    results = {symbol: as_whole(n, f"dims, {in_quotes(symbol)}") for symbol, n in certificate.named("dims").items()}
    huge = next((symbol for symbol, size in results.items() if not 0 <= size <= _LARGEST_SIZE), None)
    if huge is not None:
        raise Unreadable(f"the certificate's size of {in_quotes(huge)} is not from 0 to {_LARGEST_SIZE:,}")
    odd = sorted(results.keys() - {symbol for model in models for symbol in model.symbols})
    if odd:
        raise DoesNotHold(f"the certificate has sizes for {listed(odd)}, of which the models know nothing")
    return results


def _read(path: _Path) -> PlainModel:
    return plain_model(read_proto(path), Path(path).parent, _name(path))


def _check_same_file(fields: Fields, path: _Path, read: PlainModel, what: str) -> None:
    """Raises DoesNotHold if the file, or one with its weights, has another SHA-256."""
    name = in_quotes(_name(path))
    if sha256_of(path) != fields.text("sha256"):
        raise DoesNotHold(f"{name} is not {what} that the certificate is of: its SHA-256 differs")
    message = fields.named("external")
    if set(read.beside) != set(message):
        raise DoesNotHold(f"{name} has its weights in other files than the certificate says")
    for location, file in read.beside.items():
        if sha256_of(file) != message[location]:
            raise DoesNotHold(
                f"the weights in {in_quotes(location)} are not those that the certificate is of: SHA-256 differs"
            )


def _name(path: _Path) -> str:
    return os.path.basename(path)
