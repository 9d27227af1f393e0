"""Bad words on the command line: dims, options, places to write and arrays that do not fit; each gets one sentence and exit code 2."""

from __future__ import annotations

import os
import pickle
import random
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.conftest import ROOT
from tests.making import Bomb, model, node, saved, value
from tests.waiting import LIMIT_S
from workbench.__main__ import main


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        ("optimize {model} -o {data}", "weights.data"),
        ("report {model} -o {data}", "weights.data"),
        ("extract {model} --to a -o {data}", "weights.data"),
        ("reduce {model} --check 'false {{}}' -o {data}", "weights.data"),
        ("bench {model} --json {data}", "weights.data"),
        ("tune {model} -o {data}", "weights.data"),
        ("matrix {model} --csv {data}", "weights.data"),
        ("optimize {model} -o {folder}/other", "other.data"),
    ],
)
def test_weights_of_the_model_are_not_replaced(refused, tmp_path, words, lost):
    """A file beside OUT.onnx, for weights above 2 GB, would be written too."""
    made = model([node("MatMul", "x w", "a"), node("Relu", "a", "y")], (value("x", [1, 64]),), (value("y", [1, 64]),))
    made.graph.initializer.append(numpy_helper.from_array(np.ones((64, 64), np.float32), "w"))
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location=lost, size_threshold=0)
    before = (tmp_path / lost).read_bytes()
    names = {"model": tmp_path / "m.onnx", "data": tmp_path / lost, "folder": tmp_path}
    said = refused(*shlex.split(words.format(**names)))
    assert f"/{lost}' has weights of" in said and said.endswith("which would be lost; write to another file\n")
    assert (tmp_path / lost).read_bytes() == before


# ---- dims ------------------------------------------------------------------------------


@pytest.fixture
def symbolic(tmp_path):
    made = model([node("Relu", "x", "y")], (value("x", ["N", 4]),), (value("y", ["N", 4]),))
    return saved(tmp_path, made, "symbolic.onnx")


@pytest.mark.parametrize("command", ["inspect", "optimize", "verify", "bench"])
@pytest.mark.parametrize(
    ("dims", "sentence"),
    [
        ("N=-1", "at least 1, not -1"),
        ("N=0", "at least 1, not 0"),
        ("N=abc", "must be a whole number, not 'abc'"),
        ("N=1.5", "must be a whole number"),
        ("N=", "must be a whole number"),
        ("N", "name=number"),
        ("=3", "name=number"),
        ("M=3", "no dimension 'M'; it has N"),
        ("N=2,M=3", "no dimension 'M'"),
        ("N=2, N=3", "dim 'N' is given twice"),
        ("N=" + "9" * 5000, "must be a whole number"),
    ],
)
def test_dims_that_are_none(refused, symbolic, tmp_path, command, dims, sentence):
    more = {"optimize": ["-o", tmp_path / "o.onnx"], "verify": [symbolic]}.get(command, [])
    assert sentence in refused(command, symbolic, *more, "--dims", dims)


def test_a_huge_dim(run, refused, unverified, symbolic):
    assert "needs 16000.0 GB" in unverified(symbolic, "--dims", "N=999999999999")
    assert "needs 16000.0 GB" in refused("bench", symbolic, "--dims", "N=999999999999")
    code, out, _ = run("verify", symbolic, symbolic, "--dims", "N=999999999999")
    assert code == 3 and "needs 16000.0 GB" in out
    assert "below 2^63" in refused("inspect", symbolic, "--dims", "N=99999999999999999999")


