"""Every contract against the newest schema of its operator: no attribute and no operand may be passed over."""

import inspect

import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from tests.ort_operators import FALLING_BACK
from workbench.ops import contracts

# Attributes that a function need not read, and why.
NEEDLESS = {
    "Constant.sparse_value": "no function of ours holds one",
    "Constant.value_string": "torch has no strings",
    "Constant.value_strings": "torch has no strings",
    **dict.fromkeys(
        (f"{op}.kernel_shape" for op in ("Conv", "ConvInteger", "ConvTranspose", "DeformConv", "QLinearConv")),
        "the weight's shape says it",
    ),
    **dict.fromkeys((f"{op}.hidden_size" for op in ("GRU", "LSTM", "RNN")), "the weights' shapes say it"),
    "LinearAttention.chunk_size": "a hint for speed",
    "Optional.type": "an absent value needs no type",
    "Range.stash_type": "numbers are computed in float32 at least",
    "SequenceEmpty.dtype": "an empty list has no type",
    "StringNormalizer.locale": "upper and lower case as Python knows them",
    "com.microsoft.FusedConv.kernel_shape": "the weight's shape says it",
    "TopK.sorted": "the result is sorted always",
}
OPERATORS = sorted(op for op in contracts() if not op.startswith("workbench.") and op not in FALLING_BACK)
OWN = {f"{s.domain}.{s.name}": s for s in get_all_operator_schema() if s.domain == "com.microsoft"}


def schema(op):
    if op in OWN:
        return OWN[op]
    domain, _, op_type = op.rpartition(".")
    return onnx.defs.get_schema(op_type, onnx.defs.onnx_opset_version(), domain)


def function(op):
    return inspect.unwrap(contracts()[op].run)


def texts_read(thing, seen):
    """The texts in a function, in what it calls and in the tables that it looks into, as far as they are ours."""
    if isinstance(thing, str):
        return {thing}
    return set().union(*(texts_read(part, seen) for part in parts(thing, seen)))


def parts(thing, seen):
    if isinstance(thing, dict):
        return [*thing, *thing.values()]
    if isinstance(thing, tuple | frozenset):
        return thing
    if inspect.iscode(thing):
        return thing.co_consts
    thing = inspect.unwrap(getattr(thing, "__func__", thing))  # of a cached function, of a class method
    if not getattr(thing, "__module__", "").startswith("workbench.ops."):
        return ()
    if inspect.isclass(thing):
        return vars(thing).values()
    if not inspect.isfunction(thing) or thing in seen:
        return ()
    seen.add(thing)
    known = inspect.getclosurevars(thing)
    return [thing.__code__, *known.nonlocals.values(), *known.globals.values()]


@pytest.mark.parametrize("op", OPERATORS)
def test_every_attribute_is_read(op):
    read = texts_read(function(op), set())
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
