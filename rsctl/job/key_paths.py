"""The key paths of the job file."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.job.installed_targets import complete_job
from rsctl.job.types import NAME, Field, SpecType, keys_below


def job_keys() -> Iterator[tuple[str, Field]]:
    """Every key of the job file, by path, with the options of all installed targets."""
    return keys_below(SpecType(complete_job()))


def complete_key(incomplete: str) -> list[str]:
    """The keys with a value of their own that begin with a text, with the names of the text."""
    typed = incomplete.split(".")[:-1]
    found = []
    for path, field in job_keys():
        parts = path.split(".")
        for index, name in enumerate(typed[: len(parts)]):
            parts[index] = name if parts[index] == NAME else parts[index]
        completed = ".".join(parts)
        if completed.startswith(incomplete) and NAME not in parts and not field.type.is_struct:
            found.append(completed)
    return found