# ---- words -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "required: COMMAND"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["explain"], "required: PASS"),
        (["explain", "nope"], "no pass 'nope'; there are: "),
        (["inspect"], "give either a model file or --torch"),
        (["inspect", "MODEL", "--torch", "a:b"], "give either a model file or --torch"),
        (["inspect", "MODEL", "more"], "unrecognized arguments: more"),
        (["optimize", "MODEL"], "required: -o/--output"),
        (["optimize", "MODEL", "-o", "OUT", "--passes", "fold_constants,nope"], "no pass 'nope'"),
        (["optimize", "MODEL", "-o", "OUT", "--preset", "nope"], "no preset 'nope'; did you mean 'none'?"),
        (["optimize", "MODEL", "-o", "OUT", "--preset", "none", "--passes", "dead_nodes"], "not allowed with"),
        (
            ["optimize", "MODEL", "-o", "OUT", "--target", "nope"],
            "no target profile 'nope'; there are: blocked, cpu, cuda, nchw, npu",
        ),
        (["optimize", "MODEL", "-o", "OUT", "--target", "../profiles/npu"], "no target profile"),
        (
            ["optimize", "MODEL", "-o", "OUT", "--layout", "nope"],
            "no layout strategy 'nope'; there are: blocked, convert-layout, greedy",
        ),
        (["optimize", "MODEL", "-o", "OUT", "--option", "nope"], "pass.field=value"),
        (["optimize", "MODEL", "-o", "OUT", "--option", "nope.a=1"], "is not of a pass that runs"),
        (["optimize", "MODEL", "-o", "OUT", "--option", "fold_constants.a=1"], "has no option 'a'"),
        (["optimize", "MODEL", "-o", "OUT", "--option", "fold_constants.max_bytes=big"], "must be a number"),
        (["optimize", "MODEL", "-o", "OUT", "--option", "fold_constants.max_bytes=-1"], "fold_constants.max_bytes"),
        (["optimize", "MODEL", "-o", "OUT", "--seed", "-1"], "whole number from 0 up, not '-1'"),
        (["optimize", "MODEL", "-o", "OUT", "--seed", "x"], "whole number from 0 up, not 'x'"),
        (["optimize", "--torch", "a", "-o", "OUT"], "package.module:function"),
        (["optimize", "--torch", "no_such_module_here:f", "-o", "OUT"], "cannot be imported"),
        (["bench", "MODEL", "--device", "tpu"], "invalid choice: 'tpu'"),
        (["bench", "MODEL", "--backend", "jax"], "no backend 'jax'; use torch"),
        (["bench", "MODEL", "--dtype", "int8"], "no element type 'int8' to measure in"),
        (["bench", "MODEL", "--backend", ","], "--backend: the list is empty; name at least one"),
        (["bench", "MODEL", "--backend", "onnxruntime", "--dtype", "float16"], "use float32, or a torch backend"),
        (["matrix", "MODEL", "--dtype", " , "], "--dtype: the list is empty"),
        (["matrix", "MODEL", "--backend", "onnxruntime", "--dtype", "mixed"], "use float32, or a torch backend"),
        (["runs", "--url", "sqlite:///no_such_file.sqlite"], "there is no file 'no_such_file.sqlite' of kept runs"),
        (["bench", "MODEL", "--time-limit", "0"], "a number above 0, not '0'"),
        (["bench", "MODEL", "--memory-limit", "much"], "a number above 0, not 'much'"),
        (["bench", "MODEL", "--repeat", "0"], "at least 1, not 0"),
        (["bench", "MODEL", "--repeat", "-3"], "at least 1, not -3"),
        (["bench", "MODEL", "--repeat", "1.5"], "a whole number, at least 1, not 1.5"),
        (["inspect", ""], "no file is named; name a model"),
        (["optimize", "MODEL", "-o", ""], "the name of a file to write is empty"),
        (["matrix", "MODEL", "--layouts", ""], "--layouts: the list is empty"),
        (["report", "MODEL", "-o", "OUT", "--against", "OTHER", "--layout", "greedy"], "leave out --layout"),
        (["report", "MODEL", "-o", "OUT", "--against", "OTHER", "--no-verify"], "leave out --no-verify"),
        (["bench", "MODEL", "OTHER"], "different inputs"),
        (["verify", "MODEL", "OTHER"], "Only the first model has an input"),
    ],
    ids=lambda part: " ".join(part)[:60] if isinstance(part, list) else "",
)
def test_words_that_mean_nothing(refused, tmp_path, arguments, sentence):
    other = saved(tmp_path, model([node("Relu", "z", "y")], (value("z", [1, 4]),)), "other.onnx")
    words = {"MODEL": str(ROOT / "sample_models/npu_path.onnx"), "OUT": str(tmp_path / "out.onnx"), "OTHER": other}
    assert sentence in refused(*(words.get(a, a) for a in arguments))
    assert not (tmp_path / "out.onnx").exists()


# ---- places to write -------------------------------------------------------------------


def test_places_that_cannot_be_written(refused, symbolic, tmp_path):
    assert "folder does not exist" in refused("optimize", symbolic, "-o", tmp_path / "no/out.onnx")
    assert "it is a folder" in refused("optimize", symbolic, "-o", tmp_path)
    assert "folder does not exist" in refused(
        "optimize", symbolic, "-o", tmp_path / "o.onnx", "--report", tmp_path / "no/r"
    )
    assert "folder does not exist" in refused("bench", symbolic, "--json", tmp_path / "no/r.json")
    assert not (tmp_path / "o.onnx").exists()
    assert "cannot be written" in refused("optimize", symbolic, "-o", tmp_path / ("n" * 300), "--no-verify")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc on this system")
def test_a_place_that_takes_no_file_is_told_before_the_work(refused, symbolic, tmp_path):
    for place in ("out.onnx", "r.json"):
        out = "/proc/out.onnx" if place == "out.onnx" else tmp_path / "out.onnx"
        sentence = refused(
            "optimize", symbolic, "-o", out, "--report", f"/proc/{place}" if place == "r.json" else tmp_path / "r"
        )
        assert f"'/proc/{place}' cannot be written: " in sentence and "write to another path" in sentence
        assert not (tmp_path / "out.onnx").exists()
    assert "'/proc/r.html' cannot be written" in refused("report", symbolic, "-o", "/proc/r.html")


# ---- what is no file -------------------------------------------------------------------


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe.onnx")
    return tmp_path / "pipe.onnx"


