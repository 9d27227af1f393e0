"""A block of a matrix: one model at a batch size on a kind of device, its variants measured interleaved, as a job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from workbench.analysis.inference.bound_sizes import bound_types
from workbench.errors import UserError
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io.dims import bind_dims, symbols
from workbench.interfaces.study.cluster.jobs import DeviceKind, Outcome, Site
from workbench.interfaces.study.sweep.model_variants import ModelFile
from workbench.ir import Graph
from workbench.ir.to_proto import structure
from workbench.run.measurement.measure import measure_models, refused_sizes
from workbench.run.measurement.measurement_result import Measurement, measurement_from_json
from workbench.run.measurement.variants import combined
from workbench.run.records.store import RunOrigin, model_hash
from workbench.run.worker.client import RUN_LIMIT_S


class MatrixError(UserError):
    """The matrix cannot be measured as requested."""


@dataclass(frozen=True)
class Matrix:
    """The models and settings to measure.

    models:    by name, the graphs by step or strategy, each compared with the first; or a file, whose variants are
               made on the machine that measures it.
    batches:   sizes of `batch_dim`; empty: each model with its dims as bound.
    batch_dim: a symbolic dim of the inputs; None: the first axis of each model's first input.
    given:     dims that the user bound; other dims may be changed until the model runs.
    pipelines: by model and step, the command that produces the step's graph, for the stored runs.
    timeout_s, memory_limit_bytes: limits of each block, see `Worker.request`.
    """

    models: Mapping[str, Mapping[str, Graph] | ModelFile]
    batches: Sequence[int] = ()
    batch_dim: str | None = None
    backends: Sequence[str] = ("torch",)
    dtypes: Sequence[str] = ("float32",)
    device: str = "cpu"
    repeat: int | None = None
    cold: bool = False
    seed: int = 0
    timeout_s: float = RUN_LIMIT_S
    memory_limit_bytes: int | None = None
    given: Collection[str] = ()
    pipelines: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def blocks(self) -> Iterator[tuple[str, int | None]]:
        """Each model with each batch size, in order; None without batch sizes."""
        for model in self.models:
            for batch in self.batches or (None,):
                yield model, batch


@dataclass(frozen=True)
class Ran:
    """Where and when a block was measured. started, ended: seconds since the epoch, by that machine's clock."""

    place: str
    started: float
    ended: float


@dataclass(frozen=True)
class Block:
    """A model at a batch size on a kind of device, and its measurement, or the sentence that says why it has none.

    key: the hash of everything that affects the numbers. ran: None if it is not known.
    """

    key: str
    model: str
    batch: int | None
    device: str = ""
    measurement: Measurement | None = None
    failed: str = ""
    ran: Ran | None = None

    def to_json(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"key": self.key, "model": self.model, "batch": self.batch, "device": self.device}
        if self.ran is not None:
            entry["ran"] = asdict(self.ran)
        return entry | ({"failed": self.failed} if self.measurement is None else {"found": self.measurement.to_json()})

    def ended(self, outcome: Outcome) -> Block:
        """This block with the outcome of its job."""
        ran = None if outcome.device is None else Ran(outcome.device.place, outcome.started, outcome.ended)
        measurement = None if outcome.answer is None else outcome.answer.measurement
        return replace(self, measurement=measurement, failed=outcome.failed, ran=ran)


def block_from_json(block: Mapping[str, Any]) -> Block:
    ran = None if "ran" not in block else Ran(**block["ran"])
    measurement = measurement_from_json(block["found"])
    return Block(block["key"], block["model"], block["batch"], block.get("device", ""), measurement, ran=ran)


@dataclass(frozen=True)
class BlockAnswer:
    """The answer of a `BlockJob`. origins: by variant label, for the stored runs."""

    measurement: Measurement
    origins: Mapping[str, RunOrigin]


