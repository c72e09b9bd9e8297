"""Advice as tables and sentences for people, and as JSON."""

from __future__ import annotations

from typing import Any

import typer

from rsctl.api import Advice, Communication, SweptAdvice
from rsctl.api.advice import advice_json
from rsctl.cli.show import print_message
from rsctl.cli.views.table import write_table
from rsctl.estimate.advice.changed_results import ChangedResult
from rsctl.estimate.advice.recommendation import format_seconds
from rsctl.runs.stream.formatting import format_bytes
from rsctl.runs.stream.sanitize import sanitize_line

_HEAD = ["TOPOLOGY", "REDUCERS", "MACHINE", "STEP", "EFFICIENCY", "USD/1,000 STEPS", "BOTTLENECK"]


def print_advice(advice: Advice) -> None:
    """Print the ranked table and the recommendation on stdout, the rest on stderr."""
    write_table([_HEAD, *map(_row, advice.options)])
    if not all(option.is_offered for option in advice.options):
        print_message("* for comparison only: rsctl cannot select it")
    typer.echo(f"\n{sanitize_line(advice.recommendation.sentence)}")
    for line in _amounts(advice):
        typer.echo(line)
    for hint in advice.hints:
        print_message(sanitize_line(f"{hint.kind}: {hint.text}{_setting(hint.setting)}"))
    for changed in advice.changed_results:
        print_message(sanitize_line(_changed(changed)))
    for assumption in advice.assumptions:
        print_message(sanitize_line(f"assumed: {assumption}"))


def print_communication(alone: Communication) -> None:
    """Print the communication of a step alone."""
    head = ["COLLECTIVE", "REDUCERS", "MACHINE", "SENT", "TIME", "BOTTLENECK"]
    rows = [
        [
            one.name,
            str(one.reducers or "-"),
            one.reducer_machine or "",
            format_bytes(round(one.worker_bytes)),
            format_seconds(one.seconds),
            one.bottleneck,
        ]
        for one in alone.collectives
    ]
    write_table([head, *rows])
    typer.echo(f"\n{sanitize_line(alone.sentence)}")
    for assumption in alone.assumptions:
        print_message(sanitize_line(f"assumed: {assumption}"))


def print_sweep(swept: SweptAdvice) -> None:
    """A row for each value: the recommendation, and the step time without reducers."""
    head = [swept.key.upper(), "TOPOLOGY", "REDUCERS", "STEP", "WITHOUT", "EFFICIENCY"]
    rows = [[*head, "RANK STEPS/S", "USD/1,000 STEPS", "BOTTLENECK"]]
    for value, advice in zip(swept.values, swept.advice, strict=True):
        best = advice.recommendation
        chosen = next(
            option
            for option in advice.every_option
            if (option.reducers, option.reducer_machine) == (best.reducers, best.reducer_machine)
        )
        without = next(option for option in advice.every_option if not option.reducers)
        rows.append(
            [
                str(value),
                best.topology,
                str(best.reducers or "-"),
                format_seconds(best.step_seconds),
                format_seconds(without.step_seconds),
                _percent(best.efficiency),
                f"{chosen.throughput:.4g}",
                _dollars(best.dollars_per_1000_steps),
                best.bottleneck,
            ]
        )
    write_table(rows)
    for assumption in swept.advice[-1].assumptions:
        print_message(sanitize_line(f"assumed: {assumption}"))


def sweep_json(swept: SweptAdvice) -> dict[str, Any]:
    """The output of `-o json` for a sweep."""
    return {
        "key": swept.key,
        "values": swept.values,
        "advice": [advice_json(advice) for advice in swept.advice],
    }


def _row(option: Any) -> list[str]:
    return [
        option.topology + ("" if option.is_offered else " *"),
        str(option.reducers or "-"),
        option.reducer_machine or "",
        format_seconds(option.step_seconds),
        _percent(option.efficiency),
        _dollars(option.dollars_per_1000_steps),
        option.bottleneck,
    ]


def _amounts(advice: Advice) -> list[str]:
    best, sizes = advice.recommendation, advice.pool_sizes
    lines = []
    if (fast := advice.fastest) is not None:
        price = _dollars(fast.dollars_per_1000_steps)
        noun = "reducer" if fast.reducers == 1 else "reducers"
        where = f" on {fast.reducer_machine}" if fast.reducer_machine else ""
        lines.append(
            f"The fastest option has {fast.reducers} {noun}{where}: "
            + format_seconds(fast.step_seconds)
            + (f", {price} USD per 1,000 steps." if price else ".")
        )
    if best.run_dollars is not None:
        lines.append(f"Whole run: {_dollars(best.run_dollars)} USD.")
    if best.samples_per_second is not None:
        lines.append(f"Throughput: {best.samples_per_second:.4g} samples/s.")
    if sizes.saturating is not None:
        words = [f"{sizes.saturating} make the workers the bottleneck"]
        if sizes.break_even is not None:
            words.append(f"a pool alone beats a ring from {sizes.break_even}")
        if sizes.documented is not None and sizes.documented != sizes.saturating:
            words.append(f"the documented rule recommends {sizes.documented}")
        where = f" on {sizes.machine}" if sizes.machine else ""
        lines.append(f"Reducers{where}: {', '.join(words)}.")
    return lines


def _changed(changed: ChangedResult) -> str:
    """A setting that changes results: what it sends, its step and price, and what is known."""
    price = _dollars(changed.dollars_per_1000_steps)
    costs = f", {price} USD per 1,000 steps" if price else ""
    return (
        f"changes results, compare the loss first: --set {changed.setting} sends "
        f"{format_bytes(round(changed.worker_bytes))} of a worker in a step, a step of "
        f"{format_seconds(changed.step_seconds)}{costs}; loss: {changed.loss} ({changed.source})"
    )


def _setting(setting: str | None) -> str:
    return f" (--set {setting})" if setting else ""


def _percent(part: float) -> str:
    return f"{part:.0%}" if part >= 0.1 else f"{part:.1%}"


def _dollars(amount: float | None) -> str:
    return "" if amount is None else f"{amount:,.2f}"
