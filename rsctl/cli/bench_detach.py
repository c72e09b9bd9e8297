"""`rsctl bench run --detach`: the same command in a session that outlives the terminal."""

from __future__ import annotations

import subprocess
from time import monotonic, sleep

import typer

import rsctl_start
from rsctl.api import Bench
from rsctl.cli.show import print_message
from rsctl.cli.views.bench import print_result
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.environment import OwnProcess

_START_SECONDS = 60.0
_POLL_SECONDS = 0.05


def detach_bench(
    bench: Bench,
    settings: list[str],
    parallel: int | None,
    fail_fast: bool,
    target: str | None,
    output: str,
) -> int:
    """Start a driver that outlives this command. Raises RsctlError if it does not start."""
    record = bench.record
    bench.driver_log.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    arguments = [*rsctl_start.command("rsctl"), "bench", "run", record.file]
    arguments += ["--detach-on-interrupt", "--repeat", str(record.repeat)]
    arguments += [part for setting in settings for part in ("--set", setting)]
    arguments += ["--target", target] if target else []
    arguments += ["--parallel", str(parallel)] if parallel else []
    arguments += ["--fail-fast"] if fail_fast else []
    arguments += record.rehearsal
    with bench.driver_log.open("ab") as log:
        driver = OwnProcess(
            arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    if not bench.is_driven:
        _wait_for(driver, bench)
    bench.reload()
    if output == "json":
        print_result(bench, [], int(ExitCode.SUCCEEDED))
    else:
        typer.echo(bench.id)
        name = bench.id
        print_message(
            f"show it: rsctl bench status -w {name}   cancel it: rsctl bench cancel {name}"
        )
    return int(ExitCode.SUCCEEDED)


def _wait_for(driver: OwnProcess, bench: Bench) -> None:
    """Wait until the driver has the bench; a driver that exits immediately may have had nothing to
    do.
    """
    deadline = monotonic() + _START_SECONDS
    while monotonic() < deadline:
        if bench.is_driven:
            return
        if driver.poll() is not None:
            if driver.returncode and not bench.reload().trials:
                break
            return
        sleep(_POLL_SECONDS)
    message = f"the driver of {bench.id} does not start; see {bench.driver_log}"
    raise RsctlError(ExitCode.ENVIRONMENT, error("driver", message))
