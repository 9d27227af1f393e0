"""A file as a problem of grouping operators: which may be in one kernel, and what they read and write.

Kinds of operators as in TVM (Chen et al., OSDI 2018, section 3). A group has at most one product, which is a
convolution, a matrix product, a pool or a normalization, and it is first. Operators of no kind stand alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import NodeProto

from workbench.checker.computed import fixed_values
from workbench.checker.inference import called_operator, read_in_bodies, size_in_bytes
from workbench.checker.kernels import LayoutKernel
from workbench.checker.operators import (
    ELEMENTWISE_OPERATORS,
    REDUCTIONS,
    VIEW_OPERATORS,
    is_known,
    names_in,
    operator_name,
)
from workbench.checker.plain import FunctionKey
from workbench.checker.transpose_traffic import transposed_bytes
from workbench.checker.types import PlainType, sizes_of

_ELEMENTS, _SELECTION, _REDUCTION, _PRODUCT = "elementwise", "selection", "reduction", "product"
_SELECTIONS = names_in(
    """
    CenterCropPad Concat DepthToSpace Flatten Gather GatherElements GatherND OneHot Pad Reshape ReverseSequence
    Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze
    """
)
_PRODUCTS = names_in(
    """
    AffineGrid AveragePool Col2Im Conv ConvInteger ConvTranspose DeformConv Einsum Gemm GlobalAveragePool
    GlobalLpPool GlobalMaxPool GridSample GroupNormalization Hardmax InstanceNormalization LRN LayerNormalization
    LogSoftmax LpNormalization LpPool MatMul MatMulInteger MaxPool MeanVarianceNormalization QLinearConv
    QLinearMatMul RMSNormalization RoiAlign RotaryEmbedding Softmax com.microsoft.FusedConv com.microsoft.FusedGemm
    com.microsoft.FusedMatMul com.microsoft.TransposeMatMul
    """
)
_ON_HOST = {  # operands whose numbers decide shapes and places, and are no traffic
    **dict.fromkeys(REDUCTIONS, (1,)),
    **dict.fromkeys(("AffineGrid", "CenterCropPad", "CumSum", "Expand", "OneHot", "Reshape", "Split", "Squeeze"), (1,)),
    **dict.fromkeys(("Tile", "TopK", "Trilu", "Unsqueeze"), (1,)),
    **dict.fromkeys(("Col2Im", "Dropout", "RoiAlign"), (1, 2)),
    **dict.fromkeys(("Pad", "Resize"), (1, 2, 3)),
    "ConstantOfShape": (0,),
    "If": (0,),
    "Loop": (0, 1),
    "NonMaxSuppression": (0, 1, 2, 3, 4),
    "Range": (0, 1, 2),
    "Slice": (1, 2, 3, 4),
}


@dataclass(frozen=True)
class GroupingRules:
    """after_reductions: whether operators may follow a reduction. after_products: whether those that broadcast or
    select elements may directly follow a product. multi_output: whether results of any operator may leave a group,
    or only those of one."""

    after_reductions: bool = False
    after_products: bool = False
    multi_output: bool = False

    def __str__(self) -> str:
        others = ", or broadcast or select elements" if self.after_products else ""
        reductions = "operators follow" if self.after_reductions else "nothing follows"
        leaving = "any operator" if self.multi_output else "one operator"
        return (
            "a group begins with its only product, which operators follow directly that work element by element"
            f"{others}, {reductions} a reduction, and results of {leaving} leave it"
        )


GROUPING_RULES = {
    "same": GroupingRules(),
    "wider": GroupingRules(after_reductions=True, after_products=True),
    "several": GroupingRules(after_reductions=True, after_products=True, multi_output=True),
}


@dataclass
class Stored:
    """A tensor in memory, with the views of it. producer: None for an input or a constant. users: the operators that
    read it, without views. leaves: whether it is an output."""

    bytes: int | None
    producer: int | None
    users: set[int] = field(default_factory=set)
    leaves: bool = False


@dataclass
class GroupingProblem:
    """results: of each operator. products: whether it is one. users: of its results. leaves: whether one of them is an
    output. joined: pairs of an operator and a user that may be in one group. stored: the tensors. alone: the types of
    operators of no kind."""

    results: list[list[str]]
    products: list[bool]
    users: list[set[int]]
    leaves: list[bool]
    joined: set[tuple[int, int]]
    stored: list[Stored]
    alone: frozenset[str]


def grouping_problem(
    nodes: Sequence[NodeProto],
    outputs: Collection[str],
    types: Mapping[str, PlainType],
    fixed: Collection[str],
    version: int,
    kernels: Mapping[FunctionKey, LayoutKernel],
    rules: GroupingRules,
) -> GroupingProblem:
    """The operators of the main graph, with all calls of functions but of `kernels` opened. outputs: of the graph.

    fixed: constants that no caller can replace. version: of ONNX's own operators.
    """
    known = fixed_values(nodes, fixed)
    nodes = [n for n in nodes if operator_name(n) != "Constant" and not known.issuperset(filter(None, n.output))]
    reading = _Reading(nodes, types, version, kernels)
    kinds = [reading.kind(node) for node in nodes]
    producers = {value: number for number, node in enumerate(nodes) for value in node.output if value}
    users: list[set[int]] = [set() for _ in nodes]
    forbidden, edges = set(), set()
    for number, node in enumerate(nodes):
        for value in {*filter(None, node.input), *read_in_bodies(node)} & producers.keys():
            producer = producers[value]
            users[producer].add(number)
            edges.add((producer, number))
            if not _may_join(rules, kinds[producer], kinds[number], reading.edge(value, node)):
                forbidden.add((producer, number))
    leaves = [any(value in outputs for value in node.output if value) for node in nodes]
    joined = edges - forbidden
    if not rules.multi_output:  # whoever is not last in its group has all users in it
        apart = {producer for producer, _ in forbidden} | {i for i, is_output in enumerate(leaves) if is_output}
        joined = {(producer, user) for producer, user in joined if producer not in apart}
    products = [kind == _PRODUCT for kind in kinds]
    results = [list(filter(None, node.output)) for node in nodes]
    alone = frozenset(operator_name(node) for node, kind in zip(nodes, kinds, strict=True) if kind is None)
    return GroupingProblem(results, products, users, leaves, joined, reading.stored(outputs), alone)


def _may_join(rules: GroupingRules, source: str | None, user: str | None, edge: str) -> bool:
    """Whether an operator may be in a group with a user of its result. edge: how the user reads it."""
    if source is None or user in (None, _PRODUCT) or not edge:
        return False
    if source == _REDUCTION:
        return rules.after_reductions
    return source != _PRODUCT or edge == _ELEMENTS or (rules.after_products and user in (_ELEMENTS, _SELECTION))


class _Reading:
    def __init__(
        self,
        nodes: list[NodeProto],
        types: Mapping[str, PlainType],
        version: int,
        kernels: Mapping[FunctionKey, LayoutKernel],
    ) -> None:
        self.nodes, self.types, self.version, self.kernels = nodes, types, version, kernels

    def kind(self, node: NodeProto) -> str | None:
        kernel = self.kernels.get(called_operator(node))
        name = operator_name(node) if kernel is None else kernel.operator
        if not is_known(name, self.version):
            return None
        if name in ("BatchNormalization", "Dropout"):
            return None if _may_train(node, name) else _ELEMENTS
        if name == "Identity":
            return _ELEMENTS
        if name == "Resize":
            mode = next((a.s for a in node.attribute if a.name == "mode"), b"nearest")
            return _SELECTION if mode == b"nearest" else _PRODUCT
        lists = {_ELEMENTS: ELEMENTWISE_OPERATORS, _SELECTION: _SELECTIONS, _REDUCTION: REDUCTIONS, _PRODUCT: _PRODUCTS}
        return next((kind for kind, names in lists.items() if name in names), None)

    def edge(self, value: str, node: NodeProto) -> str:
        """How a node reads a value: as its kind, but "broadcast" for elements in other places; "" on the host or in a
        body."""
        kind = self.kind(node)
        positions = [index for index, operand in enumerate(node.input) if operand == value]
        if not positions or kind is None or set(positions) & set(_host(node)):
            return ""
        if kind != _ELEMENTS:
            return kind
        shape, result = (sizes_of(self.types.get(name)) for name in (value, node.output[0]))
        return _ELEMENTS if shape is not None and shape == result else "broadcast"

    def stored(self, outputs: Collection[str]) -> list[Stored]:
        results: dict[str, Stored] = {}
        source: dict[str, str] = {}  # by view, the value in whose memory it is

        def of(value: str, producer: int | None = None) -> Stored:
            value = source.get(value, value)
            return results.setdefault(value, Stored(size_in_bytes(self.types.get(value)), producer))

        for number, node in enumerate(self.nodes):
            if self._is_view(node):
                source[node.output[0]] = source.get(node.input[0], node.input[0])
                of(node.input[0])
                continue
            for value in self._read(node):
                of(value).users.add(number)
            for value in filter(None, node.output):
                of(value, number)
        for value in outputs:
            of(value).leaves = True
        return list(results.values())

    def _read(self, node: NodeProto) -> Iterator[str]:
        """What a node reads on the device."""
        host = _host(node)
        yield from (value for index, value in enumerate(node.input) if value and index not in host)
        yield from (value for value in read_in_bodies(node) if value in self.types)

    def _is_view(self, node: NodeProto) -> bool:
        name = operator_name(node)
        return name in VIEW_OPERATORS or (name == "Transpose" and transposed_bytes(node, self.types) == 0)


def _host(node: NodeProto) -> tuple[int, ...]:
    return _ON_HOST.get(operator_name(node), ())


def _may_train(node: NodeProto, name: str) -> bool:
    if name == "Dropout":
        return len(node.input) > 2 and bool(node.input[2])
    return len(node.output) > 1 or any(a.name == "training_mode" and a.i for a in node.attribute)
