"""Measures a script for `rsctl advise` and reports progress."""

from __future__ import annotations

from rsctl.api import JobFile, Run, measure
from rsctl.cli.show import print_message
from rsctl.estimate.advice.profile import Profile
from rsctl.estimate.advice.recommendation import format_seconds
from rsctl.runs.stream.formatting import format_bytes

_DATA_SHOWN_FROM = 0.01


def measure_script(job: JobFile, on: str | None) -> Profile:
    """Run a few steps of the job's script; returns the measured profile.

    Raises RsctlError.
    """
    where = f"on two nodes of {on}" if on else "on this machine"

    def tell(run: Run) -> None:
        print_message(f"measuring a few steps of the script {where}: run {run.id}")

    profile = measure(job, on=on, on_begin=tell)
    parts = [
        f"a step of {format_seconds(profile.step_seconds)} without communication",
        f"{format_bytes(profile.gradient_bytes)} of gradients",
    ]
    if profile.data_seconds > _DATA_SHOWN_FROM * profile.step_seconds:
        parts.append(f"{format_seconds(profile.data_seconds)} of it waits for input")
    print_message(f"measured: {', '.join(parts)}")
    return profile
