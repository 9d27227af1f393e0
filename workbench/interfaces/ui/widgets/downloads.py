"""Files as downloads."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

from workbench.support.archives import let_everyone_read


def as_download(files: Sequence[Path]) -> bytes:
    """The bytes of the file; of several, such as a model with external data, those of an archive."""
    if len(files) == 1:
        return files[0].read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for file in files:
            archive.write(file, file.name)
        let_everyone_read(archive)
    return buffer.getvalue()
