"""The commands and snippets of the pages that users follow, run as they stand, in the order of the page.

So are the examples in the help of the commands.

README.md and docs/start.md have theirs in test_documents.py.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from sqlalchemy import make_url

import workbench as wb
from docs.make_commands import inner_parsers
from tests.browser import free_port, wait_for_app
from tests.commands import SAMPLES, KeptWorker, commands_share
from tests.conftest import ROOT
from tests.page_commands import Command, Snippet, steps_of
from tests.running import typed
from tests.test_adding_a_pass import COMMANDS as RUN_IN_A_COPY
from tests.test_documents import HAND_WRITTEN
from tests.test_own_site import answer
from tests.waiting import LIMIT_S
from workbench.interfaces.cli.main import COMMANDS, _parser

DOCS = ROOT / "docs"
PAGES = [
    DOCS / "usage.md",
    *sorted((DOCS / "how-to").glob("*.md")),
    *(DOCS / name for name in ("adding-a-pass.md", "lessons.md", "view.md")),
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md")),
]
STEPS = {page: steps_of(page) for page in PAGES}
MODULES = {name: importlib.import_module(f"workbench.interfaces.cli.{name.replace('-', '_')}") for name in COMMANDS}
EXAMPLES = {  # in the help of each command
    name: [Command(f"graph-workbench {name} {example.partition('   #')[0]}".rstrip()) for example in module.EXAMPLES]
    for name, module in MODULES.items()
}
FOUND = [
    *(step for steps in STEPS.values() for step in steps if isinstance(step, Command)),
    *(example for examples in EXAMPLES.values() for example in examples),
]

# What stands here for a name that a page gives to a file of the user.
CHECK = """
import sys, onnx
sys.exit(any(node.op_type == "Relu" for node in onnx.load(sys.argv[1]).graph.node))
"""
FILES = {
    "model.onnx": SAMPLES / "conv_relu_conv_relu.onnx",  # any model: the smallest with a few nodes
    "resnet.onnx": SAMPLES / "resnet50_narrow.onnx",  # it has the input that the command names
    "check.py": CHECK,  # any fault: that there is a Relu
}
# Commands that cannot run here: the command line's own parser must take their arguments.
ON_RAY = "starts or needs a Ray cluster, which tests/test_cluster_ray.py does"
PARSED = {
    "graph-workbench package ppocr_cls_v2.onnx -o cls.pt2 --dims x_2=48,x_3=192": (
        "compiles for a minute: tests/test_compile.py runs it on this model"
    ),
    "graph-workbench matrix --plan oneflow --device cuda": "needs a GPU",
    "graph-workbench matrix ppocr_cls_v2.onnx --record database --on ray": ON_RAY,
    "graph-workbench app": "serves until it is stopped",
    "graph-workbench app model.onnx": "serves until it is stopped",
    "python -m workbench matrix models/*.onnx --layouts greedy,optimal --target cuda --on ray --record database": ON_RAY,
    "python -m workbench matrix models/*.onnx --layouts greedy,optimal --target cuda --on HEAD:6379 --record database": ON_RAY,
    "python -m workbench tune models/*.onnx --budget 1h --device cuda --on HEAD:6379 -o recipes": ON_RAY,
    "RAY_worker_niceness=0 ray start --head --port=6379": ON_RAY,
    "RAY_worker_niceness=0 ray start --address=HEAD:6379": ON_RAY,
}
# Commands that take half a minute or more: they run with these arguments behind their own.
SHORTENED = {
    "graph-workbench bench model.onnx model.opt.onnx --backend torch,onnxruntime --dtype float32": "--repeat 1",
    "graph-workbench bench model.onnx --trace trace.json": "--repeat 1",
    "graph-workbench matrix ppocr_cls_v2.onnx --layouts greedy,optimal --target cuda --batches 1,4"
    " --record m.jsonl --csv m.csv": "--repeat 1 --backend onnxruntime",
    "graph-workbench tune model.onnx --budget 10m -o best.toml": "--for size",
    "graph-workbench tune ppocr_cls_v2.onnx --budget 10m -o best.toml": "--for size",
    "graph-workbench compare-tools model.onnx": "--no-measure --tools ort_optimizer:basic",
    "graph-workbench compare-tools ppocr_cls_v2.onnx": "--no-measure --tools ort_optimizer:basic",
}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
OF_OTHER_PROGRAMS = {"--models", "--run-slow"}  # python -m tests.fuzz, pytest
# What differs from run to run, from machine to machine, or with each new pass, in output that a page shows.
VARIES = re.compile(r"\d+(\.\d+)?e-\d+|\bseed \d+|\bpasses: \d+|\d+\.\d s$|Compared on .*$", re.MULTILINE)


@dataclass
class Place:
    """Where a page is followed: a folder beside the samples; `done` runs a command there and gives its stdout."""

    folder: Path
    done: Callable[..., str]


# ---- what is found, and what of it is run --------------------------------------------------------------------


def test_at_most_a_third_of_the_commands_is_not_run_as_it_stands():
    texts = [command.text for command in FOUND]
    assert {*PARSED, *SHORTENED} <= set(texts) and not PARSED.keys() & SHORTENED.keys()
    parsed = sum(text in PARSED for text in texts)
    shortened = sum(text in SHORTENED for text in texts)
    print(f"{len(texts)} commands: {len(texts) - parsed - shortened} run, {shortened} shortened, {parsed} parsed only")
    assert len(texts) > 50 and parsed + shortened <= len(texts) / 3


@pytest.fixture(scope="module")
def options():
    """Of each command, those that its parser takes."""
    return {name: options_of(dict(inner_parsers(_parser([name])))[name]) for name in COMMANDS}


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Its own, and those of its actions."""
    own = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
    return own.union(*(options_of(inner) for _, inner in inner_parsers(parser)))


