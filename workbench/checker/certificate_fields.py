"""The fields that a certificate may have; a field that the checker does not read is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.checker.outcome import Unreadable, escaped, listed

_Form = Mapping[str, Any]  # by field, the form of its object or of each item of its list; None: not an object
ANY = "*"  # stands for names that are not fixed


def _fields(names: str, **objects: Any) -> dict[str, Any]:
    return dict.fromkeys(names.split()) | objects


_CONSTANT = _fields("type shape sha256 values")
_BYTES = _fields("bytes")
_NODE: dict[str, Any] = _fields("op domain overload inputs outputs")
_GRAPH = _fields("inputs outputs", nodes=_NODE, constants={ANY: _CONSTANT})
_ATTRIBUTE = _fields(
    "int float ints floats",
    text=_BYTES,
    texts=_BYTES,
    type=_BYTES,
    tensor=_CONSTANT,
    graph=_GRAPH,
    graphs=_GRAPH,
    reference=_fields("name type"),
)
_NODE["attributes"] = {ANY: _ATTRIBUTE}
_FUNCTION = _fields("domain name overload parameters", graph=_GRAPH, opsets={ANY: None}, defaults={ANY: _ATTRIBUTE})
_EDIT: dict[str, Any] = _fields(
    "",
    remove=_NODE,
    insert=_NODE,
    drop={ANY: _CONSTANT},
    constants={ANY: _CONSTANT},
    types={ANY: None},
    functions=_FUNCTION,
    opsets={ANY: None},
)
_EDIT["inside"] = _fields("node", bodies=_fields("body", edit=_EDIT))
_BOUND: dict[str, _Form] = {
    "transposes": _fields("kind weigh in_order"),
    "casts": _fields("kind weigh in_type"),
    "traffic": _fields("kind in_order in_type"),
    "groups": _fields("kind rules"),
    "order": _fields("kind"),
    "plan": _fields("kind", offsets={ANY: None}),
}
_FILE = _fields("sha256", external={ANY: None})
CERTIFICATE: _Form = _fields(
    "format version mode digest",
    model=_FILE,
    output=_FILE,
    dims={ANY: None},
    steps=_fields("pass", rewrites=_fields("rule", edit=_EDIT)),
    bounds=_BOUND,
)


def check_form(content: Any, form: _Form | None, where: str) -> None:
    """Raises Unreadable for a field that the form does not have. Types of values are checked when they are read."""
    if isinstance(content, list):
        for item in content:
            if isinstance(item, dict | list):
                check_form(item, form, where)
        return
    if not isinstance(content, dict):
        return
    if form is None:
        raise Unreadable(f"the certificate's {where} is an object and must not be one")
    if form is _BOUND:
        form = _BOUND.get(str(content.get("kind")), {"kind": None})
    if ANY not in form and not content.keys() <= form.keys():
        unread = sorted(content.keys() - form.keys())
        raise Unreadable(f"the certificate's {where} has {listed(unread)}, which is not read")
    for name, inner in content.items():
        if isinstance(inner, dict | list):
            check_form(inner, form[ANY] if ANY in form else form[name], f"{escaped(name, 40)} of {where}"[:120])
