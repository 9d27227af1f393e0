"""Compiles groups in several processes before they are needed; the processes fill inductor's cache.

Inductor compiles one graph at a time in a process. The process of the run later generates the same source, in a tenth
of a second, and finds the compiled code in the cache.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from workbench.backends.torch.executor.compilers import enable_compile_cache
from workbench.backends.torch.fused.tracing import TracedGroup
from workbench.support.child_process import module_command
from workbench.support.tf32 import tf32

_GROUPS_PER_PROCESS = 8  # a process takes about ten seconds to start, and a second for each group
_NAME = "workbench.backends.torch.fused.compiling_ahead"
_MAX_PROCESSES = 8
_POLL_S = 0.1


def compile_ahead(groups: Mapping[Hashable, TracedGroup], cores: int, on_compiled: Callable[[int], None]) -> None:
    """Compile the groups that were not compiled before, if several processes gain time.

    A group that cannot be compiled is left to the process that needs it, which reports the reason.
    groups:      by their structure.
    on_compiled: is called with the number of compiled groups; may raise to stop.
    """
    import torch

    missing = {_mark(structure): group for structure, group in groups.items() if not was_compiled(structure)}
    processes = processes_for(len(missing), cores)
    if processes < 2:
        return
    # Generated code and the key of the cache depend on these settings.
    settings = [str(torch.get_num_threads()), torch.backends.cuda.matmul.fp32_precision]
    with tempfile.TemporaryDirectory() as folder:
        for number, group in enumerate(missing.values()):
            (Path(folder) / f"{number}.group").write_bytes(pickle.dumps(_portable(group)))
        command = module_command(_NAME, folder, *settings, str(processes))
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started = [subprocess.Popen([*command, str(share)], **quiet) for share in range(processes)]
        try:
            while any(process.poll() is None for process in started):
                on_compiled(len(list(Path(folder).glob("*.done"))))
                time.sleep(_POLL_S)
            for number, mark in enumerate(missing):
                if (Path(folder) / f"{number}.done").exists():  # not those of a process that died
                    mark.parent.mkdir(parents=True, exist_ok=True)
                    mark.touch()
        finally:
            for process in started:
                process.kill()
                process.wait()


def processes_for(groups: int, cores: int) -> int:
    """The number of processes for this many groups; fewer than two gain nothing."""
    return min(cores // 2, _MAX_PROCESSES, groups // _GROUPS_PER_PROCESS)


def was_compiled(structure: Hashable) -> bool:
    """Whether a group of that structure was compiled into the cache before, or cannot be compiled."""
    return _mark(structure).exists()


def _mark(structure: Hashable) -> Path:
    """The file in inductor's cache that marks a group of that structure as compiled by this version of torch."""
    import torch

    enable_compile_cache()
    key = repr((structure, torch.__version__, torch.get_num_threads(), torch.backends.cuda.matmul.fp32_precision))
    return Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]) / "groups" / hashlib.sha256(key.encode()).hexdigest()


def _portable(group: TracedGroup) -> tuple[Any, list[tuple[Any, ...]]]:
    """The module, and the operands without their elements."""
    layouts = [(tuple(t.shape), tuple(t.stride()), t.dtype, str(t.device)) for t in group.tensors]
    return group.module, layouts


def _compile_share(folder: Path, processes: int, share: int) -> None:
    """Compile this process's share of the groups."""
    import torch
    from torch._inductor import config

    enable_compile_cache()
    parent = os.getppid()
    for path in sorted(folder.glob("*.group"))[share::processes]:
        if os.getppid() != parent:  # it was killed, and could not end this process
            return
        module, layouts = pickle.loads(path.read_bytes())
        operands: list[Any] = [
            torch.empty_strided(shape, stride, dtype=dtype, device=device).zero_()  # an index is in range
            for shape, stride, dtype, device in layouts
        ]
        try:
            with torch.inference_mode(), config.patch(compile_threads=1):
                torch._inductor.compile(module, operands)(*operands)
        except Exception:  # the process that needs the group reports the same error
            continue
        finally:
            path.with_suffix(".done").touch()


if __name__ == "__main__":
    import torch

    folder, threads, precision, processes, share = sys.argv[1:]
    torch.set_num_threads(int(threads))
    with nullcontext() if precision == "none" else tf32(precision == "tf32"):
        _compile_share(Path(folder), int(processes), int(share))
