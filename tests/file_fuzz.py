"""Mutations of every kind of file that is read: `python -m tests.file_fuzz KIND,KIND FIRST COUNT FOLDER`.

Each opens, or is refused in one sentence; nothing else is raised, and nothing crashes or hangs. A seed makes the same
mutation again; the one that is tried is printed before it is tried, so that a crash tells it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import sqlite3
import sys
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tomli_w

from tests.conftest import ROOT
from workbench.errors import MAX_SENTENCE, UserError, reading

SLOWEST_S = 60  # of one file; it is stopped then, and shown
EXTREMES = (0, 1, -1, 2, 7, 127, 255, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, -(2**63))
HUGE = (*EXTREMES, 10**30, 10**400, -(10**400), 1.5, 1e308, float("inf"), float("nan"), True)
TEXTS = (
    "",
    " ",
    "\0",
    "é",
    "\n",
    "../x",
    "a" * 5000,
    "=1+1",
    "'",
    '"',
    "%s",
    "{}",
    "\u2028",
    "\x1b[31m",
    "0",
    "None",
    "N*N",
)


@dataclass(frozen=True)
class Kind:
    """make: writes a good file. mutate: changes it. read: opens it, and raises UserError where that is refused."""

    make: Callable[[Path], object]
    mutate: Callable[[Path, random.Random], None]
    read: Callable[[Path], object]


# ---- mutations ---------------------------------------------------------------------------


def mutate_bytes(data: bytes, random: random.Random) -> bytes:
    """The bytes with some flipped, cut out, put in, repeated, or cut off."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        at = random.randrange(len(changed) + 1) if changed else 0
        end = min(len(changed), at + random.choice((1, 1, 4, 16, 200)))
        match random.randrange(6):
            case 0:
                changed[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                changed[at:end] = b""
            case 2:
                changed[at:at] = random.randbytes(end - at)
            case 3:
                changed[at:at] = changed[at:end]
            case 4:
                changed[at:end] = random.choice((b"\xff", b"\0", b"9", b"(")) * (end - at)
            case 5 if random.random() < 0.3:
                del changed[at:]
    return bytes(changed)


def whole_file(path: Path, random: random.Random) -> None:
    path.write_bytes(mutate_bytes(path.read_bytes(), random))


def mutate_tree(item: Any, random: random.Random) -> Any:
    """A tree of JSON with one place changed."""
    if isinstance(item, dict) and item and random.random() < 0.85:
        key = random.choice(list(item))
        if random.random() < 0.1:
            return {k: v for k, v in item.items() if k != key}
        if random.random() < 0.05:
            return {**item, random.choice(TEXTS): item[key]}
        return {**item, key: mutate_tree(item[key], random)}
    if isinstance(item, list) and item and random.random() < 0.85:
        at = random.randrange(len(item))
        if random.random() < 0.1:
            return [*item[:at], *item[at + 1 :]]
        if random.random() < 0.1:
            return [*item, *item[at:]]
        return [*item[:at], mutate_tree(item[at], random), *item[at + 1 :]]
    if isinstance(item, str) and item and random.random() < 0.4:
        return mutate_bytes(item.encode(), random).decode(errors="replace")
    return random.choice((*HUGE, *TEXTS, None, [], {}, [[]], {"a": 1}, item))


def as_json(text: str, random: random.Random) -> str:
    tree = mutate_tree(json.loads(text), random)
    return json.dumps(tree)


def mutate_message(message: Any, random: random.Random) -> None:
    """Change one field somewhere in a protobuf message."""
    fields = [field for field in message.DESCRIPTOR.fields if _is_set(message, field) or random.random() < 0.05]
    if not fields:
        return
    field = random.choice(fields)
    if field.message_type is not None:
        held = getattr(message, field.name)
        if not _is_repeated(field):
            mutate_message(held, random)
            return
        match random.randrange(6):
            case 0 if held:
                del held[random.randrange(len(held))]
            case 1 if held:
                held.add().CopyFrom(random.choice(list(held)))
            case 2 if len(held) > 1:
                first, second = random.sample(range(len(held)), 2)
                held[first].CopyFrom(held[second])
            case _ if held:
                mutate_message(random.choice(list(held)), random)
        return
    if _is_repeated(field):
        held = getattr(message, field.name)
        at = random.randrange(len(held) + 1)
        made = [*held]
        made[at : at + random.randrange(2)] = [_scalar(field, random, made[at] if at < len(made) else None)]
        del held[:]
        held.extend(made)
        return
    setattr(message, field.name, _scalar(field, random, getattr(message, field.name)))


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _is_set(message: Any, field: Any) -> bool:
    return bool(getattr(message, field.name)) if _is_repeated(field) else bool(message.HasField(field.name))


def _scalar(field: Any, random: random.Random, now: Any) -> Any:
    kinds = type(field)
    if field.type in (kinds.TYPE_STRING, kinds.TYPE_BYTES):
        words = random.choice((*TEXTS, "Relu", "x", now if isinstance(now, str) else "y"))
        return words.encode() if field.type == kinds.TYPE_BYTES else words
    if field.type in (kinds.TYPE_FLOAT, kinds.TYPE_DOUBLE):
        return random.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    if field.enum_type is not None:
        return random.choice([value.number for value in field.enum_type.values])
    small = field.type in (kinds.TYPE_INT32, kinds.TYPE_SINT32)
    unsigned = field.type in (kinds.TYPE_UINT32, kinds.TYPE_UINT64)
    fitting = [n for n in EXTREMES if (not small or -(2**31) <= n < 2**31) and (not unsigned or n >= 0)]
    return random.choice(fitting)


def a_model(path: Path, random: random.Random) -> None:
    """One to three fields of another sample, or some of its bytes."""
    source = random.choice(
        sorted(file for file in (ROOT / "sample_models").rglob("*.onnx") if file.stat().st_size < 50_000)
    )
    path.write_bytes(source.read_bytes())
    if random.random() < 0.2:
        whole_file(path, random)
        return
    model = onnx.load(path, load_external_data=False)
    for _ in range(random.choice((1, 1, 2, 3))):
        mutate_message(random.choice((model, model.graph, *model.graph.node, *model.graph.initializer)), random)
    path.write_bytes(model.SerializePartialToString())


def an_archive(path: Path, random: random.Random) -> None:
    """Another entry of a zip, or the zip itself."""
    if random.random() < 0.3:
        whole_file(path, random)
        return
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(list(entries))
    if name.endswith(".json") and random.random() < 0.8:
        entries[name] = as_json(entries[name].decode(), random).encode()
    elif random.random() < 0.1:
        entries[random.choice(TEXTS)[:200].replace("\0", "") or "x"] = entries.pop(name)
    else:
        entries[name] = mutate_bytes(entries[name], random)
    method = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(path, "w", method) as archive:
        for inner, data in entries.items():
            archive.writestr(inner, data)


def some_json(path: Path, random: random.Random) -> None:
    if random.random() < 0.3:
        whole_file(path, random)
    else:
        path.write_text(as_json(path.read_text(), random))


def some_json_lines(path: Path, random: random.Random) -> None:
    if random.random() < 0.3:
        whole_file(path, random)
        return
    lines = path.read_text().splitlines()
    at = random.randrange(len(lines))
    lines[at] = as_json(lines[at], random)
    path.write_text("\n".join(lines) + random.choice(("\n", "")))


def some_toml(path: Path, random: random.Random) -> None:
    tree = mutate_tree(tomllib.loads(path.read_text()), random)
    try:
        text = tomli_w.dumps(tree)
    except (TypeError, ValueError, AttributeError, UserError):  # a tree that TOML cannot say
        text = ""
    if not text or random.random() < 0.3:
        whole_file(path, random)
        return
    path.write_text(text, errors="replace")


def a_database(path: Path, random: random.Random) -> None:
    """Another value in a row, or other bytes of the file."""
    if random.random() < 0.4:
        whole_file(path, random)
        return
    with sqlite3.connect(path) as database:
        (table,) = (name for (name,) in database.execute("select name from sqlite_master where type = 'table'"))
        columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
        column = random.choice(columns)
        (now,) = database.execute(f"select {column} from {table}").fetchone()
        value = random.choice((*EXTREMES, 1.5, *TEXTS, None, b"\xff\0", "[]", "{}", '{"a": 1}', "null", "1"))
        if isinstance(now, str) and now[:1] in ("{", "[") and random.random() < 0.7:
            value = as_json(now, random)
        try:
            database.execute(f"update {table} set {column} = ?", (value,))
        except sqlite3.IntegrityError:
            database.execute(f"delete from {table}")
    database.close()


# ---- good files, and what reads them -----------------------------------------------------


def _read_model(path: Path) -> None:
    import workbench as wb
    from workbench.formats.io.proto_file import known_types, open_proto
    from workbench.planning.memory.planning import plan_memory, sharing_of
    from workbench.presentation.explanations.summary import summarize

    graph = wb.load(path)
    summarize(graph)
    plan_memory(sharing_of(graph), "greedy_by_size")
    wb.groupings(wb.load(path))
    known_types(open_proto(path).model)
    graph.to_networkx()
    str(graph)
    strategies = ("greedy", "optimal", "record-then-insert", "blocked")
    layout = strategies[path.stat().st_size % len(strategies)]
    history = wb.optimize(graph, layout=layout, target="blocked" if layout == "blocked" else "npu")
    wb.report(history, path.with_name("report.html"))
    wb.export(history.graph, path.with_name("written.onnx"))


_TEXT = '<ir_version: 10, opset_import: ["": 21]> g (float[N,4] x, int64[2] s) => (float[N,4] y) <float[4] w = {1,2,3,4}> { a = Add(x, w) y = Relu(a) }'


def _make_inputs(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), x=np.ones((2, 4), np.float32), s=np.arange(2))
    path.with_suffix(".npz").replace(path)