def check_arguments(command: Command, options: dict[str, set[str]]) -> None:
    """Raises UserError, or click's error, for arguments that the program does not take."""
    if command.arguments is not None:
        _parser(command.arguments[:1]).parse_args(command.arguments)  # which takes the beginning of an option too
        assert {word for word in command.arguments if word.startswith("--")} <= options[command.arguments[0]]
    elif "ray" in command.words:
        scripts = pytest.importorskip("ray.scripts.scripts")
        name, *arguments = command.words[command.words.index("ray") + 1 :]
        scripts.cli.commands[name].make_context(name, arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_all_arguments_of_all_commands_exist(page, options):
    for step in STEPS[page]:
        if isinstance(step, Command):
            check_arguments(step, options)


@pytest.mark.parametrize("name", COMMANDS)
def test_all_arguments_of_the_examples_of_a_command_exist(name, options):
    assert EXAMPLES[name] or name == "lesson"
    for example in EXAMPLES[name]:
        check_arguments(example, options)


def test_all_options_and_targets_that_the_text_names_exist(options):
    """Between backticks: a command of ours with options, an option alone, `make TARGET`."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    of_any = set().union(*options.values(), OF_OTHER_PROGRAMS)
    wrong, found = [], 0
    for page in (page for page in HAND_WRITTEN if page.name != "CHANGELOG.md"):  # which may name what is gone
        for span in re.findall(r"`(\S[^`\n]*)`", outside_of_blocks(page)):
            words = Command(span.replace("'", "")).arguments or span.split()
            named = set(OPTION.findall(span)) if words[0] in options or span.startswith("-") else set()
            found += len(named)
            wrong += [(page.name, span)] * (not named <= options.get(words[0], of_any))
            wrong += [(page.name, span)] * (words[0] == "make" and words[1] not in targets)
    assert not wrong and found > 60


def test_all_options_that_the_help_of_a_command_names_exist(options):
    """Of that command, or of the one that stands before it."""
    wrong, found = [], 0
    for name, module in MODULES.items():
        details = getattr(module, "DETAILS", "")
        spans = re.findall(r"`([^`]*)`", details)
        of_others = {option for span in spans if span.split()[0] in options for option in OPTION.findall(span)}
        named = set(OPTION.findall(details)) - of_others
        found += len(named)
        wrong += [(name, option) for option in sorted(named - options[name])]
        wrong += [
            (name, span) for span in spans if not set(OPTION.findall(span)) <= options.get(span.split()[0], named)
        ]
    assert not wrong and found > 10


def outside_of_blocks(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


# ---- followed page by page -----------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path, monkeypatch, done):
    """An empty folder beside the samples, of a user without passes or settings, with the programs on the path."""
    for name in ("sample_models", "lessons"):
        (tmp_path / name).symlink_to(ROOT / name)
    for sample in SAMPLES.glob("*.onnx"):
        (tmp_path / sample.name).symlink_to(sample)
    for name, content in FILES.items():
        if isinstance(content, Path):
            (tmp_path / name).symlink_to(content)
        else:
            (tmp_path / name).write_text(content)
    for name in ("WORKBENCH_PASSES", "WORKBENCH_OPERATORS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    monkeypatch.chdir(tmp_path)
    worker = KeptWorker()
    with commands_share(worker):
        yield Place(tmp_path, done)
    worker.end()


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if STEPS[page]], ids=lambda page: page.name)
def test_a_page_works_as_it_stands(page, place, monkeypatch):
    for step in STEPS[page]:
        if isinstance(step, Snippet):
            (handle,) = handlers_of(step)
            if handle is not None:
                handle(step.text, place)
        elif step.text in PARSED or (page.name == "adding-a-pass.md" and step.text in RUN_IN_A_COPY):
            continue
        elif step.arguments is not None:
            said = followed(step, place, monkeypatch)
            assert not step.shown or without_what_varies(said) == without_what_varies(step.shown)
        elif step.words[0] == "export":
            name, url = step.words[1].split("=")
            monkeypatch.setenv(name, url)
            assert make_url(url).get_dialect().name == "postgresql"
        else:
            serve(step)


def followed(command: Command, place: Place, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the command prints on stdout."""
    monkeypatch.setattr(sys, "orig_argv", ["python", command.program])
    return place.done(*map(os.path.expanduser, command.arguments), *SHORTENED.get(command.text, "").split())


@pytest.mark.slow
def test_the_examples_in_the_help_work_one_after_the_other(place, monkeypatch):
    for example in (example for examples in EXAMPLES.values() for example in examples):
        if example.text not in PARSED:
            followed(example, place, monkeypatch)


def without_what_varies(output: str) -> list[str]:
    return VARIES.sub("#", output).splitlines()


def serve(command: Command) -> None:
    """Starts the app by this command; it must answer to the name that the command allows, and to no other."""
    (name,) = (
        value for option, value in zip(command.words, command.words[1:], strict=False) if "allowedHosts" in option
    )
    port = free_port()
    env = {**os.environ, "STREAMLIT_SERVER_PORT": str(port), "STREAMLIT_SERVER_HEADLESS": "true"}
    process = subprocess.Popen(
        command.words, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    site = f"http://127.0.0.1:{port}"
    try:
        wait_for_app(site, process)
        assert [answer(site, host, path="/")[0] for host in (name, f"not-{name}")] == [200, 403]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=LIMIT_S)


# ---- snippets ------------------------------------------------------------------------------------------------


def is_a_script(text: str, place: Place) -> None:
    """Its first line is its name, which commands after it use."""
    (place.folder / text.split()[1]).write_text(text, encoding="utf-8")


def is_of_the_recipe(text: str, place: Place) -> None:
    """The page shows the first lines of a recipe such as the one that its command has written."""
    shown, written = tomllib.loads(text), tomllib.loads((place.folder / "best.toml").read_text(encoding="utf-8"))
    assert shown.keys() <= written.keys() and shown["run"].keys() <= written["run"].keys()
    assert shown["version"] == written["version"]


def is_a_program(text: str, place: Place) -> None:
    exec(text, {})


def calls_a_compiled_graph(text: str, place: Place) -> None:
    history = wb.optimize(typed("g (float[1,3,8,8] images) => (float[1,3,8,8] y) { a = Relu(images)  y = Exp(a) }"))
    images = np.linspace(-1, 1, 192, dtype=np.float32).reshape(1, 3, 8, 8)
    names = {"wb": wb, "history": history, "images": images}
    exec(text, names)
    np.testing.assert_allclose(names["outputs"]["y"], np.exp(np.maximum(images, 0)), rtol=1e-6)


def is_a_lesson(text: str, place: Place) -> None:
    (place.folder / "mine.md").write_text(text, encoding="utf-8")


def is_said_of_a_wrong_name(text: str, place: Place) -> None:
    """What `check` says of the page's lesson with another name in one place."""
    lesson = (place.folder / "mine.md").read_text(encoding="utf-8")
    wrong, right = re.findall(r"'(to_\w+)'", text)
    (place.folder / "mine.md").write_text(lesson.replace(right, wrong), encoding="utf-8")
    with pytest.raises(AssertionError) as refused:
        place.done("lesson", "check", "mine.md")
    assert text in str(refused.value)


# The file of a pass of which a page shows the rule, with what the page leaves out.
RULE_FILE = '''
"""A rule of the page."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from passes.recompose.recompose_softmax import RecomposeSoftmax, axis_of_sum as axis, is_float32
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.core.guards import require_constant
from workbench.rewrite.patterns import graph_rules
from workbench.rewrite.patterns.matching import Match

SOFTMAX = RecomposeSoftmax.rules[0]
DIAGONAL = Example(
    before="g (float[3,2] x) => (float[3,2] y) <float[2,2] d = {2, 0, 0, 3}> { y = MatMul(x, d) }",
    after="g (float[3,2] x) => (float[3,2] y) <float[2] y_v = {2, 3}> { y = Mul(x, y_v) }",
    sentences=("MatMul 'MatMul_y' by a diagonal matrix",),
    mode="fast",
)
REFUSED = Refusal(
    "g (float[3,2] x) => (float[3,2] y) <float[2,2] d = {2, 1, 0, 3}> { y = MatMul(x, d) }",
    "'d' of MatMul 'MatMul_y' is not a diagonal matrix",
)
NAN = Counterexample({"x": [[1, float("inf")]] * 3}, float("nan"), 2, "inf * 0 is NaN")
graph_rule = partial(graph_rules.graph_rule, LEFT_OUT)

SNIPPET


@dataclass(frozen=True)
class OfThePage(Pass):
    """One case.

    Does not apply to anything else.

    Source: the page.
    """

    title = "Of the page"
    rules = (rule,)
'''


def is_rule_of_a_softmax(text: str, place: Place) -> None:
    check_rule(text.replace("Example(...)", "SOFTMAX.example"), "refusals=SOFTMAX.refusals[:1]", place)


def is_rule_of_a_diagonal(text: str, place: Place) -> None:
    sentence = '"{root} by a diagonal matrix", DIAGONAL'
    check_rule(text.replace("...", sentence), "refusals=(REFUSED,), counterexample=NAN", place)


def check_rule(text: str, excluded: str, place: Place) -> None:
    written = RULE_FILE.replace("SNIPPET", re.sub("^graph_rule", "rule = graph_rule", text, flags=re.M))
    (place.folder / "of_the_page.py").write_text(written.replace("LEFT_OUT", excluded).lstrip(), encoding="utf-8")
    place.done("test-pass", "of_the_page.py")


def is_a_declaration(text: str, place: Place) -> None:
    """Its operators are known, with their types, where a user puts the file."""
    folder = Path("~/.config/graph-workbench/operators").expanduser()
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    header = '<ir_version: 8, opset_import: ["": 17, "my": 1]>'
    model = (
        header
        + """g (float[1,8,6,5] x) => (float[1,8,12,10] y, n, b) {
        u = my.Upsample2 (x) y = my.Activation (u) n, b = EfficientNMS_TRT <max_output_boxes = 100> (y) }"""
    )
    (place.folder / "plugins.onnx").write_bytes(onnx.parser.parse_model(model).SerializeToString())
    graph = wb.load(place.folder / "plugins.onnx")
    assert [str(graph.type(value)) for value in "uyb"] == ["float[1,8,12,10]"] * 2 + ["float[1,100,4]"]
    assert "declared in 'mine.toml'" in graph.warnings[0]


def is_a_job(text: str, place: Place) -> None:
    """Its last step, on a folder with a model, as the shell of GitHub Actions runs it."""
    (place.folder / "models").mkdir()
    (place.folder / "models" / "small.onnx").symlink_to(SAMPLES / "conv_relu_conv_relu.onnx")
    summary = place.folder / "github.md"
    script = textwrap.dedent(text.rpartition("- run: |\n")[2])
    env = {**os.environ, "GITHUB_STEP_SUMMARY": str(summary)}
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=place.folder, env=env, check=True)
    assert (place.folder / "out.onnx").exists() and "nodes" in summary.read_text(encoding="utf-8")


