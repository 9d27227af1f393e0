"""The arrows of docs/architecture.md: imports point one way, and heavy libraries come late."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TypeVar

from docs.make_rooms import PAGE, with_tables
from tests.commands import SAMPLES
from tests.conftest import ROOT

Place = TypeVar("Place", bound=Hashable)
FILES = [*sorted((ROOT / "workbench").rglob("*.py")), *sorted((ROOT / "passes").rglob("*.py"))]

# The rooms from the ground floor up, and what each may import of ours besides itself, `errors` and `support`.
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "support": set(),
    "checker": set(),
    "ir": set(),
    "ops": {"ir"},
    "analysis": {"ir", "ops"},
    "formats": {"ir", "ops", "analysis"},
    "rewrite": {"ir", "ops", "analysis", "formats"},
    "planning": {"ir", "ops", "analysis", "rewrite"},
    "passes": {"ir", "ops", "analysis", "rewrite", "planning"},
    "backends": {"ir", "ops", "analysis", "formats", "rewrite", "planning"},
    "run": {"ir", "ops", "analysis", "formats", "rewrite", "planning", "backends"},
    "pipeline": {"ir", "analysis", "formats", "rewrite", "planning", "passes", "backends", "run"},
    "evidence": {"ir", "ops", "analysis", "formats", "rewrite", "planning", "backends", "run"},
    "presentation": {"ir", "ops", "analysis", "formats", "rewrite", "planning", "backends", "run", "pipeline"},
}
EVERYWHERE = {"errors", "support"}
ROOMS["interfaces"] = {*ROOMS} - {"passes", *EVERYWHERE}
ENTRANCES = {"__init__", "__main__"}
# Within that, what the folders of a room may import: rooms, and folders of rooms. Those below come first.
_RULES = {"rewrite/__init__", "rewrite/core", "rewrite/patterns", "rewrite/analyses"}
_PLANS = {f"planning/{name}" for name in ("layout", "precision", "fusion", "memory", "streams")}
_RUNNING = {"ir", "ops", "analysis/inference", "formats", "rewrite/external", *_PLANS, "backends", "run"}
FOLDERS: dict[str, set[str]] = {
    "analysis/inference": {"ir", "ops"},
    "analysis/metrics": {"ir", "ops", "analysis/inference"},
    "formats/opsets": {"ir"},
    "formats/io": {"ir", "ops", "analysis/inference", "formats/opsets"},
    "rewrite": {"ir", "ops", "analysis", "formats/opsets", *_RULES},
    "rewrite/external": {"ir", *_RULES},
    "planning/solvers": set(),  # they know no graph of ours
    "planning/layout": {"ir", "ops", "analysis", "planning/solvers", *_RULES},
    "planning/precision": {"ir", "ops", "analysis", "planning/solvers", "planning/layout", *_RULES},
    "planning/fusion": {"ir", "ops", "analysis", "planning/solvers", "planning/layout"},
    "planning/memory": {"ir", "ops", "analysis/inference", "planning/solvers", "planning/fusion"},
    "planning/streams": {
        "ir",
        "ops",
        "analysis/inference",
        *(f"planning/{x}" for x in ("solvers", "fusion", "memory")),
    },
    "planning/saturation": {"ir", "analysis/inference", "planning/solvers", *_RULES},
    "backends": _RUNNING - {"run"},
    "run": _RUNNING,
    "pipeline": {"ir", "formats/opsets", "analysis/metrics", "planning/layout", "pipeline", *_RULES},
    "pipeline/registry": {
        *("ir", "formats/opsets", "rewrite", "planning/layout", "planning/precision", "passes", "backends", "run"),
        "pipeline",
    },
    "evidence/verification": {
        *("ir", "ops", "analysis/inference", "formats", "planning/layout", "backends", "run"),
        *_RULES,
    },
    "evidence/reduction": {"ir", "formats/io", "backends", "run", "evidence/verification"},
    "evidence/certification": {"ir", "formats/io", *_PLANS - {"planning/streams"}, *_RULES},
    "presentation/view": {"ir", "ops", "analysis", "planning/layout", "planning/fusion", *_RULES},
    "presentation/explanations": {
        *("ir", "ops", "analysis", "formats/opsets", "rewrite", "planning/saturation", "pipeline", "backends", "run"),
        *_PLANS - {"planning/streams"},
    },
    "presentation/charts": {"planning/memory", "planning/streams", "backends", "run", "presentation/explanations"},
    "interfaces/api": {
        *("ir", "formats/io", "planning/layout", "planning/fusion", "planning/memory", "backends", "run", "pipeline"),
        *("evidence", "checker", "presentation/explanations", "presentation/view"),
        *_RULES,
    },
    "interfaces/study": {
        *(
            "ir",
            "analysis",
            "formats/io",
            "rewrite",
            "planning/layout",
            "planning/memory",
            "backends",
            "run",
            "pipeline",
        ),
        *("evidence/verification", "evidence/reduction", "interfaces/api"),
    },
    "interfaces/lessons": {
        *("ir", "formats/io", "planning/layout", "planning/fusion", "planning/memory", "pipeline"),
        *("presentation/view", "presentation/charts", "interfaces/api"),
        *_RULES,
    },
    "interfaces/cli": ROOMS["interfaces"] | {"interfaces/api", "interfaces/study", "interfaces/lessons"},
    "interfaces/ui": ROOMS["interfaces"] | {"interfaces/api", "interfaces/study", "interfaces/lessons"},
}
LATE = {
    "egglog",
    "networkx",
    "ray",
    "torch",
    "onnxruntime",
    "plotly",
    "pandas",
    "streamlit",
    "highspy",
    "sqlalchemy",
    "psycopg",
}
MAY_USE_STREAMLIT = ROOT / "workbench" / "interfaces" / "ui"
MAY_USE_PLOTLY = {"workbench/presentation/charts/variants.py"}


MAY_USE_TORCH = {  # classes of torch.fx; `Program` imports them when it is run a second time
    "workbench/backends/torch/executor/codegen.py",
    "workbench/backends/torch/executor/recording.py",
}


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    if parts[0] == "passes":
        return "passes"
    return parts[1].removesuffix(".py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path, *, top_level_only: bool) -> set[str]:
    tree = parsed(path)
    nodes = ast.iter_child_nodes(tree) if top_level_only else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names if node.module in ("workbench",))
    return found


def test_imports_point_one_way():
    for path in FILES:
        if room_of(path) not in ENTRANCES:
            points_down(path)


def points_down(path: Path) -> None:
    room = room_of(path)
    assert room in ROOMS, f"{path} is in no room of the table"
    allowed = {room, *ROOMS[room], *(EVERYWHERE if room != "checker" else ())}
    for module in imports(path, top_level_only=False):
        if module == "passes" or module.startswith("passes."):
            assert room in ("passes", "pipeline"), f"{path} imports the passes"
        if module.startswith("workbench."):
            assert module.split(".")[1] in allowed, f"{path} imports {module}"


def test_each_arrow_of_the_table_is_used():
    arrows = arrows_between(room_of)
    assert {room: arrows[room] - {*ENTRANCES, *EVERYWHERE} for room in ROOMS} == ROOMS


def part_of(path: Path) -> str:
    """The folder of a room, or the file beside its folders: "planning/layout", "pipeline/running"."""
    room, *rest = path.relative_to(ROOT / "workbench" if room_of(path) != "passes" else ROOT).with_suffix("").parts
    return f"{room}/{rest[0]}" if rest else room


def test_folders_of_a_room_import_what_their_row_names():
    for part, lower in arrows_between(part_of).items():
        room, _, name = part.partition("/")
        if room in {*EVERYWHERE, *ENTRANCES, "checker", "ir", "ops", "passes"} or name == "__init__":
            continue  # their row is that of the room
        allowed = EVERYWHERE | (FOLDERS[part] if part in FOLDERS else FOLDERS[room])
        assert not [other for other in lower if not {other, other.partition("/")[0]} & allowed], part


def test_the_table_of_rooms_has_no_arrow_up():
    floors = list(ROOMS)
    for room, lower in ROOMS.items():
        assert {*lower} <= {*floors[: floors.index(room)]}, room


def test_the_tables_of_the_page_are_those_of_the_docstrings_and_of_the_rooms_here():
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page, ROOMS) == page, "run python docs/make_rooms.py"


def test_the_checker_needs_the_standard_library_numpy_and_onnx_alone():
    """With protobuf, of which onnx's messages are; whoever trusts it need not trust the engine."""
    allowed = {*sys.stdlib_module_names, "numpy", "onnx", "google.protobuf", "workbench.checker"}
    for path in sorted((ROOT / "workbench" / "checker").glob("*.py")):
        if path.name == "running.py":  # only `--run` asks for it
            allowed = allowed | {"onnxruntime"}
            assert "onnxruntime" not in imports(path, top_level_only=True)
        for module in imports(path, top_level_only=False):
            parts = module.split(".")
            assert {parts[0], ".".join(parts[:2])} & allowed, f"{path} imports {module}"


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, modules: set[str]) -> set[str]:
    """Which of these the file imports, wherever in it: at the top, inside a function, for types alone."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            base = ".".join((*package, *filter(None, [node.module])))
            found.update(name if (name := f"{base}.{alias.name}") in modules else base for alias in node.names)
    return found & modules


@cache
def all_imports() -> dict[Path, set[Path]]:
    """For each file, those of ours that it imports."""
    files = {module_of(path): path for path in FILES}
    return {path: {files[module] for module in imported_modules(path, {*files})} - {path} for path in FILES}


def circles(imports_of: Mapping[Place, set[Place]]) -> list[set[Place]]:
    """The groups of modules that import each other."""
    import networkx

    return [group for group in networkx.strongly_connected_components(networkx.DiGraph(imports_of)) if len(group) > 1]


def test_a_circle_of_imports_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
    assert "workbench.run.worker.client" in imported_modules(
        ROOT / "workbench/pipeline/registry/contexts.py", {"workbench.run.worker.client"}
    )
    inner = imported_modules(ROOT / "passes/fold/common_sizes.py", {"passes.fold.fold_shapes"})
    assert inner == {"passes.fold.fold_shapes"}


def test_no_circle_of_imports():
    """Neither at run time nor for types: late imports and those under TYPE_CHECKING count."""
    assert not circles(all_imports())


def folder_of(path: Path) -> str:
    """The folder as a room, "run/torch"; a file of the package's own folder is a room of its own."""
    folder = "/".join(path.relative_to(ROOT).parts[:-1]).removeprefix("workbench").lstrip("/")
    return folder or path.stem


