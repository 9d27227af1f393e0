"""The first lines of docs/results.md: what is claimed, with its figure, counted from the tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from statistics import median

from workbench.run.records.published import PublishedPart, PublishedTable

Row = dict[str, str]
Claim = tuple[str, str, str]  # what is claimed, the figure, what speaks against it


def summary(parts: Mapping[str, PublishedPart]) -> PublishedTable:
    """A table with a line for each claim. parts: by name."""
    columns = ("claim", "figure", "against it", "table, machine, date")
    claims = [(parts[name], claim) for name, claim in CLAIMS.items()]
    return PublishedTable(columns, tuple((*claim(_rows(part)), _origin(part)) for part, claim in claims))


def _rows(part: PublishedPart) -> list[list[Row]]:
    """Of each table of the part its rows, by the names of the columns."""
    tables = [table for measurement in part.measurements for table in measurement.tables]
    return [[dict(zip(table.columns, row, strict=True)) for row in table.rows] for table in tables]


def simplified(tables: list[list[Row]]) -> Claim:
    rows = tables[0]
    fewest = [row for row in rows if row["ours"].startswith("**")]
    alone = [row for row in fewest if sum(cell.startswith("**") for cell in row.values()) == 1]
    slower = [row for row in tables[1] if _number(row["ours"]) > min(_number(cell) for cell in list(row.values())[3:])]
    return (
        "`simplify` leaves the fewest nodes of five tools",
        f"{len(fewest)} of {len(rows)} models, alone on {len(alone)}",
        f"another tool takes less time on {len(slower)}",
    )


def faster(tables: list[list[Row]]) -> Claim:
    ratios = {row["model"]: _interval(row["ours over original"]) for row in tables[0]}
    gained = [name for name, (_, _, high) in ratios.items() if high < 1]
    slow = [name for name, (_, low, _) in ratios.items() if low > 1.01]
    best = min(ratios, key=lambda name: ratios[name][0])
    return (
        "the simplified file is faster in ONNX Runtime",
        f"{len(gained)} of {len(ratios)} files, at best {ratios[best][0]:.2f} of the time ({best})",
        f"no gain on {len(ratios) - len(gained)}, slower on {len(slow)}",
    )


def second(tables: list[list[Row]]) -> Claim:
    still = [row for row in tables[0] if row["of the second run"] == "0"]
    other = [row for row in tables[0] if row["the same bytes"] != "yes"]
    models, same, same_bytes = (
        sum(int(row[column]) for table in tables[1:] for row in table)
        for column in ("models", "the same result", "the same bytes")
    )
    return (
        "a second run changes nothing",
        f"{len(still)} of {len(tables[0])} runs have no rewrite; {same} of {models} with strategies write the same",
        f"{len(other)} files differ in bytes, and {models - same_bytes} with strategies",
    )


def light(tables: list[list[Row]]) -> Claim:
    largest = [row for row in tables[0] if row["/ file"] not in ("-", "")]
    ours, onnx = (
        median(_number(row["/ file"]) for row in largest if ("onnx alone" in row["command, model"]) is alone)
        for alone in (False, True)
    )
    seconds = {row["command, model"]: _number(row["seconds: median (min to max)"]) for row in largest}
    models = [name.removeprefix("onnx alone, ") for name in seconds if name.startswith("onnx alone, ")]
    ratio = median(seconds[f"`optimize --no-verify`, {name}"] / seconds[f"onnx alone, {name}"] for name in models)
    return (
        "optimizing takes less memory than the onnx package needs to load the file",
        f"peak of {ours:.1f} times the file, median; the onnx package {onnx:.1f}",
        f"it takes {ratio:.1f} times as long, median",
    )


def proven(tables: list[list[Row]]) -> Claim:
    rows = tables[0]

    def moved(row: Row, column: str) -> float:
        return _number(row[column].partition("(")[2])

    by_cut = [row for row in rows if row["proven by a cut (MB)"] != "-"]
    reached = [row for row in by_cut if moved(row, "optimal") <= _number(row["proven by a cut (MB)"])]
    more = [row for row in rows if moved(row, "optimal") > moved(row, "ONNX Runtime, basic")]
    less = [row for row in rows if moved(row, "optimal") < moved(row, "ONNX Runtime, basic")]
    return (
        "`optimal` moves the least",
        f"less than ONNX Runtime's own optimizer on {len(less)} of {len(rows)} graphs, more on {len(more)}",
        f"an independent cut proves the minimum on {len(reached)}; sizes are not known on {len(rows) - len(by_cut)}",
    )


def planned(tables: list[list[Row]]) -> Claim:
    gaps = [row["gap"] for row in tables[0]]
    ratios = [_interval(row["of torch"])[0] for row in tables[0]]
    return (
        "memory plans are proven minimal",
        f"{gaps.count('proven')} of {len(gaps)} models; a run takes {median(ratios):.2f} of eager torch's time, median",
        f"{sum(ratio > 1 for ratio in ratios)} models take longer",
    )


def tuned(tables: list[list[Row]]) -> Claim:
    rows = tables[0]
    ratios, shares = ([_number(row[name]) for row in rows] for name in ("ratio", "share"))
    return (
        "`tune` finds what a full enumeration finds",
        f"at most {max(ratios):.3f} of its time on {len(rows)} models, in {median(shares):.2f} of the search, median",
        f"{sum(share > 1 / 3 for share in shares)} model takes more than a third of the search",
    )


def verified(tables: list[list[Row]]) -> Claim:
    rows = tables[0]
    ratios = [_number(row["end (CPU s)"]) / _number(row["not verified (CPU s)"]) for row in rows]
    each = [_number(row["each step (CPU s)"]) / _number(row["not verified (CPU s)"]) for row in rows]
    return (
        "the comparison with ONNX Runtime is cheap enough to be the default",
        f"{median(ratios):.1f} times the CPU time of no comparison, median",
        f"at most {max(ratios):.1f} times; of every step {max(each):.1f} times",
    )


def smooth(tables: list[list[Row]]) -> Claim:
    rows = {(row["measured"], row["model"]): row for row in tables[0]}
    first = rows["first picture", "10,000 nodes, scopes"]
    return (
        "the view is smooth at 10,000 nodes",
        f"pans at {rows['pan, everything in sight', '10,000 nodes, scopes, flat']['median']}",
        f"the first picture takes {first['median']}, {first['asked']} were asked for",
    )


def on_card(tables: list[list[Row]]) -> Claim:
    compared = [row for row in tables[0] if _is_number(row["of plain torch"])]
    row = compared[0]
    return (
        "on a GPU: not yet",
        f"{row['of plain torch']} times plain torch on {row['network']}, batch {row['batch']}, {row['type']}",
        f"{len(tables[0]) - len(compared)} of {len(tables[0])} rows have no counterpart yet",
    )


CLAIMS: dict[str, Callable[[list[list[Row]]], Claim]] = {
    "simplify": simplified,
    "written": faster,
    "second_runs": second,
    "engine": light,
    "verified": verified,
    "minimum": proven,
    "memory": planned,
    "tuning": tuned,
    "view": smooth,
    "on_gpu": on_card,
}


def _origin(part: PublishedPart) -> str:
    """A link to the part, its machine and its date."""
    first = part.measurements[0]
    processor = re.split("[,;]", first.machine)[0]
    return f"[{part.title}](results/{part.name}.json), {processor}, {first.date}"


def _interval(cell: str) -> tuple[float, float, float]:
    """ "0.924 (0.910 to 0.936)" as three numbers."""
    value, low, high = map(float, re.findall(r"[\d.]+", cell)[:3])
    return value, low, high


def _number(cell: str) -> float:
    return float(re.findall(r"[\d.]+", cell.replace(",", ""))[0])


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[\d.]+", cell) is not None
