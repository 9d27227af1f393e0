"""Groups: by scopes, by repeated blocks, by stretches; and which of them are open at first."""

from __future__ import annotations

import pytest

from tests.conftest import CORPUS
from tests.viewing import history_of, large_graph, sample_history, view_of
from workbench.io import load_model
from workbench.ir import Graph, Node, TensorType
from workbench.ir.types import DataType
from workbench.layout.profile import load_profile
from workbench.view.boxes import boxes_of
from workbench.view.groups import BUDGET, Group, group_nodes, groups_around, opened_at_first, scope_of
from workbench.view.timeline import timeline_of


def chain(*nodes: tuple[str, str], metadata=None) -> Graph:
    """Unary nodes one behind the other: (operator, name)."""
    made = [
        Node(op, (f"v{i}",), (f"v{i + 1}",), name=name, metadata=(metadata or {}).get(name, {}))
        for i, (op, name) in enumerate(nodes)
    ]
    types = {f"v{i}": TensorType(DataType.FLOAT, (1, 4)) for i in range(len(nodes) + 1)}
    return Graph(inputs=("v0",), outputs=(f"v{len(nodes)}",), nodes=made, types=types, opset_imports={"": 23})


def tree(graph: Graph, *passes: str) -> Group:
    return group_nodes(timeline_of(history_of(graph, list(passes)), load_profile("cuda")))


def shape(group: Group) -> list:
    """The tree as nested lists: names of nodes, and a (title, inside) for a group."""
    return [child if isinstance(child, str) else (child.title, shape(child)) for child in group.children]


def test_names_with_slashes_are_scopes():
    names = ("/a/b/r1", "/a/b/r2", "/a/b/r3", "/a/r4", "/c/r5", "top")
    root = tree(chain(*zip(("Relu", "Neg", "Abs", "Exp", "Relu", "Tanh"), names, strict=True)))
    assert shape(root) == [("a", [("b", list(names[:3])), "/a/r4"]), "/c/r5", "top"]


def test_one_or_two_nodes_are_no_group():
    assert shape(tree(chain(("Relu", "/a/b/c/r1"), ("Neg", "r2")))) == ["/a/b/c/r1", "r2"]
    assert shape(tree(chain(("Relu", "/a/b/r1"), ("Neg", "/a/b/r2"), ("Abs", "r3")))) == ["/a/b/r1", "/a/b/r2", "r3"]


def test_a_group_alone_in_another_takes_its_place():
    graph = chain(("Relu", "/a/b/r1"), ("Neg", "/a/b/r2"), ("Abs", "/a/b/r3"))
    (group,) = tree(graph).groups()
    assert group.path == ("a", "b") and group.title == "b"


def test_exporters_metadata_are_scopes():
    said = {"pkg.torch.onnx.name_scopes": "['', 'layer1', 'layer1.0', 'layer1.0.conv', 'conv2d']"}
    graph = chain(("Relu", "n1"), metadata={"n1": said})
    assert scope_of(graph.node("n1")) == ("layer1", "layer1.0", "layer1.0.conv")


@pytest.mark.parametrize("written", ["", "nonsense (", "__import__('os')", "[1, 2]", "{'a': 1}", "x" * 10_000])
def test_metadata_that_are_no_scopes_are_left_aside(written):
    graph = chain(("Relu", "n1"), metadata={"n1": {"pkg.torch.onnx.name_scopes": written}})
    assert scope_of(graph.node("n1")) == ()


def test_identical_blocks_in_a_row_are_folded_and_say_how_many():
    block = (("Relu", "r"), ("Neg", "n"), ("Abs", "a"), ("Exp", "e"))
    graph = chain(("Sigmoid", "first"), *((op, f"{name}{i}") for i in range(5) for op, name in block), ("Tanh", "last"))
    root = tree(graph)
    (folded,) = root.groups()
    assert folded.same == "x5 identical"
    assert [inner.same for inner in folded.groups()] == [f"{i} of 5 identical" for i in range(1, 6)]
    assert list(next(folded.groups()).members()) == ["r0", "n0", "a0", "e0"]
    assert root.children[0] == "first" and root.children[-1] == "last"


