"""Seeded inputs, the user's own, and lengths that a model needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from tests.conftest import CORPUS
from workbench.backends.tensors import load_tensors, save_tensors
from workbench.formats.io import load_model
from workbench.ir import from_text
from workbench.run.input_roles import Use, use_of
from workbench.run.inputs import bound_dims, dims_of, inputs_of_kinds, read_inputs, seed_inputs
from workbench.run.npz import InputError
from workbench.run.runnable_dims import TRIES, settle_dims


def corpus(name: str) -> Path:
    if not (CORPUS / name).exists():
        pytest.skip(f"NOT TESTED: {name} is not in the corpus beside the repository")
    return CORPUS / name


def session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


# ---- seeded --------------------------------------------------------------------------


def test_same_seed_same_numbers_and_each_input_its_own_stream():
    one = from_text("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    two = from_text("g (float[2,3] z, float[2,3] x) => (float[2,3] y) { y = Add(x, z) }")
    assert np.array_equal(seed_inputs(one)["x"], seed_inputs(two)["x"])
    assert not np.array_equal(seed_inputs(one)["x"], seed_inputs(one, seed=1)["x"])
    assert not np.array_equal(seed_inputs(two)["x"], seed_inputs(two)["z"])


def test_an_index_stays_inside_the_smallest_table_that_it_reaches():
    graph = from_text(
        """g (int64[1000] ids) => (float[1000,4] y)
        <float[7,4] table = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}, float[3,4] small = {0,0,0,0,0,0,0,0,0,0,0,0}> {
            narrow = Cast<to = 6>(ids)
            a = Gather(table, narrow)
            b = Gather(small, ids)
            y = Add(a, b)
        }"""
    )
    assert use_of(graph, "ids") == Use("index", 3)
    assert set(seed_inputs(graph)["ids"].tolist()) == {0, 1, 2}


def test_an_index_is_followed_into_a_function():
    graph = from_text(
        """<ir_version: 10, opset_import: ["": 23, "lib": 1]>
        g (int64[500] ids) => (float[500,1] y) <float[5,1] table = {0,0,0,0,0}> { y = lib.embedding(table, ids) }
        <domain: "lib", opset_import: ["": 23]> embedding (weight, rows) => (out) { out = Gather(weight, rows) }"""
    )
    assert use_of(graph, "ids") == Use("index", 5)


def test_masks_are_ones_and_zeros_and_every_row_has_a_one():
    graph = from_text(
        """g (int64[50,4] attention_mask, int64[50,4] keep, float[50,4] x) => (float[50,4] y) {
            cond = Cast<to = 9>(keep)
            z = Where(cond, x, x)
            m = Cast<to = 1>(attention_mask)
            y = Mul(z, m)
        }"""
    )
    inputs = seed_inputs(graph)
    for name in ("attention_mask", "keep"):
        assert set(np.unique(inputs[name]).tolist()) == {0, 1}
        assert inputs[name].any(axis=1).all()
        assert inputs[name].mean() > 0.7
    assert inputs["x"].std() > 0.5


def test_names_say_sample_rates_and_lengths():
    graph = from_text(
        """g (int64 sr, int64[8] lengths, float[8,40] x) => (float[8,40] y, bool z, bool[8] w) {
            y = Relu(x)
            rate = Constant<value_int = 16000>()
            z = Equal(sr, rate)
            w = Less(lengths, rate)
        }"""
    )
    inputs = seed_inputs(graph)
    assert inputs["sr"] == 16000
    assert inputs["sr"].shape == ()
    assert inputs["lengths"].min() >= 20
    assert inputs["lengths"].max() <= 40


@pytest.mark.parametrize(
    ("written", "dtype"),
    [("uint8", np.uint8), ("bool", np.bool_), ("string", np.str_), ("float16", np.float16), ("double", np.float64)],
)
def test_every_element_type_gets_its_own(written, dtype):
    graph = from_text(f"g ({written}[2,300] x) => ({written}[2,300] y) {{ y = Identity(x) }}")
    tensor = seed_inputs(graph)["x"]
    assert np.issubdtype(tensor.dtype, dtype)
    assert tensor.shape == (2, 300)


def test_dims_come_from_the_call_then_the_graph_then_sense():
    graph = from_text("g (float[batch,3,H,W] x) => (float[batch,3,H,W] y) { y = Relu(x) }")
    graph.dims = {"H": 20}
    assert bound_dims(graph, {"W": 5}) == {"batch": 1, "H": 20, "W": 5}
    assert seed_inputs(graph, {"W": 5})["x"].shape == (1, 3, 20, 5)


def test_a_negative_dim_and_an_enormous_one_are_refused():
    graph = from_text("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    with pytest.raises(InputError, match=r"Dimension 'N' of input 'x' is bound to -1"):
        seed_inputs(graph, {"N": -1})
    with pytest.raises(InputError, match=r"alone needs 4000000\.0 GB, and .* are free"):
        seed_inputs(graph, {"N": 10**15})


def test_a_sequence_of_sequences_is_refused():
    graph = from_text("g (seq(seq(float[2])) x) => (int64 y) { y = SequenceLength(x) }")
    with pytest.raises(InputError, match=r"'x' has type .*such inputs cannot be run"):
        seed_inputs(graph)


# ---- the user's own --------------------------------------------------------------------


@pytest.fixture
def model():
    return from_text(
        "g (float[N,3] x, int32[N] rows, bool flag) => (float[N,3] y) { a = Relu(x)\n b = Cast<to=1>(rows)\n y = Identity(a) }"
    )


def good() -> dict[str, np.ndarray]:
    return {"x": np.zeros((4, 3)), "rows": np.arange(4), "flag": np.array(True)}


def test_own_inputs_are_cast_where_safe_and_bind_dims(model, tmp_path):
    np.savez(tmp_path / "i.npz", **good())
    read = read_inputs(tmp_path / "i.npz", model)
    assert {name: tensor.dtype.name for name, tensor in read.items()} == {
        "x": "float32",
        "rows": "int32",
        "flag": "bool",
    }
    assert dims_of(model, read) == {"N": 4}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"x": None}, "has no array 'x'; the model's inputs are 'x', 'rows', 'flag'"),
        ({"more": np.zeros(1)}, "has an array 'more' that is not an input"),
        ({"x": np.zeros((4, 3), np.complex64)}, "'x' has type complex64; the model takes float"),
        ({"rows": np.zeros(4)}, "'rows' has type float64; the model takes int32"),
        ({"rows": np.array([0, 0, 0, 2**40])}, "'rows' has numbers that do not fit int32"),
        ({"flag": np.array(2)}, "'flag' has numbers besides 0 and 1"),
        ({"x": np.zeros(4)}, r"'x' has shape \[4\]; the model takes float\[N,3\]"),
        ({"x": np.zeros((4, 2))}, r"'x' has shape \[4, 2\]"),
        ({"rows": np.arange(5)}, "Dimension 'N' is 4 in input 'x' and 5 in input 'rows'"),
    ],
)
def test_own_inputs_that_do_not_fit_get_one_sentence(model, tmp_path, change, sentence):
    arrays = {name: array for name, array in {**good(), **change}.items() if array is not None}
    np.savez(tmp_path / "i.npz", **arrays)
    with pytest.raises(InputError, match=sentence) as caught:
        read_inputs(tmp_path / "i.npz", model)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_npz(model, tmp_path):
    with pytest.raises(InputError, match="There is no inputs file"):
        read_inputs(tmp_path / "none.npz", model)
    (tmp_path / "noise.npz").write_bytes(b"PK\x03\x04 noise")
    with pytest.raises(InputError, match=r"is not an \.npz file"):
        read_inputs(tmp_path / "noise.npz", model)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(InputError, match="one array without a name"):
        read_inputs(tmp_path / "one.npy", model)
    np.savez(tmp_path / "pickle.npz", **dict.fromkeys(model.inputs, np.array([{}], dtype=object)))
    with pytest.raises(InputError, match="plain arrays"):
        read_inputs(tmp_path / "pickle.npz", model)


def test_tensors_of_any_type_and_name_come_back(tmp_path):
    import ml_dtypes

    tensors = {
        "a/b:0": np.arange(3, dtype=ml_dtypes.bfloat16),
        "names": np.array(["x", "yz"], dtype=object),
        "file": np.array(1.5),
        "e": np.zeros((0, 2), np.int8),
        "f8": np.ones(2, ml_dtypes.float8_e4m3fn),
    }
    save_tensors(tmp_path / "t.npz", tensors)
    read = load_tensors(tmp_path / "t.npz")
    assert list(read) == list(tensors)
    assert read["a/b:0"].dtype == ml_dtypes.bfloat16
    assert read["f8"].dtype == ml_dtypes.float8_e4m3fn
    assert read["names"].tolist() == ["x", "yz"]
    assert read["e"].shape == (0, 2)


# ---- settling -----------------------------------------------------------------------------

FREE = "g (float[batch,length] x, float[2,width] state) => (float[batch,length] y, float[2,width] z) { y = Relu(x)\n z = Relu(state) }"


def test_nothing_is_settled_where_the_defaults_run():
    assert settle_dims(from_text(FREE), lambda dims: None) == {}


def test_two_lengths_are_found_together_and_only_what_is_needed_changes():
    def run(dims):
        return None if (dims["length"], dims["width"]) == (512, 128) else "wrong length"

    assert settle_dims(from_text(FREE), run) == {"length": 512, "width": 128}
    assert settle_dims(from_text(FREE), lambda dims: None if dims["length"] == 512 else "no") == {"length": 512}


def test_a_given_dim_stays_and_tries_are_bounded():
    tried = []

    def run(dims):
        tried.append(dict(dims))
        return "never"

    assert settle_dims(from_text(FREE), run, given={"length"}) == {}
    assert {dims["length"] for dims in tried} == {32}
    tried.clear()
    assert settle_dims(from_text(FREE), run) == {}
    assert len(tried) <= TRIES + 1


CORPUS_INPUTS = {
    "bert_12l_raw.onnx": {"input_ids": (2, 32), "attention_mask": (2, 32)},
    "magika_v3_3.onnx": {"bytes": (1, 2048)},
    "silero_vad.onnx": {"input": (1, 512), "state": (2, 1, 128), "sr": ()},
    "ppocrv4_rec.onnx": {"x": (1, 3, 48, 224)},
    "ppocrv4_det.onnx": {"x": (1, 3, 224, 224)},
}


@pytest.mark.parametrize("name", CORPUS_INPUTS)
def test_real_models_run_on_what_is_seeded(name):
    path = corpus(name)
    graph, original = load_model(path), session(path)

    def run(dims):
        try:
            original.run(None, seed_inputs(graph, dims))
        except Exception as error:  # onnxruntime's classes have no common base
            return str(error)
        return None

    inputs = seed_inputs(graph, settle_dims(graph, run))
    assert {name: tensor.shape for name, tensor in inputs.items()} == CORPUS_INPUTS[name]
    assert all(np.isfinite(output).all() for output in original.run(None, inputs))


def test_integers_of_real_models_index_their_tables():
    bert = load_model(corpus("bert_12l_raw.onnx"))
    assert use_of(bert, "input_ids").kind == "index"
    assert use_of(bert, "attention_mask").kind == "mask"
    assert use_of(load_model(corpus("magika_v3_3.onnx")), "bytes") == Use("index", 257)


def test_a_single_boolean_takes_both_values_within_two_runs():
    graph = from_text("g (bool p, bool[1] q, bool[4] m, float[4] x) => (float[4] y) { y = Identity(x) }")
    runs = [seed_inputs(graph), *inputs_of_kinds(graph, range(1, 4))]
    for name in ("p", "q"):
        first, *others = [bool(run[name].reshape(())) for run in runs]
        assert others == [not first, first, not first]
    assert len({run["m"].tobytes() for run in runs}) > 2