@dataclass(frozen=True)
class BlockJob:
    """The job that measures a block. matrix: with this model only, since it is sent to the machine that measures it."""

    matrix: Matrix
    model: str
    batch: int | None
    record = None

    @property
    def files(self) -> tuple[str, ...]:
        source = self.matrix.models[self.model]
        return (source.path,) if isinstance(source, ModelFile) else ()

    def run(self, site: Site) -> BlockAnswer:
        """Raises UserError if the model is too large for the machine, or does not run."""
        matrix, model = self.matrix, self.model
        graphs, commands = self._variants(site)
        graphs = bound(matrix, model, graphs, self.batch)
        first = next(iter(graphs.values()))
        given = {*matrix.given}
        if self.batch is not None and (name := _batch_dim(matrix, first, model, self.batch)) is not None:
            given.add(name)
        site.on_progress({"done": 0, "total": 1, "stage": "computing the reference in ONNX Runtime"})
        verifier = Verifier(first, None, matrix.seed, worker=site.worker, given=given, patient=True)
        with refused_sizes(model, {name: first.dims[name] for name in sorted(given & {*first.dims})}):
            inputs, reference = verifier.inputs, verifier.reference
        measurement = measure_models(
            combined(graphs, matrix.backends, matrix.dtypes),
            inputs=inputs,
            reference=reference,
            device=site.device,
            repeat=matrix.repeat,
            cold=matrix.cold,
            worker=site.worker,
            on_progress=site.on_progress,
            timeout_s=matrix.timeout_s,
            memory_limit_bytes=matrix.memory_limit_bytes,
        )
        hashes = {step: model_hash(graph) for step, graph in graphs.items()}
        origins = {
            label: RunOrigin(hashes[variant.step], model, commands.get(variant.step, ""))
            for label, variant in measurement.variants.items()
        }
        return BlockAnswer(measurement, origins)

    def _variants(self, site: Site) -> tuple[Mapping[str, Graph], Mapping[str, str]]:
        """The graphs by step, and by step the commands that produce them."""
        source = self.matrix.models[self.model]
        if not isinstance(source, ModelFile):
            return source, {step: self.matrix.pipelines.get((self.model, step), "") for step in source}
        site.on_progress({"done": 0, "total": 1, "stage": "running the passes"})
        variants = source.variants(Path(site.path_of(source.path)))
        graphs = {step: graph for step, (graph, _) in variants.items()}
        return graphs, {step: command for step, (_, command) in variants.items()}


def job_of(matrix: Matrix, model: str, batch: int | None) -> BlockJob:
    return BlockJob(replace(matrix, models={model: matrix.models[model]}), model, batch)


def check_block(matrix: Matrix, model: str, batch: int | None) -> None:
    """Raise UserError if the model cannot be loaded or cannot have this batch size."""
    source = matrix.models[model]
    graphs = {"as loaded": source.load()} if isinstance(source, ModelFile) else source
    bound(matrix, model, graphs, batch)


def bound(matrix: Matrix, model: str, graphs: Mapping[str, Graph], batch: int | None) -> Mapping[str, Graph]:
    """Copies of the model's graphs whose batch dim has this size. Raises MatrixError."""
    if batch is None:
        return graphs
    name = _batch_dim(matrix, next(iter(graphs.values())), model, batch)
    if name is None:
        return graphs
    results = {}
    for label, graph in graphs.items():
        copy = graph.copy()
        copy.dims = bind_dims(graph, {**graph.dims, name: batch})
        copy.bound_types = bound_types(copy)
        results[label] = copy
    return results


def _batch_dim(matrix: Matrix, graph: Graph, model: str, batch: int) -> str | None:
    """The symbol that becomes `batch`; None if the model's fixed batch is just that. Raises MatrixError."""
    if matrix.batch_dim is not None:
        return matrix.batch_dim
    shape = graph.shape(graph.inputs[0]) if graph.inputs else None
    if shape and isinstance(shape[0], str):
        return shape[0]
    if shape and shape[0] == batch:
        return None
    fixed = f"a fixed batch of {shape[0]:,}" if shape and isinstance(shape[0], int) else "no batch"
    others = f"; its other dimensions are {', '.join(symbols(graph))}" if symbols(graph) else ""
    raise MatrixError(f"'{model}' has {fixed}, so it cannot be measured at {batch:,}{others}.")


def variants_key(matrix: Matrix, model: str) -> Any:
    """Everything that the model's variants depend on, for the keys of its blocks. Raises RecordsError."""
    source = matrix.models[model]
    if isinstance(source, ModelFile):
        return source.key()
    return {label: (graph_digest(graph), dict(graph.dims)) for label, graph in source.items()}


def block_key(
    matrix: Matrix, model: str, variants: Any, batch: int | None, kind: DeviceKind, versions: Mapping[str, str]
) -> str:
    """The hash of everything that affects the block's numbers. variants: see `variants_key`."""
    content = {
        "model": model,
        "variants": variants,
        "batch": batch,
        "device": asdict(kind),
        "versions": versions,
        **{name: getattr(matrix, name) for name in ("batch_dim", "backends", "dtypes", "repeat", "cold", "seed")},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=list).encode()).hexdigest()


def graph_digest(graph: Graph) -> str:
    """SHA-256, in hexadecimal, of the graph's file and of its present structure."""
    serialized = structure(graph).SerializeToString(deterministic=True)
    return hashlib.sha256(model_hash(graph).encode() + serialized).hexdigest()
