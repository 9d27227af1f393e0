"""What a pass is given besides the graph: target, mode, operator timer and runner of tools."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.layout.problem.probe import OperatorTimer
from workbench.layout.profile import Profile
from workbench.rewrite.exactness import DEFAULT_MODE
from workbench.rewrite.limits import NO_LIMITS, RuleLimits
from workbench.tools.running import ToolRunner


@dataclass(frozen=True)
class PassContext:
    """Data shared by all passes of one run.

    target:         what the hardware wants of layouts.
    mode:           how exact rewrites must be (MODES).
    operator_timer: times operators on a device, for strategies that weigh time; None if there is no device.
    tool_runner:    runs optimizers of others, each in a process of its own; None if there is no process.
    limits:         what rules must not do besides.
    """

    target: Profile
    mode: str = DEFAULT_MODE
    operator_timer: OperatorTimer | None = None
    tool_runner: ToolRunner | None = None
    limits: RuleLimits = NO_LIMITS
