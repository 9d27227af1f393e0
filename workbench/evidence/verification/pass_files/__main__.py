"""Tests the pass in a file in a process of its own: `python -m workbench.evidence.verification.pass_files FILE`.

Each check is a line of JSON on stdout, as soon as it is done, and the last line says that all are; what the pass prints
goes to stderr.
"""

import contextlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from workbench.evidence.verification.pass_files.checks import checks_of
from workbench.rewrite.core.own_passes import load_pass

if __name__ == "__main__":
    path, out = Path(sys.argv[1]), sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        for check in checks_of(load_pass(path), path):
            print(json.dumps(asdict(check)), file=out, flush=True)
        print(json.dumps({"done": True}), file=out, flush=True)
