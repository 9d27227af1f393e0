"""Who may ask the app's server, and which files it opens for them: the real server, asked by hand."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from urllib.parse import quote, urlsplit

import pytest

from tests.browser import GraphView, free_port, running_app, settle, watched_page
from tests.conftest import ROOT
from tests.waiting import LIMIT_S
from workbench.__main__ import main
from workbench.errors import UserError
from workbench.formats.io.samples import FOLDER
from workbench.interfaces.cli.exit_codes import BAD_INPUT
from workbench.interfaces.cli.main import ALIASES, COMMANDS
from workbench.interfaces.ui.state.folders import FOLDERS_VARIABLE, check_may_open

UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Version: 13\r\n"
)
PORT = "{port}"


def answer(site: str, host: str | None, origin: str | None = None, path: str = "/_stcore/stream") -> tuple[int, str]:
    """Status and text of a request with those headers, a WebSocket's handshake where it goes to the stream."""
    place = urlsplit(site)
    headers = UPGRADE if path.endswith("stream") else "Connection: close\r\n"
    for name, value in (("Host", host), ("Origin", origin)):
        headers += "" if value is None else f"{name}: {value.replace(PORT, str(place.port))}\r\n"
    with socket.create_connection((place.hostname, place.port), timeout=LIMIT_S) as line:
        line.sendall(f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode())
        got = line.recv(1)
        while b"\r\n\r\n" not in got:
            got += line.recv(4096)
        head, _, text = got.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        while status == 403 and (more := line.recv(4096)):
            text += more
    return status, text.decode(errors="replace")


OWN_HOSTS = [
    "localhost:{port}",
    "127.0.0.1:{port}",
    "LocalHost:{port}",
    "localhost.:{port}",
    "[::1]:{port}",
    "localhost",
]
FOREIGN_HOSTS = [
    *(
        "evil.example",
        "evil.example:{port}",
        "EVIL.example.:{port}",
        "localhost.evil.example:{port}",
        "127.0.0.1.nip.io",
    ),
    *("evil.example@localhost:{port}", "localhost:{port}@evil.example", "localhost/evil.example", "10.0.0.7:{port}"),
    *("[::2]:{port}", "[2001:db8::1]:{port}", "0.0.0.0:{port}", "2130706433:{port}", "localhost:port", "", "*"),
    None,
]
FOREIGN_ORIGINS = [
    *("http://evil.example", "http://evil.example:{port}", "http://localhost:3000", "http://localhost", "null"),
    *(
        "https://localhost",
        "http://127.0.0.1:1",
        "file://",
        "http://localhost:{port}.evil.example",
        "http://[::2]:{port}",
    ),
    *("chrome-extension://localhost:{port}", "http://localhost:{port}/x", "localhost:{port}", ""),
]


MAIN = (ROOT / "workbench" / "interfaces" / "ui" / "main.py").read_text(encoding="utf-8")
PAGES = {"", *re.findall(r'(?:url_path=|"[A-Z][a-z ]+", )"([a-z-]+)"', MAIN)}


@pytest.mark.parametrize(
    ("typed", "led"),
    {"/open?step=1": "/?step=1", "/measure": "/run", "/learn?lesson=fusion": "/lessons?lesson=fusion"}.items(),
)
def test_the_title_of_a_page_is_an_address_too(app, typed, led):
    with urllib.request.urlopen(f"{app[0]}{typed}", timeout=LIMIT_S) as page:
        assert page.url == f"{app[0]}{led}" and page.status == 200


def test_the_name_of_every_command_leads_to_a_page(app):
    for name in (*COMMANDS, *ALIASES):
        with urllib.request.urlopen(f"{app[0]}/{name}?model=m.onnx", timeout=LIMIT_S) as page:
            led = urlsplit(page.url)
        assert led.path.removeprefix("/") in PAGES and led.query == "model=m.onnx", name


@pytest.mark.parametrize("host", OWN_HOSTS)
def test_the_app_answers_to_names_of_this_machine(app, host):
    assert answer(app[0], host, path="/")[0] == 200
    assert answer(app[0], host)[0] == 101
    assert answer(app[0], host, f"http://{host.removesuffix(':{port}')}:{{port}}")[0] == 101


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_foreign_host_is_refused_with_the_matching_origin_too(app, host):
    for path in ("/_stcore/stream", "/", "/_stcore/health", "/_stcore/upload_file/a/b"):
        for origin in (None, f"http://{host}", "http://localhost:{port}"):
            status, text = answer(app[0], host, origin, path)
            assert status in (400, 403), (path, origin)  # 400: the server itself knows that this is no request
            assert status == 400 or "does not answer to the name" in text


def test_two_hosts_are_refused(app):
    assert answer(app[0], "localhost:{port}\r\nHost: evil.example")[0] in (400, 403)


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_a_page_of_another_site_or_port_is_refused(app, origin):
    for path in ("/_stcore/stream", "/_stcore/health"):
        status, text = answer(app[0], "localhost:{port}", origin, path)
        assert status == 403 and "refuses requests from pages of" in text


def test_of_two_origins_one_foreign_is_refused(app):
    two = "http://localhost:{port}\r\nOrigin: http://evil.example"
    assert answer(app[0], "localhost:{port}", two, "/_stcore/health")[0] == 403
    assert answer(app[0], "localhost:{port}", two)[0] in (400, 403)


@pytest.mark.slow
def test_a_path_that_cannot_be_one_is_a_sentence(tab, app):
    tab.goto(f"{app[0]}/?model=a%00b")
    settle(tab)
    assert "cannot be the path of a file" in tab.get_by_role("alert").first.inner_text()