def house() -> dict[str, set[str]]:
    """Every folder as a room, and the rooms that its files import."""
    return arrows_between(folder_of)


def arrows_between(place: Callable[[Path], str]) -> dict[str, set[str]]:
    """For each place of a file, the other places whose files its files import."""
    arrows: dict[str, set[str]] = {place(path): set() for path in FILES}
    for path, lower in all_imports().items():
        arrows[place(path)] |= {place(other) for other in lower} - {place(path)}
    return arrows


def test_no_circle_of_folders():
    assert circles(house()) == []


def calls_up(function: Callable[[], object]) -> set[tuple[str, str]]:
    """Where a function of a room runs that one of a lower room called: by an object or a callback that it was given."""
    places = {str(path): room_of(path) for path in FILES}
    floors = {room: floor for floor, room in enumerate(ROOMS)}
    found = set()

    def see(frame: FrameType, event: str, _: object) -> None:
        upper = places.get(frame.f_code.co_filename)
        if event != "call" or upper not in floors:
            return
        caller = frame.f_back
        while caller is not None and caller.f_code.co_filename not in places:
            caller = caller.f_back
        lower = None if caller is None else places[caller.f_code.co_filename]
        if lower in floors and floors[lower] < floors[upper]:
            found.add((lower, upper))

    sys.setprofile(see)
    try:
        function()
    finally:
        sys.setprofile(None)
    return found


