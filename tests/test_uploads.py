"""Uploads are kept by their hash: a link opens them in any tab, and what is open does not need what is kept."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.pages import fine, opened_sample, page
from workbench.errors import UserError
from workbench.formats.io.samples import FOLDER
from workbench.interfaces.ui.state import session, uploads
from workbench.interfaces.ui.state.uploads import (
    Upload,
    forget_uploads,
    keep_upload,
    kept_upload,
    kept_uploads,
    save_upload,
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))


def file(name: str, content: bytes) -> SimpleNamespace:
    """What Streamlit hands over for an uploaded file."""
    return SimpleNamespace(name=name, getbuffer=lambda: memoryview(content))


def sample(stem: str) -> SimpleNamespace:
    path = FOLDER / f"{stem}.onnx"
    return file(path.name, path.read_bytes())


def kept(*files: SimpleNamespace) -> Upload:
    upload = save_upload(files)
    assert keep_upload(upload) == ""
    return upload


def test_an_upload_opens_again_by_its_key_with_all_of_its_files():
    upload = kept(file("m.onnx", b"model"), file("m.data", b"weights"))
    again = kept_upload(upload.key, "m.onnx")
    assert again.models[0].read_bytes() == b"model"
    assert (again.models[0].parent / "m.data").read_bytes() == b"weights"
    assert again.folder.name != upload.folder.name


def test_the_key_is_that_of_names_and_contents():
    first, same = kept(file("m.onnx", b"one")), kept(file("m.onnx", b"one"))
    assert first.key == same.key and kept_uploads().number == 1
    others = [kept(file("m.onnx", b"two")), kept(file("n.onnx", b"one")), kept(file("m.onnx", b"o"), file("n", b"ne"))]
    assert len({first.key, *(other.key for other in others)}) == 4


def test_what_is_open_survives_the_removal_of_what_is_kept():
    upload = kept(file("m.onnx", b"model"))
    again = kept_upload(upload.key, "m.onnx")
    forget_uploads()
    assert kept_uploads().number == 0
    assert again.models[0].read_bytes() == upload.models[0].read_bytes() == b"model"
    with pytest.raises(UserError, match=r"'m\.onnx', an upload that is not kept here; upload the file"):
        kept_upload(upload.key, "m.onnx")


def test_a_kept_file_that_was_changed_does_not_open():
    upload = kept(file("m.onnx", b"model"))
    (uploads._folder() / upload.key / "m.onnx").unlink()
    (uploads._folder() / upload.key / "m.onnx").write_bytes(b"other")
    with pytest.raises(UserError, match="was changed"):
        kept_upload(upload.key, "m.onnx")


@pytest.mark.parametrize("key", ["", ".", "..", "../uploads", "x" * 32, "0" * 31, "0" * 32])
@pytest.mark.parametrize("name", ["m.onnx", "../m.onnx", "/etc/passwd", "", "."])
def test_a_forged_link_opens_nothing(key, name):
    kept(file("m.onnx", b"model"))
    with pytest.raises(UserError, match="not kept here"):
        kept_upload(key, name)


def test_over_the_limit_what_was_opened_longest_ago_goes(monkeypatch):
    monkeypatch.setattr(uploads, "LIMIT_BYTES", 10)
    first, second = kept(file("a.onnx", b"1234")), kept(file("b.onnx", b"1234"))
    for upload in (first, second):
        os.utime(uploads._folder() / upload.key, (0, 0))
    kept_upload(first.key, "a.onnx")
    third = kept(file("c.onnx", b"1234"))
    assert {path.name for path in uploads._kept_folders()} == {first.key, third.key}
    assert second.models[0].read_bytes() == b"1234"
    large = save_upload([file("large.onnx", b"x" * 11)])
    assert "'large.onnx' is larger than" in keep_upload(large) and kept_uploads().number == 2


def test_a_cache_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "cache").write_bytes(b"a file in place of the folder")
    assert "'m.onnx' is not kept in" in keep_upload(save_upload([file("m.onnx", b"model")]))


def test_a_link_opens_the_upload_in_another_session(monkeypatch):
    held: dict = {}
    with monkeypatch.context() as patch:
        patch.setattr(session.st, "session_state", held)
        session.open_uploads([sample("conv_relu_conv_relu"), sample("npu_path")])
    opened = held["opened"]
    assert opened.address == f"upload:{opened.upload_key}/conv_relu_conv_relu.onnx"
    assert opened.other.address == f"upload:{opened.upload_key}/npu_path.onnx"
    at = page("compare")
    at.query_params["model"], at.query_params["other"] = opened.address, opened.other.address
    fine(at.run())
    there = at.session_state["opened"]
    assert (there.title, there.other.title) == ("conv_relu_conv_relu.onnx", "npu_path.onnx")
    assert at.query_params["model"] == opened.address and at.query_params["other"] == opened.other.address


def test_an_upload_that_is_not_kept_is_said_and_the_address_follows_what_is_open():
    at = page("memory")
    at.query_params["model"] = address = f"upload:{'0' * 32}/mine.onnx"
    at.run()
    said = at.error[0].value.replace("\\", "")
    assert "'mine.onnx', an upload that is not kept here" in said and "is open instead" in said
    assert at.query_params["model"] == at.session_state["opened"].address != address


def test_a_file_of_this_machine_has_its_path_in_the_address():
    opened = opened_sample("npu_path")
    assert opened.address == opened.path and Path(opened.path).is_file()
