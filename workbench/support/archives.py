"""Entries of a ZIP archive that everyone may read once they are unpacked."""

from __future__ import annotations

import time
import zipfile

_MODE = 0o100644  # a plain file, which its owner may write and everyone may read


def zip_entry(name: str) -> zipfile.ZipInfo:
    """An entry for `ZipFile.writestr`, which gives an entry by name alone the mode 0600."""
    entry = zipfile.ZipInfo(name, time.localtime()[:6])
    entry.external_attr = _MODE << 16
    return entry
