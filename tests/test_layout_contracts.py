"""The layout part of every operator's contract, against ONNX Runtime.

One node with random shapes, axes and operands; its operands brought to a
random order of their axes; the same results, or a refusal that the row names.
"""

from __future__ import annotations

import zlib

import pytest

import tests.carrying_elementwise
import tests.carrying_images
import tests.carrying_remapped  # noqa: F401  (they enter their rows)
from tests.carrying import ROWS, Draw, assert_near, assert_same, graph_of, on_permuted
from tests.layout_kinds import CHOSEN, NEWER, ONNX_RUNTIME, REAL_MODELS
from tests.running import outputs
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.ir.permutation import Permutation, channels_last
from workbench.ops import NotPermutable, contracts, layout_of
from workbench.ops.blocked import parse_blocked
from workbench.ops.channels_last import parse_channels_last

CASES, PERMS, FORM_CASES = 16, 2, 4
ENOUGH = [3, pytest.param(CASES * (PERMS + 1), marks=pytest.mark.slow)]  # accepted permutations after which to end


@pytest.mark.parametrize("enough", ENOUGH)
@pytest.mark.parametrize("op", ROWS)
def test_an_operator_on_permuted_operands(op, enough):
    row = ROWS[op]
    accepted, kind = 0, None
    for case_number in range(CASES):
        if accepted >= enough:
            break
        draw = Draw(zlib.crc32(f"{op} {case_number}".encode()))
        case = row.make(draw, op)
        graph, feeds = graph_of(op, case, row.opset)
        kind = layout_of(graph.nodes[0]).kind
        expected = outputs(graph, feeds)
        for perm in _permutations(draw, case.perm_rank, kind):
            moved = graph.copy()
            target = draw.one_of("cuda", "npu")
            refusal = on_permuted(moved, "node", perm, target)
            shapes = [None if v is None else getattr(v, "array", v).shape for v in case.operands]
            said = f"case {case_number}: {op} {case.attributes} of {shapes} by {perm}: {refusal}"
            if refusal is not None:
                assert any(part in refusal for part in row.refusals) and "\n" not in refusal, said
                continue
            accepted += 1
            assert_same(moved, feeds, expected, row.exact, said)
    assert accepted, f"{op} refuses every permutation"


@pytest.mark.parametrize("op", ROWS)
def test_a_permutation_of_other_axes_is_refused(op):
    """The operator's result may be the image, and its first operand have more axes, or fewer."""
    draw = Draw(zlib.crc32(op.encode()))
    graph, _ = graph_of(op, ROWS[op].make(draw, op), ROWS[op].opset)
    ranks = {graph.rank_of(value) for value in graph.nodes[0].inputs if value}
    for rank in set(range(2, 7)) - ranks:
        with pytest.raises(NotPermutable):
            layout_of(graph.nodes[0]).propagate_permutation(graph, graph.nodes[0], draw.permutation(rank))


def _permutations(draw: Draw, rank: int, kind: str) -> list[Permutation]:
    """Random ones, and those that an image's operators are about."""
    perms = [draw.permutation(rank) for _ in range(PERMS)]
    return [channels_last(rank), *perms] if kind == "sensitive" and rank > 2 else perms


FORMS = [op for op, kind in CHOSEN.items() if kind == "sensitive"]


@pytest.mark.parametrize("op", FORMS)
def test_the_executor_runs_the_channels_last_form(op):
    """Natively, and as ONNX Runtime runs the operator."""
    row, forms = ROWS[op], 0
    for case_number in range(FORM_CASES):
        draw = Draw(zlib.crc32(f"{op} form {case_number}".encode()))
        case = row.make(draw, op)
        graph, feeds = graph_of(op, case, row.opset)
        expected = outputs(graph, feeds)
        if on_permuted(graph, "node", channels_last(case.perm_rank)) is not None:
            continue
        forms += parse_channels_last(graph.node("node").domain, graph.node("node").op_type) is not None
        executor = TorchExecutor(graph)
        for name, array in executor.run(feeds).items():
            assert_near(array, expected[name], f"case {case_number}: {case.attributes}")
        assert executor.fallbacks == {}
    assert forms, f"{op} has no channels-last form in these cases"


# ---- every operator has a layout that was chosen -------------------------------------------


def test_every_contract_has_the_layout_that_was_chosen():
    """A new contract is entered here too. A channels-last or blocked form is not carried on: its plain operator is."""
    found = {c.op: c.layout.kind for c in contracts().values() if not _is_form(*_domain_and_type(c.op))}
    assert found == CHOSEN


def test_every_operator_that_is_no_barrier_is_tested():
    assert set(ROWS) == {op for op, kind in CHOSEN.items() if kind != "barrier"} - NEWER


@pytest.mark.parametrize("operators", [ONNX_RUNTIME, REAL_MODELS], ids=["ONNX Runtime's", "real models'"])
def test_an_operator_of_others_has_a_layout(operators):
    assert set(operators.split()) <= set(CHOSEN)


def test_what_onnx_runtime_moves_a_transpose_through_is_no_barrier():
    assert not [op for op in ONNX_RUNTIME.split() if CHOSEN[op] == "barrier"]


def _is_form(domain: str, op_type: str) -> bool:
    return parse_channels_last(domain, op_type) is not None or parse_blocked(domain, op_type) is not None


def _domain_and_type(op: str) -> tuple[str, str]:
    domain, _, op_type = op.rpartition(".")
    return domain, op_type
