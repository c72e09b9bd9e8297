"""Writes `docs/reference/` from the code: commands, job file, JSON, findings, variables, exits.

It also writes the table of rooms in ARCHITECTURE.md.

python tools/reference/generate.py            writes the files
python tools/reference/generate.py --check    ends with 1 and names those that are out of date
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

os.environ["COLUMNS"] = "80"

import finding_codes
import msgspec
import python_api
import request_fields
import rooms
import typer
import variables
from separate_commands import separate_commands

from rsctl.api.bisect import Bisected, Probe
from rsctl.api.debug import RunInspection
from rsctl.api.drill_checkpoint import CheckpointFiles
from rsctl.api.drill_curve import Curve
from rsctl.api.drill_verdict import FaultResult
from rsctl.api.prune.items import Item
from rsctl.bench.calibrate import MetricNoise
from rsctl.bench.checks import MetricCheck, PartCheck
from rsctl.bench.compare import Compared, Comparison, Side, SideAbout
from rsctl.bench.differences import Difference
from rsctl.bench.gate import Gate
from rsctl.bench.history_series import CommitPoint, FoundStep, HistorySeries
from rsctl.bench.records import Against
from rsctl.bench.step_parts import Moved
from rsctl.bench.summary import CellStatistic, CellSummary
from rsctl.cli.app import COMMANDS, make_program
from rsctl.estimate.advice.communication import Communication
from rsctl.estimate.advice.options import Option
from rsctl.estimate.advice.recommendation import Recommendation
from rsctl.estimate.catalog.prices import Price
from rsctl.estimate.costs.billing import PlanCost, PoolPrice
from rsctl.estimate.costs.offers import Offer
from rsctl.findings import ExitCode, Finding
from rsctl.job.key_paths import job_keys
from rsctl.job.tracking import PlannedTracker, TrackingPlan
from rsctl.job.type_descriptions import describe_type
from rsctl.job.types import Field, SpecType
from rsctl.runs.cost import RunCost
from rsctl.runs.fetch.fetch import FetchedFile
from rsctl.runs.goodput_records import Goodput, GoodputPart
from rsctl.runs.records import Replica
from rsctl.runs.stragglers import Straggler
from rsctl.runs.stream import events
from rsctl.runs.stream.gradients import Gradients
from rsctl.runs.waiting import Waiting
from rsctl.targets.base import ImagePlan, Plan, Pool
from rsctl.targets.doctor import Check

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
HEAD = "<!-- Made by tools/reference/generate.py: change the code, then run it. -->\n"


def commands() -> str:
    """Every command's help, subcommands too."""
    group = make_program()
    parts = ["# Commands\n\nThis page shows the output of `rsctl COMMAND --help`.\n"]
    root = typer.Context(group, info_name="rsctl", help_option_names=["--help", "-h"])
    parts.append(f"## rsctl\n\n```text\n{group.get_help(root)}\n```\n")
    for name in COMMANDS:
        parts += _help(group, name, root)
    return "\n".join(parts)


def _help(group: Any, name: str, parent: typer.Context) -> Iterator[str]:
    command = group.get_command(parent, name)
    if command is None:
        raise LookupError(name)
    yield from _help_of(command, name, parent)


def _help_of(command: Any, name: str, parent: typer.Context) -> Iterator[str]:
    context = typer.Context(command, info_name=name, parent=parent, max_content_width=80)
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if hasattr(command, "list_commands"):
        for inner in command.list_commands(context):
            yield from _help(command, inner, context)
    for inner, other in separate_commands(name).items():
        yield from _help_of(other, f"{name} {inner}", parent)


