"""A job through each connection: submitted, followed, cancelled, and found again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.loopback import keep_google_auth_here
from tests.kit.slurm_cluster import SlurmCluster, needs_slurm
from tests.targets.conftest import Rsctl
from tests.targets.slurm.vertex_slurm import VertexSlurm

pytestmark = needs_slurm()

HELLO = """
import os
name, outputs = os.environ["RSCTL_REPLICA"], os.environ["RSCTL_OUTPUT_DIR"]
if name == "worker-0":
    with open(f"{outputs}/hello", "w") as file:
        file.write("0\\n")
print("hello", name, os.environ["WORD"], flush=True)
"""


@pytest.fixture(params=["local", "ssh", "http", "vertex"])
def connection(
    request: pytest.FixtureRequest,
    cluster: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """Each connection in turn."""
    kind = request.param
    if kind == "local":
        yield "local"
    elif kind == "ssh":
        # The path of a socket must be short, and no other test's connection be found there.
        with tempfile.TemporaryDirectory() as folder:
            monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
            yield f"ssh://{cluster.allow_ssh(tmp_path)}"
    elif kind == "http":
        monkeypatch.setenv("SLURM_JWT", cluster.token())
        with cluster.rest() as url:
            yield url
    else:
        for name in [n for n in os.environ if n.startswith(("GOOGLE_", "CLOUDSDK_"))]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        keep_google_auth_here(monkeypatch)
        with cluster.rest() as url, VertexSlurm(url, cluster.token()) as vertex:
            vertex.access.write_key(tmp_path / "key.json", f"{vertex.url}/token")
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
            monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", vertex.url)
            yield "vertex://project/us-central1/trial"


@pytest.fixture
def job_keys(cluster: SlurmCluster, connection: str) -> Callable[..., dict[str, Any]]:
    """The keys of a job on the cluster."""

    def make(**keys: Any) -> dict[str, Any]:
        own = keys.pop("slurm", {})
        base = {
            "shared": str(cluster.shared),
            "connection": connection,
            "setup": cluster.setup,
            **own,
        }
        return {
            "name": "connection",
            "target": "slurm",
            "limits": {"timeout": "10m"},
            "targets": {"slurm": base},
            **keys,
        }

    return make


def test_a_job_with_reducers(
    rsctl: Rsctl, cluster: SlurmCluster, connection: str, job_keys: Callable[..., dict[str, Any]]
) -> None:
    """Two workers and two reducers on four nodes, with a secret; then its results."""
    command = {"command": ["python3", "-c", HELLO], "launcher": "once"}
    keys = job_keys(
        run={**command, "env": {"WORD": "${WORD}"}},
        workers={"count": 2},
        reducers={"count": 2},
    )
    rsctl.env |= {**os.environ, "RSCTL_HOME": str(rsctl.home)}
    done = rsctl("submit", rsctl.write_job(**keys), "-o", "json", WORD="it's $HOME")
    assert done.exit_code == 0, done.stderr + done.stdout
    hello = sorted(e["text"] for e in done.events if e["type"] == "log" and "hello" in e["text"])
    assert hello == ["hello worker-0 it's $HOME", "hello worker-1 it's $HOME"]
    run = done.result["run"]
    status = rsctl.status(run)
    assert status["state"] == "succeeded"
    assert {r["replica"] for r in status["replicas"]} == {
        *("worker-0", "worker-1", "reducer-0", "reducer-1"),
    }
    _get(rsctl, run, cluster, connection)
    rsctl.env["WORD"] = "it's $HOME"
    checked = rsctl.look("doctor", "job.yaml")
    assert "connection: Slurm 24.11" in checked.stdout


def _get(rsctl: Rsctl, run: str, cluster: SlurmCluster, connection: str) -> None:
    """Its outputs, also where this machine does not see the shared folder: then by ssh alone."""
    outputs = cluster.shared / run / "outputs"
    assert (outputs / "hello").read_text() == "0\n"
    script = (
        "cd $0; mkdir -p 'a b/c'; head -c 9000000 /dev/zero | tr '\\0' x >'a b/c/$big'; "
        "ln -s 'a b/c/$big' last; ln -s 'a b' folder; ln -s /etc/passwd secret; : >-empty"
    )
    cluster.run("sh", "-c", script, str(outputs), user="me")
    hidden = cluster.shared.with_name("hidden")
    for is_hidden in (False, True):
        if is_hidden:
            cluster.shared.rename(hidden)
        try:
            done = rsctl("get", run, f"got-{is_hidden}", "--only", "outputs", "-o", "json")
        finally:
            if is_hidden:
                hidden.rename(cluster.shared)
        got = rsctl.folder / f"got-{is_hidden}" / "outputs"
        if is_hidden and not connection.startswith("ssh"):
            has_error = "results-unreadable" in done.stdout
            assert has_error is (connection != "local")
            continue
        assert done.exit_code == 0, done.stdout + done.stderr
        names = sorted(str(path.relative_to(got)) for path in got.rglob("*") if path.is_file())
        assert names == ["-empty", "a b/c/$big", "hello", "last"], done.stdout
        assert (got / "a b/c/$big").read_bytes() == b"x" * 9_000_000
        assert (got / "folder").is_symlink()
        assert "'secret' is skipped" in done.stdout


@pytest.mark.parametrize("connection", ["ssh", "http"], indirect=True)
def test_cancel(rsctl: Rsctl, job_keys: Callable[..., dict[str, Any]]) -> None:
    """A job that runs ends; its log and its state say so."""
    rsctl.env |= {**os.environ, "RSCTL_HOME": str(rsctl.home)}
    run = rsctl.detach(rsctl.write_job(bash="echo begun; sleep 600", **job_keys()))
    rsctl.wait_for_log(run, "begun")
    assert rsctl("cancel", run).exit_code == 0
    followed = rsctl("logs", "--follow", run)
    assert followed.exit_code in (0, 5)
    assert rsctl.status(run)["state"] == "cancelled"
