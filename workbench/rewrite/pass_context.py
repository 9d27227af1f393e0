"""What a pass is given besides the graph: target, mode, operator timer and runner of tools."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.layout.problem.probe import OperatorTimer
from workbench.layout.profile import Profile
from workbench.rewrite.exactness import DEFAULT_MODE
from workbench.tools.running import ToolRunner


@dataclass(frozen=True)
class PassContext:
    """Data shared by all passes of one run.

    target:         what the hardware wants of layouts.
    mode:           how exact rewrites must be (MODES).
    operator_timer: times operators on a device, for strategies that weigh time; None if there is no device.
    tool_runner:    runs optimizers of others, each in a process of its own; None if there is no process.
    opset:          the newest opset at which what rules write must be writable; None if any is.
    """

    target: Profile
    mode: str = DEFAULT_MODE
    operator_timer: OperatorTimer | None = None
    tool_runner: ToolRunner | None = None
    opset: int | None = None
