"""Every contract against ONNX's newest schema of its operator: no attribute and no operand may be passed over."""

import ast
import importlib
import inspect

import onnx
import pytest

from workbench.ops import contracts

# Attributes that a function need not read, and why.
NEEDLESS = {
    "Constant.sparse_value": "no function of ours holds one",
    "Constant.value_string": "torch has no strings",
    "Constant.value_strings": "torch has no strings",
    "Dropout.seed": "no runtime draws another's numbers",
    "LinearAttention.chunk_size": "a hint for speed",
    "Optional.type": "an absent value needs no type",
    "Range.stash_type": "numbers are computed in float32 at least",
    "SequenceEmpty.dtype": "an empty list has no type",
    "StringNormalizer.locale": "upper and lower case as Python knows them",
    "TopK.sorted": "the result is sorted always",
}
OPERATORS = sorted(op for op in contracts() if not op.startswith("workbench."))


def schema(op):
    domain, _, op_type = op.rpartition(".")
    return onnx.defs.get_schema(op_type, onnx.defs.onnx_opset_version(), domain)


def function(op):
    return inspect.unwrap(contracts()[op].run)


def names_read(module, seen):
    """The texts in the source of a module, and of the modules of the operators that it imports."""
    seen.add(module)
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)} - seen
    for name in imported:
        if name.startswith("workbench.ops."):
            texts |= names_read(name, seen)
    return texts


@pytest.mark.parametrize("op", OPERATORS)
def test_every_attribute_is_read(op):
    read = names_read(function(op).__module__, set())
    passed_over = {f"{op}.{name}" for name in schema(op).attributes if name not in read}
    assert passed_over == {name for name in NEEDLESS if name.startswith(f"{op}.")}


@pytest.mark.parametrize("op", OPERATORS)
def test_every_operand_is_taken(op):
    parameters = list(inspect.signature(function(op)).parameters.values())[1:]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return
    operands = schema(op)
    assert len(parameters) == operands.max_input
    assert sum(p.default is p.empty for p in parameters) <= operands.min_input
