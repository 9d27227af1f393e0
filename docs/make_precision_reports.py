"""Write docs/precision-reports.md from `tests/precision_reports.py`: `python docs/make_precision_reports.py`."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

ABOUT = """\
Made by `python docs/make_precision_reports.py` from `tests/precision_reports.py`. `tests/test_precision_reports.py`
runs each graph and holds every sentence here.

A row is a small graph of the shape that a public report describes. Each precision strategy writes a valid
file of it, with the numbers of float32 to within float16. *All in float16* is the first line of `precision`:
what is lost if every operator runs in float16. It rounds results and computes in float32, so a long sum loses
more on a device. *Casts* are those of the graph, then those after `--precision optimal`, with `--max-error`
where the row says it. [Fit a float16 error](how-to/fit-a-float16-error.md) has the commands."""


def document() -> str:
    """The page: what was reported, what stays in float32, and the addresses of the reports."""
    from tests.precision_reports import REPORTS

    reported = [
        (_links(r.issues), r.saw, r.rebuilt, r.explained or "-", f"{r.casts[0]}, {r.casts[1]}") for r in REPORTS
    ]
    kept = [(_links(r.issues[:1]), f"`{node}`", why) for r in REPORTS for node, why in r.kept.items()]
    addresses = [
        f"[{_name(issue)}]: https://github.com/{issue.replace('#', '/issues/')}" for r in REPORTS for issue in r.issues
    ]
    return "\n".join(
        [
            *("# Reports on float16", "", ABOUT, ""),
            *_table(("report", "what the user saw", "the graph", "all in float16", "Casts"), reported),
            *("", "## What stays in float32, and why", ""),
            *_table(("report", "operator", "why"), kept),
            *("", *addresses, ""),
        ]
    )


def _casts(report) -> str:
    before, after = report.casts
    return f"{before}, {after}" + (f" with {report.max_error:g}" if report.max_error else "")


def _table(head, rows) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]


def _links(issues) -> str:
    return ", ".join(f"[{_name(issue)}]" for issue in issues)


def _name(issue) -> str:
    return issue.split("/")[1]


if __name__ == "__main__":
    from workbench.support.files import write_text

    write_text(HERE / "precision-reports.md", document())
