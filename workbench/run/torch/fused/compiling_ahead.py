"""Groups compiled side by side before they are needed: each in one of several processes, which fill inductor's cache.

Inductor compiles one graph at a time in a process. The run's own process then generates the same source, which takes a
tenth of a second, and finds it compiled in the cache of the same folder.
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
from pathlib import Path
from typing import Any

from workbench.run.torch.executor.compilers import keep_compiled
from workbench.run.torch.fused.tracing import TracedGroup

_FEWEST = 8  # groups for each process, which takes some ten seconds to start and a second for each
_NAME = "workbench.run.torch.fused.compiling_ahead"
_MOST_PROCESSES = 8
_LOOKS_S = 0.1


def compile_ahead(groups: Mapping[Hashable, TracedGroup], cores: int, on_compiled: Callable[[int], None]) -> None:
    """Compile the groups that were not compiled before, by as many processes as that pays for. A group that cannot be
    compiled is left to the process that needs it, which says why.

    groups: by their structure. on_compiled: is called with the number of groups that are done; may raise to stop.
    """
    import torch

    missing = {_mark(structure): group for structure, group in groups.items() if not was_compiled(structure)}
    processes = processes_for(len(missing), cores)
    if processes < 2:
        return
    # What generated code depends on, and so the cache's key too.
    same = [str(torch.get_num_threads()), str(int(torch.backends.cuda.matmul.allow_tf32))]
    with tempfile.TemporaryDirectory() as folder:
        for number, group in enumerate(missing.values()):
            (Path(folder) / f"{number}.group").write_bytes(pickle.dumps(_portable(group)))
        command = [sys.executable, "-m", _NAME, folder, *same, str(processes)]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started = [subprocess.Popen([*command, str(share)], **quiet) for share in range(processes)]
        try:
            while any(process.poll() is None for process in started):
                on_compiled(len(list(Path(folder).glob("*.done"))))
                time.sleep(_LOOKS_S)
            for mark in missing:
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.touch()
        finally:
            for process in started:
                process.kill()
                process.wait()


def processes_for(groups: int, cores: int) -> int:
    """How many processes so many groups pay for; of fewer than two there is nothing to gain."""
    return min(cores // 2, _MOST_PROCESSES, groups // _FEWEST)


def was_compiled(structure: Hashable) -> bool:
    """Whether the cache has a group of that structure, compiled here before."""
    return _mark(structure).exists()


def _mark(structure: Hashable) -> Path:
    """A file in inductor's cache that says that a group of that structure was compiled there, by this torch."""
    import torch

    keep_compiled()
    of = repr((structure, torch.__version__, torch.get_num_threads(), torch.backends.cuda.matmul.allow_tf32))
    return Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]) / "groups" / hashlib.sha256(of.encode()).hexdigest()


def _portable(group: TracedGroup) -> tuple[Any, list[tuple[Any, ...]]]:
    """The module, and the operands without their elements."""
    forms = [(tuple(t.shape), tuple(t.stride()), t.dtype, str(t.device)) for t in group.tensors]
    return group.module, forms


def _compile_share(folder: Path, threads: int, tf32: bool, processes: int, share: int) -> None:
    """Every group whose number falls to this process."""
    import torch
    from torch._inductor import config

    keep_compiled()
    torch.set_num_threads(threads)
    torch.backends.cuda.matmul.allow_tf32 = tf32
    for path in sorted(folder.glob("*.group"))[share::processes]:
        module, forms = pickle.loads(path.read_bytes())
        operands: list[Any] = [
            torch.empty_strided(shape, stride, dtype=dtype, device=device) for shape, stride, dtype, device in forms
        ]
        try:
            with torch.inference_mode(), config.patch(compile_threads=1):
                torch._inductor.compile(module, operands)(*operands)
        except Exception:  # the process that needs it meets the same, and says so
            continue
        finally:
            path.with_suffix(".done").touch()


if __name__ == "__main__":
    threads, tf32, processes, share = map(int, sys.argv[2:])
    _compile_share(Path(sys.argv[1]), threads, bool(tf32), processes, share)