@pytest.mark.slow
def test_a_pipe_is_neither_read_nor_replaced(refused, symbolic, pipe):
    """Reading one may never end."""
    assert "it is a pipe or a device, not a file" in refused("inspect", pipe)
    assert "it is a pipe or a device" in refused("bench", symbolic, "--inputs", pipe)
    assert "it is a pipe or a device" in refused("matrix", symbolic, "--record", pipe)
    assert "it is a pipe or a device" in refused("optimize", symbolic, "-o", pipe)
    assert pipe.is_fifo()


def test_weights_in_a_pipe_are_refused(refused, tmp_path):
    made = model([node("Add", "x w", "y")], (value("x", [1000, 4]),), (value("y", [1000, 4]),))
    made.graph.initializer.append(numpy_helper.from_array(np.ones((1000, 4), np.float32), "w"))
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    (tmp_path / "w.data").unlink()
    os.mkfifo(tmp_path / "w.data")
    assert "w.data" in refused("inspect", tmp_path / "m.onnx")


def test_a_link_stays_and_its_file_is_replaced(done, symbolic, tmp_path):
    real, link = tmp_path / "deep" / "real.onnx", tmp_path / "link.onnx"
    real.parent.mkdir()
    real.write_bytes(b"old")
    link.symlink_to(real)
    done("optimize", symbolic, "-o", link, "--no-verify")
    assert link.is_symlink()
    assert "1 nodes" in done("inspect", real)
    assert sorted(real.parent.iterdir()) == [real]


def test_nothing_that_is_read_is_overwritten(refused, symbolic, tmp_path):
    before = Path(symbolic).read_bytes()
    os.symlink(symbolic, tmp_path / "link.onnx")
    own = tmp_path / "own.npz"
    np.savez(own, x=np.ones((2, 4), np.float32))
    for same in (symbolic, tmp_path / "link.onnx", f"{tmp_path}/../{tmp_path.name}/symbolic.onnx"):
        assert "read or written already" in refused("optimize", symbolic, "-o", same)
    assert "read or written already" in refused("optimize", symbolic, "-o", tmp_path / "o", "--report", symbolic)
    assert "read or written already" in refused("optimize", symbolic, "-o", tmp_path / "o", "--report", tmp_path / "o")
    assert "read or written already" in refused("optimize", symbolic, "-o", own, "--inputs", own)
    assert "read or written already" in refused("bench", symbolic, "--json", symbolic)
    assert Path(symbolic).read_bytes() == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk_is_a_sentence():
    command = [sys.executable, "-u", "-m", "workbench", "passes"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=LIMIT_S)
    assert ended.returncode == 2 and ended.stderr == "workbench: the system refused: No space left on device\n"


# ---- inputs of one's own ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"z": np.ones((1, 4), np.float32)}, "has no array 'x'"),
        ({"x": np.ones((1, 4), np.float32), "z": np.ones(1)}, "that is not an input"),
        ({"x": np.ones((1, 5), np.float32)}, "shape [1, 5]"),
        ({"x": np.ones(4, np.float32)}, "shape [4]"),
        ({"x": np.ones((1, 4), np.complex64)}, "complex64"),
        ({"x": np.full((1, 4), "a")}, "float"),
    ],
)
def test_arrays_that_do_not_fit(refused, symbolic, tmp_path, arrays, sentence):
    np.savez(tmp_path / "own.npz", **arrays)
    for command in (
        ["optimize", symbolic, "-o", tmp_path / "o.onnx"],
        ["verify", symbolic, symbolic],
        ["bench", symbolic],
    ):
        assert sentence in refused(*command, "--inputs", tmp_path / "own.npz")


def test_files_that_are_no_arrays(refused, symbolic, tmp_path):
    own, proof = tmp_path / "own.npz", tmp_path / "proof"

    def told():
        return refused("verify", symbolic, symbolic, "--inputs", own)

    assert "no inputs file" in told()
    np.savez(own, x=np.array([[Bomb(str(proof))] * 4], dtype=object))
    assert "not an .npz file of plain arrays" in told()
    assert not proof.exists()
    own.write_bytes(pickle.dumps(Bomb(str(proof))))
    assert "not an .npz file" in told()
    assert not proof.exists()
    own.write_bytes(b"hello")
    assert "not an .npz file" in told()
    with open(own, "wb") as file:
        np.save(file, np.ones((1, 4), np.float32))
    assert "without a name" in told()
    np.savez_compressed(own, x=np.random.default_rng(0).standard_normal((1, 4)).astype(np.float32))
    whole = own.read_bytes()
    draw = random.Random(3)
    for _ in range(60):
        data = bytearray(whole)
        data[draw.randrange(len(data))] = draw.randrange(256)
        own.write_bytes(data[: draw.choice((len(data), draw.randrange(len(data))))])
        main_code = main(["verify", symbolic, str(tmp_path / "none.onnx"), "--inputs", str(own)])
        assert main_code == 2
