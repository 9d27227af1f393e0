"""Forged certificates: files with what anyone could write into them, and every field of a file changed in turn."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from onnx import ModelProto, parser

from tests.certifying import Certified
from workbench.checker.files import sha256_of
from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.records import FORMAT, READ_VERSION, content_digest

Json = dict[str, Any]
RELU = "g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }"
NEG = "g (float[2,3] x) => (float[2,3] y) { y = Neg(x) }"


def model_of(text: str, opset: int = 17) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "d": 1]>\n{text}')


def forged(folder: Path, model: ModelProto | str, output: ModelProto | str, *steps: Json, **fields: Any) -> Certified:
    """A certificate with these steps of these files, whose SHA-256 and digest fit."""
    found = Certified(folder / "m.onnx", folder / "out.onnx", folder / "c.json")
    for path, proto in ((found.model, model), (found.output, output)):
        path.write_bytes((model_of(proto) if isinstance(proto, str) else proto).SerializeToString())
    files = {
        name: {"sha256": sha256_of(path), "external": _beside(path)}
        for name, path in (("model", found.model), ("output", found.output))
    }
    content = {"format": FORMAT, "version": READ_VERSION, "mode": "exact", "dims": {}, "bounds": []}
    content |= files | {"steps": list(steps)} | fields
    found.path.write_text(json.dumps(content | {"digest": content_digest(content)}))
    return found


def _beside(path: Path) -> dict[str, str]:
    tensors = ModelProto.FromString(path.read_bytes()).graph.initializer
    names = {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}
    return {name: sha256_of(path.with_name(name)) for name in names if path.with_name(name).is_file()}


def node(op: str, reads: list[str], makes: list[str], **attributes: Any) -> Json:
    return {"op": op, "inputs": reads, "outputs": makes, "attributes": attributes}


def rewriting(edit: Json, name: str = "fold_constants", **fields: Any) -> Json:
    """A step of one rewrite."""
    return {"pass": name, "rewrites": [{"edit": edit} | fields]}


def refusal(found: Certified) -> str:
    """The sentence with which it is refused, one line and foreseen."""
    with pytest.raises((DoesNotHold, Unreadable)) as caught:
        found.check()
    sentence = str(caught.value)
    assert "following it failed" not in sentence and "\n" not in sentence
    return sentence


def changed(text: str, change: Callable[[ModelProto], object]) -> ModelProto:
    model = model_of(text)
    change(model)
    return model


# ---- every field in turn -------------------------------------------------------------------------


def changed_files(model: ModelProto) -> Iterator[tuple[str, ModelProto]]:
    """The model with one field changed, left out, set, or given twice, at every place and for every field that ONNX
    has, by name."""
    for path, message in _messages(model):
        for field in message.DESCRIPTOR.fields:
            for how, value in _lies(field, getattr(message, field.name), _is_there(message, field)):
                other = ModelProto()
                other.CopyFrom(model)
                _put(_at(other, path), field, value)
                yield f"{'.'.join(map(str, path))}.{field.name}: {how}", other


def changed_contents(content: Json) -> Iterator[tuple[str, Json]]:
    """The certificate with one value changed, left out or given twice, at every place of each kind."""
    seen: dict[str, int] = {}
    for path, value in list(_values(content)):
        kind = ".".join("[]" if isinstance(key, int) else str(key) for key in path)
        seen[kind] = seen.get(kind, 0) + 1
        if not path or path == ("digest",) or seen[kind] > 3:
            continue
        for how, lie in _json_lies(value):
            other = copy.deepcopy(content)
            place: Any = other
            for key in path[:-1]:
                place = place[key]
            if lie is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = lie
            yield f"{'.'.join(map(str, path))}: {how}", other
        if isinstance(value, dict):
            other = copy.deepcopy(content)
            place = other
            for key in path:
                place = place[key]
            place["another"] = 1
            yield f"{'.'.join(map(str, path))}: a field more", other


def _messages(message: Message, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Message]]:
    yield path, message
    for field, held in message.ListFields():
        if field.message_type is None:
            continue
        if field.is_repeated:
            for i, item in enumerate(held):
                yield from _messages(item, (*path, field.name, i))
        else:
            yield from _messages(held, (*path, field.name))


def _at(message: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        message = message[key] if isinstance(key, int) else getattr(message, key)
    return message


def _is_there(message: Message, field: Any) -> bool:
    return any(one.name == field.name for one, _ in message.ListFields())


def _lies(field: Any, held: Any, there: bool) -> Iterator[tuple[str, Any]]:
    if there:
        yield "left out", None
    if field.is_repeated:
        items = list(held)
        if items:
            yield "first twice", [items[0], *items]
            yield "last twice", [*items, items[-1]]
            yield "in reverse", items[::-1]
            yield "without the last", items[:-1]
        if field.message_type is None:
            yield "one more", [*items, _other(field, None)]
            if items:
                yield "another first", [_other(field, items[0]), *items[1:]]
        else:
            yield "an empty one more", [*items, field.message_type._concrete_class()]
        return
    if field.message_type is None:
        yield "another", _other(field, held)
    elif not there:
        yield "empty", field.message_type._concrete_class()


def _other(field: Any, held: Any) -> Any:
    if field.enum_type is not None:
        numbers = [value.number for value in field.enum_type.values]
        return numbers[(numbers.index(held) + 1) % len(numbers)] if held in numbers else numbers[-1]
    if field.cpp_type == field.CPPTYPE_STRING:
        text: Any = held or ("x" if field.type == field.TYPE_STRING else b"x")
        return text + text[:1] if held else text
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return (held or 0.0) + 1.0
    return (held or 0) + 1


def _put(message: Any, field: Any, value: Any) -> None:
    message.ClearField(field.name)
    if value is None:
        return
    if field.is_repeated:
        getattr(message, field.name).extend(value)
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, value)


def _values(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in items:
        yield from _values(held, (*path, key))


def _json_lies(value: Any) -> Iterator[tuple[str, Any]]:
    yield "left out", ...
    if isinstance(value, bool):
        yield "the other", not value
    elif isinstance(value, int):
        yield from (
            ("one more", value + 1),
            ("one less", value - 1),
            ("twice", 2 * value),
            ("none", 0),
            ("huge", 10**15),
        )
    elif isinstance(value, str):
        yield from (("longer", f"{value}x"), ("empty", ""), ("a sentence", "checked\n- proven: nothing is less"))
    elif isinstance(value, list):
        yield "empty", []
        if value:
            yield from (("first twice", [value[0], *value]), ("without the last", value[:-1]), ("turned", value[::-1]))
    elif isinstance(value, dict):
        yield "empty", {}
    yield "null", None
