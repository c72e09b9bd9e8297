"""Facts about a custom job: its console page, its shells, how long it waited and ran. Pure."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from rsctl.runs.stream.formatting import format_duration
from rsctl.targets.managed.service import Fact
from rsctl.targets.vertex.job_address import JobAddress
from rsctl.targets.vertex.pools import Roles, replica_of, roles_of
from rsctl.targets.vertex.timestamps import seconds_of


def facts_of(job: dict[str, Any], address: JobAddress, at: float) -> list[Fact]:
    """The facts of a CustomJob; `at` is the present in seconds since 1970. Times in seconds."""
    facts = [Fact("console", address.console, address.console)]
    if shells := _shells(job.get("webAccessUris"), roles_of(job)):
        text = ", ".join(f"{name}: {url}" for name, url in shells.items())
        facts.append(Fact("web_access", text, shells))
    created, started, ended = (
        seconds_of(job.get(key)) for key in ("createTime", "startTime", "endTime")
    )
    if created is not None:
        facts.append(_seconds("waited", created, started or ended or at))
    if started is not None:
        facts.append(_seconds("ran", started, ended or at))
    return facts


def _seconds(name: str, start: float, end: float) -> Fact:
    seconds = round(max(0.0, end - start), 1)
    return Fact(name, format_duration(seconds), seconds)


def _shells(uris: Any, roles: Roles) -> dict[str, str]:
    """The page with a shell in each replica, by replica; only URLs that are safe to open."""
    if not isinstance(uris, dict):
        return {}
    return {
        replica_of(task, roles) or str(task)[:60]: uri
        for task, uri in uris.items()
        if isinstance(uri, str) and urlsplit(uri).scheme == "https" and uri.isprintable()
    }
