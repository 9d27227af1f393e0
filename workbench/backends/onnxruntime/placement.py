"""Which execution provider ONNX Runtime gives each node: used inside the worker only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workbench.backends.onnxruntime.sessions import open_session, provider_of

_RECORD = {"session.record_ep_graph_assignment_info": "1"}


def assigned_providers(request: Mapping[str, Any], report: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """By name of a node that ONNX Runtime assigned, in `model` as it optimizes it: the provider.

    The device's own provider is tried first if this ONNX Runtime has it, then that of the CPU.
    """
    import onnxruntime as ort

    has_own = provider_of(request["device"]) in ort.get_available_providers()
    session = open_session(request["model"], "all", device=request["device"] if has_own else "cpu", entries=_RECORD)
    parts = session.get_provider_graph_assignment_info()
    return {"providers": {node.name: part.ep_name for part in parts for node in part.get_nodes()}}
