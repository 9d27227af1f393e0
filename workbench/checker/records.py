"""Reads a certificate's JSON, which is not trusted: size, depth, types and numbers are bounded."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator
from typing import Any, NoReturn

from workbench.checker.certificate_fields import CERTIFICATE, check_form
from workbench.checker.outcome import DoesNotHold, Unreadable, escaped, in_quotes

FORMAT, READ_VERSION = "graph-workbench certificate", 3
LARGEST_CERTIFICATE = 64 * 2**20  # bytes
MAX_PARTS = 8_000_000  # items of lists and objects, each of up to 100 bytes in memory
LARGEST_NUMBER = 2**256
DIGEST = "digest"


class Fields:
    """An object of the certificate, whose fields are read with the type that they must have.

    where: the place of the object, for sentences. Raises Unreadable for a field that is missing or of another type.
    """

    def __init__(self, fields: Any, where: str) -> None:
        if not isinstance(fields, dict):
            raise Unreadable(f"the certificate's {where or 'content'} is {_kind(fields)} and must be an object")
        self.fields: dict[str, Any] = fields
        self.where = where

    def has(self, name: str) -> bool:
        return self.fields.get(name) is not None

    def text(self, name: str) -> str:
        return as_text(self._field(name), self._where(name))

    def whole(self, name: str) -> int:
        return as_int(self._field(name), self._where(name))

    def items(self, name: str) -> list[Any]:
        """A list; an empty one if the field is missing."""
        return as_list(self.fields.get(name, []), self._where(name))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(as_text(item, self._where(name)) for item in self.items(name))

    def wholes(self, name: str) -> tuple[int, ...]:
        return tuple(as_int(item, self._where(name)) for item in self.items(name))

    def records(self, name: str, item_name: str) -> Iterator[Fields]:
        """The objects of a list, numbered from 1. item_name: what an item is, for sentences."""
        for number, item in enumerate(self.items(name), 1):
            yield Fields(item, self._where(f"{item_name} {number:,}"))

    def record(self, name: str) -> Fields:
        return Fields(self._field(name), self._where(name))

    def named(self, name: str) -> dict[str, Any]:
        """An object whose keys are names; an empty one if the field is missing."""
        return Fields(self.fields.get(name, {}), self._where(name)).fields

    def _field(self, name: str) -> Any:
        if name not in self.fields:
            raise Unreadable(f"the certificate's {self.where or 'content'} has no field {in_quotes(name)}")
        return self.fields[name]

    def _where(self, name: str) -> str:
        return f"{self.where}, {name}" if self.where else name


def as_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise Unreadable(f"the certificate's {where} is {_kind(value)} and must be text")
    return value


def as_list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise Unreadable(f"the certificate's {where} is {_kind(value)} and must be a list")
    return value


def as_int(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unreadable(f"the certificate's {where} is {_kind(value)} and must be a whole number")
    if abs(value) >= LARGEST_NUMBER:
        raise Unreadable(f"the certificate's {where} is a number of {value.bit_length():,} bits; at most 256 are read")
    return value


def as_finite(value: Any, where: str) -> float:
    """A number, or one of "nan", "inf", "-inf"."""
    if value in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Unreadable(f"the certificate's {where} is {_kind(value)} and must be a finite number")
    return float(as_int(value, where)) if isinstance(value, int) else value


def read_certificate(path: str | os.PathLike[str]) -> Fields:
    """The certificate in a file, after its format and its digest. Raises Unreadable or DoesNotHold."""
    content = _parsed(_bytes_of(path))
    certificate = Fields(content, "")
    if certificate.fields.get("format") != FORMAT:
        raise Unreadable("it is not a certificate of Graph Workbench; write one with optimize --certificate")
    version = certificate.whole("version")
    if version != READ_VERSION:
        raise Unreadable(f"it has version {version}, and this checker reads {READ_VERSION}; write it again")
    digest = certificate.text(DIGEST)
    if content_digest(certificate.fields) != digest:
        raise DoesNotHold("the digest over the certificate is not that of its contents: it was edited or cut")
    check_form(content, CERTIFICATE, "content")
    return certificate


def content_digest(content: dict[str, Any]) -> str:
    """SHA-256 of all fields except the digest, as JSON with sorted keys and without spaces."""
    rest = {name: value for name, value in content.items() if name != DIGEST}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _bytes_of(path: str | os.PathLike[str]) -> bytes:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("it is not a regular file")
        if status.st_size > LARGEST_CERTIFICATE:
            raise Unreadable(f"it has {status.st_size:,} bytes; at most {LARGEST_CERTIFICATE:,} are read")
        with open(path, "rb") as file:
            return file.read(LARGEST_CERTIFICATE + 1)
    except OSError as error:
        raise Unreadable(f"it cannot be read ({error.strerror or error})") from None


def _parsed(data: bytes) -> Any:
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_PARTS:
        raise Unreadable(f"it has more than {MAX_PARTS:,} parts")
    try:
        return json.loads(data, parse_constant=_refuse_number, object_pairs_hook=_without_duplicates)
    except RecursionError:
        raise Unreadable("it is nested too deep to be a certificate") from None
    except ValueError as error:  # also a text that is not UTF-8, and a number of thousands of digits
        raise Unreadable(f"it is not JSON ({escaped(' '.join(str(error).split()))})") from None


def _refuse_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise Unreadable("one of its objects has a field twice; readers differ in which one they take")
    return result


def _kind(value: Any) -> str:
    names = {str: "text", dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return names.get(type(value), f"the number {str(value)[:30]}")
