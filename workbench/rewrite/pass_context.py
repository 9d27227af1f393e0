"""What a pass is told beside the graph: the target, how exact it must be, and what times operators."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.layout.problem.probe import OperatorTimer
from workbench.layout.profile import Profile
from workbench.rewrite.exactness import DEFAULT_MODE


@dataclass(frozen=True)
class PassContext:
    """What all passes of one run have in common.

    target:         what the hardware wants of layouts.
    mode:           how exact rewrites must be (MODES).
    operator_timer: times operators on a device, for strategies that weigh time; None where there is no device.
    """

    target: Profile
    mode: str = DEFAULT_MODE
    operator_timer: OperatorTimer | None = None
