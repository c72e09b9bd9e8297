"""`rsctl plan JOB`: what would run, and the exact request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Optional

import msgspec
import typer
import yaml

from rsctl.api import InputPlan, JobFile, Plan, Pool, load, plan, sdk_code
from rsctl.cli import options
from rsctl.cli.command import OUTPUT, make_command
from rsctl.cli.show import print_json, show_findings
from rsctl.cli.views.cost import format_plan_cost
from rsctl.runs.stream.sanitize import sanitize
from rsctl.target_info import target_info


@make_command("plan")
def command(
    context: typer.Context,
    job: options.Job,
    target: options.Target = None,
    settings: options.Settings = [],
    run_id: Annotated[
        Optional[str],
        typer.Option("--run-id", metavar="ID", help="Show the request with this run ID."),
    ] = None,
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse",
            help="Use the values of a rehearsal where the job lacks the ones of an account.",
        ),
    ] = False,
    output: Annotated[
        Literal["text", "json", "python", "script"],
        typer.Option(
            "--output",
            "-o",
            rich_help_panel=OUTPUT,
            help="json makes standard output machine-readable; python prints the request as code "
            "for the cloud's SDK; script prints the whole batch script of target slurm.",
        ),
    ] = "text",
) -> None:
    """Show exactly what a job would run; send nothing.

    Exit code: 0, or 2 if the job cannot be planned.
    """
    file = load(job, set=settings, strict=False)
    if rehearse and output in ("python", "script"):
        context.fail("--rehearse shows a plan: use -o text or json")
    if output in ("python", "script"):  # several people may run the code: each needs an ID
        code = sdk_code(file, target, run_id=run_id, is_script=output == "script")
        typer.echo(code, nl=False)
        return
    planned = plan(file, target, run_id=run_id, rehearse=rehearse)
    packed = _packed(file, target, rehearse)
    if output == "json":
        shown = msgspec.to_builtins(planned)
        print_json({**shown, "cells": file.cells} if file.cells else shown)
    else:
        show_findings(planned.findings, file)
        typer.echo(sanitize(plan_text(planned, file.cells, packed)), nl=False)


def _packed(file: JobFile, target: str | None, rehearse: bool) -> str | None:
    """The savings by packing the bench of the job file; None for any other."""
    if not file.spec.bench.pack:
        return None
    from rsctl.api import Rehearsal, packed_plan  # which other plans do not need

    return packed_plan(file, target, Rehearsal() if rehearse else None)


def plan_text(plan: Plan, cells: list[dict[str, Any]], packed: str | None = None) -> str:
    """The plan for people, with the values of each of its `cells`, and what packing them saves."""
    head = [
        ("run", plan.run),
        ("target", plan.target),
        ("image", f"{plan.image.tag or 'none'} (transport: {plan.image.transport})"),
        *zip(_pool_names(plan.pools), (_pool(p, plan.target) for p in plan.pools), strict=True),
        ("world size", str(plan.world_size)),
    ]
    texts = [line for each in plan.inputs or () for line in _input(each)]
    head += zip(["inputs", *[""] * len(texts)], texts, strict=False)
    if plan.cost:
        cost = format_plan_cost(plan.cost)
        head += [("cost", cost[0]), *(("", line) for line in cost[1:])]
    for number, placement in enumerate(plan.alternatives or ()):
        where = ", ".join(filter(None, (placement.region, placement.machine)))
        head.append(("" if number else "else", f"{where}"))
    lines = [f"{name:<12}{value}" for name, value in head]
    if cells:
        lines.append(f"{'matrix':<12}{len(cells)} cells")
        lines += [" " * 12 + "  ".join(f"{k}={v}" for k, v in cell.items()) for cell in cells]
    if packed is not None:
        lines.append(f"{'bench':<12}{packed}")
    return "\n".join(lines) + "\n\n" + _yaml({"env": plan.env}) + "\n" + _request(plan.request)


_ALIKE = "# Everything below is the same in every job.\n"
"""The line of a batch script that ends what belongs to the job."""


def _request(request: dict[str, Any]) -> str:
    """The request; for identical replicas only the first one, and the differences of the others; of
    a script only what belongs to this job.
    """
    if "commands" in request:
        first, alike = _first_of_each(request["commands"])
        return _yaml({"commands": first}) + alike
    if isinstance(script := request.get("script"), str):
        others = {name: value for name, value in request.items() if name != "script"}
        own, mark, alike = script.partition(_ALIKE)
        more = f"# {alike.count(chr(10))} lines; `rsctl plan JOB -o script` prints them\n"
        return f"{_yaml(others)}\n{own}{mark}{more if mark else ''}"
    services = request.get("compose", {}).get("services")
    if not services:
        return _yaml(request)
    first, alike = _first_of_each(
        [{"replica": name, **service} for name, service in services.items()]
    )
    shown = {service.pop("replica"): service for service in first}
    return _yaml({"compose": {**request["compose"], "services": shown}}) + alike


def _first_of_each(replicas: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """The first replica of each role and command, and a comment with the others' differences."""
    first: dict[tuple[str, str], dict[str, Any]] = {}
    others: dict[tuple[str, str], list[str]] = {}
    for replica in replicas:
        command = repr((replica.get("argv"), replica.get("command")))
        role = (replica["replica"].rpartition("-")[0], command)
        if role not in first:
            first[role] = replica
            continue
        differences = ", ".join(_differences(first[role], replica))
        others.setdefault((first[role]["replica"], differences), []).append(replica["replica"])
    lines = [
        f"# {_range(names)}: as {like}, but for {differences}\n"
        for (like, differences), names in others.items()
    ]
    return list(first.values()), "".join(lines) + "# complete: -o json\n" * bool(lines)


def _range(names: list[str]) -> str:
    """Names as `worker-1, worker-2`, or `worker-1 to worker-39` for a long sequence."""
    numbers = [int(name.rpartition("-")[2]) for name in names]
    in_a_row = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return f"{names[0]} to {names[-1]}" if len(names) > 3 and in_a_row else ", ".join(names)


def _differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """The key paths at which two values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one | other:
            yield from _differences(one.get(key), other.get(key), f"{path}.{key}" if path else key)
    elif one != other and path != "replica":
        yield path


def _pool_names(pools: list[Pool]) -> list[str]:
    """The name of a pool, such as `workers`; a chief with its own pool is the first of two worker
    pools.
    """
    has_chief = sum(pool.role == "worker" for pool in pools) > 1
    names = [f"{p.role}s" if p.role in ("worker", "reducer") else p.role for p in pools]
    return ["chief", *names[1:]] if has_chief else names


def _pool(pool: Pool, target: str) -> str:
    here = "any node" if target_info(target).is_managed else "this machine"
    parts = [f"{pool.count} x {pool.machine or here}", pool.accelerator]
    parts.append(f"{pool.gbps:g} Gbit/s" if pool.gbps else None)
    return ", ".join(part for part in parts if part)


def _input(planned: InputPlan) -> list[str]:
    """The launcher and the variables that the script finds; then which component sets them."""
    count = f", {planned.shards:,} shards" if planned.shards is not None else ""
    first = f"{planned.name}: {planned.mode} {planned.location}{count}"
    return [first, f"  at {planned.path}", f"  by {planned.by}"]


class _Dumper(yaml.SafeDumper):
    """Writes in full what a target's request has twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _yaml(value: dict[str, Any]) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text