def job_file() -> str:
    """Every key of the job file, with an anchor; a section for each mapping."""
    lines = [
        "# The job file\n",
        "This page lists every key with its value. `NAME` is a name of your choice.",
        "`rsctl schema` prints the same as a JSON Schema. You may add `x-...` keys at the top.",
    ]
    sections: dict[str, list[tuple[str, Field]]] = {"": []}
    for path, field in job_keys():
        depth = 2 if path.startswith("targets.") else 1
        own = ".".join(path.split(".")[:depth])
        sections.setdefault("" if "." not in path else own, []).append((path, field))
    for title, keys in sections.items():
        lines += [f"\n## {title}"] if title else []
        lines += ["\n| key | value | default | description |", "|---|---|---|---|"]
        lines += (_row(path, field, path in sections) for path, field in keys)
    return "\n".join(lines) + "\n"


def _row(path: str, field: Field, has_section: bool) -> str:
    """A row of the table; the heading of a section is the anchor of its key."""
    key = f"`{path}`"
    if "." not in path and has_section:
        key = f"[{key}](#{path})"
    else:
        key = f'<a id="{path}" href="#{path}">{key}</a>'
    cells = (key, _value(field.type), _default(field), _about(field))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(spec_type: SpecType) -> str:
    return "a mapping" if spec_type.is_struct else describe_type(spec_type)


def _default(field: Field) -> str:
    if field.required:
        return "required"
    if field.default in (None, {}, []) or isinstance(field.default, msgspec.Struct):
        return ""
    return f"`{msgspec.json.encode(field.default, enc_hook=str).decode()}`"


def _about(field: Field) -> str:
    return str(field.type.limit("description") or "")