def _read_inputs(path: Path) -> None:
    from workbench.formats.io.onnx_file import load_text
    from workbench.run.inputs import read_inputs

    read_inputs(path, load_text(_TEXT)[0])


def _make_program(path: Path) -> None:
    import torch

    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(torch.nn.Linear(4, 4).eval(), (torch.ones(3, 4),), dynamic_shapes=({0: rows},))
    torch.export.save(program, path.with_suffix(".pt2"))
    path.with_suffix(".pt2").replace(path)


def _read_program(path: Path) -> None:
    """As the process of a program reads it, and what that writes."""
    from workbench.formats.io import load_model
    from workbench.formats.io.errors import LoadError
    from workbench.formats.io.torch_program import open_program, to_onnx

    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        reading("the program", LoadError, "save it again"),
    ):
        to_onnx(open_program(path, path.parent), path.parent)
    load_model(path.with_name("model.onnx"))


def _mutate_link(path: Path, random: random.Random) -> None:
    """About half of the keys, up to three of them with words that no page writes."""
    page, good = random.choice(LINKED), json.loads(path.read_text())
    link = {key: words for key, words in good.items() if random.random() < 0.5}
    for key in random.sample(list(good), random.choice((1, 2, 3))):
        words = good[key]
        made = ("9" * 5000, "-1", "1e9", f"{words},{words}", words[:-1], f"{words}=", "=", ",", ":")
        link[key] = random.choice((*TEXTS, *made)).replace("\0", "")
    path.write_text(json.dumps([page, link]))


