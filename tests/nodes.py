"""Several nodes of Ray on this machine, each with a queue, a cache and temporary files of its own, as machines have."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install '.[ray]'")
from ray.cluster_utils import Cluster  # noqa: E402

from workbench.interfaces.study.cluster.jobs import Site  # noqa: E402


@dataclass
class Nodes:
    """A head without CPUs, on which this process is, and nodes that are started and killed."""

    cluster: Any
    folder: Path
    nodes: dict[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.cluster.address

    def start(self, name: str, **environment: str) -> None:
        own = self.folder / name
        (own / "tmp").mkdir(parents=True)
        variables = {
            "WORKBENCH_QUEUE": str(own / "turns"),
            "WORKBENCH_CACHE": str(own / "cache"),
            "TMPDIR": str(own / "tmp"),
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        self.nodes[name] = self.cluster.add_node(num_cpus=1, env_vars=variables, wait=False)

    def place(self, name: str) -> str:
        """As a block says where it was measured."""
        return f"{platform.node()}/{self.nodes[name].node_id[:8]} cpu"

    def turns(self, name: str) -> Path:
        return self.folder / name / "turns"

    def kill(self, name: str) -> None:
        """As if the machine lost its power: everything of the node by SIGKILL, what it measures too."""
        raylet = psutil.Process(_pid(self.nodes.pop(name), "raylet"))
        family = [raylet, *raylet.children(recursive=True)]
        for one in family:
            one.suspend()
        for one in family:
            one.send_signal(signal.SIGKILL)


@dataclass(frozen=True)
class Counting:
    """A job that adds the numbers from 1 to 4 to its record, and ends its process by SIGKILL after the second, once
    that was told; when it begins again it goes on."""

    record: str
    always: bool = False
    files = ()

    def run(self, site: Site) -> list[str]:
        place = site.path_of(self.record)
        while len(lines := place.read_text().split()) < 4:
            with open(place, "a") as file:
                file.write(f"{len(lines) + 1}\n")
            site.on_progress({"stage": "counting", "done": len(lines), "total": 4})
            if self.always or len(lines) == 1:
                time.sleep(2)  # progress is asked for more often
                os.kill(os.getpid(), signal.SIGKILL)
        return lines


@dataclass(frozen=True)
class Priority:
    """A job that tells the niceness of a process that it starts."""

    record = None
    files = ()

    def run(self, site: Site) -> int:
        code = "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"
        return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


def _pid(node: Any, kind: str) -> int:
    ((info),) = node.all_processes[kind]
    return info.process.pid


@contextmanager
def running_nodes() -> Iterator[Nodes]:
    with (
        tempfile.TemporaryDirectory(prefix="n-", dir="/tmp", ignore_cleanup_errors=True) as folder,  # short: sockets
        pytest.MonkeyPatch.context() as patch,
    ):
        (rays := Path(folder) / "ray").mkdir()
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": str(rays), "object_store_memory": 10**8}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            yield Nodes(cluster, Path(folder))
        finally:
            cluster.shutdown()
