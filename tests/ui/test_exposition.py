"""`/metrics` of `rsctl ui`, for Prometheus."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs.store import Store
from rsctl.ui.exposition import exposition
from rsctl.ui.server import serve
from rsctl.ui.token import make_token
from tests.cli.conftest import Cli, MadeRun
from tests.kit.deferred import Deferred
from tests.results.report.conftest import Make
from tests.ui.test_server import Browser

openmetrics_parser = Deferred("prometheus_client.openmetrics.parser")

HOSTILE = 'a"b\\c}\n# EOF\n\x1b[31mrsctl_runs{state="x"} 9'


def test_states_and_the_last_values_of_unfinished_runs(rsctl: Cli, make_run: Make) -> None:
    old: MadeRun = make_run("old-aaaaaa")
    old.metric(2, "loss", 1.0)
    old.succeed(5)
    made: MadeRun = make_run("job-bbbbbb")
    made.state(1, JobState.RUNNING)
    for value in (0.5, 0.25):
        made.metric(2, "loss", value)
    made.metric(3, "loss", float("nan"), replica="worker-1")
    made.metric(3, "node.cpu_percent", float("inf"))
    made.metric(4, HOSTILE, 1e-9)
    text = exposition(Store())
    families = {f.name: f for f in openmetrics_parser.text_string_to_metric_families(text)}
    states = {s.labels["state"]: s.value for s in families["rsctl_runs"].samples}
    assert {state: count for state, count in states.items() if count} == {
        "succeeded": 1,
        "running": 1,
    }
    assert set(states) == {state.value for state in JobState}
    samples = families["rsctl_run_metric"].samples
    shown = [(s.labels["replica"], s.labels["metric"], str(s.value)) for s in samples]
    assert shown == [
        ("worker-0", HOSTILE.replace("\x1b", "\\x1b"), "1e-09"),
        ("worker-0", "loss", "0.25"),
        ("worker-0", "node.cpu_percent", "inf"),
        ("worker-1", "loss", "nan"),
    ]
    assert {(s.labels["run"], s.labels["name"], s.labels["target"]) for s in samples} == {
        ("job-bbbbbb", "job", "process")
    }


def test_a_scraper_with_the_token_reads_the_metrics_alone(rsctl: Cli, make_run: Make) -> None:
    make_run()
    file = rsctl.folder / "token"
    with serve(token_file=file) as served:
        browser = Browser(served.url)
        known = {"Authorization": f"Bearer {file.read_text().strip()}"}
        answer = browser("/metrics", **known)
        assert (answer.status, answer.getheader("content-type")) == (
            200,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )
        assert answer.read().endswith(b"\n# EOF\n")
        assert browser("/metrics").status == 403
        assert browser("/metrics", Authorization="Bearer wrong").status == 403
        assert browser("/metrics", "POST", **known).status == 403
        assert browser("/metrics", Host="evil.example", **known).status == 421
        assert browser("/", **known).status == 403
        assert browser("/run/job-aaaaaa", **known).status == 403
    with serve(token_file=file) as again:
        assert again.url.endswith(f"?token={file.read_text().strip()}")


def test_a_token_file_is_private(tmp_path: Path) -> None:
    file = tmp_path / "my token"
    token = make_token(file)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (f"{token}\n", 0o600)
    file.chmod(0o640)  # a group that Prometheus is in
    assert make_token(file) == token
    file.chmod(0o644)
    with pytest.raises(RsctlError, match="every user of this machine can access") as refused:
        make_token(file)
    assert refused.value.findings[0].remedy == f"chmod o= '{file}'"
    file.chmod(0o600)
    file.write_text("short\n")
    with pytest.raises(RsctlError, match="does not contain a token: 32 to 256 letters"):
        make_token(file)
    with pytest.raises(RsctlError, match="cannot use the token file"):
        make_token(tmp_path / "none" / "token")


@pytest.mark.parametrize(
    ("text", "is_token"),
    [
        ("a" * 31, False),
        ("a" * 32, True),
        ("Az09_-" * 6 + "\n", True),
        ("a" * 256 + "\n", True),
        ("a" * 257, False),
        ("a" * 256 + "\n" * 800 + "b", True),  # no more than the beginning is read
        ("a" * 32 + " b", False),
        ("ä" * 32, False),
        ("", False),
    ],
)
def test_the_file_of_a_token(tmp_path: Path, text: str, is_token: bool) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(0o600)
    if is_token:
        assert make_token(file) == text.split()[0]
        return
    with pytest.raises(RsctlError) as refused:
        make_token(file)
    message = f"{file} does not contain a token: 32 to 256 letters, digits, - or _"
    remedy = "remove the file, and rsctl ui writes a new one"
    assert refused.value.findings == (error("token-file", message, remedy),)
    assert refused.value.exit_code is ExitCode.ENVIRONMENT


@pytest.mark.parametrize(
    ("mode", "is_private"),
    [(0o640, True), (0o660, True), (0o604, False), (0o602, False), (0o601, False)],
)
def test_who_else_can_access_the_file_of_a_token(
    tmp_path: Path, mode: int, is_private: bool
) -> None:
    file = tmp_path / "token"
    token = make_token(file)
    file.chmod(mode)
    if is_private:
        assert make_token(file) == token
        return
    with pytest.raises(RsctlError) as refused:
        make_token(file)
    message = f"every user of this machine can access the token file {file}"
    assert refused.value.findings == (error("token-file", message, f"chmod o= {file}"),)
    assert refused.value.exit_code is ExitCode.ENVIRONMENT


def test_the_token_of_another_user_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shared folder another user may have put a file of this name."""
    file = tmp_path / "token"
    make_token(file)
    if os.geteuid() == 0:  # a file of root is accepted
        os.chown(file, 4711, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 4712)
    with pytest.raises(RsctlError, match="belongs to another user"):
        make_token(file)


def test_a_token_is_new_without_a_file(tmp_path: Path) -> None:
    tokens = {make_token(), make_token(), make_token(tmp_path / "token")}
    assert sorted(map(len, tokens)) == [43, 43, 43]  # 32 bytes each


def test_a_folder_is_not_the_file_of_a_token(tmp_path: Path) -> None:
    with pytest.raises(RsctlError) as refused:
        make_token(tmp_path)
    message = f"cannot use the token file {tmp_path}: it is not a regular file"
    assert refused.value.findings == (error("token-file", message),)
    assert refused.value.exit_code is ExitCode.ENVIRONMENT


def test_a_port_that_is_taken(rsctl: Cli) -> None:
    with serve() as first:
        port = int(first.address.rstrip("/").rpartition(":")[2])
        with pytest.raises(RsctlError) as refused, serve(port):
            pass
    message = f"cannot listen on 127.0.0.1:{port}: Address already in use"
    remedy = "choose another port with --port, or leave it out"
    assert refused.value.findings == (error("port", message, remedy),)
    assert refused.value.exit_code is ExitCode.ENVIRONMENT
    with serve(port) as again:  # it is free again immediately
        assert again.address == first.address