# By its first line. None: what a run of another day or machine said.
SNIPPETS: dict[str, Callable[[str, Place], None] | None] = {
    "for latency on Intel(R) Xeon(R) Processor, error at most 0.001": None,
    "version = 1": is_of_the_recipe,
    "import workbench as wb": is_a_program,
    "# other_bits.py": is_a_script,
    'fast = wb.compile(history.graph, backend="arena")': calls_a_compiled_graph,
    "takes x float32[1, 3, 48, 192] on cpu, of these shapes only; gives the tuple": None,  # in tests/test_compile.py
    '"""A Relu of a Relu equals the first."""': None,  # in tests/test_adding_a_pass.py
    "graph_rule(": is_rule_of_a_softmax,
    "def is_diagonal(d: np.ndarray) -> bool:": is_rule_of_a_diagonal,
    "# here, in a rule with sentence, example and refusals": None,  # of other tools
    "---": is_a_lesson,
    "mine.md, line ": is_said_of_a_wrong_name,
    '["my.Upsample2"]': is_a_declaration,
    "jobs:": is_a_job,
}


def handlers_of(snippet: Snippet) -> list[Callable[[str, Place], None] | None]:
    return [handle for beginning, handle in SNIPPETS.items() if snippet.text.lstrip().startswith(beginning)]


def test_each_block_of_the_pages_is_known():
    snippets = [step for steps in STEPS.values() for step in steps if isinstance(step, Snippet)]
    assert [len(handlers_of(snippet)) for snippet in snippets] == [1] * len(SNIPPETS)
