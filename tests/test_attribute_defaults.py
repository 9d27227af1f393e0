"""Defaults of attributes are ONNX's, and are written nowhere else."""

import ast
import dis
import functools
import inspect
import types
from collections.abc import Iterator

import numpy as np
import onnx
import pytest

from tests.conftest import ROOT
from workbench.ir import Node
from workbench.ir.attribute_defaults import default_of, defaults_at, plain_default
from workbench.ir.text import OPSET
from workbench.ops import contracts

DEFINED = sorted(op for op in contracts() if onnx.defs.has(op.rpartition(".")[2], OPSET, op.rpartition(".")[0]))


# ---- what a node says ---------------------------------------------------------------------


@pytest.mark.parametrize("op", DEFINED)
def test_a_node_has_the_defaults_of_the_opset_of_all_rules(op):
    domain, _, op_type = op.rpartition(".")
    schema = onnx.defs.get_schema(op_type, OPSET, domain)
    for name, attribute in schema.attributes.items():
        assert Node(op_type, (), (), domain=domain).attr(name) == plain_default(attribute)


def test_no_default_has_changed_since_the_opset_of_all_rules():
    """Graphs have that opset or a newer one; a call of an older opset with another default has a domain of its own."""
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain or schema.since_version < OPSET or not onnx.defs.has(schema.name, OPSET, ""):
            continue
        before = onnx.defs.get_schema(schema.name, OPSET, "").attributes
        for name in before.keys() & schema.attributes.keys():
            assert plain_default(schema.attributes[name]) == plain_default(before[name]), (schema.name, name)


def test_what_is_given_is_never_replaced():
    assert Node("Gemm", ("a", "b"), ("y",), {"alpha": 0.0}).attr("alpha") == 0
    assert Node("Gemm", ("a", "b"), ("y",)).attr("alpha") == 1
    assert Node("Transpose", ("x",), ("y",)).attr("perm") is None
    assert Node("FusedConv", ("x", "w"), ("y",), domain="com.microsoft").attr("group") is None


# ---- what the code says -------------------------------------------------------------------


COMPUTED = object()


class Asked:
    """A call `.attr(name)` or `.attr(name, default)` in the code."""

    def __init__(self, path, call):
        self.place = f"{path.relative_to(ROOT)}:{call.lineno}"
        self.path, self.line = path, call.lineno
        self.name = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
        self.named = len(call.args) > 1
        try:
            self.default = ast.literal_eval(call.args[1]) if self.named else None
        except ValueError:
            self.default = COMPUTED


def asked() -> Iterator[Asked]:
    for path in sorted([*(ROOT / "workbench").rglob("*.py"), *(ROOT / "passes").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "attr":
                yield Asked(path, node)


def codes(thing, seen) -> Iterator[types.CodeType]:
    """The code of a function, of functions within, and of all of workbench/ops that it mentions. seen: by identity."""
    if id(thing) in seen:
        return
    seen[id(thing)] = thing
    for part in parts(thing):
        if inspect.iscode(part):
            yield part
        yield from codes(part, seen)


def parts(thing):
    if isinstance(thing, dict):
        return [*thing.values()]
    if isinstance(thing, tuple | list | frozenset):
        return thing
    if inspect.iscode(thing):
        return [part for part in thing.co_consts if inspect.iscode(part)]
    if isinstance(thing, functools.partial):
        return (thing.func, *thing.args)
    thing = inspect.unwrap(getattr(thing, "__func__", thing))
    if not (getattr(thing, "__module__", None) or "").startswith("workbench.ops."):
        return ()
    if inspect.isfunction(thing):
        inner = [thing.__code__]
        for code in inner:
            inner += [part for part in code.co_consts if inspect.iscode(part)]
        loaded = {s.argval for code in inner for s in dis.get_instructions(code) if s.opname == "LOAD_GLOBAL"}
        held = [cell.cell_contents for cell in thing.__closure__ or ()]
        return [thing.__code__, *held, *(thing.__globals__.get(name) for name in loaded)]
    return [*getattr(thing, "__dict__", {}).values()]


@functools.cache
def operators_at() -> dict[str, dict[int, set[str]]]:
    """For each file and line of workbench/ops, the operators whose contracts come there."""
    found: dict[str, dict[int, set[str]]] = {}
    for op, contract in contracts().items():
        whole = (contract.run, contract.flops, contract.layout, contract.fusion, contract.stand_in)
        for code in codes(whole, {}):
            for line in {line for _, _, line in code.co_lines() if line is not None}:
                found.setdefault(code.co_filename, {}).setdefault(line, set()).add(op)
    return found


def is_defined(op: str) -> bool:
    return onnx.defs.has(op.rpartition(".")[2], op.rpartition(".")[0])


def same(a, b) -> bool:
    return a == b or (isinstance(a, float) and np.float32(a) == np.float32(b))


CASES = [case for case in asked() if case.name is not None]
OF_CONTRACTS = [case for case in CASES if operators_at().get(str(case.path), {}).get(case.line)]


@pytest.mark.parametrize("case", OF_CONTRACTS, ids=lambda case: f"{case.place} {case.name}")
def test_a_contract_names_a_default_only_for_operators_without_one(case):
    operators = operators_at()[str(case.path)][case.line]
    defaults = {value for op in operators if (value := default_of(op, case.name)) is not None}
    lack = {op for op in operators if not is_defined(op)}
    if not defaults:
        return
    if case.named:
        assert lack, f"{case.place}: ONNX has a default for {case.name}"
        assert case.default is COMPUTED or all(same(value, case.default) for value in defaults)
    else:
        assert not lack, f"{case.place}: {sorted(lack)[0]} has no default for {case.name}"


# Elsewhere: why a default is named although ONNX has one for an attribute of that name.
NAMED = {
    ("workbench/backends/torch/fused/products.py", "group"): "of channels-last convolutions too",
}


def test_elsewhere_no_default_of_onnx_is_named():
    ops = {op.rpartition(".")[2] for op in DEFINED}
    known = {name for op in ops for name, value in defaults_at(op, OPSET).items()} - {"axes"}
    others = [case for case in CASES if case not in OF_CONTRACTS and case.named and case.name in known]
    found = {(str(case.path.relative_to(ROOT)), case.name) for case in others}
    assert found == set(NAMED)
