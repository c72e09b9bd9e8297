"""Run ids: the job's name and six random characters, valid as a host name and project name."""

from __future__ import annotations

ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
SUFFIX_LENGTH = 6


def new_run_id(job_name: str) -> str:
    """A fresh id such as `quickstart-7f3k2a`."""
    import secrets  # not for `plan`, which needs none

    suffix = "".join(secrets.choice(ALPHABET) for _ in range(SUFFIX_LENGTH))
    return f"{job_name}-{suffix}"


def placeholder(job_name: str) -> str:
    """What `plan` shows in place of a run id."""
    return f"{job_name}-{'x' * SUFFIX_LENGTH}"
