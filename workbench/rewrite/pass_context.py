"""What a pass is given besides the graph: target, mode and operator timer."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.layout.problem.probe import OperatorTimer
from workbench.layout.profile import Profile
from workbench.rewrite.exactness import DEFAULT_MODE


@dataclass(frozen=True)
class PassContext:
    """Data shared by all passes of one run.

    target:         what the hardware wants of layouts.
    mode:           how exact rewrites must be (MODES).
    operator_timer: times operators on a device, for strategies that weigh time; None if there is no device.
    """

    target: Profile
    mode: str = DEFAULT_MODE
    operator_timer: OperatorTimer | None = None
