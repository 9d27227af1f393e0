"""Compiles a traced model into a .pt2 package of torch, and runs that in a process that imports torch only.

Used in the worker only.

Source: https://docs.pytorch.org/docs/stable/torch.compiler_aot_inductor.html
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.backends.failures import first_line, shortened
from workbench.backends.tensors import load_tensors, save_tensors
from workbench.backends.torch.executor.compilers import enable_compile_cache
from workbench.backends.torch.executor.opening import open_executor
from workbench.backends.torch.traced_run import TracedRun, trace_run
from workbench.errors import UserError
from workbench.support.child_process import last_line

if TYPE_CHECKING:
    from workbench.backends.torch.executor.executor import TorchExecutor

_Report = Callable[[dict[str, Any]], None]
_STAGES = ("tracing the run", "compiling the package", "running it in a process with only torch")
WITHOUT_TF32 = "torch.backends.cudnn.allow_tf32 = False"  # torch allows it in convolutions of float32
# A user of the package runs it in the same way. Arguments: the package, the files of its inputs and outputs.
_TORCH_ONLY_PROGRAM = f"""
import sys
import torch
from torch._inductor import aoti_load_package

{WITHOUT_TF32}
package, inputs, outputs = sys.argv[1:]
results = aoti_load_package(package)(*torch.load(inputs))
torch.save([result.cpu() for result in results], outputs)
"""


class PackageError(UserError):
    """No package can be made of the graph."""


def write_package(request: Mapping[str, Any], report: _Report) -> dict[str, Any]:
    """Compile `model` for the shapes of the tensors in `inputs` into `target`, and run it in a process with only torch.

    Writes the results to `outputs`. Returns names and types of inputs and outputs, in order.
    """
    from workbench.backends.torch.executor.executor import outputs_to_numpy

    def report_stage(stage: int) -> None:
        report({"stage": _STAGES[stage], "done": stage, "total": len(_STAGES)})

    report_stage(0)
    executor = open_executor(request["model"], request["device"], request["dtype"])
    uploaded = executor.upload(load_tensors(request["inputs"]))
    traced = _traced(executor, {name: uploaded[name] for name in executor.graph.inputs})
    report_stage(1)
    _compile(traced, request["target"])
    report_stage(2)
    results = dict(zip(traced.outputs, _run_with_torch_only(request["target"], traced), strict=True))
    save_tensors(request["outputs"], outputs_to_numpy(results))
    inputs = zip(traced.inputs, traced.operands, strict=True)
    return {
        "inputs": [[name, _described(tensor)] for name, tensor in inputs],
        "outputs": [[name, _described(tensor)] for name, tensor in results.items()],
    }


def _traced(executor: TorchExecutor, tensors: Mapping[str, Any]) -> TracedRun:
    import torch

    results = executor.run_tensors(tensors)  # fallbacks to ONNX Runtime are known only after a run
    if executor.fallbacks:
        operators = ", ".join(sorted(executor.fallbacks))
        raise PackageError(f"No package can be made, since torch does not run {operators}; export it as ONNX.")
    other_output = next((name for name, value in results.items() if not isinstance(value, torch.Tensor)), None)
    if other_output is not None:
        raise PackageError(f"No package can be made, since output '{other_output}' is not a tensor; export it as ONNX.")
    try:
        with torch.inference_mode():
            return trace_run(executor, tensors)
    except Exception as error:  # an operator that needs the values of a tensor may raise anything
        raise PackageError(f"The run cannot be traced: {first_line(error)}; export it as ONNX.") from error


def _compile(traced: TracedRun, target: str) -> None:
    enable_compile_cache()  # cache compiled code between runs
    import torch
    from torch._inductor import aoti_compile_and_package

    try:
        program = torch.export.export(traced.module, traced.operands, strict=False)
        aoti_compile_and_package(program, package_path=target)
    except Exception as error:  # compilers may raise anything
        raise PackageError(f"The package cannot be compiled: {first_line(error)}; export it as ONNX.") from error


def _run_with_torch_only(package: str, traced: TracedRun) -> list[Any]:
    """The outputs of the package, on the CPU, computed in a process with only torch."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = Path(folder) / "inputs.pt", Path(folder) / "outputs.pt"
        torch.save(traced.operands, inputs)
        command = [sys.executable, "-I", "-c", _TORCH_ONLY_PROGRAM, package, str(inputs), str(outputs)]
        process = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=subprocess.PIPE, text=True
        )
        if process.returncode:
            last = shortened(last_line(process.stderr) or f"exit code {process.returncode}")
            raise PackageError(
                f"The package was compiled, but does not run in a process with only torch: {last}; export it as ONNX."
            )
        results: list[Any] = torch.load(outputs)
        return results


def _described(tensor: Any) -> str:
    """The type and shape of a tensor: "float32[1, 3, 224, 224]"."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
