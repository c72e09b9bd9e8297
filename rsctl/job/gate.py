"""The spec's `gate:` block: by what a benchmark job is judged."""

from typing import Annotated, Any, Optional

import msgspec
from msgspec import Meta, field

from rsctl.job.units import Regression

BaselineLocation = Annotated[str, Meta(pattern=r"^\S+$")]
MetricName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_./:=()@%+-]*$")]


class CellRegressions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The allowed regressions of some cells of the matrix."""

    cell: Annotated[
        dict[str, Any],
        Meta(
            description="The values that select the cells, such as `workers.count: 8`.",
            min_length=1,
        ),
    ]
    max_regression: Annotated[
        dict[MetricName, Regression],
        Meta(
            description="The largest allowed regression of each metric in these cells.",
            min_length=1,
        ),
    ]


class GateBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The baseline of `rsctl gate` for this job, and the allowed regressions."""

    baseline: Annotated[
        Optional[BaselineLocation],
        Meta(
            description="The baseline: a file, gs://…, s3://…, git:REF:PATH, or a bench. "
            "git:origin/main:bench/baseline.json reads it from a branch that the "
            "change cannot edit."
        ),
    ] = None
    history: Annotated[
        Optional[BaselineLocation],
        Meta(
            description="A history: a file that ends with .jsonl, gs://…, s3://… or git:REF:PATH. "
            "The gate compares with its last commits; with a `baseline` too, a regression must "
            "also be larger than the differences between these commits."
        ),
    ] = None
    window: Annotated[
        Optional[Annotated[int, Meta(ge=1, le=1000)]],
        Meta(
            description="Number of commits of the history, at most since its last step. "
            "Default: 20."
        ),
    ] = None
    max_regression: Annotated[
        dict[MetricName, Regression],
        Meta(
            description="The largest allowed regression of each metric: `5%` of the baseline, or "
            "an amount in the metric's unit. `curve.NAME` is the whole curve of a metric over its "
            "steps."
        ),
    ] = field(default_factory=dict)
    cells: Annotated[
        list[CellRegressions],
        Meta(
            description="Other allowed regressions for some cells of the matrix; the last entry "
            "that applies to a cell counts."
        ),
    ] = field(default_factory=list)
    repeat: Annotated[
        Optional[Annotated[int, Meta(ge=1, le=1000)]],
        Meta(description="Number of runs of each cell. Start with 5; the minimum is 3."),
    ] = None
    confirm: Annotated[
        Optional[Annotated[int, Meta(ge=0, le=1000)]],
        Meta(
            description="Number of additional runs of a suspected regression, on fresh machines, "
            "before the gate fails. Default: 0."
        ),
    ] = None
    looks: Annotated[
        Optional[Annotated[int, Meta(ge=1, le=1000)]],
        Meta(
            description="How often this gate decides about one baseline, such as in a loop that "
            "keeps or reverts changes: each decision gets that part of the error bound. Default: 1."
        ),
    ] = None