def test_in_a_large_model_four_nodes_in_a_row_between_groups_are_a_group():
    """Three do not, nor does a model of 80 nodes."""
    block = (("Relu", "r"), ("Neg", "n"), ("Abs", "a"), ("Exp", "e"))

    def parts(repeats: int) -> list[str]:
        row = [(op, f"{name}{i}") for i in range(repeats) for op, name in block]
        ends = [("Tanh", f"t{i}") for i in range(4)], [("Sin", f"s{i}") for i in range(3)]
        root = tree(chain(*ends[0], *row, *ends[1]))
        return [child if isinstance(child, str) else child.title for child in root.children]

    assert parts(20) == ["4 Tanh (part 1)", "20 Relu, 20 Neg (blocks 5.1 to 5.20)", "s0", "s1", "s2"]
    assert parts(5) == ["t0", "t1", "t2", "t3", "5 Relu, 5 Neg (blocks 5.1 to 5.5)", "s0", "s1", "s2"]


def test_blocks_that_differ_in_a_shape_are_not_identical():
    block = (("Relu", "r"), ("Neg", "n"), ("Abs", "a"), ("Exp", "e"))
    graph = chain(*((op, f"{name}{i}") for i in range(3) for op, name in block))
    types = {value: TensorType(DataType.FLOAT, (1, 4 + int(value[1:]) // 4)) for value in graph.types}
    other = Graph(inputs=graph.inputs, outputs=graph.outputs, nodes=graph.nodes, types=types, opset_imports={"": 23})
    assert list(tree(graph).groups()) and not list(tree(other).groups())


def test_a_node_that_a_pass_puts_in_stands_in_the_scope_of_its_neighbours():
    history = sample_history("basic_pitch_nmp", "fold_constants", "layout_greedy")
    view = view_of(history)
    added = [n for n, v in view.timeline.versions.items() if v[0].born > 0 and n not in view.timeline.short_lived]
    inside = [name for name in added if groups_around(view.root, name)]
    assert inside and all(name in {m for g in view.root.groups() for m in g.members()} for name in inside)


@pytest.mark.slow
@pytest.mark.parametrize("scopes", [False, True], ids=["no scopes", "scopes"])
def test_ten_thousand_nodes_keep_the_budget(scopes):
    timeline = timeline_of(history_of(large_graph(10_000, scopes), []), load_profile("cuda"))
    root = group_nodes(timeline)
    assert sorted(root.members()) == sorted(timeline.versions), "every node once"
    boxes = boxes_of(timeline, root, opened_at_first(root, timeline)).boxes
    assert 20 < len(boxes) <= BUDGET + len(timeline.inputs) + len(timeline.outputs)
    closed = boxes_of(timeline, root, set()).boxes
    assert len(closed) < 60
    everything = {group.id for group in root.below()}
    assert len(everything) == sum(1 for _ in root.below()), "ids are unique"
    assert len(boxes_of(timeline, root, everything).boxes) > 10_000


def test_what_changes_most_is_opened_first():
    nodes = [(("Dropout" if i == 450 else "Relu"), f"/part{i // 100}/n{i}") for i in range(900)]
    timeline = timeline_of(history_of(chain(*nodes), ["drop_dropout"]), load_profile("cuda"))
    root = group_nodes(timeline)
    opened = opened_at_first(root, timeline, budget=35)
    home = [group.id for group in groups_around(root, "/part4/n450")]
    assert home and set(home) <= opened
    assert any(group.id not in opened for group in root.groups())


def test_ids_of_groups_tell_a_slash_in_a_scope_from_a_scope_in_a_scope():
    assert Group(("a/b",)).id != Group(("a", "b")).id


@pytest.mark.parametrize(
    "stem", ["bert_12l_raw", "open_nsfw_resnet", "ppocrv4_det", pytest.param("unet_sd15_raw", marks=pytest.mark.slow)]
)
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real models is not on this machine")
def test_real_models_keep_the_budget(stem):
    view = view_of(history_of(load_model(CORPUS / f"{stem}.onnx"), ["fold_constants", "fold_batchnorm"]))
    boxes = view.boxes().boxes
    assert len(boxes) <= BUDGET + len(view.timeline.inputs) + len(view.timeline.outputs) + sum(b.is_chip for b in boxes)
    assert sum(box.is_open for box in boxes) >= 1
