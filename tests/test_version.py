"""The version is that of the first section of CHANGELOG.md, and every section has its day."""

from __future__ import annotations

import datetime
import re
import tomllib

from tests.conftest import ROOT


def test_the_changelog_begins_with_the_version_and_its_sections_have_days():
    titles = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    versions, days = zip(*(title.split(", ") for title in titles), strict=True)
    assert versions[0] == tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert sorted(days, reverse=True) == list(days) and all(map(datetime.date.fromisoformat, days))
    numbers = [tuple(map(int, version.split("."))) for version in versions]
    assert sorted(set(numbers), reverse=True) == numbers
