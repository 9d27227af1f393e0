"""Push transposes past elementwise operators, to where they cancel or merge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, ValueType, constant, constant_shape
from workbench.ir.permutation import Permutation, compose, inverse, is_identity
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.reductions import keeps_axes, reduced_axes, remaining_permutation
from workbench.rewrite.core.guards import layout_strategy_of, permutation, require_float_or_double, require_single_use

_MULTI_OPERAND = (
    *("Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "And", "Or", "Xor"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Concat"),
)
_BIT_EXACT_ELEMENTWISE = (
    *("Abs", "Cast", "Ceil", "Clip", "Floor", "Identity", "Neg", "Not", "Relu", "Round", "Sign"),
    *("Add", "Sub", "Mul", "Div"),
)
_VECTORIZED_ELEMENTWISE = (
    "Elu",
    "Erf",
    "Exp",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Sigmoid",
    "Softplus",
    "Sqrt",
    "Tanh",
)
_ALONG_AXIS = ("LogSoftmax", "Softmax")
_SUMS = ("ReduceMean", "ReduceSum")
_MAX_NODES_BETWEEN = 8  # nodes between two transposes


def _require_one_element(graph: Graph, node: Node, operands: tuple[str, ...], rank: int) -> None:
    """Raises NoMatch unless these operands are constants of one element, which have no axes to move."""
    for value in filter(None, operands):
        tensor = graph.constant(value)
        shape = None if tensor is None else constant_shape(tensor)
        if shape is None or any(size != 1 for size in shape) or len(shape) > rank:
            raise NoMatch(f"'{value}', an operand of {node}, is neither a constant of one element nor transposed")


def _type_before(graph: Graph, value: str, perm: Permutation, name: str) -> dict[str, ValueType | None]:
    """The type of `name`, which is `value` before a Transpose."""
    type_ = graph.tensor_type(value)
    return {} if type_ is None or type_.shape is None else {name: type_.permuted(inverse(perm))}


def match_siblings(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    producers = {value: graph.producer(value) for value in node.inputs if value not in graph.constants}
    transposes = {
        value: producer for value, producer in producers.items() if producer is not None and producer.op == "Transpose"
    }
    if len(transposes) < 2 or len(transposes) < len(producers):
        raise NoMatch(f"{node} does not combine the results of two or more Transposes alone")
    strategy = layout_strategy_of(graph, node)
    if strategy:
        raise NoMatch(f"{strategy} chose the layout in which {node} runs")
    perms = {permutation(graph, transpose) for transpose in transposes.values()}
    if len(perms) > 1:
        raise NoMatch(f"the Transposes before {node} differ")
    perm = perms.pop()
    for transpose in transposes.values():
        require_single_use(graph, node, transpose)
    _require_one_element(graph, node, tuple(value for value in node.inputs if value not in transposes), len(perm))
    if node.op == "Concat" and len(transposes) < len(node.inputs):
        raise NoMatch(f"{node} joins a constant too")
    attributes = dict(node.attributes)
    if node.op == "Concat":
        attributes["axis"] = perm[attributes["axis"] % len(perm)]
    value = graph.fresh(f"{node.outputs[0]}_turned")
    inputs = tuple(transposes[v].inputs[0] if v in transposes else v for v in node.inputs)
    operator = node.replace(inputs=inputs, outputs=(value,), attributes=attributes)
    transpose_after = next(iter(transposes.values())).replace(
        inputs=(value,), outputs=node.outputs, attributes={"perm": perm}
    )
    removed = (*(transpose.name for transpose in transposes.values()), node.name)
    types = _type_before(graph, node.outputs[0], perm, value)
    sentence = f"{len(transposes)} Transposes with perm {list(perm)} before {node} become one after it"
    return Rewrite(Edit(remove=removed, insert=(operator, transpose_after), types=types), sentence, removed)


def _chain(graph: Graph, node: Node, operators: tuple[str, ...]) -> tuple[Node, list[Node]]:
    """The Transpose before the node, and the operators between them."""
    chain: list[Node] = []
    below = node
    while True:
        above = graph.producer(below.inputs[0])
        if above is None or (above.op != "Transpose" and above.op not in operators) or len(chain) > _MAX_NODES_BETWEEN:
            raise NoMatch(f"{node} does not follow a Transpose, nor operators that follow one")
        require_single_use(graph, below, above)
        if above.op == "Transpose":
            return above, chain
        chain.insert(0, above)
        below = above


def _on_untransposed(
    graph: Graph, operator: Node, perm: Permutation, value: str, result: str
) -> tuple[Node, Permutation, dict[str, Constant]]:
    """The operator on `value`, its operand before a Transpose by `perm`.

    Returns the node, the permutation that its result then needs, and the node's new constants.
    """
    if operator.op in _ALONG_AXIS:
        attributes = {**operator.attributes, "axis": perm[operator.attr("axis") % len(perm)]}
        return operator.replace(inputs=(value,), outputs=(result,), attributes=attributes), perm, {}
    if operator.op in _SUMS:
        require_float_or_double(graph, operator.inputs[0], operator)
        axes = reduced_axes(graph, operator)
        name = graph.fresh(f"{result}_axes")
        axes_constant = constant(np.array(sorted(perm[axis] for axis in axes), np.int64), name)
        remaining_perm = remaining_permutation(perm, axes, keeps_axes(operator))
        return operator.replace(inputs=(value, name), outputs=(result,)), remaining_perm, {name: axes_constant}
    _require_one_element(graph, operator, operator.inputs[1:], len(perm))
    return operator.replace(inputs=(value, *operator.inputs[1:]), outputs=(result,)), perm, {}


def _through(graph: Graph, node: Node, operators: tuple[str, ...]) -> Rewrite:
    above, chain = _chain(graph, node, operators)
    if not chain:
        raise NoMatch(f"{node} follows a Transpose directly")
    perm, value = permutation(graph, above), above.inputs[0]
    inserted, types, constants = list[Node](), dict[str, ValueType | None](), dict[str, Constant]()
    operators_between = chain if node.op == "Transpose" else [*chain, node]
    for operator in operators_between:
        result = graph.fresh(f"{operator.outputs[0]}_turned")
        transposed, perm, operator_constants = _on_untransposed(graph, operator, perm, value, result)
        types |= _type_before(graph, operator.outputs[0], perm, result)
        constants |= operator_constants
        inserted.append(transposed)
        value = result
    remaining_perm = compose(perm, permutation(graph, node)) if node.op == "Transpose" else perm
    if is_identity(remaining_perm):
        types.pop(value, None)
        inserted[-1] = inserted[-1].replace(outputs=node.outputs)
    elif node.op == "Transpose":
        inserted.append(node.replace(inputs=(value,), attributes={"perm": remaining_perm}))
    else:
        raise NoMatch(f"{node} leaves axes in another order than before {above}")
    removed = (above.name, *(operator.name for operator in chain), node.name)
    effect = "cancel" if is_identity(remaining_perm) else f"become one with perm {list(remaining_perm)}"
    count = f"{len(chain)} node{'s' if len(chain) > 1 else ''}"
    sentence = f"{above} and {node} {effect} across {count}"
    if node.op != "Transpose":
        sentence = f"{above} is not needed by {node}, nor by the {count} between them"
    return Rewrite(Edit(remove=removed, insert=tuple(inserted), constants=constants, types=types), sentence, removed)


def match_exact(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return _through(graph, node, _BIT_EXACT_ELEMENTWISE)


def match_rounding(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return _through(graph, node, (*_BIT_EXACT_ELEMENTWISE, *_VECTORIZED_ELEMENTWISE, *_ALONG_AXIS, *_SUMS))


@dataclass(frozen=True)
class PushTransposes(Pass):
    """Two cases:

    - Transposes of one permutation before all operands of a sum, a product, a comparison, a Concat or the like become
      one after it; operands that are constants of one element have no axes to permute;
    - two Transposes with elementwise operators, Softmax, sums or means between them become one or none; the axes of
      Softmax and of sums are mapped. After a sum that leaves the axes in their order no Transpose is needed.

    Operators such as Tanh are vectorized, and may round the last elements of a tensor differently; the last bit may
    then differ.

    Does not apply:

    - if anything else reads an intermediate value;
    - if permutations differ;
    - if an operand has axes and is not the result of a Transpose.

    Source: an elementwise function commutes with any permutation of the elements; the push-down of transposes in
    onnxslim, TVM and OneFlow.
    """

    title = "Push transposes together"

    rules = (
        Rule(
            "siblings",
            _MULTI_OPERAND,
            match_siblings,
            Example(
                before="""g (float[2,3,4] x, float[2,3,4] z) => (float[3,4,4] y) {
                    t = Transpose<perm=[1,2,0]>(x)
                    u = Transpose<perm=[1,2,0]>(z)
                    y = Concat<axis=-1>(t, u)
                }""",
                after="""g (float[2,3,4] x, float[2,3,4] z) => (float[3,4,4] y) {
                    y_turned = Concat<axis=0>(x, z)
                    y = Transpose<perm=[1,2,0]>(y_turned)
                }""",
                sentences=("2 Transposes with perm [1, 2, 0] before Concat 'Concat_y' become one after it",),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3] x, float[2,3] z) => (float[3,2] y)
                        { t = Transpose(x)  u = Relu(z)  v = Transpose(u)  w = Abs(v)  y = Add(t, w) }""",
                    "Add 'Add_y' does not combine the results of two or more Transposes alone",
                ),
                Refusal(
                    """g (float[2,2,2] x, float[2,2,2] z) => (float[2,2,2] y)
                        { t = Transpose<perm=[1,0,2]>(x)  u = Transpose<perm=[2,1,0]>(z)  y = Add(t, u) }""",
                    "the Transposes before Add 'Add_y' differ",
                ),
                Refusal(
                    """g (float[2,3] x, float[2,3] z) => (float[3,2] y) <float[2] c = {1, 2}>
                        { t = Transpose(x)  u = Transpose(z)  y = Sum(t, u, c) }""",
                    "'c', an operand of Sum 'Sum_y', is neither a constant of one element nor transposed",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "through",
            ("Transpose",),
            match_exact,
            Example(
                before="""g (float[N,3,4] x) => (float[N,3,4] y) <float h = {0.5}> {
                    t = Transpose<perm=[0,2,1]>(x)
                    r = Relu(t)
                    m = Mul(r, h)
                    y = Transpose<perm=[0,2,1]>(m)
                }""",
                after="""g (float[N,3,4] x) => (float[N,3,4] y) <float h = {0.5}> {
                    r_turned = Relu(x)
                    y = Mul(r_turned, h)
                }""",
                sentences=("Transpose 'Transpose_t' and Transpose 'Transpose_y' cancel across 2 nodes",),
            ),
            refusals=(
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y) { t = Transpose(x)  y = Transpose(t) }",
                    "Transpose 'Transpose_y' follows a Transpose directly",
                ),
                Refusal(
                    "g (float[2,3] x, float[3,2] z) => (float[2,3] y)"
                    " { t = Transpose(x)  r = Add(t, z)  y = Transpose(r) }",
                    "'z', an operand of Add 'Add_r', is neither a constant of one element nor transposed",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y, float[3,2] r)"
                    " { t = Transpose(x)  r = Relu(t)  y = Transpose(r) }",
                    "'r' of Relu 'Relu_r' is an output of the graph",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "through operators that round",
            ("Transpose", *_SUMS),
            match_rounding,
            Example(
                before="""g (float[2,3,4] x) => (float[3,2,4] y) {
                    t = Transpose<perm=[0,2,1]>(x)
                    r = Tanh(t)
                    y = Transpose<perm=[2,0,1]>(r)
                }""",
                after="""g (float[2,3,4] x) => (float[3,2,4] y) {
                    r_turned = Tanh(x)
                    y = Transpose<perm=[1,0,2]>(r_turned)
                }""",
                sentences=(
                    "Transpose 'Transpose_t' and Transpose 'Transpose_y' become one with perm [1, 0, 2] across 1 node",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y) <int64 i = {0}>"
                    " { t = Transpose(x)  r = CumSum(t, i)  y = Transpose(r) }",
                    "Transpose 'Transpose_y' does not follow a Transpose, nor operators that follow one",
                ),
                Refusal(
                    """g (int64[2,3] x) => (int64[2,1] y) <int64[1] i = {0}>
                        { t = Transpose(x)  r = ReduceSum(t, i)  y = Transpose(r) }""",
                    "'t', an operand of ReduceSum 'ReduceSum_r', is not known to be float or double",
                ),
                Refusal(
                    """g (float[2,3,4] x) => (float[4,2] y) <int64[1] i = {1}>
                        { t = Transpose<perm=[2,1,0]>(x)  p = Softmax(t)  y = ReduceSum<keepdims=0>(p, i) }""",
                    "ReduceSum 'ReduceSum_y' leaves axes in another order than before Transpose 'Transpose_t'",
                ),
            ),
            exactness=Exactness.ROUNDING,
        ),
    )

    extra_examples = (
        Example(
            title="Through a Softmax and a sum over its axis",
            before="""g (float[N,4,3] x) => (float[N,1,3] y) <int64[1] i = {-1}> {
                t = Transpose<perm=[0,2,1]>(x)
                p = Softmax(t)
                s = ReduceSum(p, i)
                y = Transpose<perm=[0,2,1]>(s)
            }""",
            after="""g (float[N,4,3] x) => (float[N,1,3] y) <int64[1] s_turned_axes = {1}> {
                p_turned = Softmax<axis=1>(x)
                y = ReduceSum(p_turned, s_turned_axes)
            }""",
            sentences=("Transpose 'Transpose_t' and Transpose 'Transpose_y' cancel across 2 nodes",),
        ),
        Example(
            title="A sum that leaves the axes in order",
            before="""g (float[2,4,3] x) => (float[2,3] y) <int64[1] i = {2}> {
                t = Transpose<perm=[0,2,1]>(x)
                p = Softmax(t)
                y = ReduceMean<keepdims=0>(p, i)
            }""",
            after="""g (float[2,4,3] x) => (float[2,3] y) <int64[1] y_turned_axes = {1}> {
                p_turned = Softmax<axis=1>(x)
                y = ReduceMean<keepdims=0>(p_turned, y_turned_axes)
            }""",
            sentences=(
                "Transpose 'Transpose_t' is not needed by ReduceMean 'ReduceMean_y', nor by the 1 node between them",
            ),
        ),
    )
