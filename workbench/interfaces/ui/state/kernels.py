"""The inspector's sections on the kernel that ran a node when the page Measure measured the backend `fused`."""

from __future__ import annotations

from typing import Any

from workbench.presentation.view.ids import GROUP_ID
from workbench.run.measurement.measurement_result import Measurement


def kernel_sections(measured: Measurement | None, id_: str) -> list[dict[str, Any]]:
    """The sections for a node or a group, of the last variant with a kernel for it; [] without one."""
    ran = {} if measured is None else measured.ran
    name = id_.removeprefix(GROUP_ID)
    for label, variant in reversed(ran.items()):
        kernel = next((k for k in variant.kernels if name == k.group or name in k.operators), None)
        if kernel is None:
            continue
        first = next((k for k in variant.kernels if k.group == kernel.same_as), kernel)
        rows = [
            ["run by", f"{kernel.by}, in '{label}'"],
            ["how", kernel.how],
            ["operators in it", ", ".join(kernel.operators)],
            ["time", f"{kernel.time_ms:,.3f} ms"],
            ["one by one", f"{kernel.torch_ms:,.3f} ms"],
        ]
        if kernel.kernels is not None:
            rows.append(["bytes by inductor", f"{kernel.bytes:,}"])
        if kernel.same_as:
            rows.append(["shared with", kernel.same_as])
        results: list[dict[str, Any]] = [{"title": "Kernel", "open": True, "rows": rows}]
        source = [{"title": "Generated source", "open": False, "text": first.source}] if first.source else []
        return [*results, *source]
    return []