def _read_link(path: Path) -> None:
    from tests.pages import page

    name, link = json.loads(path.read_text())
    at = page(name)
    at.query_params.update(link)
    signal.alarm(0)  # a page runs in a thread of its own, with a limit of its own
    at.run()
    if at.exception:
        raise AssertionError(f"the page {name} with {link}: {at.exception[0].message}")


def _read_recipe(path: Path) -> None:
    from workbench.interfaces.study.tuning.recipe import load_recipe

    load_recipe(path)


_RECIPE = """version = 1
[model]
name = "m"
sha256 = "00"
[tuned]
objective = "latency"
device = "cpu"
device_name = "x"
max_error = 0.001
seconds = 9.5
ended = "done"
chosen = "a"
[tuned.versions]
torch = "2"
[run]
backend = "torch"
dtype = "float32"
[pipeline]
passes = ["fold_constants", "dead_nodes"]
target = "cuda"
mode = "ieee"
[pipeline.options]
"""
LINKED = ("open", "optimize", "compare", "lockstep", "lessons")  # pages
_LINK = {
    "model": "sample_models/npu_types.onnx",
    "dims": "N=1",
    "input_layout": "x=NCHW",
    "target": "npu",
    "passes": "fold_constants,layout_greedy",
    "option": "layout_optimal.weigh=bytes",
    "mode": "ieee",
    "preset": "normalize",
    "leave_out": "dead_nodes: it is unused",
    "verify": "end",
    "left": "normalize",
    "right": "greedy",
    "step": "1",
    "rewrite": "2",
    "node": "conv",
    "other": "sample_models/npu_path.onnx",
    "lesson": "two_orders",
    "stop": "2",
}
_PROFILE = 'title = "Mine"\nlayout = "NHWC"\nweights = "OIHW"\n[demands]\nConv = "NHWC"\nMaxPool = "NCHW"\n'
_PACKING = "id,lower,upper,size\na,0,2,16\nb,1,3,8\nc,2,4,32\n"
_OVERLAY = {"latency (us)": 3.5, "conv1": {"latency": 1.5, "power (W)": 3}, "relu": {"latency": 2}}
_LESSON = "---\ntitle: T\nmodel: m.onnx\npasses: a, b\n---\nWords.\n\n## One\nmoment: start\nnode: x\n\nText.\nQuestion: why?\nAnswer: so.\n"


