"""A packed bench: its runs are slots of few jobs, one after the other on the same nodes.

Slots of one job may differ in run.args, run.env and the program. Cells that differ in more have
jobs of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from rsctl.bench.checkouts import keep_together
from rsctl.bench.pack_checks import pack_findings
from rsctl.bench.prepare import BenchCell
from rsctl.bench.records import Trial
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.job.job import Job
from rsctl.job.units import Duration, EnvValue, LocalPath, Money
from rsctl.node.path_placeholders import placeholder_names
from rsctl.node.slots import Cell, Slots, encode
from rsctl.runs.ids import packed_job
from rsctl.targets.launch_command import script_arguments, user_command
from rsctl.targets.variables import user_env

_START_SECONDS = 600.0
_GRACE_SECONDS = 30.0
MOST_SLOTS = 1000
"""The most slots of one job."""


class Pack(Trial):
    """A packed job that has been sent, or is about to be: `run` is its id, `trials` its slots."""

    trials: list[Trial] = []


def packs_of(trials: Iterable[Trial]) -> list[Trial]:
    """Trials, with those that are slots of one packed job as that job."""
    packs: dict[str, Pack] = {}
    found: list[Trial] = []
    for trial in trials:
        job = packed_job(trial.run)
        if job is None:
            found.append(trial)
        elif job in packs:
            packs[job].trials.append(trial)
        else:
            packs[job] = make_pack(job, [trial])
            found.append(packs[job])
    for pack in packs.values():
        pack.trials.sort(key=slot_of)
    return found


def make_pack(job: str, trials: list[Trial]) -> Pack:
    """A packed job of these trials."""
    first = trials[0]
    fields = {name: getattr(first, name) for name in ("cell", "repetition", "attempt")}
    return Pack(run=job, trials=trials, **fields)


def trials_in(trial: Trial) -> list[Trial]:
    """The slots of a packed job, or the trial itself."""
    return trial.trials if isinstance(trial, Pack) else [trial]


def slot_of(trial: Trial) -> int:
    """The number of a trial's slot in its job."""
    return int(trial.run.rpartition("-s")[2])


def shape_of(cell: BenchCell) -> bytes:
    """The common part of all slots of one job."""
    job, image, recipe = cell.submission.job, cell.submission.plan.image, cell.submission.recipe
    secret = {name: value for name, value in job.run.env.items() if user_env(job)[name] is None}
    run = replace(job.run, args=[], env=secret, script=None, module=None, command=None)
    built: Any = image.tag
    if recipe is not None and job.image.dockerfile is None:
        files = {n: h for n, h in recipe.context.hashes.items() if n.partition("/")[0] != "source"}
        built = [recipe.contents, recipe.platform, recipe.repository, files]
    common = replace(
        job,
        run=run,
        image=replace(job.image, source=job.image.source if isinstance(built, str) else None),
        metrics={},
        gate=None,
        tracking=[],
        notify=[],
        bench=type(job.bench)(),
    )
    return msgspec.json.encode([common, built], enc_hook=str)


def pack_job(cells: Sequence[BenchCell], order: list[int]) -> Job:
    """The job that runs slots in this order, each by the number of its cell.

    An image of cells with different sources has all of them. Raises OSError and RsctlError.
    """
    jobs = [cell.submission.job for cell in cells]
    base, limits = jobs[0], jobs[0].limits
    sources = list(dict.fromkeys(job.image.source for job in jobs))
    folders: dict[Any, str | None] = {sources[0]: None}
    if sources[1:] and cells[0].submission.plan.image.tag:
        folders = {source: str(number) for number, source in enumerate(sources)}
        together = keep_together([Path(str(source)) for source in sources])
        base = replace(base, image=replace(base.image, source=LocalPath(together)))
    seconds = float(limits.timeout) if limits.timeout else None
    known = [_slot_cell(job, base, folders) for job in jobs]
    each = (seconds or 0.0) + float(limits.grace or _GRACE_SECONDS)
    whole = Duration(_START_SECONDS + len(order) * each) if seconds else None
    cost = limits.cost and Money(limits.cost * len(order))
    variables = encode(Slots(known, order, seconds))
    env = {**base.run.env, **{name: EnvValue(text) for name, text in variables.items()}}
    return replace(
        base,
        run=replace(base.run, env=env),
        limits=replace(limits, timeout=whole, cost=cost, retries=0, restarts="never"),
    )


def _slot_cell(job: Job, base: Job, folders: Mapping[Any, str | None]) -> Cell:
    """The part of a slot's job that differs from the `base` of all slots."""
    own, common = user_env(job), user_env(base)
    changed: dict[str, Any] = {name: None for name in common if name not in own}
    changed |= {n: v for n, v in own.items() if v is not None and v != common.get(n)}
    arguments = script_arguments(job)
    fill = len(arguments) if placeholder_names(arguments) else 0
    folder = folders.get(job.image.source, str(job.image.source))
    return Cell(user_command(job), job.run.program is None, fill, changed, folder)


def require_pairs(cells: Sequence[BenchCell], label: str) -> None:
    """Raise RsctlError if the two sides of a pair cannot be slots of one job."""
    findings = pair_obstacles(cells, label)
    if findings:
        raise RsctlError(ExitCode.USAGE, *findings)


def pair_obstacles(cells: Sequence[BenchCell], label: str) -> list[Finding]:
    """The errors for pairs whose two sides cannot be slots of one job."""
    findings = [f for f in pack_findings(cell.submission.job for cell in cells) if f.is_error]
    for before, after in zip(cells[::2], cells[1::2], strict=True):
        one, other = (msgspec.json.decode(shape_of(cell)) for cell in (before, after))
        keys = [key for key in other[0] if one[0].get(key) != other[0][key]]
        keys += ["image"] if one[1] != other[1] and "image" not in keys else []
        if keys and not findings:
            message = (
                f"bench.pack runs both sides inside one job, and {label} has another "
                f"{', '.join(keys)}: only run.args, run.env, the program and the source may differ"
            )
            findings.append(error("pack", message, "use --no-pack, or bench.pack: false", keys[0]))
    return findings
