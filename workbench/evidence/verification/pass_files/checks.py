"""Whether a pass does what its file says, one check after the other.

The examples are carried out and compared with what the file says; laws are proved, refusals are asked for, and the
graphs close to each example (`mutants.py`) show where the pass acts too, and why not elsewhere.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from workbench.errors import counted, one_sentence
from workbench.evidence.verification.pass_files.exactness_runs import at_sizes, inexact_result, symbolic_dims
from workbench.evidence.verification.pass_files.example_graphs import typed
from workbench.evidence.verification.pass_files.example_runs import difference_beyond, outputs, random_inputs
from workbench.evidence.verification.pass_files.mutants import mutants
from workbench.evidence.verification.pass_files.numeric_faults import OriginalRun, numeric_fault, runs_of_original
from workbench.evidence.verification.pass_files.pass_template import TEMPLATE_LAW, template_sentences
from workbench.evidence.verification.pass_files.sampled_laws import sample_law
from workbench.formats.io.errors import LoadError
from workbench.formats.io.exporting import to_bytes
from workbench.formats.io.onnx_file import load_proto
from workbench.ir import Graph, from_text, graph_text, to_text
from workbench.planning.layout.strategies.layout_strategy import example_context
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rule, Step, refused_by, run_pass, with_options
from workbench.rewrite.core.greedy_driver import apply_rules
from workbench.rewrite.core.own_passes import fault_sentence
from workbench.run.inputs import fed_inputs, in_forms, output_forms

_SEEDS = range(6)
_MAX_FAULTS = 5  # that are listed of the graphs close to an example
_QUOTED = re.compile(r"'[^']*'")


@dataclass(frozen=True)
class PassCheck:
    """One line about a pass. subject: what was checked. ok: None if that cannot be decided here."""

    subject: str
    ok: bool | None
    sentence: str
    details: tuple[str, ...] = ()


def checks_of(cls: type[Pass], file: Path) -> Iterator[PassCheck]:
    """The checks of a pass, each when it is done. file: where the pass is defined, which faults name."""
    if cls.missing():
        yield PassCheck("packages", None, cls.missing())
        return
    yield _declarations(cls)
    for subject, example in examples_by_subject(cls):
        yield from _of_example(cls, subject, example, file)
    for rule in cls.rules:
        yield from _of_rule(cls, rule, file)
    for subject, example in examples_by_subject(cls):
        if cls.rules and not cls.demonstration:
            yield _guarded(f"graphs close to {subject}", file, partial(_neighbours, cls, example))


def examples_by_subject(cls: type[Pass]) -> list[tuple[str, Example]]:
    """Every example of a pass, and what it is called."""
    further = [(f"further example {i}", example) for i, example in enumerate(cls.extra_examples, 1)]
    return [*((f"example of '{rule.name}'", rule.example) for rule in cls.rules), *further]


def _guarded(subject: str, file: Path, check: Callable[[], tuple[bool | None, str, tuple[str, ...]]]) -> PassCheck:
    """The check; whatever the pass raises is a fault of the pass, with its line."""
    try:
        return PassCheck(subject, *check())
    except Exception as error:  # any error of the file under test is its fault
        return PassCheck(subject, False, _fault_of(error, file))


def _fault_of(error: Exception, file: Path) -> str:
    return fault_sentence(error.__cause__ or error, file)


def _declarations(cls: type[Pass]) -> PassCheck:
    """Title, docstrings, source, examples and refusals, which the documents are made of."""
    about = cls.__doc__ or ""
    has_own_text = bool(about) and not about.startswith(f"{cls.__name__}(")  # which `dataclass` writes otherwise
    is_changed = any(rule.law != TEMPLATE_LAW for rule in cls.rules) or not cls.rules
    texts = " ".join(f"{sys.modules[cls.__module__].__doc__} {about}".split())
    left = [sentence for sentence in template_sentences() if sentence in texts] if is_changed else []
    faults = [
        *([f"docstrings still say what `new-pass` wrote: {'; '.join(left)}"] if left else []),
        *(["the class has no title"] if not cls.title else []),
        *(["the class has no docstring that lists its cases"] if not has_own_text else []),
        *(["its docstring has no line 'Source: ...'"] if cls.rules and "Source:" not in about else []),
        *(["it shows no example"] if not cls.examples() else []),
        *(f"rule '{rule.name}' shows no refusal" for rule in cls.rules if not rule.refusals),
        *(f"two rules have the name '{name}'" for name, n in Counter(r.name for r in cls.rules).items() if n > 1),
    ]
    for rule in cls.rules:
        is_fast = rule.exactness is Exactness.FAST_MATH
        if is_fast != (rule.example.mode == "fast"):
            faults.append(f"the example of '{rule.name}' must have mode='fast' if and only if it is FAST_MATH")
        if is_fast != (rule.counterexample is not None):
            faults.append(f"rule '{rule.name}' must have a counterexample if and only if it is FAST_MATH")
    said = "title, docstring, source, examples and refusals are there"
    return PassCheck("declarations", not faults, "; ".join(faults) or said)


# ---- examples --------------------------------------------------------------------------


def carried_out(cls: type[Pass], example: Example) -> tuple[Graph, Step]:
    """The example's graph behind the pass, and the step that led there."""
    graph = typed(example.before)
    graph.dims = dict(example.dims)
    return graph, run_pass(with_options(cls, example.options), graph, example_context(example), check_each=True)


