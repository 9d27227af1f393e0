"""ZIP archives whose files everyone may read once they are unpacked."""

from __future__ import annotations

import zipfile

_MODE = 0o100644  # a plain file, which its owner may write and everyone may read


def let_everyone_read(archive: zipfile.ZipFile) -> None:
    """Give every entry the mode 0644, before the archive is closed: `writestr` gives 0600, `write` the file's own."""
    for entry in archive.infolist():
        entry.external_attr = _MODE << 16