DOCUMENTS = (
    ("validate", "`{findings}`: a list of findings."),
    ("plan", "`Plan`, below; `cells` too where the job has a `matrix`."),
    ("advise", "`target`, `workers`, `recommendation`, `options` (a list of Option), `hints`, "
     "`pool_sizes`, `changed_results`, and the input: `profile`, `calibration`, `assumptions`; "
     "`{key, values, advice}` with `--sweep`, `{calibrations}` with `--calibrate`; a Communication "
     "for a job whose step cannot be predicted."),
    ("catalog", "`{machines}`: a list of Offer; of `catalog prices`, `{prices}`: the tables by "
     "target."),
    ("build-image", "the image's `tag` and `digest` and what was done, with `findings`."),
    ("submit, watch, logs, metrics -f", "NDJSON: one event a line, see below; submit and watch end "
     "with `result`."),
    ("list", "`{runs}`: runs, the newest first, each as of cancel; with `-v` also `disk` in "
     "bytes."),
    ("forget", "the `run` and the folders with outputs and checkpoints that are `kept`."),
    ("prune", "`{dry_run, bytes, database_bytes, removed, kept}`: `removed` is a list of Item, "
     "`kept` what is old enough but stays, with `name` and `reason` each."),
    ("get", "`{run, directory, files, findings}`: `files` is a list of FetchedFile, with "
     "files that existed too."),
    ("open", "`{run, pages}`: addresses by `console`, `tensorboard`, `logs`; folders of a run on "
     "this machine."),
    ("status, cancel", "one run: `run`, `name`, `target`, `url`, `state`, `created`, `reason`, "
     "`exit_code`, `attempt`, `started`, `ended`, `first_failure`, `attempts`, `placements`, "
     "`replicas`, `settings` (the values of --set), `facts` (known to this target only), "
     "`metrics` (last values), `rehearsed`, `results`, `restarts_in_place`, `cost` (a "
     "RunCost, null where nothing is billed); status has `spec` (the job file as written, "
     "without secrets; null if there was none), `gradients`, `waiting` (why the run has no "
     "machines yet: a Waiting, null if it does not wait), `slowest_rank`, `findings` and `goodput` "
     "(a Goodput, whose `parts` are by cause) too. With --watch, NDJSON: one a line."),
    ("metrics", "NDJSON: one `metric` event a line; those of the nodes (`node.`, `cloud.`) with "
     "`--nodes` or by `--name` only, as in the text."),
    ("export --format json", "by table (`runs`, `samples`, `metrics`, `telemetry`) its `columns` "
     "(`name`, `type`, `unit`) and its `rows`, as objects."),
    (
        "drill",
        "`job`, `target`, `rehearsed`, `reference` (the run without a fault), `metric`, `steps`, "
        "`struck_at`, `seconds`, `exit_code` and `faults`, a list of FaultResult.",
    ),
    ("track", "`{runs}`: `run` and `trackers` (`kind`, `location`, `complete`, `problem`) each."),
    ("bench run", "NDJSON: the events of all runs, each with `bench`, `cell` (its values) and "
     "`repetition` (from 0); ends with a `result` that has `bench`, `state`, `exit_code` and "
     "`cells`, a list of CellSummary."),
    ("bench list", "`{benches}`: benches, the newest first."),
    ("bench status, bench cancel", "one bench: `bench`, `name`, `target`, `state`, `driven` "
     "(whether a process runs it), `created`, `ended`, `exit_code`, `repeat`, `images` (references "
     "by tag), `trials`: `cell`, `repetition`, `attempt`, `run`, `state`, `exit_code`, `reason` "
     "each; status has `cells` too, a list of CellSummary, and with --watch is NDJSON."),
    ("compare", "Comparison, below."),
    ("gate", "Gate, below: its `verdict` is pass, regressed, inconclusive or no-data, and its "
     "`exit_code` that of the command."),
    ("gate calibrate", "`{bench, metrics}`: `metrics` is a list of MetricNoise."),
    ("history", "`{history, commits, series}`: `series` is a list of HistorySeries."),
    ("history add", "`history`, `commit`, `bench`, and the number of `cells`."),
    ("history bisect", "Bisected, below; `first_bad` is null if skipped commits hide it."),
    ("diff", "`{sides, differences, steps, ranks, metrics, remarks}`: `sides` has `run`, `name`, "
     "`target`, `state` and `created` of both runs, `differences` have `name`, `baseline` and "
     "`candidate`; `steps` (the parts of a step, and `step.buckets`), `ranks` and `metrics` are "
     "lists of Moved."),
    ("rerun --dry-run", "`{plan, findings}`: a Plan, and what is not as it was; without --dry-run "
     "the events of submit."),
    ("profile", "`{run, profiles}`: `rank`, `replica`, `file`, `samples` of each rank, and the "
     "parts of its samples in `communication` and in the functions of `top`."),
    ("debug", "RunInspection, below: its `verdict` has `kind`, `message`, the `guilty` ranks, "
     "their `replicas`, the ranks in `waiting`, and `lines`."),
    ("emulate", "`cloud`, `url`, `runner`, `folder`, the project and region, and `environment`: "
     "the variables by which clients find the emulator."),
    ("doctor", "`{checks}`: a list of checks."),
)  # fmt: skip
EVENTS = (
    events.LogEvent, events.StateEvent, events.MetricEvent, events.FindingEvent, events.ResultEvent
)  # fmt: skip
PARTS = (
    Finding, events.Failure, events.Attempt, Replica, Plan, ImagePlan, Pool, PlanCost, PoolPrice,
    RunCost, Goodput, GoodputPart, Waiting, TrackingPlan,
    PlannedTracker, Check, FaultResult, CheckpointFiles, Curve, CellSummary, CellStatistic, Item,
    FetchedFile, HistorySeries,
    CommitPoint, FoundStep, Bisected, Probe, Moved, Comparison, SideAbout, Difference, Compared,
    Side, Gate, MetricCheck, PartCheck, Against, MetricNoise, Recommendation, Option,
    Communication, Offer, Price, RunInspection, Straggler, Gradients,
)  # fmt: skip


def json_output() -> str:
    """The output of `-o json`."""
    lines = [
        "# JSON\n",
        "With `-o json` standard output has only JSON. Times are RFC 3339 in UTC.\n",
        "JSON has no numbers that are not finite. Each number of this page can therefore be the",
        'text `"nan"`, `"inf"` or `"-inf"`, as for a loss that diverged. `null` means no value.\n',
        "An error that ends a command is on standard output too: `{findings}`, or in NDJSON a",
        "`finding` event. A mistake in the command line itself is on standard error only.\n",
        "| command | prints |",
        "|---|---|",
        *(f"| {names} | {text} |" for names, text in DOCUMENTS),
        "\n## Events\n",
        "Each line has one event. `type` is its kind.\n",
    ]
    for struct in EVENTS:
        lines += _struct(struct, f"`{struct.__struct_config__.tag}`")
    lines.append("## Other parts\n")
    for struct in PARTS:
        lines += _struct(struct, struct.__name__)
    return "\n".join(lines)


