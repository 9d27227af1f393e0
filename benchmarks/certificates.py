"""What a certificate costs: `python benchmarks/certificates.py [MODEL ...]`.

For each model and each pipeline: the seconds of `optimize --no-verify` without and with `--certificate`, the bytes of
the certificate, and the seconds and the peak memory of `check`. Each command is a process, interleaved; the figures are
medians of `--repeat`. The last column says whether `check --require bounds` accepts the bound. The default models are
the samples of 0.2 MB and more, and ResNet-50 with random weights.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.engine import compile_modules, default_models, measured  # noqa: E402

MIN_BYTES = 200_000  # bytes; smaller samples are not measured
PIPELINES = {
    "simplify": ("--preset", "simplify"),
    "default, layout optimal": ("--layout", "optimal", "--target", "cuda"),
    "default, layout optimal-any-order": ("--layout", "optimal-any-order", "--target", "cuda"),
    "fuse_minimum": ("--passes", "fuse_minimum"),
    "order_for_memory": ("--passes", "order_for_memory"),
}


def row(model: Path, pipeline: str, folder: Path, repeat: int) -> str:
    """One line of the table. Passes with a time limit get 10 s."""
    out, path = folder / "out.onnx", folder / "certificate.json"
    options = [*PIPELINES[pipeline]]
    if options[0] == "--passes":
        options += ["--option", f"{options[1]}.seconds=10"]
    optimize = [sys.executable, "-m", "workbench", "optimize", str(model), "-o", str(out), "--no-verify", *options]
    check = [sys.executable, "-m", "workbench", "check", str(model), str(out), str(path)]
    rounds = [[measured(c) for c in (optimize, [*optimize, "--certificate", str(path)], check)] for _ in range(repeat)]
    without, with_it, checking = (statistics.median(s for s, _ in runs) for runs in zip(*rounds, strict=True))
    content = json.loads(path.read_text())
    code = subprocess.run([*check, "--require", "log,bounds"], cwd=ROOT, capture_output=True, check=False).returncode
    bound = ("not proven" if code else "proven") if content["bounds"] else "-"
    rewrites = sum(len(step["rewrites"]) for step in content["steps"][1:-1])
    peak = max(runs[2][1] for runs in rounds)
    size = f"{path.stat().st_size / 1e3:,.0f}"
    seconds = (f"{without:.2f}", f"{with_it:.2f}", size, f"{checking:.2f}", f"{peak / 1e6:,.0f}")
    return f"| {' | '.join((model.stem, pipeline, f'{rewrites:,}', *seconds, bound))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--pipelines", nargs="+", choices=PIPELINES, default=list(PIPELINES), metavar="NAME")
    chosen = parser.parse_args()
    compile_modules()
    print("| model | passes | rewrites | optimize s | with it s | kB | check s | peak MB | bound |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        models = chosen.models or [path for path in default_models(Path(folder)) if path.stat().st_size >= MIN_BYTES]
        for model in models:
            for pipeline in chosen.pipelines:
                print(row(model, pipeline, Path(folder), chosen.repeat), flush=True)


if __name__ == "__main__":
    main()
