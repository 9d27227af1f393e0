"""What lies beside the package in the repository lies inside it where it is installed; an editable install reads it
where it is, and would have copies beside it that nobody changes."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class InsideThePackage(BuildHookInterface[Any]):
    """Reads `inside` of pyproject.toml: where in the wheel each file or folder of the repository lies."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            build_data["force_include"].update(self.config["inside"])
