"""`limits.keep`: nodes of a failed run stay, to be looked into."""

from __future__ import annotations

import pytest

from tests.kit.docker import needs_docker
from tests.kit.polling import wait_until

from ..conftest import Rsctl

FAILS = '[ "$RSCTL_REPLICA" = worker-1 ] && { echo bad > kept; exit 3; }; exec sleep 600'


COMPOSE = pytest.param("rsctl-test-base:1", marks=needs_docker)


@pytest.mark.parametrize("image", [None, COMPOSE], ids=["process", "compose"])
def test_a_failed_node_stays_until_the_run_is_cancelled(rsctl: Rsctl, image: str | None) -> None:
    """The failure is known before; the run ends as failed, whatever ends it."""
    keys = {"image": {"base": image}} if image else {}
    job = rsctl.write_job(bash=FAILS, workers={"count": 2}, limits={"keep": "10m"}, **keys)
    run = rsctl.detach(job, "-t", "compose" if image else "process")
    wait_until(lambda: rsctl.status(run)["findings"], "the finding")
    status = rsctl.status(run)
    [kept] = status["findings"]
    assert (kept["code"], status["state"]) == ("kept", "running")
    assert kept["message"].startswith("worker-1 failed with exit code 3; its node is kept until ")
    states = {each["replica"]: (each["state"], each["exit_code"]) for each in status["replicas"]}
    assert states == {"worker-0": ("running", None), "worker-1": ("failed", 3)}
    look = rsctl("exec", run, "worker-1", "--", "cat", "kept")
    assert (look.exit_code, look.stdout) == (0, "bad\n")

    rsctl("cancel", run)
    ended = rsctl.status(run)
    assert (ended["state"], ended["exit_code"], ended["findings"]) == ("failed", 1, [])
    assert (ended["first_failure"]["replica"], ended["first_failure"]["exit_code"]) == (
        "worker-1",
        3,
    )
