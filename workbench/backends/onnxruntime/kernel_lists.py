"""The kernels that the installed ONNX Runtime was built with, by its own registry."""

from __future__ import annotations

from workbench.errors import UserError
from workbench.planning.precision.kernel_types import KernelForm, KernelLists, RuntimeKernels

_PROVIDERS = {"onnxruntime-cpu": "CPUExecutionProvider", "onnxruntime-cuda": "CUDAExecutionProvider"}


class InstalledKernels(KernelLists):
    """Source: `get_all_opkernel_def`, from which ONNX Runtime's docs/OperatorKernels.md is made."""

    def of(self, runtime: str) -> RuntimeKernels:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        provider = _PROVIDERS[runtime]
        kernels: dict[tuple[str, str], list[KernelForm]] = {}
        for known in state.get_all_opkernel_def():
            if known.provider == provider:
                types = {parameter: frozenset(names) for parameter, names in known.type_constraints.items()}
                first, last = known.version_range
                kernels.setdefault((known.domain, known.op_name), []).append(KernelForm(first, last, types))
        if not kernels:
            raise UserError(
                f"the ONNX Runtime {onnxruntime.__version__} installed here has no kernels of {provider}: install a "
                "build that has them, or name another runtime"
            )
        return RuntimeKernels(f"ONNX Runtime {onnxruntime.__version__}, {provider},", kernels)