def lines_of_graph(graph: Graph) -> list[str]:
    """The lines of a graph's text without the names of nodes, which an example does not state."""
    lines = graph_text(graph).splitlines()
    return [line.partition("] ")[2] if line.lstrip().startswith("[") else line for line in lines]


def is_as_stated(graph: Graph, after: str) -> bool:
    """Whether the graph is the one of the text, in any order of its lines."""
    expected = from_text(after)
    same_lines = sorted(lines_of_graph(graph)) == sorted(lines_of_graph(expected))
    return same_lines and [n.op for n in graph.nodes] == [n.op for n in expected.nodes]


def _of_example(cls: type[Pass], subject: str, example: Example, file: Path) -> Iterator[PassCheck]:
    try:
        carried_out(cls, example)
    except Exception as error:  # with which all other checks of the example would fail
        yield PassCheck(subject, False, _fault_of(error, file))
        return
    yield _guarded(subject, file, lambda: _before_and_after(cls, example))
    yield _guarded(f"{subject}, undone", file, lambda: _undone(cls, example))
    if not cls.demonstration:
        yield _guarded(f"{subject}, in ONNX Runtime", file, lambda: _same_results(cls, example))
    if cls.rules:
        yield _guarded(f"{subject}, a second run", file, lambda: _second_run(cls, example))
        yield _guarded(f"{subject}, values read elsewhere", file, lambda: _read_elsewhere(cls, example))


def _before_and_after(cls: type[Pass], example: Example) -> tuple[bool, str, tuple[str, ...]]:
    graph, step = carried_out(cls, example)
    said = tuple(rewrite.sentence for rewrite in step.rewrites)
    if example.sentences and not said:
        return False, "the pass does nothing there", ()
    if said != example.sentences:
        return False, "the pass gives other sentences than the example states; it gives these:", said
    if not is_as_stated(graph, example.after):
        return False, "the result is not the graph `after`; it is this one:", tuple(lines_of_graph(graph))
    return True, f"gives the graph `after` by {counted(len(said), 'rewrite')}, with the sentences stated", said


def _undone(cls: type[Pass], example: Example) -> tuple[bool, str, tuple[str, ...]]:
    graph, step = carried_out(cls, example)
    after = to_text(graph)
    for rewrite in reversed(step.rewrites):
        graph.apply(rewrite.inverse)
    if to_text(graph) != to_text(from_text(example.before)):
        return False, "the rewrites undone do not give the graph `before`", ()
    for rewrite in step.rewrites:
        graph.apply(rewrite.edit)
    if to_text(graph) != after:
        return False, "the rewrites undone and done again give another graph", ()
    return True, "every rewrite is undone and done again", ()


def _same_results(cls: type[Pass], example: Example) -> tuple[bool, str, tuple[str, ...]]:
    """Each rewrite alone keeps the outputs: any moment of a history can be run."""
    graph, original = typed(example.before), typed(example.before)
    graph.dims = dict(example.dims)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    for found in with_options(cls, example.options).run(graph, example_context(example)):
        graph.apply(found.edit)
        results = outputs(graph, fed_inputs(inputs, original, graph))
        for name, array in in_forms(results, output_forms(original, graph)).items():
            wrong = _difference(expected[name], array)
            if wrong:
                return False, f"output '{name}' differs after '{found.sentence}': {wrong}", ()
    return True, f"gives equal results after each rewrite ({', '.join(expected)})", ()


def _difference(expected: np.ndarray, array: np.ndarray) -> str:
    """How two outputs differ; "" for equal ones, and for sequences, which are not compared."""
    return difference_beyond(Exactness.FAST_MATH, expected, array) if isinstance(array, np.ndarray) else ""


