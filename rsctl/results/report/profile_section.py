"""The section on profiles of a run's ranks: the top operations, and the communication."""

from __future__ import annotations

from rsctl.results.report.data import RunData
from rsctl.results.report.html import Child, Markup, details, paragraph, section, table
from rsctl.results.report.page import left_out
from rsctl.runs.stream.profiles import RankProfile

RANKS = 64
"""Ranks in the section at most."""

_UNITS = {"torch": "operation", "py-spy": "function", "nsys": "kernel"}
_HINTS = {
    "torch": "open the files in perfetto.dev",
    "py-spy": "open the files in speedscope.app",
    "nsys": "open the files in NVIDIA Nsight Systems",
}


def profiles_part(data: RunData) -> Markup | None:
    """A table of the ranks, and for each its operations; None without profiles."""
    shown = data.profiles[:RANKS]
    if not shown:
        return None
    rows = [
        (each.rank, each.tool, each.steps or "all", _percent(each.communication), each.file)
        for each in shown
    ]
    head = ("rank", "tool", "steps", "communication", "file in the outputs")
    hint = f"rsctl get {data.run.run} downloads the outputs; {_HINTS[shown[0].tool]}."
    return section(
        "Profiles",
        table(head, rows),
        *(_operations(each, is_open=each is shown[0]) for each in shown if each.top),
        left_out(len(data.profiles) - len(shown), "rank"),
        paragraph(hint, class_="faint"),
    )


def _operations(profile: RankProfile, is_open: bool) -> Child:
    unit = _UNITS[profile.tool]
    rows = [(name, f"{part:.1%}") for name, part in profile.top]
    title = f"Rank {profile.rank}: where the time went"
    head = (unit, "part of the time")
    if is_open:
        return section(title, table(head, rows), level=4)
    return details(title, table(head, rows))


def _percent(part: float | None) -> str:
    return "unknown" if part is None else f"{part:.0%}"
