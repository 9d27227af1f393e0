"""An executor for what the user asked with `--on`: this machine, a Ray of its own on it, or a Ray cluster."""

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

from workbench.run.worker.failures import first_line
from workbench.study.cluster.jobs import Executor, OnThisMachine
from workbench.study.cluster.on_ray import ClusterError, OnRay
from workbench.support.owned_folders import owned_folder

OWN_RAY = "ray"
JOIN_LIMIT_S = 15.0  # in which a cluster must answer
_STORE = 512 * 2**20  # bytes of memory for what is sent, of a Ray of one's own: models are read where they lie
_ADDRESS = re.compile(r"[A-Za-z0-9.\-\[\]:]+:\d{1,5}")
_QUIET = {"log_to_driver": False, "logging_level": logging.CRITICAL}


@contextmanager
def executor_on(on: str | None) -> Iterator[Executor]:
    """on: None for this machine without Ray, "ray", or host:port. Raises ClusterError."""
    if on is None:
        from workbench.run.worker.client import Worker

        with Worker() as worker:
            yield OnThisMachine(worker)
        return
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token(), "RAY_worker_niceness": "0"} if on == OWN_RAY else {}
    with _environment({"RAY_USAGE_STATS_ENABLED": "0", **own}):
        ray = _package()
        with _own(ray) if on == OWN_RAY else _joined(ray, on):
            executor = OnRay(ray)
            try:
                yield executor
            finally:
                executor.close()


@contextmanager
def _environment(changed: Mapping[str, str]) -> Iterator[None]:
    """Ray reads it when imported and hands it to the processes that it starts; it is as before after the block."""
    before = {name: os.environ.get(name) for name in changed}
    os.environ |= changed
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
        raise ClusterError("Ray is not installed: pip install 'graph-workbench[ray]'") from None
    # It prints to stdout, where tables and JSON go, when a node is lost, which our notes say; Ray's debugger does so.
    ray._private.worker._worker_logs_enabled = False
    return ray


@contextmanager
def _own(ray: Any) -> Iterator[None]:
    """A Ray on this machine, which ends with the block.

    It listens on every address of the machine, as Ray does, and answers only who has the token that is made here
    (token authentication, https://docs.ray.io/en/latest/ray-security/token-auth.html).
    """
    with owned_folder("wb-ray-") as folder:  # short: sockets lie in it, whose paths have at most 107 bytes
        here = {"include_dashboard": False, "object_store_memory": _STORE, "_temp_dir": str(folder), **_QUIET}
        try:
            _connect(ray, "Ray does not start here: {}", address="local", num_cpus=os.cpu_count(), **here)
            yield
        finally:
            ray.shutdown()


def _connect(ray: Any, sentence: str, **options: Any) -> None:
    """sentence: with a place for the reason. Raises ClusterError."""
    try:
        ray.init(**options)
    except Exception as error:  # Ray has no common class for what may happen
        raise ClusterError(sentence.format(first_line(error))) from None


@cache
def _token() -> str:
    """One for this process, since Ray reads it once."""
    return secrets.token_hex(32)


@contextmanager
def _joined(ray: Any, address: str) -> Iterator[None]:
    if not _ADDRESS.fullmatch(address):
        raise ClusterError(f"'{address[:80]}' is no address of a Ray cluster; write --on ray, or host:port of its head")
    _check_answers(address)
    sentence = (  # another version of Ray or Python, no node on this machine
        f"the Ray cluster at {address} cannot be joined: {{}}; the driver runs on one of its nodes "
        f"(`ray start --address={address} --num-cpus=0` makes this machine one)"
    )
    try:
        _connect(ray, sentence, address=address, **_QUIET)
        yield
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Ray itself tries for minutes. Raises ClusterError after JOIN_LIMIT_S."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=JOIN_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"no Ray cluster answers at {address} within {JOIN_LIMIT_S:g} s; see that its head runs and can be reached"
        ) from None
    if done.returncode == 0:
        return
    if "token" in done.stderr.lower():
        raise ClusterError(
            f"the Ray cluster at {address} asks for a token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to its own"
        )
    raise ClusterError(f"no Ray cluster answers at {address}; see that its head runs and can be reached from here")
