"""The address of a job on SageMaker: `sagemaker://REGION/NAME`."""

from __future__ import annotations

import re
from typing import NamedTuple

from rsctl.findings import ExitCode, RsctlError, error

_URL = re.compile(
    r"sagemaker://(?P<region>[a-z]{2,}(?:-[a-z]+)+-\d+)/"
    r"(?P<name>[a-zA-Z0-9](?:-*[a-zA-Z0-9]){0,62})"
)


class JobAddress(NamedTuple):
    """A job's region and name."""

    region: str
    name: str

    @property
    def url(self) -> str:
        """The job's URL in all commands."""
        return f"sagemaker://{self.region}/{self.name}"

    @property
    def console(self) -> str:
        """The job's page in AWS's console."""
        home = f"https://{self.region}.console.aws.amazon.com/sagemaker/home"
        return f"{home}?region={self.region}#/jobs/{self.name}"


def parse_url(url: str) -> JobAddress:
    """The address of a job by its URL. Raises RsctlError."""
    match = _URL.fullmatch(url)
    if match:
        return JobAddress(match["region"], match["name"])
    message = f"{url!r} is not the URL of a training job"
    remedy = "write it as sagemaker://REGION/NAME, such as sagemaker://us-east-1/my-job"
    raise RsctlError(ExitCode.USAGE, error("url", message, remedy))
