"""Groups: by scopes, by repeated blocks, by stages; their names; and which of them are open at first."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.conftest import CORPUS
from tests.viewing import history_of, large_graph, sample_history, view_of
from workbench.formats.io import load_model
from workbench.ir import Graph, Node, TensorType
from workbench.ir.types import DataType
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.block_names import block_name
from workbench.presentation.view.boxes import boxes_of
from workbench.presentation.view.groups import MOST_BOXES, Group, group_nodes, groups_around, opened_at_first, scope_of
from workbench.presentation.view.timeline import timeline_of

FLOATS = TensorType(DataType.FLOAT, (1, 4))


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
    graph = chain(("Relu", "/a/b/r1"), ("Neg", "/a/b/r2"), ("Abs", "/a/b/r3"), ("Exp", "top"))
    (group,) = tree(graph).groups()
    assert group.title == "b"


def test_a_group_of_the_whole_model_is_left_out():
    names = ("/a/b/r1", "/a/b/r2", "/a/b/r3", "/a/r4")
    assert shape(tree(chain(*zip(("Relu", "Neg", "Abs", "Exp"), names, strict=True)))) == [
        ("b", list(names[:3])),
        names[3],
    ]


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


def test_a_repetition_begins_at_a_block_not_in_its_middle():
    """Of residual blocks each four nodes in a row repeat from any node on; one value alone is between two blocks."""
    nodes, types = [], {"v": FLOATS}
    value = "v"
    for i in range(4):
        for op in ("Relu", "Neg", "Abs"):
            inner = f"{op}{i}"
            nodes.append(Node(op, (nodes[-1].outputs[0] if op != "Relu" else value,), (inner,), name=inner))
        nodes.append(Node("Add", (f"Abs{i}", value), (f"Add{i}",), name=f"Add{i}"))
        value = f"Add{i}"
    nodes.insert(0, Node("Exp", ("x",), ("v",), name="Exp"))
    types |= {node.outputs[0]: FLOATS for node in nodes} | {"x": FLOATS}
    root = tree(Graph(inputs=("x",), outputs=(value,), nodes=nodes, types=types, opset_imports={"": 23}))
    (folded,) = root.groups()
    assert [next(iter(block.members())) for block in folded.groups()] == [f"Relu{i}" for i in range(4)]


def test_many_equal_branches_are_one_stack():
    """600 of them are 600 boxes otherwise; nine are drawn."""

    def branches(count: int) -> Group:
        nodes = [
            Node(
                op,
                (f"{'x' if op == 'Neg' else 'n'}{i if op == 'Tanh' else ''}",),
                (f"{op[0].lower()}{i}",),
                name=f"{op}{i}",
            )
            for i in range(count)
            for op in ("Neg", "Tanh")
        ]
        nodes.append(Node("Concat", tuple(f"t{i}" for i in range(count)), ("y",), {"axis": 1}, name="join"))
        types = {node.outputs[0]: FLOATS for node in nodes} | {
            "x": FLOATS,
            "y": TensorType(DataType.FLOAT, (1, 4 * count)),
        }
        return tree(Graph(inputs=("x",), outputs=("y",), nodes=nodes, types=types, opset_imports={"": 23}))

    stack, join = branches(600).children
    assert isinstance(stack, Group) and stack.same == "x600 identical" and join == "join"
    assert len(branches(9).children) == 19


def convolutions(*strides: int) -> Graph:
    """A convolution and a Relu for each stride."""
    nodes, types, size = [], {"v0": TensorType(DataType.FLOAT, (1, 3, 64, 64))}, 64
    for i, stride in enumerate(strides):
        size //= stride
        nodes.append(Node("Conv", (f"v{i}", "w"), (f"c{i}",), {"strides": (stride, stride)}, name=f"c{i}"))
        nodes.append(Node("Relu", (f"c{i}",), (f"v{i + 1}",), name=f"r{i}"))
        types |= dict.fromkeys((f"c{i}", f"v{i + 1}"), TensorType(DataType.FLOAT, (1, 3, size, size)))
    weights = {"w": np.ones((3, 3, 1, 1), np.float32)}
    return Graph(
        inputs=("v0",),
        outputs=(f"v{len(strides)}",),
        nodes=nodes,
        types=types,
        constants=weights,
        opset_imports={"": 23},
    )


def test_a_long_list_is_cut_where_the_size_of_the_data_changes():
    strides = [1] * 6 + [2] + [1] * 8 + [2] + [1] * 9
    root = tree(convolutions(*strides))
    sizes = [list(group.members()) for group in root.groups()]
    assert len(sizes) == 3
    assert [names[0] for names in sizes][1:] == ["c6", "c15"], "the convolution with a stride begins a stage"


def test_blocks_that_change_nothing_in_size_are_cut_where_one_value_crosses():
    view = view_of(history_of(load_model(CORPUS / "ppocrv4_rec.onnx"), [])) if CORPUS.exists() else None
    if view is None:
        pytest.skip("the corpus of real models is not on this machine")
    assert 6 <= len(view.root.children) <= MOST_BOXES


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a = Conv(x, w) b = Relu(a) c = Conv(b, w) d = Add(c, x)", "residual block"),
        (
            "a = Conv<kernel_shape=[1,1]>(x, w) b = Conv<kernel_shape=[3,3]>(a, w) c = Conv<kernel_shape=[1,1]>(b, w) d = Add(c, x)",
            "bottleneck",
        ),
        (
            "a = Conv<kernel_shape=[1,1]>(x, w) b = Conv<group=3>(a, w) c = Conv<kernel_shape=[1,1]>(b, w)",
            "inverted residual",
        ),
        ("a = Conv<group=3>(x, w) b = Relu(a) c = Conv<kernel_shape=[1,1]>(b, w)", "separable convolution"),
        ("a = Conv(x, w) b = Add(a, w) c = Conv(b, w)", "Conv, Add"),
        ("a = MatMul(x, x) b = Softmax(a) c = MatMul(b, x)", "attention"),
        ("a = MatMul(x, w) b = Gelu(a) c = MatMul(b, w)", "feed-forward"),
        ("a = Conv(x, w) b = Resize(a, w)", "upsampling"),
        ("a = Cast<to=1>(x) b = Sub(a, w) c = Cast<to=1>(b)", "Sub, Cast"),
    ],
)
def test_a_group_without_a_scope_is_named_by_what_it_computes(text, name):
    nodes = [
        Node(op, tuple(inputs.replace(" ", "").split(",")), (output,), attributes_of(written), name=output)
        for output, op, written, inputs in re.findall(r"(\w+) = (\w+)(<[^>]*>)?\(([^)]*)\)", text)
    ]
    assert block_name(nodes, {}, {"w"}, is_first=False, is_last=False) == name


def attributes_of(text: str) -> dict:
    return {
        key: eval(value.replace("[", "(").replace("]", ",)"))
        for key, value in re.findall(r"(\w+)=(\[[^]]*\]|\w+)", text)
    }


def test_a_convolution_in_groups_is_depthwise_if_each_channel_is_one():
    nodes = [
        Node("Conv", ("x", "w"), (name,), {"kernel_shape": (k, k), "group": g}, name=name) for name, k, g in GROUPED
    ]
    sum_ = Node("Add", ("c", "x"), ("d",), name="d")
    of_resnext = dict.fromkeys("abc", "1x128x8x8")
    assert block_name([*nodes, sum_], of_resnext, {"w"}, is_first=False, is_last=False) == "bottleneck"
    of_mobilenet = dict.fromkeys("abc", "1x32x8x8")
    assert block_name([*nodes, sum_], of_mobilenet, {"w"}, is_first=False, is_last=False) == "inverted residual"


GROUPED = (("a", 1, 1), ("b", 3, 32), ("c", 1, 1))


def test_scopes_that_end_alike_have_titles_and_ids_of_their_own():
    names = [f"/{outer}/net/n{i}" for outer in ("encoder", "decoder") for i in range(3)]
    root = tree(chain(*zip(("Relu", "Neg", "Abs", "Exp", "Tanh", "Sin"), names, strict=True)))
    assert [group.title for group in root.groups()] == ["encoder/net", "decoder/net"]
    assert len({group.id for group in root.groups()}) == 2


def test_first_and_last_blocks_are_stem_and_head():
    stem = [Node("Conv", ("x", "w"), ("a",)), Node("MaxPool", ("a",), ("b",))]
    head = [
        Node("GlobalAveragePool", ("x",), ("a",)),
        Node("Gemm", ("a", "w"), ("b",)),
        Node("Softmax", ("b",), ("c",)),
    ]
    assert block_name(stem, {}, {"w"}, is_first=True, is_last=False) == "stem"
    assert block_name(head, {}, {"w"}, is_first=False, is_last=True) == "head"


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
def test_ten_thousand_nodes_are_few_boxes(scopes):
    timeline = timeline_of(history_of(large_graph(10_000, scopes), []), load_profile("cuda"))
    root = group_nodes(timeline)
    assert sorted(root.members()) == sorted(timeline.versions), "every node once"
    boxes = boxes_of(timeline, root, opened_at_first(root)).boxes
    assert len(boxes) <= MOST_BOXES + len(timeline.inputs) + len(timeline.outputs)
    everything = {group.id for group in root.below()}
    assert len(everything) == sum(1 for _ in root.below()), "ids are unique"
    assert len(boxes_of(timeline, root, everything).boxes) > 10_000


def test_a_result_of_three_nodes_is_drawn_as_three_nodes():
    nodes = [(("Identity" if 2 <= i < 58 else "Relu"), f"n{i}") for i in range(60)]
    nodes[0], nodes[1] = ("Neg", "n0"), ("Abs", "n1")
    nodes[58], nodes[59] = ("Identity", "n58"), ("Exp", "n59")
    view = view_of(history_of(chain(*nodes), ["remove_noops"]))
    assert len(view.timeline.versions) == 60
    shown = [box for box in view.boxes().boxes if any(dies > view.timeline.last for _, dies, _ in box.alive)]
    assert sorted(box.id for box in shown if box.kind == "node") == ["n0", "n1", "n59"]
    assert not [box for box in shown if box.kind == "group"], "a group without a node is not in the result"


def test_ids_of_groups_tell_a_slash_in_a_scope_from_a_scope_in_a_scope():
    assert Group(("a/b",)).id != Group(("a", "b")).id


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("stem", sorted(path.stem for path in CORPUS.glob("*.onnx")))
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real models is not on this machine")
def test_real_models_are_few_boxes_each_with_a_name_and_a_shape(stem):
    view = view_of(history_of(load_model(CORPUS / f"{stem}.onnx"), ["fold_constants", "fold_batchnorm"]))
    boxes = [box for box in view.boxes().boxes if box.kind in ("node", "group")]
    assert len(boxes) <= MOST_BOXES + sum(b.is_chip for b in boxes)
    for box in boxes:
        if box.group is not None and not box.is_open:
            assert box.group.title and not box.group.title.startswith("Cast")
            assert all(style.detail for *_, style in box.alive), f"{box.group.title} has no shape"