def _second_run(cls: type[Pass], example: Example) -> tuple[bool, str, tuple[str, ...]]:
    graph, _ = carried_out(cls, example)
    step = run_pass(with_options(cls, example.options), graph, example_context(example))
    if step.rewrites:
        return False, f"a second run of the pass is not without effect: {step.rewrites[0].sentence}", ()
    return True, "changes nothing", ()


def _read_elsewhere(cls: type[Pass], example: Example) -> tuple[bool, str, tuple[str, ...]]:
    before = typed(example.before)
    values = [v for node in before.nodes for v in node.outputs if v and v not in before.outputs]
    acted, pass_, context = 0, with_options(cls, example.options), example_context(example)
    refusals: list[str] = []
    for value in values:
        graph = before.copy()
        graph.outputs = (*before.outputs, value)
        original = graph.copy()
        step = run_pass(pass_, graph, context, check_each=True)
        if not step.rewrites:
            sentences = [refused.sentence for refused in refused_by(pass_, graph, context)]
            refusals += [sentence for sentence in sentences if f"'{value}'" in sentence]
            continue
        acted += 1
        inputs = random_inputs(original)
        expected = outputs(original, inputs)
        for name, array in outputs(graph, inputs).items():
            wrong = _difference(expected[name], array)
            if wrong:
                return False, f"with '{value}' an output too, output '{name}' differs: {wrong}", ()
    said = f"with another reader of each of {counted(len(values), 'value')}, the pass acts {counted(acted, 'time')}"
    why = f"; elsewhere, for example, {refusals[0]}" if refusals else ""
    return True, f"{said}; all results are equal{why}", ()


# ---- rules -----------------------------------------------------------------------------


def _of_rule(cls: type[Pass], rule: Rule, file: Path) -> Iterator[PassCheck]:
    if rule.law:
        yield _guarded(f"law of '{rule.name}'", file, lambda: _law(rule))
    if not cls.demonstration:
        yield _guarded(f"exactness of '{rule.name}'", file, lambda: _exactness(cls, rule))
    if rule.counterexample is not None:
        yield _guarded(f"counterexample of '{rule.name}'", file, lambda: _counterexample(cls, rule))
    for i, refusal in enumerate(rule.refusals, 1):
        yield _guarded(f"refusal {i} of '{rule.name}'", file, partial(_refusal, cls, rule, refusal))


def _law(rule: Rule) -> tuple[bool | None, str, tuple[str, ...]]:
    has_z3 = importlib.util.find_spec("z3") is not None
    if has_z3:
        from workbench.evidence.verification.pass_files.proofs import prove

        proof = prove(rule.law, rule.exactness)
        if proof.wrong:
            return False, proof.wrong, ()
    sampled = sample_law(rule.law, rule.exactness)  # also of kinds of numbers for which z3 has no answer
    if sampled.wrong:
        return False, sampled.wrong, ()
    if not has_z3:
        missing = "z3 is not installed (pip install z3-solver), so that nothing is proved"
        held = f"it holds for some thousand {' and '.join(sampled.kinds)}" if sampled.kinds else "no number was tried"
        return None, f"{rule.law}: {held}; {missing}", ()
    if not proof.proved:
        return None, f"{rule.law} is not proved: {proof.missing}", ()
    return True, f"{rule.law} is proved for {' and '.join(proof.proved)}", ()


def _exactness(cls: type[Pass], rule: Rule) -> tuple[bool | None, str, tuple[str, ...]]:
    """The whole example on hostile inputs, at its own size and at larger ones."""
    ran, sizes = 0, []
    for sized in at_sizes(cls, rule.example):
        dims = symbolic_dims(sized.before)
        ran_here, wrong = inexact_result(sized, rule.exactness, _SEEDS)
        if wrong:
            return False, f"results are not {rule.exactness.value}: {wrong}", ()
        if not ran_here and not sized.size and sized.before.inputs:
            return None, "no inputs with NaN, infinities and -0.0 run through the example", ()
        ran += ran_here
        own = f"dims of {', '.join(map(str, dims))}" if dims else "the example's size"
        sizes += [sized.size or own] if ran_here else []
    sets = f"{counted(ran, 'set')} of hostile inputs"
    return True, f"results are {rule.exactness.value}, on {sets}: {'; '.join(sizes) or 'it has none'}", ()


