"""Calls of ONNX's operators in the form of another opset than the one for which rules are written.

In memory such a call belongs to a domain of its own, "ai.onnx.opset11": no rule, contract or inference knows it, so
none can mistake it for the operator of the same name in the graph's opset. Its results keep the types that they have at
that opset. A file has it in ONNX's domain, at that opset.
"""

from __future__ import annotations

from collections.abc import Mapping

_PREFIX = "ai.onnx.opset"


def versioned_domain(opset: int) -> str:
    """The domain of calls in the form of this opset."""
    return f"{_PREFIX}{opset}"


def opset_of_domain(domain: str) -> int | None:
    """The opset whose form the calls of a domain have; None for any other domain."""
    number = domain.removeprefix(_PREFIX)
    return int(number) if domain.startswith(_PREFIX) and number.isdecimal() else None


def fixed_opset(imports: Mapping[str, int]) -> int | None:
    """The opset at which a graph with these imports must be written, since it has calls of that form; else None."""
    return next((opset for opset in map(opset_of_domain, imports) if opset is not None), None)


def plain_imports(imports: Mapping[str, int]) -> dict[str, int]:
    """The imports without those domains, as a file has them."""
    return {domain: version for domain, version in imports.items() if opset_of_domain(domain) is None}
