"""Messages about a run or a gate, for people: what happened, why, and the next command.

Reasons and causes come from logs and clouds, so they are hostile: a message has no control
character, no markup, no mention of a chat, no link, and no secret that rsctl knows.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Container, Iterable
from typing import NamedTuple

from rsctl.bench.decision import Decision
from rsctl.bench.formats.text import format_effect
from rsctl.bench.records import BenchRecord
from rsctl.bench.verdict import Verdict
from rsctl.estimate.costs.limit import dollars
from rsctl.findings import Finding, JobState
from rsctl.job.notify import NotifyEvent
from rsctl.job.secret_names import HIDDEN, is_secret_name, public_text
from rsctl.runs.cost import cost_of
from rsctl.runs.home import is_rehearsed
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import now, seconds_between
from rsctl.runs.stream.formatting import format_duration
from rsctl.runs.stream.sanitize import sanitize_line

EVENT_OF_END: dict[JobState, NotifyEvent] = {
    JobState.FAILED: "failed",
    JobState.EXPIRED: "failed",
    JobState.SUCCEEDED: "succeeded",
}
"""The event of a final state of a run or a bench; a cancellation has no event."""

_TYPES = {JobState.SUCCEEDED: "success"}
_LONGEST = 300
_SHORTEST_SECRET = 4
_WORD = re.compile(r"[\w-]+")
_VARIABLE = re.compile(r"\$\{(\w+)")
_URL = re.compile(r"\b(?:[a-z][a-z0-9+.-]*://|www\.)\S+", re.IGNORECASE)
_MARKUP = str.maketrans({"<": "\u2039", ">": "\u203a", "@": "\uff20", "`": "'"})
"""Chats read mentions, links and code from these characters."""


class Message(NamedTuple):
    """A title, lines of text, and Apprise's type of the message, which gives it a color."""

    title: str
    body: str
    type: str


def run_message(run: RunRecord, state: str, why: Finding | None = None) -> Message:
    """The message that a run has reached a state; `why` is the finding of a stall."""
    cause, remedy = (why.message, why.remedy) if why is not None else _cause(run)
    place = f"{run.run} on {run.target}" + (", a rehearsal" if is_rehearsed(run.run) else "")
    took = f"after {format_duration(seconds_between(run.created, run.ended or now()))}"
    spent, _ = cost_of(run)
    cost = f", {dollars(spent)}" if spent is not None else ""
    lines = [f"{place} {state} {took}{cost}"]
    if cause:
        names = [name for name, value in (run.plan.get("env") or {}).items() if value is None]
        secrets = _secrets([*names, *_variables(run.spec or "", names)])
        remedy = remedy and f" -> {_public(remedy, secrets)}"
        lines.append(f"{_public(cause, secrets)}{remedy or ''}")
    lines.append(f"next: {_next(run, why)}")
    kind = "warning" if why is not None else _TYPES.get(run.state, "failure")
    return Message(f"{run.name} {state}", "\n".join(lines), kind)


def bench_message(bench: BenchRecord) -> Message:
    """The message that a bench has ended, with the first failure among its runs."""
    trials = bench.latest().values()
    counts = Counter(trial.state.value for trial in trials)
    runs = ", ".join(f"{count} {state}" for state, count in counts.items())
    place = f"{bench.bench} on {bench.target}" + (", a rehearsal" if bench.rehearsed else "")
    took = format_duration(seconds_between(bench.created, bench.ended or now()))
    lines = [f"{place} {bench.state.value} after {took}: runs: {runs}"]
    failed = next((trial for trial in trials if EVENT_OF_END.get(trial.state) == "failed"), None)
    if failed is not None:
        reason = _public(failed.reason, _secrets(_variables(bench.text)))
        lines.append(f"{failed.run}: {reason or failed.state.value}")
    lines.append(f"next: rsctl bench status {bench.bench}")
    kind = _TYPES.get(bench.state, "failure")
    return Message(f"{bench.name} bench {bench.state.value}", "\n".join(lines), kind)


def gate_message(name: str, decision: Decision) -> Message:
    """The message that a gate has found a regression."""
    gate = decision.gate
    worse = [check for check in gate.checks if check.verdict is Verdict.REGRESSED]
    titles = "; ".join(f"{check.title}: {format_effect(check) or check.reason}" for check in worse)
    lines = [
        _public(f"{gate.candidate} regressed against {gate.baseline}"),
        _public(titles),
        f"next: rsctl report {gate.candidate}",
    ]
    return Message(f"{name} regressed", "\n".join(filter(None, lines)), "failure")


def _cause(run: RunRecord) -> tuple[str | None, str | None]:
    """Why a run ended as it did, and the remedy; the known cause comes first."""
    failure = run.first_failure
    if run.state is JobState.SUCCEEDED:
        return None, None
    if failure is None:
        return run.reason, None
    if not failure.causes:
        return failure.headline, None
    cause = failure.causes[0]
    return f"{failure.headline}; {cause.message}", cause.remedy


def _next(run: RunRecord, stall: Finding | None) -> str:
    if stall is not None:
        return f"rsctl debug {run.run}"
    if run.state is JobState.SUCCEEDED:
        return f"rsctl report {run.run}"
    return f"rsctl logs {'--failed ' if run.first_failure else ''}{run.run}"


def _variables(text: str, names: Container[str] = ()) -> list[str]:
    """The variables of this environment in those lines of a job file that have one of these names
    or the name of a secret.
    """
    lines = (line for line in text.splitlines() if "${" in line)
    return [
        variable
        for line in lines
        if any(word in names or is_secret_name(word) for word in _WORD.findall(line))
        for variable in _VARIABLE.findall(line)
    ]


def _secrets(names: Iterable[str]) -> list[str]:
    """The lines of secrets as far as they are in this environment, the longest first."""
    values = [os.environ.get(name, "") for name in names]
    lines = {" ".join(line.split()) for value in values for line in value.splitlines()}
    return sorted((line for line in lines if len(line) >= _SHORTEST_SECRET), key=len, reverse=True)


def _public(text: str | None, secrets: Iterable[str] = ()) -> str:
    """A text of unknown origin as one short line without secrets and markup."""
    line = " ".join(sanitize_line(text or "").split())
    for value in secrets:
        line = line.replace(value, HIDDEN)
    line = _URL.sub("(a URL)", public_text(line)).translate(_MARKUP).replace("](", "] (")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}\u2026"
