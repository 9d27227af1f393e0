"""Components of Streamlit whose modules are bundled, so that the browser sends one request instead of 36."""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

from streamlit.components.v2 import component
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

from workbench.presentation.view.report import COMPONENT, bundle

_STYLE = "style.css"


def bundled_component(name: str, entry: str, function: str) -> Any:
    """The component of that name. entry: its module in the view's folder; function: which that module exports.

    Streamlit finds components by the manifests of installed packages. The workbench also runs without being
    installed, so it registers a manifest itself.
    """
    manager, package = get_bidi_component_manager(), f"graph_workbench_{name}"
    full_name = f"{package}.{name}"
    if manager.get_component_asset_root(full_name) is None:
        config = ComponentConfig(name, "component")
        folder = Path(_bundled(entry, function).name)
        manager.register_from_manifest(ComponentManifest(package, "1", [config]), folder)
    return component(full_name, js="index.js", css=_STYLE)


@functools.cache
def _bundled(entry: str, function: str) -> tempfile.TemporaryDirectory[str]:
    """A folder with the bundled component, which is deleted when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="workbench-component-")
    component_folder = Path(folder.name) / "component"
    component_folder.mkdir()
    script = f"{bundle(entry)}\nexport {{ {function} as default }};\n"
    (component_folder / "index.js").write_text(script, encoding="utf-8")
    shutil.copy(COMPONENT / _STYLE, component_folder)
    return folder
