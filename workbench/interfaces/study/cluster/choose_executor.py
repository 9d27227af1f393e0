"""The executor that `--on` names: this machine, a local Ray instance, or a Ray cluster."""

from __future__ import annotations

import importlib
import logging
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from workbench.backends.failures import first_line
from workbench.interfaces.study.cluster.jobs import Executor, OnThisMachine
from workbench.interfaces.study.cluster.on_ray import ClusterError, OnRay
from workbench.support.extras import adding
from workbench.support.owned_folders import owned_folder

OWN_RAY = "ray"
JOIN_LIMIT_S = 15.0  # the time that a cluster has to answer
_STORE = 512 * 2**20  # bytes of the object store of a local Ray, which reads models from disk
_ADDRESS = re.compile(r"[A-Za-z0-9.\-\[\]:]+:\d{1,5}")
_QUIET = {"log_to_driver": False, "logging_level": logging.CRITICAL}


@contextmanager
def executor_on(on: str | None) -> Iterator[Executor]:
    """The executor for `on`: None is this machine without Ray, "ray" a local Ray, host:port a cluster.

    Raises ClusterError.
    """
    if on is None:
        from workbench.run.worker.client import Worker

        with Worker() as worker:
            yield OnThisMachine(worker)
        return
    settings = (
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token(), "RAY_worker_niceness": "0"} if on == OWN_RAY else {}
    )
    with _environment({"RAY_USAGE_STATS_ENABLED": "0", **settings}):
        ray = _package()
        with _local_ray(ray) if on == OWN_RAY else _joined_cluster(ray, on):
            executor = OnRay(ray)
            try:
                yield executor
            finally:
                executor.close()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, which Ray reads on import and passes on to its processes, and restore them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _package() -> Any:
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise ClusterError(f"Ray is not installed; {adding('ray')} adds it") from None
    # Ray prints lost nodes to stdout, where tables and JSON go; our notes say the same. Ray's debugger sets this too.
    ray._private.worker._worker_logs_enabled = False
    return ray


@contextmanager
def _local_ray(ray: Any) -> Iterator[None]:
    """A local Ray instance, which ends with the block.

    Ray listens on every address of the machine. Only clients with the token of `_token` are answered
    (https://docs.ray.io/en/latest/ray-security/token-auth.html).
    """
    with owned_folder("wb-ray-") as folder:  # a short name: paths of sockets have at most 107 bytes
        options = {"include_dashboard": False, "object_store_memory": _STORE, "_temp_dir": str(folder), **_QUIET}
        try:
            _connect(ray, "Ray does not start here: {}", address="local", num_cpus=os.cpu_count(), **options)
            yield
        finally:
            ray.shutdown()


def _connect(ray: Any, sentence: str, **options: Any) -> None:
    """Call `ray.init`. sentence: of the error, with {} for the reason. Raises ClusterError."""
    try:
        ray.init(**options)
    except Exception as error:  # Ray's errors have no common class
        raise ClusterError(sentence.format(first_line(error))) from None


@cache
def _token() -> str:
    """A random token, one per process, since Ray reads it once."""
    return secrets.token_hex(32)


@contextmanager
def _joined_cluster(ray: Any, address: str) -> Iterator[None]:
    if not _ADDRESS.fullmatch(address):
        raise ClusterError(
            f"'{address[:80]}' is not an address of a Ray cluster; write --on ray, or host:port of its head"
        )
    _check_answers(address)
    message = (  # another version of Ray or Python, or this machine is not a node
        f"the Ray cluster at {address} cannot be joined: {{}}; the driver runs on one of its nodes "
        f"(`ray start --address={address} --num-cpus=0` makes this machine one)"
    )
    try:
        _connect(ray, message, address=address, **_QUIET)
        yield
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Raise ClusterError if no cluster answers within JOIN_LIMIT_S; `ray.init` itself tries for minutes."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=JOIN_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"no Ray cluster answers at {address} within {JOIN_LIMIT_S:g} s; check that its head runs and is reachable"
        ) from None
    if completed.returncode == 0:
        return
    if "token" in completed.stderr.lower():
        raise ClusterError(
            f"the Ray cluster at {address} asks for a token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to its own"
        )
    raise ClusterError(f"no Ray cluster answers at {address}; check that its head runs and is reachable from here")
