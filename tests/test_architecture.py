"""The arrows of docs/architecture.md: imports point one way, and heavy libraries come late."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

FILES = [*sorted((ROOT / "workbench").rglob("*.py")), *sorted((ROOT / "passes").rglob("*.py"))]

# The rooms from the ground floor up, and what each may import of ours besides itself, `errors` and `support`.
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "support": set(),
    "checker": set(),
    "solvers": set(),
    "ir": set(),
    "ops": {"ir"},
    "inference": {"ir", "ops"},
    "opsets": {"ir"},
    "io": {"ir", "ops", "inference", "opsets"},
    "metrics": {"ir", "ops", "inference"},
    "rewrite": {"ir", "ops", "inference", "opsets", "metrics"},
    "external": {"ir", "rewrite"},
    "layout": {"solvers", "ir", "ops", "inference", "metrics", "rewrite"},
    "precision": {"solvers", "ir", "ops", "inference", "metrics", "rewrite", "layout"},
    "fusion": {"solvers", "ir", "ops", "inference", "metrics", "layout"},
    "memory": {"solvers", "ir", "ops", "inference", "fusion"},
    "streams": {"solvers", "ir", "ops", "inference", "fusion", "memory"},
    "saturation": {"solvers", "ir", "inference", "rewrite"},
    "passes": {
        *("solvers", "ir", "ops", "inference", "metrics", "rewrite", "external"),
        *("layout", "precision", "fusion", "memory", "saturation"),
    },
    "pipeline": {"ir", "opsets", "metrics", "rewrite", "layout"},
    "run": {
        *("ir", "ops", "inference", "opsets", "io", "external", "layout", "precision", "fusion", "memory", "streams"),
    },
    "registry": {"ir", "opsets", "rewrite", "external", "layout", "precision", "pipeline", "run"},
    "verification": {"ir", "ops", "inference", "opsets", "io", "rewrite", "layout", "run"},
    "reduction": {"ir", "io", "run", "verification"},
    "explanations": {
        *("ir", "ops", "inference", "metrics", "rewrite", "external", "layout", "precision", "fusion", "memory"),
        *("saturation", "opsets", "pipeline", "run"),
    },
    "certification": {"ir", "io", "rewrite", "layout", "precision", "fusion", "memory"},
    "view": {"ir", "ops", "inference", "metrics", "rewrite", "layout", "fusion"},
    "charts": {"memory", "streams", "run", "explanations"},
    "api": {
        *("ir", "io", "rewrite", "layout", "fusion", "memory", "pipeline", "run", "registry", "verification"),
        *("reduction", "explanations", "certification", "checker", "view"),
    },
    "study": {
        *("ir", "inference", "io", "metrics", "rewrite", "external", "layout", "memory", "pipeline", "run"),
        *("registry", "verification", "reduction", "api"),
    },
    "lessons": {
        *("ir", "io", "rewrite", "layout", "fusion", "memory", "pipeline", "registry", "view", "charts", "api"),
    },
}
ROOMS["cli"] = {*ROOMS} - {"passes"}
ROOMS["ui"] = {*ROOMS} - {"passes", "cli"}
EVERYWHERE = {"errors", "support"}
ENTRANCES = {"__init__", "__main__"}
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
MAY_USE_STREAMLIT = {"ui"}
MAY_USE_PLOTLY = {"workbench/charts/variants.py"}


MAY_USE_TORCH = {  # classes of torch.fx; `Program` imports them when it is run a second time
    "workbench/run/torch/executor/codegen.py",
    "workbench/run/torch/executor/recording.py",
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
            assert room in ("passes", "registry"), f"{path} imports the passes"
        if module.startswith("workbench."):
            assert module.split(".")[1] in allowed, f"{path} imports {module}"


def test_the_table_of_rooms_has_no_arrow_up():
    floors = list(ROOMS)
    for room, lower in ROOMS.items():
        assert {*lower} <= {*floors[: floors.index(room)]}, room


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


def circles(imports_of: dict[str, set[str]]) -> list[set[str]]:
    """The groups of modules that import each other."""
    import networkx

    return [group for group in networkx.strongly_connected_components(networkx.DiGraph(imports_of)) if len(group) > 1]


def test_a_circle_of_imports_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
    assert "workbench.run.worker.client" in imported_modules(
        ROOT / "workbench/registry/contexts.py", {"workbench.run.worker.client"}
    )
    inner = imported_modules(ROOT / "passes/fold/common_sizes.py", {"passes.fold.fold_shapes"})
    assert inner == {"passes.fold.fold_shapes"}


def test_no_circle_of_imports():
    """Neither at run time nor for types: late imports and those under TYPE_CHECKING count."""
    files = {module_of(path): path for path in FILES}
    assert not circles({module: imported_modules(path, set(files)) - {module} for module, path in files.items()})


def folder_of(path: Path) -> str:
    """The folder as a room, "run/torch"; a file of the package's own folder is a room of its own."""
    folder = "/".join(path.relative_to(ROOT).parts[:-1]).removeprefix("workbench").lstrip("/")
    return folder or path.stem


def house() -> dict[str, set[str]]:
    """Every folder as a room, and the rooms that its files import."""
    files = {module_of(path): path for path in FILES}
    arrows: dict[str, set[str]] = {folder_of(path): set() for path in FILES}
    for path in FILES:
        lower = {folder_of(files[module]) for module in imported_modules(path, set(files))}
        arrows[folder_of(path)] |= lower - {folder_of(path)}
    return arrows


def test_no_circle_of_folders():
    assert circles(house()) == []


def test_few_entries_at_the_top():
    entries = [path for path in (ROOT / "workbench").iterdir() if path.name != "__pycache__"]
    assert len(entries) <= 35, sorted(path.name for path in entries)


def test_heavy_libraries_come_late():
    imported = [(path, module) for path in FILES for module in imports(path, top_level_only=True)]
    for path, module in imported:
        name, library = str(path.relative_to(ROOT)), module.split(".")[0]
        if library not in LATE:
            continue
        allowed = (library == "streamlit" and room_of(path) in MAY_USE_STREAMLIT) or (
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
        assert not uses or room_of(path) == "ui", f"{path} imports streamlit"


def test_one_file_imports_the_passes():
    for path in FILES:
        uses = any(module.split(".")[0] == "passes" for module in imports(path, top_level_only=False))
        assert not uses or path == ROOT / "workbench/registry/pass_registry.py" or room_of(path) == "passes", (
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
        """,
    )
)
OLD_ATTRIBUTES = {"uses"}  # of a node
TABLES = "numbers"  # the widget's module that makes tables of them; the guard of that name is `require_constant`
# What every module of a kind has, under one name: a command's three parts, a metric, a program's beginning.
PARTS = {"cli": {"HELP", "add_arguments", "run", "main"}, "memory": {"PLANNER"}, "metrics": {"METRIC"}, "run": {"main"}}


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
        names = top_level_names(parsed(path)) - PARTS.get(room_of(path), set())
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

    rooms = networkx.DiGraph(house())
    upper = networkx.condensation(rooms)
    print(
        f"{len(rooms)} rooms on {networkx.dag_longest_path_length(upper) + 1} floors, {rooms.number_of_edges()} arrows, "
        f"{len(circles(house()))} circles"
    )