def test_a_graph_that_is_optimized_is_handed_up_only_where_a_pass_runs():
    """The driver runs a pass: of `passes`, with the base of layout strategies, or a fixpoint, which is of the pipeline."""
    from workbench.formats.io import load_model
    from workbench.interfaces.api import optimize

    graph = load_model(SAMPLES / "conv_relu_conv_relu.onnx")
    climbs = calls_up(lambda: optimize(graph, layout="greedy"))
    assert climbs == {("rewrite", "passes"), ("rewrite", "planning"), ("rewrite", "pipeline")}


def test_fourteen_rooms():
    """With `passes/`, which lies beside the package."""
    assert {room_of(path) for path in FILES} == {*ROOMS, *ENTRANCES}
    assert len({*ROOMS} - EVERYWHERE) == 14


def test_heavy_libraries_come_late():
    imported = [(path, module) for path in FILES for module in imports(path, top_level_only=True)]
    for path, module in imported:
        name, library = str(path.relative_to(ROOT)), module.split(".")[0]
        if library not in LATE:
            continue
        allowed = (library == "streamlit" and path.is_relative_to(MAY_USE_STREAMLIT)) or (
            library == "plotly" and name in MAY_USE_PLOTLY
        )
        allowed = allowed or (library == "torch" and name in MAY_USE_TORCH)
        assert allowed, f"{name} imports {library} at its top"


def test_nothing_of_unix_alone_is_imported_at_the_top():
    for path in FILES:
        assert not imports(path, top_level_only=True) & {"fcntl", "grp", "pwd", "resource", "termios"}, path


def test_only_the_app_uses_streamlit():
    for path in FILES:
        uses = any(module.split(".")[0] == "streamlit" for module in imports(path, top_level_only=False))
        assert not uses or path.is_relative_to(MAY_USE_STREAMLIT), f"{path} imports streamlit"


