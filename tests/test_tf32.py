"""TF32 is set for a run and restored after it, whichever of torch's two interfaces a program uses."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.waiting import LIMIT_S

# What a program sets before, each in a process of its own: the settings are of the process.
PROGRAMS = [
    "pass",
    "torch.set_float32_matmul_precision('high')",
    "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
    "torch.backends.fp32_precision = 'tf32'",
    "torch.backends.cudnn.conv.fp32_precision = 'ieee'",
]
CHECK = """
import sys
import torch
from workbench.backends.torch.fused.compiling_ahead import was_compiled
from workbench.support.tf32 import tf32

exec(sys.argv[1])
matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn

def precisions():
    return [one.fp32_precision for one in (matmul, cudnn.conv, cudnn.rnn, torch.backends.mkldnn.matmul)]

was_compiled("a group")
before = precisions()
for allowed, wanted in ((False, "ieee"), (True, "tf32")):
    with tf32(allowed):
        assert precisions()[:3] == [wanted] * 3, precisions()
        # Inductor and programs read these, and torch raises where the two interfaces disagree.
        assert matmul.allow_tf32 == cudnn.allow_tf32 == allowed
        assert torch.get_float32_matmul_precision() == ("high" if allowed else "highest")
    assert precisions() == before, (before, precisions())
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_run_has_its_own_setting_and_leaves_that_of_the_program(program):
    subprocess.run([sys.executable, "-c", CHECK, program], cwd=ROOT, check=True, timeout=LIMIT_S)