def _counterexample(cls: type[Pass], rule: Rule) -> tuple[bool, str, tuple[str, ...]]:
    shown = rule.counterexample
    assert shown is not None
    text = shown.graph or rule.example.before
    before, after = typed(text), typed(text)
    for found in apply_rules([rule], after, with_options(cls, rule.example.options)):
        after.apply(found.edit)
    given = {}
    for name, zeros in random_inputs(before).items():
        shape = [d if isinstance(d, int) else 1 for d in getattr(before.types[name], "shape", ())]
        given[name] = np.broadcast_to(np.array(shown.inputs[name]), shape).astype(zeros.dtype)
    (was,), (becomes,) = outputs(before, given).values(), outputs(after, given).values()
    same = ((was == becomes) & (np.signbit(was) == np.signbit(becomes))) | (np.isnan(was) & np.isnan(becomes))
    if same.all():
        return False, "its numbers give the same result before and after", ()
    at = int(np.argmin(same))
    numbers = (was.ravel()[at], becomes.ravel()[at])
    stated = [np.asarray(number, was.dtype) for number in (shown.before, shown.after)]
    if not all(np.isclose(n, s, rtol=1e-4, equal_nan=True) for n, s in zip(numbers, stated, strict=True)):
        return False, f"its numbers give {numbers[0]:g} before and {numbers[1]:g} after", ()
    return True, str(shown), ()


def _refusal(cls: type[Pass], rule: Rule, refusal: Refusal) -> tuple[bool, str, tuple[str, ...]]:
    sentences, acts = refused_sentences(cls, rule, refusal)
    if acts:
        return False, f"the rule acts: {acts}", ()
    if not sentences:
        return False, f"the graph has no node that the rule looks at ({', '.join(rule.operators)})", ()
    if refusal.sentence not in sentences:
        return False, "the rule gives another sentence than stated; it gives these:", sentences
    return True, refusal.sentence, ()


def refused_sentences(cls: type[Pass], rule: Rule, refusal: Refusal) -> tuple[tuple[str, ...], str]:
    """Why the rule refuses each node that it looks at, and the sentence of a rewrite if it acts; "" if it does not."""
    graph = typed(refusal.graph)
    sentences = []
    for node in graph.nodes:
        if node.op not in rule.operators and "*" not in rule.operators:
            continue
        try:
            return (), rule.match(graph, node, with_options(cls, refusal.options)).sentence
        except NoMatch as no:
            sentences.append(str(no))
    return tuple(sentences), ""


# ---- graphs close to an example ----------------------------------------------------------


def _neighbours(cls: type[Pass], example: Example) -> tuple[bool, str, tuple[str, ...]]:
    """Where the pass acts on a graph with one change, ONNX Runtime gives the same numbers; else the pass says why."""
    pass_, context = with_options(cls, example.options), example_context(example)
    acted, refused, faults = 0, 0, []
    reasons: Counter[str] = Counter()
    for words, graph in mutants(typed(example.before)):
        compared = runs_of_original(graph, example.mode)
        if compared is None:  # ONNX Runtime does not run it
            continue
        fault = _fault_on(pass_, graph, example, compared)
        if fault is None:
            refused += 1
            reasons.update({_QUOTED.sub("'…'", r.sentence) for r in refused_by(pass_, graph, context)})
        else:
            acted += 1
            faults += [f"{words}: {fault}"] if fault else []
    about = f"{counted(acted + refused, 'graph')} with one change: the pass acts on {acted} and refuses {refused}"
    if faults:
        return False, f"{about}, and {counted(len(faults), 'result')} are wrong:", tuple(faults[:_MAX_FAULTS])
    lines = tuple(f"{counted(number, 'time')}: {sentence}" for sentence, number in reasons.most_common())
    return True, f"{about}; all results are equal", lines


def _fault_on(pass_: Pass, graph: Graph, example: Example, compared: list[OriginalRun]) -> str | None:
    """What is wrong with the result on this graph, "" if nothing is; None if the pass does not act there."""
    fault = _fault(pass_, graph, example, compared)
    if not fault:
        return fault
    try:
        opened = load_proto(onnx.load_from_string(to_bytes(graph)))  # has the types that a user's file gets
    except LoadError:
        return ""  # nobody can open it
    return _fault(pass_, opened, example, compared) or ""


def _fault(pass_: Pass, graph: Graph, example: Example, compared: list[OriginalRun]) -> str | None:
    result = graph.copy()
    try:
        step = run_pass(pass_, result, example_context(example), check_each=True)
    except Exception as error:  # of any line of the pass
        return one_sentence(f"{type(error).__name__}: {error}")
    if not step.rewrites:
        return None
    return numeric_fault(graph, result, example.mode, compared)
