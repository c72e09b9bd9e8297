"""Run ids: the job's name and six random characters, valid as a host name and project name."""

from __future__ import annotations

import re

from rsctl.findings import ExitCode, RsctlError, error

ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
SUFFIX_LENGTH = 6
_SLOT = re.compile(r"(.+)-s(?:0|[1-9][0-9]{0,3})")  # the last part of any other id is longer
_RUN_ID = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")  # a label of DNS (RFC 1123)


def new_run_id(job_name: str) -> str:
    """A fresh id such as `quickstart-7f3k2a`."""
    import secrets  # only here: `plan` does not need it

    suffix = "".join(secrets.choice(ALPHABET) for _ in range(SUFFIX_LENGTH))
    return f"{job_name}-{suffix}"


def placeholder(job_name: str) -> str:
    """The placeholder for a run ID in `plan`."""
    return f"{job_name}-{'x' * SUFFIX_LENGTH}"


def slot_run(job: str, slot: int) -> str:
    """The id of the run of a slot of a packed job."""
    return f"{job}-s{slot}"


def packed_job(run: str) -> str | None:
    """The id of the packed job that a run was a slot of; None for any other run."""
    found = _SLOT.fullmatch(run)
    return found[1] if found else None


def require_run_id(text: str) -> str:
    """Validate a run ID from the user. Raises RsctlError (usage) for an invalid one."""
    if _RUN_ID.fullmatch(text):
        return text
    message = f"{text[:80]!r} is not a valid run ID"
    remedy = (
        "use lower-case letters, digits and -, at most 63 characters, starting with a "
        "letter, such as bert-7f3k2a"
    )
    raise RsctlError(ExitCode.USAGE, error("run-id", message, remedy))
