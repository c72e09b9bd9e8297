"""The URL of a job, which people copy from one command into another."""

from __future__ import annotations

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.targets.slurm.job_address import JobAddress

FOLDER = "/shared/me/train-abcdef"


@pytest.mark.parametrize(
    ("connection", "shown"),
    [
        ("local", "local"),
        ("ssh://me@login1", "ssh:me@login1"),
        ("ssh://me@[fe80::1]:22", "ssh:me@[fe80::1]:22"),
        ("http://localhost:6820", "http:localhost:6820"),
        ("https://ctl.example.com", "https:ctl.example.com"),
        ("vertex://my-project/us-central1/gpus", "vertex:my-project:us-central1:gpus"),
        (
            "vertex://example.com:project/us-central1/gpus",
            "vertex:example.com:project:us-central1:gpus",
        ),
    ],
)
def test_each_connection_has_a_url(connection: str, shown: str) -> None:
    """By which the job is found again, with its run's ID."""
    address = JobAddress(connection, "alpha", 17, FOLDER)
    assert address.url == f"slurm://{shown}/alpha/17{FOLDER}"
    assert JobAddress.of_url(address.url) == address
    assert address.run == "train-abcdef"


def test_the_slash_at_the_end_of_an_address_does_not_count() -> None:
    address = JobAddress("http://localhost:6820/", "alpha", 17, FOLDER)
    assert JobAddress.of_url(address.url).connection == "http://localhost:6820"


@pytest.mark.parametrize(
    "url",
    [
        f"slurm://local/alpha/x{FOLDER}",
        f"slurm://local/alpha/12345678901{FOLDER}",
        f"slurm://ftp:host/alpha/17{FOLDER}",
        f"slurm://-oProxyCommand=x/alpha/17{FOLDER}",
        f"slurm://vertex:gpus/alpha/17{FOLDER}",
        "slurm://local/alpha/17",
        f"slurm://local/alpha/17{FOLDER} ",
        f"vertex://local/alpha/17{FOLDER}",
    ],
)
def test_another_text_is_not_a_url(url: str) -> None:
    with pytest.raises(RsctlError, match="is not the URL of a Slurm job") as caught:
        JobAddress.of_url(url)
    [finding] = caught.value.findings
    assert (caught.value.exit_code, finding.code) == (ExitCode.USAGE, "url")
    assert "slurm://ssh:login1/CLUSTER/17/shared/me/train-abcdef" in str(finding.remedy)