def test_one_file_imports_the_passes():
    for path in FILES:
        uses = any(module.split(".")[0] == "passes" for module in imports(path, top_level_only=False))
        assert not uses or path == ROOT / "workbench/pipeline/registry/pass_registry.py" or room_of(path) == "passes", (
            f"{path} imports the passes"
        )


def test_listing_passes_needs_no_heavy_library():
    code = (
        "import sys, workbench.__main__ as m; m.main(['passes', '--json']); "
        f"print(sorted({sorted(LATE)} & sys.modules.keys()), file=sys.stderr)"
    )
    code = code.replace(f"{sorted(LATE)}", f"set({sorted(LATE)})")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_files_stay_short():
    """A file is as long as its subject, which is hardly ever more than 400 lines."""
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {str(path): length for path, length in lengths.items() if length > 500} == {}


def test_no_swallowed_exception():
    pattern = re.compile(r"except( Exception| BaseException)?( as \w+)?:\s*\n\s*pass\b")
    assert not [str(p) for p in FILES if pattern.search(p.read_text(encoding="utf-8"))]


# ---- names -----------------------------------------------------------------------------------

# Home-made words that gave way to the field's, as top-level names and as modules; docs/glossary.md has what stands now.
OLD_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        Found follow made_by maker reads_alone numbers passed_on gathered no_step_after breaches scaling views
        chains wire carry Carried CannotCarry demands places origins prices tidy feed fed told_apart turns settle
        use words torch_places remembered_times work_done Stopwatch check_wishes _obituary looks straight Stretch
        Chapter garbage keeping moments shown recent telling walking lettering hook test_bad_words
        follow_rules leave_out LeftOut lined_up Spread heed_cancel _heed_cancel _LOOK_S _LOOK_EVERY_S must_stay
        reason_to_stay wanted_layout travelling_files in_use_together other_processes parts_in_order several_outputs
        putting_back Kept Misses Datum Either outlines donors
        """,
    )
)
OLD_ATTRIBUTES = {"uses"}  # of a node
TABLES = "numbers"  # the widget's module that makes tables of them; the guard of that name is `require_constant`
# What every module of a kind has, under one name: a command's parts, a metric, a program's beginning.
PARTS = {
    "workbench/interfaces/cli": {"HELP", "EXAMPLES", "DETAILS", "add_arguments", "run", "main"},
    "workbench/planning/memory": {"PLANNER"},
    "workbench/analysis/metrics": {"METRIC"},
    "workbench/run": {"main"},
}


def top_level_names(tree: ast.Module) -> set[str]:
    """What a module defines, imports aside. Functions that a decorator enters in a table are called by nobody's name."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and not _is_entered(node)):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
    return found


def _is_entered(function: ast.FunctionDef) -> bool:
    return any(isinstance(decorator, ast.Call) for decorator in function.decorator_list)


def test_one_meaning_has_one_name():
    """No public top-level name is defined in two modules."""
    where: dict[str, list[str]] = {}
    for path in FILES:
        parts = [names for folder, names in PARTS.items() if path.is_relative_to(ROOT / folder)]
        names = top_level_names(parsed(path)).difference(*parts)
        for name in names:
            if not name.startswith("_"):
                where.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_no_home_made_word_is_left():
    for path in FILES:
        tree = parsed(path)
        modules = {path.stem, *path.relative_to(ROOT).parts[:-1]} - {TABLES}
        assert not OLD_WORDS & (top_level_names(tree) | modules), path
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not OLD_ATTRIBUTES & attributes, path
    scripts = {path.stem for path in (ROOT / "workbench").rglob("*.js")}
    assert not OLD_WORDS & {*scripts, *(path.stem for path in (ROOT / "tests").glob("*.py"))}


def test_names_that_are_defined_twice_are_found():
    tree = ast.parse("a, _b = 1, 2\nc: int = 3\n@enter('Relu')\ndef d(): e = 1\n@cache\ndef f(): ...\nclass G: h = 1")
    assert top_level_names(tree) == {"a", "_b", "c", "f", "G"}


if __name__ == "__main__":  # the figures of the house
    import networkx

    arrows = sum(len(lower) for lower in ROOMS.values())
    print(f"{len({*ROOMS} - EVERYWHERE)} rooms, {arrows} arrows between them, {len(FILES)} files")
    upper = networkx.condensation(networkx.DiGraph(house()))
    print(
        f"{len(house())} folders on {networkx.dag_longest_path_length(upper) + 1} floors, "
        f"{sum(map(len, house().values()))} arrows, {len(circles(house()))} circles"
    )
