"""Every rule's example with operands of other shapes, as broadcasting allows them: what comes out stays what it was."""

import numpy as np
import pytest

from tests.running import outputs
from tests.test_exactness import RULES
from workbench.evidence.verification.pass_files.exactness_runs import hostile_inputs
from workbench.evidence.verification.pass_files.example_runs import difference_beyond
from workbench.formats.io import LoadError, load_model
from workbench.formats.io.exporting import to_bytes
from workbench.ir import Edit, constant, from_text
from workbench.planning.layout.strategies.layout_strategy import example_context
from workbench.rewrite import Exactness, run_pass, with_options

VARIANTS = [range(4), pytest.param(range(4, 16), marks=pytest.mark.slow)]


def other_shape(random, shape):
    """The shape with an axis made 1, made larger, put in front, or without its first."""
    shape = list(shape)
    place = int(random.integers(0, len(shape))) if shape else 0
    kind = random.integers(0, 5)
    if kind == 0 and shape:
        shape[place] = 1
    elif kind == 1 and shape:
        shape[place] = 2 if shape[place] == 1 else shape[place]
    elif kind == 2:
        shape = [1, *shape]
    elif kind == 3:
        shape = [2, *shape]
    else:
        shape = shape[1:]
    return tuple(shape)


def varied(text, random, path):
    """The graph with other shapes of some inputs and constants, loaded; None where its types do not fit."""
    graph = from_text(text)
    types = {v: graph.tensor_type(v) for v in graph.inputs}
    types = {v: t.with_shape(other_shape(random, t.shape)) for v, t in types.items() if random.integers(0, 2)}
    constants = {}
    for name, tensor in graph.constants.items():
        if random.integers(0, 3) == 0:
            array = tensor.numpy()
            new = other_shape(random, array.shape)
            constants[name] = constant(np.resize(array, new) if array.size else array)
    graph.apply(Edit(types=types, constants=constants))
    path.write_bytes(to_bytes(graph))
    try:
        return load_model(path)
    except LoadError:
        return None


def weakest(cls, mode):
    """What may differ after all rules of the pass that the mode lets run."""
    exactness = {rule.exactness for rule in cls.rules}
    if mode == "fast" and Exactness.FAST_MATH in exactness:
        return Exactness.FAST_MATH
    return next((one for one in (Exactness.STEP, Exactness.ROUNDING) if one in exactness), Exactness.BIT_EXACT)


@pytest.mark.parametrize("variants", VARIANTS, ids=str)
@pytest.mark.parametrize(("cls", "rule"), RULES)
def test_operands_of_other_shapes_give_what_they_gave(cls, rule, variants, tmp_path):
    """Where the pass acts on the variant, numbers, shapes and element types are as before; else nothing changed."""
    example, exactness = rule.example, weakest(cls, rule.example.mode)
    for seed in variants:
        random = np.random.default_rng(seed)
        before = varied(example.before, np.random.default_rng(seed), tmp_path / "m.onnx")
        if before is None:
            continue
        after = before.copy()
        step = run_pass(with_options(cls, example.options), after, example_context(example), check_each=True)
        if not step.rewrites:
            continue
        inputs = hostile_inputs(before, exactness, int(random.integers(0, 100)), 2)
        try:
            expected = outputs(before, inputs)
        except Exception:  # the model itself does not run: shapes that do not fit, an index that is too large
            continue
        for name, array in outputs(after, inputs).items():
            if isinstance(array, np.ndarray):
                sentence = f"{rule.name}, variant {seed}: {[r.sentence for r in step.rewrites]}"
                assert not difference_beyond(exactness, expected[name], array), sentence


def test_variants_reach_the_rules(tmp_path):
    """The test above would show nothing if no rule acted on a variant."""
    acted = 0
    for cls, rule in (parameters.values for parameters in RULES):
        example = rule.example
        graph = varied(example.before, np.random.default_rng(1), tmp_path / "m.onnx")
        if graph is not None:
            step = run_pass(with_options(cls, example.options), graph, example_context(example))
            acted += bool(step.rewrites)
    assert acted > len(RULES) // 4
