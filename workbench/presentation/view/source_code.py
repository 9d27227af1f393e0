"""Where in a torch program a node comes from: its module and its Python line, as torch's exporter wrote them.

torch.onnx writes stack trace, module path and classes into the metadata of each node. The older exporter has the path
in the node's name, such as "/encoder/layer.0/attention/Add".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.ir.provenance import Provenance, of_metadata
from workbench.rewrite import History
from workbench.rewrite.core.provenance import update_provenance

STACK_TRACE, FX_NODE = "pkg.torch.onnx.stack_trace", "pkg.torch.onnx.fx_node"
SCOPES, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
_FRAME = re.compile(r'File "([^"\n]*)", line (\d+), in ([^\n]*)(?:\n +([^\n]*))?')
_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
MAX_CATEGORIES = 12  # colours of the palette


@dataclass(frozen=True)
class SourceLine:
    """A frame of a stack trace. code: "" if the trace does not have it."""

    file: str
    line: int
    function: str
    code: str

    def __str__(self) -> str:
        name = re.split(r"[\\/]", self.file)[-1]
        return f"{name}, line {self.line}, in {self.function}{f': {self.code}' if self.code else ''}"


def source_line(node: Node) -> SourceLine | None:
    """The innermost line of the user's program, outside of installed packages if one is; None without a trace."""
    frames = [
        SourceLine(file, int(line), function, (code or "").strip())
        for file, line, function, code in _FRAME.findall(node.metadata.get(STACK_TRACE, ""))
    ]
    own = [frame for frame in frames if not _INSTALLED.search(frame.file)]
    return next(reversed(own or frames), None)


def module_of(node: Node) -> str:
    """The path of the torch module that called the operator, such as "encoder.0.attention"; "" if none is known."""
    scopes = texts_in(node.metadata, SCOPES)
    if scopes:
        return scopes[-2] if len(scopes) > 1 else ""  # the last one is the call
    path, previous = "", ""
    for scope in filter(None, node.name.split("/")[:-1]):
        is_inside = previous and scope.startswith(f"{previous}.")
        path = f"{path}{scope[len(previous) :]}" if is_inside else f"{path}.{scope}" if path else scope
        previous = scope
    return path


def module_class(node: Node) -> str:
    """The class of that module, such as "Linear"; "" if it is not known."""
    classes = texts_in(node.metadata, _CLASSES)
    return classes[-2].rpartition(".")[2] if len(classes) > 1 else ""


def has_source(node: Node) -> bool:
    """Whether an exporter wrote from which module or line the node comes."""
    return STACK_TRACE in node.metadata or bool(module_of(node))


def sources_of(loaded: Graph, node: Node, origins: Iterable[str]) -> list[Node]:
    """The nodes of the graph as loaded that say where the node comes from: its origins, else the node itself.

    An origin that an earlier run wrote stands for the nodes from which it stems.
    """
    found: dict[str, Node] = {}
    for name in origins:
        origin = loaded.find(name)
        if origin is None:
            continue
        written = None if has_source(origin) else of_metadata(origin.metadata)
        nodes = [origin] if written is None else [loaded.find(earlier) for earlier in written.origins]
        found |= {each.name: each for each in nodes if each is not None and has_source(each)}
    return list(found.values()) or [node] * has_source(node)


def modules_of(history: History) -> dict[str, tuple[str, ...]]:
    """By node that the history ever had, the modules from which it stems; nodes without one are left out.

    The first is the node's own, or of a node that was created, the innermost one that holds all of its origins.
    """
    result = _own_modules(history.initial)
    if not result:
        return {}
    made: dict[str, dict[str, None]] = {}
    provenance: dict[str, Provenance] = {}
    for step in history.steps:
        for rewrite in step.rewrites:
            update_provenance(provenance, [rewrite])
            for node in rewrite.edit.insert:
                if node.name in provenance:
                    made.setdefault(node.name, {}).update(dict.fromkeys(provenance[node.name].origins))
    return _with_origins(result, made)


def modules_of_pair(first: Graph, second: Graph) -> dict[str, tuple[str, ...]]:
    """As `modules_of`, of two graphs. Origins of the second's nodes are looked up in the first."""
    result = {**_own_modules(second), **_own_modules(first)}
    return _with_origins(result, {name: made.origins for name, made in second.provenance.items()})


def _own_modules(graph: Graph) -> dict[str, tuple[str, ...]]:
    found = ((node.name, module_of(node)) for node in graph.nodes)
    return {name: (module,) for name, module in found if module}


def _with_origins(own: Mapping[str, tuple[str, ...]], made: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """The modules with those of the origins of nodes that were made or changed. made: origins by node."""
    result = dict(own)
    for name, origins in made.items():
        modules = list(dict.fromkeys(module for origin in origins for module in own.get(origin, ())))
        if modules:
            first = own[name][0] if name in own else _shared_module(modules)
            result[name] = tuple(dict.fromkeys((first, *modules)))
    return result


def _shared_module(modules: list[str]) -> str:
    """The innermost module that holds all of these; the first one if only the whole model does."""
    shared = modules[0].split(".")
    for module in modules[1:]:
        parts = module.split(".")
        length = next((i for i, (a, b) in enumerate(zip(shared, parts, strict=False)) if a != b), len(parts))
        shared = shared[:length]
    return ".".join(shared) or modules[0]


def module_categories(modules: Iterable[str]) -> dict[str, str]:
    """By module, the outer module whose colour it has: as deep as MAX_CATEGORIES colours allow."""
    paths = {module: module.split(".") for module in modules}
    deepest = max(map(len, paths.values()), default=0)
    for depth in range(deepest, 0, -1):
        categories = {module: ".".join(path[:depth]) for module, path in paths.items()}
        if depth == 1 or len(set(categories.values())) <= MAX_CATEGORIES:
            return categories
    return {}


def texts_in(metadata: Mapping[str, str], key: str) -> list[str]:
    """The list of texts in an entry, as Python prints it; [] if there is none."""
    try:
        texts = ast.literal_eval(metadata.get(key, "[]"))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []  # an entry of that name from another program
    return texts if isinstance(texts, list) and all(isinstance(text, str) for text in texts) else []