def _read_overlay(path: Path) -> None:
    from workbench.presentation.view.node_numbers import read_numbers

    read_numbers(path.name, path.read_bytes().decode(errors="replace"), ["conv1", "relu"]).sentence(["conv1"])


def _read_profile(path: Path) -> None:
    from workbench.planning.layout.profile import load_profile

    load_profile(str(path.replace(path.with_suffix(".toml"))))


def _read_packing(path: Path) -> None:
    from workbench.planning.memory.blocks.minimalloc import read_packing
    from workbench.planning.memory.planners import pack, planner_of

    pack(read_packing(str(path)), planner_of("greedy_by_size"), 1)


def _read_lesson(path: Path) -> None:
    from workbench.interfaces.lessons.reading import read_lesson

    read_lesson(path)


def _make_database(path: Path) -> None:
    from tests.recording import keep_one

    keep_one(f"sqlite:///{path}")


def _read_database(path: Path) -> None:
    from workbench.interfaces.cli.runs import RunsRequest, runs_command
    from workbench.run.records.changes import differences, kept_times, ratio_of, reliability
    from workbench.run.records.store import find_runs, kept_measurements

    url = f"sqlite:///{path}"
    for form in ((False, False), (True, False), (False, True)):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            runs_command(RunsRequest(None, *form, url))
    runs = find_runs(url=url)
    for run in runs:
        differences(runs[0], run)
        reliability(runs[0], run)
        ratio_of(runs[0], run, kept_times(runs, url))
    kept_measurements([run.measurement for run in runs], url)


def _make_matrix_record(path: Path) -> None:
    from tests.recording import record
    from workbench.interfaces.study.sweep.blocks import Block

    found = record({"as loaded": [1.0, 2.0, 3.0], "optimized": [1.0, 1.5, 2.0]})
    blocks = [Block(f"key {batch}", "m.onnx", batch, "cpu", found) for batch in (1, 8)]
    path.write_text("".join(f"{json.dumps(block.to_json())}\n" for block in blocks))


def _read_matrix_record(path: Path) -> None:
    from workbench.interfaces.study.sweep.blocks import Block
    from workbench.interfaces.study.sweep.record import record_at

    blocks = [Block(f"key {batch}", "m.onnx", batch, "cpu", None) for batch in (1, 8)]
    record_at(path).read(blocks)


_TUNING = {
    "key": "k",
    "found": {"a": {"times_ms": [1.5, 2], "peak_bytes": 7, "peak_counted": "w", "max_rel_error": 0.1, "failed": ""}},
}


def _read_tuning_record(path: Path) -> None:
    from workbench.interfaces.study.tuning.measuring import read_record

    read_record(path)


_TOOL = 'title = "Mine"\ncommand = "shrink {input} -o {output}"\nabout = "It shrinks."\n'


