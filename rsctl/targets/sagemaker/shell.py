"""Sessions of AWS Systems Manager in the containers of a training job."""

from __future__ import annotations

from contextlib import closing

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.targets.base import Shell
from rsctl.targets.managed.progress import kept_progress
from rsctl.targets.sagemaker.hosts import Hosts
from rsctl.targets.sagemaker.job_address import parse_url
from rsctl.targets.sagemaker.pools import pools_of

_KEY = "targets.sagemaker.remote_debug"


def shell_of(run: RunRecord, replica: str) -> Shell:
    """The command that opens a session in a container. Raises RsctlError.

    The target of a session is `sagemaker-training-job:NAME_algo-N`. Source: Amazon SageMaker
    Developer Guide, "Access a training container through AWS Systems Manager".
    """
    body = run.plan.get("request", {}).get("body", {})
    if not (body.get("RemoteDebugConfig") or {}).get("EnableRemoteDebug"):
        message = f"{run.run} does not allow shells in its containers"
        remedy = f"set {_KEY}: true, and submit the job again"
        raise RsctlError(ExitCode.USAGE, error("shell", message, remedy))
    address = parse_url(run.url)
    with closing(Store()) as store:
        progress = kept_progress(store, run.run)
    kept = progress.cursor.get("hosts") if progress is not None else None
    hosts = Hosts(address.name, pools_of(body), kept).by_host()
    number = next((number for number, name in hosts.items() if name == replica), None)
    if number is None:
        message = f"SageMaker does not name the host of {replica}, and its log has not named it yet"
        remedy = f"try again after the first lines of its log: rsctl logs {run.run}"
        raise RsctlError(ExitCode.USAGE, error("shell", message, remedy))
    target = f"sagemaker-training-job:{address.name}_algo-{number}"
    command = ["aws", "ssm", "start-session", "--region", address.region, "--target", target]
    return Shell(command=command)
