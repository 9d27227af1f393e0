"""Target profiles: the user's own beside the built-in ones, a layout for each operator, and files that mean nothing."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import passes as library
from passes.layout.layout_convert_layout import LayoutConvertLayout
from tests.commands import NPU, report_of
from tests.running import outputs, random_inputs, typed
from workbench.planning.layout.profile import (
    BUILT_IN_FOLDER,
    Profile,
    ProfileError,
    built_in_names,
    delete_profile,
    demandable_operators,
    load_profile,
    profile_names,
    profiles,
    save_profile,
    user_folder,
)
from workbench.rewrite import PassContext, run_pass, with_options

OWN = Profile("mine", "Mine: pools first", "NHWC", "HWIO", {"Conv": "NHWC", "MaxPool": "NCHW"})
TEXT = """
title = "Written by hand"
layout = "NHWC"
weights = "OHWI"
demands = ["Conv", "workbench.BPA"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The user's folder, empty."""
    monkeypatch.setenv("WORKBENCH_PROFILES", str(tmp_path / "own"))
    return tmp_path / "own"


def written(folder: Path, text: str | bytes, name: str = "mine") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize("name", built_in_names())
def test_a_profile_is_data_alone(name):
    profile = load_profile(name)
    assert Profile(**json.loads(json.dumps(asdict(profile)))) == profile


def test_where_the_users_profiles_lie(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_PROFILES", str(tmp_path))
    assert user_folder() == tmp_path
    monkeypatch.delenv("WORKBENCH_PROFILES")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert user_folder() == tmp_path / "graph-workbench" / "profiles"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert user_folder() == Path.home() / ".config" / "graph-workbench" / "profiles"


def test_saved_loaded_and_deleted(folder):
    assert profile_names() == built_in_names()
    assert save_profile(OWN) == folder / "mine.toml"
    assert profile_names() == (*built_in_names(), "mine")
    assert load_profile("mine") == OWN
    changed = replace(OWN, title='A "title" \\ with signs, ümlauts', required_layouts={})
    save_profile(changed)
    assert load_profile("mine") == changed
    delete_profile("mine")
    assert profile_names() == built_in_names()
    with pytest.raises(ProfileError, match="cannot be deleted"):
        delete_profile("mine")


@pytest.mark.parametrize("name", built_in_names())
def test_a_built_in_profile_is_its_own_text(folder, name):
    profile = load_profile(name)
    assert load_profile(str(written(folder, profile.toml(), "copy"))) == replace(
        profile, name=str(folder / "copy.toml")
    )
    before = (BUILT_IN_FOLDER / f"{name}.toml").read_bytes()
    for spoil in (lambda: save_profile(profile), lambda: delete_profile(name)):
        with pytest.raises(ProfileError, match=f"'{name}' is a built-in profile, which stays as it is"):
            spoil()
    assert (BUILT_IN_FOLDER / f"{name}.toml").read_bytes() == before


@pytest.mark.parametrize("name", ["", "a b", "../up", "a/b", ".hidden", "-x", "x" * 41, "ü"])
def test_names_that_are_none(folder, name):
    with pytest.raises(ProfileError, match="cannot be the name of a profile; use up to 40 letters"):
        save_profile(replace(OWN, name=name))
    assert not folder.exists()


BAD = {
    "no TOML": ("title = ", "is not TOML"),
    "no text": (b"\xff\xfe", "is not TOML"),
    "without end": ("a = " + "[" * 10_000, "is not TOML"),
    "a key that lacks": ('title = "x"\nlayout = "NHWC"', "lacks weights, demands; add what is missing"),
    "a key too many": (TEXT + "\nlayuot = 3", "has the unknown key 'layuot'; its keys are title, layout"),
    "no title": (TEXT.replace("Written by hand", ""), "needs a title"),
    "a title of two lines": (TEXT.replace("by", "\\n"), "needs a title: one line"),
    "too much": ("#" * 1_000_001, "is not a file of at most 1,000,000 bytes"),
    "a list of lists": (TEXT.replace('"Conv"', '["Conv"]'), "demands must be a list of operators' names"),
    "a long key": ("k" * 1_000 + " = 1\n" + TEXT, "has the unknown key 'kkk"),
    "another layout": (
        TEXT.replace("NHWC", "NHCW"),
        "layout must be one of NCHW, NHWC, NCHW4c, NCHW8c, NCHW16c, NCHW32c, not 'NHCW'",
    ),
    "other weights": (TEXT.replace('"OHWI"', "4"), "weights must be one of OIHW, OHWI, HWIO, HWOI, not '4'"),
    "demands that are a number": (TEXT.replace('["Conv", "workbench.BPA"]', "7"), "demands must be a list"),
    "another operator": (TEXT.replace('"Conv"', '"conv"'), "of 'conv', .* did you mean 'Conv'"),
    "a number as operator": (TEXT.replace('"Conv"', "1"), "demands must be a list of operators' names"),
    "an operator without a layout": (TEXT.replace('"Conv"', '"Loop"'), "of 'Loop', which is not an operator"),
    "another layout of one": (
        TEXT.replace('["Conv", "workbench.BPA"]', '{ Conv = "NCWH" }'),
        "the layout of Conv must be one of NCHW, NHWC, NCHW4c, NCHW8c, NCHW16c, NCHW32c, not 'NCWH'",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), BAD.values(), ids=BAD)
def test_a_bad_file_is_one_sentence_and_the_others_can_be_used(folder, refused, tmp_path, text, sentence):
    file = written(folder, text)
    with pytest.raises(ProfileError, match=sentence):
        load_profile("mine")
    found, faults = profiles()
    assert tuple(found) == built_in_names()
    assert list(faults) == ["mine"] and str(file) in faults["mine"]
    assert str(file) in refused("optimize", NPU, "-o", tmp_path / "out.onnx", "--target", "mine")


def test_a_pipe_is_no_profile(folder):
    """Reading it would never end."""
    folder.mkdir(parents=True, exist_ok=True)
    os.mkfifo(folder / "pipe.toml")
    with pytest.raises(ProfileError, match="is not a file of at most"):
        load_profile("pipe")
    assert "cuda" in profile_names()


def test_a_file_of_a_built_in_name_is_not_used(folder):
    written(folder, TEXT, "cuda")
    assert load_profile("cuda").title.startswith("CUDA")
    assert "'cuda' is a built-in profile; give the file another name" in profiles()[1]["cuda"]


@pytest.mark.slow
def test_the_command_line_takes_a_name_and_a_path(folder, done, refused, tmp_path):
    file = written(folder, TEXT)
    for target in ("mine", str(file)):
        report = report_of(done, tmp_path, NPU, "--layout", "greedy", "--target", target)
        assert report["target"] == target and report["totals"]["verified"] is True
        assert any(node.op_type == "Conv_NHWC_OHWI" for node in onnx.load(tmp_path / "out.onnx").graph.node)
    rows = json.loads(done("layouts", NPU, "--target", file, "--json"))["strategies"]
    assert all(row["verified"] is True for row in rows.values())
    sentence = refused("layouts", NPU, "--target", tmp_path / "none.toml")
    assert "none.toml' cannot be read: No such file or directory" in sentence


# ---- a layout for each operator ----------------------------------------------------------

MIXED = """g (float[1,2,6,6] x) => (float[1,2,6,6] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
    a = Conv(x, w)
    b = Relu(a)
    c = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(b)
    d = Relu(c)
    y = Conv(d, w)
}"""
FIRST, LAST = {"Conv": "NCHW", "MaxPool": "NHWC"}, {"Conv": "NHWC", "MaxPool": "NCHW"}


def laid_out(strategy, target, text=MIXED, **options):
    """The operators after the strategy, its outputs compared with those before; and the sentences."""
    graph = typed(text)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    step = run_pass(with_options(strategy, options), graph, PassContext(target), check_each=True)
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected["y"], rtol=1e-5)
    return [node.op.removeprefix("workbench.") for node in graph.nodes], [r.sentence for r in step.rewrites]


def test_the_layout_that_is_wanted_of_an_operator():
    assert [OWN.layout_for(4, op) for op in (None, "Relu", "Conv", "MaxPool")] == ["NHWC", "NHWC", "NHWC", "NCHW"]
    assert [OWN.layout_for(rank, "MaxPool") for rank in (2, 3, 5)] == [None, "NCW", "NCDHW"]
    assert "Transpose" not in demandable_operators() and demandable_operators()[0] == "AveragePool"


@pytest.mark.parametrize("name", ["greedy", "convert-layout", "record-then-insert", "insert-and-cancel", "optimal"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("demands", "last"), [(FIRST, "MaxPool"), (LAST, "Conv")], ids=["pool last", "conv last"])
def test_each_strategy_gives_each_operator_its_layout(name, layout, demands, last):
    target = replace(load_profile("cuda"), layout=layout, required_layouts=demands)
    ops, _ = laid_out(library.strategies()[name], target)
    weights = "_OHWI" if name == "insert-and-cancel" else ""  # they go with the data
    assert {op.removesuffix(weights) for op in ops if op.startswith(("Conv", "MaxPool"))} == {
        f"{op}_NHWC" if op == last else op for op in ("Conv", "MaxPool")
    }


def test_what_keeps_its_layout_by_demand_says_so():
    ops, sentences = laid_out(library.strategies()["greedy"], replace(load_profile("cuda"), required_layouts=LAST))
    assert ops == [
        "Transpose",
        "Conv_NHWC",
        "Relu",
        "Transpose",
        "MaxPool",
        "Relu",
        "Transpose",
        "Conv_NHWC",
        "Transpose",
    ]
    assert any("MaxPool 'MaxPool_c' demands NCHW; transposed back, 72 elements" in said for said in sentences)


def test_convert_layout_takes_layouts_by_operator_in_either_direction():
    cuda, nchw = load_profile("cuda"), load_profile("nchw")
    there = laid_out(LayoutConvertLayout, nchw, operators="Conv=NHWC MaxPool=NCHW")
    assert there == laid_out(LayoutConvertLayout, replace(cuda, layout="NCHW", required_layouts=LAST))
    assert laid_out(LayoutConvertLayout, nchw, operators="Conv=NHWC") == laid_out(LayoutConvertLayout, cuda)
    assert laid_out(LayoutConvertLayout, cuda, operators="Conv") == laid_out(LayoutConvertLayout, cuda)
    back = """g (float[1,4,4,2] x) => (float[1,4,4,2] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
        a = Transpose<perm=[0,3,1,2]>(x)
        b = Conv(a, w)
        c = Transpose<perm=[0,2,3,1]>(b)
        d = Relu(c)
        e = Transpose<perm=[0,3,1,2]>(d)
        f = Conv(e, w)
        y = Transpose<perm=[0,2,3,1]>(f)
    }"""
    assert laid_out(LayoutConvertLayout, cuda, back, operators="Conv=NCHW") == laid_out(LayoutConvertLayout, nchw, back)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("conv", "did you mean 'Conv'"),
        ("Conv=NCWH", "one of NCHW, NHWC, NCHW4c, NCHW8c, NCHW16c, NCHW32c, not 'NCWH'"),
        ("=NHWC", "of '', which is no"),
        ("Conv=NHWC Conv=NCHW", "operators names Conv twice; give each operator one layout"),
    ],
)
def test_operators_that_mean_nothing(refused, tmp_path, words, sentence):
    option = f"layout_convert_layout.operators={words}"
    told = refused(
        "optimize",
        NPU,
        "-o",
        tmp_path / "out.onnx",
        "--layout",
        "convert-layout",
        "--target",
        "cuda",
        "--option",
        option,
    )
    assert "option layout_convert_layout.operators" in told and sentence in told


def test_a_convolution_that_only_follows_is_heavily_sensitive_still():
    _, sentences = laid_out(LayoutConvertLayout, load_profile("cuda"), operators="MaxPool")
    assert any(
        said.startswith("heavily layout-sensitive: Conv 'Conv_y' takes NHWC from its operands") for said in sentences
    )