def _read_tool(path: Path) -> None:
    from workbench.rewrite.external.own_tool import TOOLS_VARIABLE, own_tools

    folder = path.with_name("tools")
    folder.mkdir(exist_ok=True)
    path.replace(folder / "shrink.toml")
    os.environ[TOOLS_VARIABLE] = str(folder)
    (found,) = own_tools().values()
    if isinstance(found, str):
        raise UserError(found.removeprefix(str(folder)))


def _make_weights(path: Path) -> None:
    """A model's file, which names the weights beside it."""
    weights = onnx.numpy_helper.from_array(np.ones(2000, np.float32), "w")
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[2000] x) => (float[2000] y) { y = Add(x, w) }'
    )
    model.graph.initializer.append(weights)
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)


def _mutate_weights(path: Path, random: random.Random) -> None:
    model = onnx.load(path, load_external_data=False)
    for _ in range(random.choice((1, 1, 2))):
        (tensor,) = model.graph.initializer
        mutate_message(random.choice((tensor, *tensor.external_data)), random)
        if random.random() < 0.3 and tensor.external_data:
            random.choice(list(tensor.external_data)).value = str(random.choice(HUGE))
    path.write_bytes(model.SerializePartialToString())


KINDS: Mapping[str, Kind] = {
    "model": Kind(lambda path: None, a_model, _read_model),
    "text": Kind(
        lambda path: path.write_text(_TEXT), whole_file, lambda p: _read_model(p.replace(p.with_suffix(".onnxtxt")))
    ),
    "inputs": Kind(_make_inputs, an_archive, _read_inputs),
    "program": Kind(_make_program, an_archive, _read_program),
    "recipe": Kind(lambda path: path.write_text(_RECIPE), some_toml, _read_recipe),
    "overlay": Kind(lambda path: path.write_text(json.dumps(_OVERLAY)), some_json, _read_overlay),
    "overlay csv": Kind(
        lambda path: path.write_text("node,latency (us)\nconv1,3.5\nrelu,2\n"), whole_file, _read_overlay
    ),
    "profile": Kind(lambda path: path.write_text(_PROFILE), some_toml, _read_profile),
    "packing": Kind(lambda path: path.write_text(_PACKING), whole_file, _read_packing),
    "lesson": Kind(lambda path: path.write_text(_LESSON), whole_file, _read_lesson),
    "matrix record": Kind(_make_matrix_record, some_json_lines, _read_matrix_record),
    "tuning record": Kind(
        lambda path: path.write_text(json.dumps(_TUNING) + "\n"), some_json_lines, _read_tuning_record
    ),
    "tool": Kind(lambda path: path.write_text(_TOOL), some_toml, _read_tool),
    "weights": Kind(_make_weights, _mutate_weights, _read_model),
    "database": Kind(_make_database, a_database, _read_database),
    "link": Kind(lambda path: path.write_text(json.dumps(_LINK)), _mutate_link, _read_link),
}


def tried(kind: Kind, good: Path, seed: int, folder: Path) -> str:
    """What is wrong with how the mutation of that seed is read; "" if it opens or is refused in a sentence."""
    path = folder / f"mutated-{seed}"
    if good.exists():
        path.write_bytes(good.read_bytes())
    kind.mutate(path, random.Random(seed))
    signal.alarm(SLOWEST_S)
    try:
        kind.read(path)
    except (UserError, OSError) as error:
        told = str(error)
        many = isinstance(error, UserError) and len(told) > MAX_SENTENCE and type(error).__name__ != "LessonError"
        return f"a sentence of {len(told)} characters: {told[:200]}" if many else ""
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.alarm(0)
        for left in folder.glob("mutated-*"):  # renamed ones too
            left.unlink()
    return ""


def main(names: str, first: int, count: int, folder: Path) -> int:
    """The number of mutations that are not read as they should be. names: of kinds, with commas."""
    wrong = 0
    for name in names.split(","):
        kind, good = KINDS[name], folder / f"good {name}"
        kind.make(good)
        for seed in range(first, first + count):
            print(f"{name} {seed}", flush=True)
            fault = tried(kind, good, seed, folder)
            if fault:
                wrong += 1
                print(f"WRONG {name} {seed}: {fault}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])), 1))
