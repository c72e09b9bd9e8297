"""The arguments of each tool, as types: they give its JSON Schema and check its calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional

import msgspec
from msgspec import Meta

from rsctl.target_info import BUILT_IN

MOST_LINES = 1000
MOST_BYTES = 200_000
MOST_SECONDS = 300

_Job = Annotated[str, Meta(description="Path of a job file, below the server's folder.")]
_Run = Annotated[
    str, Meta(description="A run's ID, a unique prefix of it, @last, or the URL of a job.")
]
_Target = Annotated[
    Optional[str],
    Meta(description=f"Where it runs: {', '.join(BUILT_IN)}. Default: the file's own target."),
]
_Since = Annotated[Optional[str], Meta(description="Only since a time: 10m (ago) or RFC 3339.")]
_Set = Annotated[
    dict[str, Any],
    Meta(description='Keys of the file with other values, such as {"workers.count": 8}.'),
]


class _Arguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Arguments by name."""


class Validate(_Arguments):
    """A job file on a target."""

    job: _Job
    target: _Target = None
    set: _Set = {}


class Plan(Validate):
    """A job file on a target, with values of a rehearsal if it lacks those of an account."""

    rehearse: Annotated[
        bool, Meta(description="Use defaults where the job lacks the values of an account.")
    ] = False


class Advise(Validate):
    """A job file whose `model`, or a run, describes a step."""

    run: Annotated[
        Optional[str], Meta(description="Take the step from this run instead of from `model`.")
    ] = None


class Submit(Validate):
    """A job file to run."""

    resume: Annotated[
        Optional[str], Meta(description="Continue from the checkpoints of this run.")
    ] = None


class Rehearse(Validate):
    """A job file to run on an emulator of its cloud."""

    runner: Annotated[
        Literal["auto", "docker", "process"],
        Meta(description="The runner of the nodes. auto: docker if an engine answers."),
    ] = "auto"
    behaviour: Annotated[
        dict[str, Any], Meta(description='How the cloud behaves, such as {"preemptions": 1}.')
    ] = {}


class Status(_Arguments):
    """A run."""

    run: _Run
    wait: Annotated[
        int, Meta(ge=0, le=MOST_SECONDS, description="Seconds to wait for the end of the run.")
    ] = 0


class Logs(_Arguments):
    """A part of the log of a run."""

    run: _Run
    tail: Annotated[int, Meta(ge=1, le=MOST_LINES, description="The last N lines.")] = 100
    max_bytes: Annotated[
        int, Meta(ge=1, le=MOST_BYTES, description="Bytes of text; older lines are left out.")
    ] = 20_000
    replicas: Annotated[
        list[str], Meta(description="Only these replicas or ranks: worker-0, worker-0/3.")
    ] = []
    failed: Annotated[bool, Meta(description="Only the replica that failed first.")] = False
    text: Annotated[Optional[str], Meta(description="Only lines that contain this text.")] = None
    since: _Since = None


class Metrics(_Arguments):
    """Metrics of a run."""

    run: _Run
    names: Annotated[list[str], Meta(description="Only these metrics. Default: all.")] = []
    nodes: Annotated[
        bool, Meta(description="The last values include the telemetry of nodes and of the cloud.")
    ] = False
    tail: Annotated[
        int, Meta(ge=0, le=MOST_LINES, description="Also the last N values, as events.")
    ] = 0


class Compare(_Arguments):
    """Sides of a comparison."""

    sides: Annotated[
        list[str],
        Meta(min_length=1, max_length=20, description="Runs, benches or baseline files."),
    ]
    metrics: Annotated[list[str], Meta(description="Only these metrics. Default: all.")] = []


class Gate(_Arguments):
    """A bench, or a job file that is one."""

    bench: Annotated[
        str,
        Meta(
            description="A bench's ID, a unique prefix or @last; or a job file, whose remaining "
            "cells are run first."
        ),
    ]
    target: _Target = None
    set: _Set = {}
    baseline: Annotated[
        Optional[str],
        Meta(description="FILE, gs://, s3://, git:REF:PATH or a bench. Default: the job file's."),
    ] = None
    against: Annotated[
        Optional[str],
        Meta(description="A git ref or job file to run in turn with the job file."),
    ] = None
    max_regression: Annotated[
        dict[str, str],
        Meta(
            description='The allowed regression, such as {"throughput": "5%", "curve.loss": "5%"}: '
            "curve.NAME is the whole curve of a metric."
        ),
    ] = {}
    repeat: Annotated[
        Optional[Annotated[int, Meta(ge=1, le=1000)]],
        Meta(description="Number of runs of each cell of the job file."),
    ] = None
    looks: Annotated[
        Optional[Annotated[int, Meta(ge=1, le=1000)]],
        Meta(
            description="How often you will ask about this baseline: all answers together have "
            "the error bound of one."
        ),
    ] = None


class List(_Arguments):
    """A choice of runs."""

    limit: Annotated[int, Meta(ge=1, le=200, description="Maximum number of runs.")] = 20
    name: Annotated[
        Optional[str], Meta(description="A glob that the job's name matches, such as train*.")
    ] = None
    states: Annotated[
        list[str], Meta(description="Only runs in these states, such as running or failed.")
    ] = []
    target: Annotated[Optional[str], Meta(description="Only runs on this target.")] = None
    since: _Since = None