def _struct(struct: type[msgspec.Struct], title: str) -> Iterator[str]:
    about = " ".join(str(struct.__doc__).split())
    yield f"### {title}\n\n{about}\n\n| field | type |\n|---|---|"
    hints = get_type_hints(struct)
    if struct is events.FindingEvent:
        del hints["finding"]  # its fields stand beside the others
        hints |= get_type_hints(Finding)
    for name, hint in hints.items():
        if not name.startswith("_"):
            yield f"| `{name}` | {_type(hint)} |"
    yield ""


def _type(hint: Any) -> str:
    text = hint.__name__ if isinstance(hint, type) and not hasattr(hint, "__args__") else str(hint)
    text = re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)  # the names of modules
    text = text.replace("NoneType", "None").replace("|", "or")
    return f"`{text}`"


EXIT_CODES = {
    ExitCode.SUCCEEDED: "The command, and the job it followed, succeeded.",
    ExitCode.JOB_FAILED: "The job failed.",
    ExitCode.USAGE: "The command line or the job file is wrong.",
    ExitCode.ENVIRONMENT: "This machine has no Docker, credentials or another requirement.",
    ExitCode.REFUSED: "The target refused: a quota, a permission, or a name that does not exist.",
    ExitCode.CANCELLED: "The job was cancelled.",
    ExitCode.TIMED_OUT: "The job exceeded a limit of time or cost.",
    ExitCode.GATE_FAILED: "A gate found a regression.",
    ExitCode.INCONCLUSIVE: "A gate could not decide: too few runs for the noise, or no data.",
    ExitCode.RESULT_UNKNOWN: (
        "The job was accepted, and its result is unknown: it may still run and be billed. Do not "
        "submit it again."
    ),
    ExitCode.INTERRUPTED: "The command was interrupted, or stopped watching a job that continues.",
}


def exit_codes() -> str:
    """The exit codes of all commands."""
    lines = [
        "# Exit codes\n",
        "All commands use these exit codes. [Findings](findings.md) lists the problems.\n",
        "| exit code | meaning |",
        "|---|---|",
    ]
    return (
        "\n".join([*lines, *(f"| {int(code)} | {EXIT_CODES[code]} |" for code in ExitCode)]) + "\n"
    )


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "job.md": job_file,
    "json.md": json_output,
    "findings.md": lambda: finding_codes.page(ROOT),
    "environment.md": lambda: variables.page(ROOT),
    "exit-codes.md": exit_codes,
    "request-fields.md": lambda: request_fields.page({path for path, _ in job_keys()}),
    "python.md": python_api.page,
}

FRONT_MATTER = {
    "job.md": "---\nsearch: {boost: 3}\n---\n",
    "python.md": "---\nsearch: {boost: 0.5}\n---\n",
}
"""Of a word, readers seek the guide and the key rather than a method with an equal name."""


def main() -> int:
    """Write or check the pages."""
    FOLDER.mkdir(exist_ok=True)
    stale = []
    try:
        pages = {
            FOLDER / name: FRONT_MATTER.get(name, "") + HEAD + make()
            for name, make in PAGES.items()
        }
        pages[ROOT / "ARCHITECTURE.md"] = rooms.architecture(ROOT)
    except LookupError as problem:
        print(problem, file=sys.stderr)
        return 1
    for path, text in pages.items():
        if not path.is_file() or path.read_text() != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if stale and "--check" in sys.argv:
        command = "python tools/reference/generate.py"
        print(f"out of date: {', '.join(stale)}; run {command}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
