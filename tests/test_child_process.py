"""Child processes: they end with all that they started, and what they print is read however much it is."""

from __future__ import annotations

import io
import subprocess
import sys
import time

import psutil
import pytest

from workbench.support import child_process
from workbench.support.child_process import (
    OutputTail,
    end_process_group,
    json_lines,
    last_line,
    module_command,
    package_environment,
    process_group,
    signal_name,
    start_process_group,
)

PARENT = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', SLEEP]); print('{}', flush=True); exec(SLEEP)"
FAMILY = PARENT.replace("SLEEP", "'import time; time.sleep(600)'")


def family_of(process) -> list[psutil.Process]:
    assert process.stdout.readline() == b"{}\n"  # its child has started
    return [psutil.Process(process.pid), *psutil.Process(process.pid).children()]


def are_gone(processes, within_s=20.0) -> bool:
    _, alive = psutil.wait_procs(processes, within_s)
    return not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("on_windows", [False, True])
def test_a_process_ends_with_all_that_it_started(monkeypatch, on_windows):
    with process_group([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE) as process:
        family = family_of(process)
        assert len(family) == 2
        if on_windows:  # which has no process groups that can be killed
            monkeypatch.setattr(child_process.sys, "platform", "win32")
    monkeypatch.undo()
    assert are_gone(family) and process.returncode is not None


def test_it_ends_with_an_error_in_the_block_too():
    with pytest.raises(ZeroDivisionError), process_group([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE) as p:
        family = family_of(p)
        raise ZeroDivisionError
    assert are_gone(family)


def test_a_process_that_has_ended_is_no_error():
    process = start_process_group([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    process.wait()
    end_process_group(process)
    assert process.returncode == 0 and process.stdin.closed


def test_a_module_of_the_package_runs_in_any_folder(tmp_path):
    command = module_command("workbench", "--version")
    done = subprocess.run(command, cwd=tmp_path, env=package_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_no_answer_is_skipped():
    printed = b'loading\n{"a": 1}\n{"cut off\n[1]\n12\n\xff\n{"b": [2]}\n'
    assert list(json_lines(io.BytesIO(printed))) == [{"a": 1}, {"b": [2]}]


def test_of_endless_output_the_end_is_kept():
    code = "import sys\nfor n in range(200_000): print('line', n)\nprint('the end \\u2713')\nprint()"
    with process_group([sys.executable, "-X", "utf8", "-c", code], stdout=subprocess.PIPE) as process:
        tail = OutputTail(process.stdout)
        process.wait(60)
    assert tail.last_line() == "the end ✓"


def test_an_output_that_a_child_keeps_open_is_not_waited_for():
    escaped = "import os, time; os.fork() or (os.setsid(), time.sleep(30)); print('last', flush=True)"
    with process_group([sys.executable, "-c", escaped], stdout=subprocess.PIPE) as process:
        tail = OutputTail(process.stdout)
        process.wait(60)
    begun = time.monotonic()
    assert tail.last_line() == "last" and time.monotonic() - begun < 20


@pytest.mark.parametrize(("text", "line"), [("", ""), ("\n \n", ""), ("a\n b \n\n", "b")])
def test_the_last_line(text, line):
    assert last_line(text) == line


@pytest.mark.parametrize(("code", "name"), [(0, None), (3, None), (-9, "SIGKILL"), (-11, "SIGSEGV")])
def test_the_signal_of_an_exit_code(code, name):
    assert signal_name(code) == name