@pytest.fixture(scope="module")
def beyond(tmp_path_factory):
    """The app for other machines too, started in a folder with a model, and a model that lies outside."""
    folder = tmp_path_factory.mktemp("served")
    outside = tmp_path_factory.mktemp("elsewhere") / "secret.onnx"
    for place in (folder / "mine.onnx", outside):
        shutil.copy(FOLDER / "conv_relu_conv_relu.onnx", place)
    (folder / "link.onnx").symlink_to(outside)
    options = ("--server.allowedHosts=box.lan", "--server.allowedHosts=*.lab.example")
    options += ("--server.corsAllowedOrigins=https://proxy.example",)
    with running_app(*options, address="0.0.0.0", folder=folder) as (site, _):
        yield site, outside


@pytest.mark.parametrize(
    "host", ["box.lan:{port}", "Box.LAN:{port}", "a.lab.example:{port}", "localhost:{port}", "127.0.0.1"]
)
def test_names_that_the_user_set_are_answered_beside_those_of_this_machine(beyond, host):
    assert answer(beyond[0], host, f"http://{host.removesuffix(':{port}')}:{{port}}")[0] == 101
    assert answer(beyond[0], host, path="/")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "lab.example:{port}", "notbox.lan:{port}", "0.0.0.0:{port}"])
def test_other_names_are_refused_beyond_this_machine_too(beyond, host):
    assert answer(beyond[0], host, f"http://{host}")[0] == 403


def test_a_site_that_the_user_set_may_ask(beyond):
    assert answer(beyond[0], "box.lan", "https://proxy.example", "/_stcore/health")[0] == 200
    assert answer(beyond[0], "box.lan", "http://proxy.example", "/_stcore/health")[0] == 403


@pytest.mark.slow
@pytest.mark.browser
def test_beyond_this_machine_only_files_of_the_named_folders_open(browser, beyond):
    """A link, the Path tab and Compare's link: the sentence is the same whether there is such a file or not."""
    site, outside = beyond
    with watched_page(browser) as shown:

        def alert_at(address: str) -> str:
            shown.goto(f"{site}/{address}")
            settle(shown)
            alerts = shown.get_by_role("alert")
            return alerts.first.inner_text() if alerts.count() else ""

        assert alert_at("?model=mine.onnx") == ""
        assert "mine.onnx" in shown.inner_text("body")
        for path in (outside, outside.with_name("none.onnx"), f"../{outside.parent.name}/{outside.name}", "link.onnx"):
            assert "outside the folders whose files this app opens" in alert_at(f"?model={quote(str(path))}"), path
            assert "outside the folders whose files this app opens" in alert_at(f"compare?other={quote(str(path))}"), (
                path
            )
        alert_at("")
        shown.get_by_role("tab", name="Path").click()
        shown.get_by_label("Path of a model on this machine").fill(str(outside))
        shown.get_by_role("button", name="Open path").click()
        settle(shown)
        assert "outside the folders whose files this app opens" in shown.get_by_role("alert").first.inner_text()


def test_named_folders_are_the_only_ones_and_samples_open_anyway(tmp_path, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    check_may_open(str(tmp_path / "anywhere.onnx"))  # it listens here alone, and nothing is named
    monkeypatch.setenv(FOLDERS_VARIABLE, os.pathsep.join(map(str, (one, two))))
    for path in (one / "a.onnx", two / "deep" / "b.onnx", FOLDER / "npu_path.onnx"):
        check_may_open(str(path))
    (one / "out").symlink_to(tmp_path)
    for path in (
        tmp_path / "c.onnx",
        one / ".." / "c.onnx",
        f"{one}more/d.onnx",
        one / "out" / "c.onnx",
        ROOT / "e.onnx",
    ):
        with pytest.raises(UserError, match=FOLDERS_VARIABLE):
            check_may_open(str(path))


@pytest.mark.slow
@pytest.mark.browser
def test_the_app_that_is_stopped_leaves_no_folder_behind_and_says_its_address_only(browser, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    link = "optimize?model=sample_models/npu_path.onnx&passes=precision_optimal{max_error=0.1}&mode=fast"
    said = tmp_path / "said.txt"
    with said.open("wb") as log, watched_page(browser) as shown, running_app(log=log) as (site, pid):
        shown.goto(f"{site}/{link}")
        settle(shown)
        assert list(tmp_path.glob("workbench-*"))
        os.killpg(pid, signal.SIGINT)  # as Ctrl-C in a terminal
        assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT).si_status == 0
    assert not list(tmp_path.glob("workbench-*"))
    assert said.read_text().split() == f"The app is at {site}; Ctrl-C ends it.".split()


@pytest.mark.slow
@pytest.mark.browser
def test_the_app_that_is_started_with_a_model_opens_it(browser, tmp_path):
    model = tmp_path / "my model.onnx"
    shutil.copy(ROOT / "sample_models" / "npu_path.onnx", model)
    words = [sys.executable, "-m", "workbench", "app", model.name, "--headless", "--port", str(free_port())]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            site = process.stdout.readline().removeprefix("The app is at ").partition(";")[0]
            with watched_page(browser) as shown:
                shown.goto(site)
                settle(shown)
                assert len(GraphView(shown).boxes) > 1
                assert shown.get_by_text("my model.onnx").first.is_visible()
        finally:
            process.terminate()


def test_the_app_is_not_started_for_a_model_that_is_not_there(capsys):
    assert main(["app", "missing.onnx"]) == BAD_INPUT
    assert "no file 'missing.onnx'" in capsys.readouterr().err
