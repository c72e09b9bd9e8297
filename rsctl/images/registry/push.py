"""Pushes an image, and checks that the registry has it."""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.commands import run_streamed
from rsctl.images.registry.api import DIGEST
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.known_errors import TAG_IMMUTABLE, PushError, push_error
from rsctl.images.registry.names import FIELD, ImageRepository, parse_reference
from rsctl.images.registry.operations import find_pushed
from rsctl.images.registry.push_command import PushCommand, push_command

RETRY_PAUSES = (1.0, 4.0, 15.0)
"""Seconds between attempts, give or take half. The engine itself tries a broken layer 5 times."""

_LAST_LINES = 12
_PUSHED = re.compile(rf"\bdigest: ({DIGEST.pattern})\b")

OnLine = Callable[[str], None]


def push(
    program: str,
    reference: str,
    login: Login | None,
    on_line: OnLine,
    pauses: Sequence[float] = RETRY_PAUSES,
) -> str:
    """Push `REPOSITORY:TAG` with `program` (docker or podman); returns the manifest's digest.

    `login` is the result of `login_for`; with None the program uses its own stored login. `on_line`
    gets the program's lines, without the secret. After a transient error, such as a broken
    connection, the push is tried again. Raises RsctlError: refused (permission, missing repository,
    quota, a tag that must stay), environment (network, login), usage (the name).
    """
    repository, _ = parse_reference(reference)
    with push_command(program, reference, repository, login) as command:
        try:
            digest = _push_with_retries(command, reference, repository, login, on_line, pauses)
        except PushError as problem:
            is_immutable = problem.code == TAG_IMMUTABLE
            found = _same_image(program, reference, login) if is_immutable else None
            if found is None:
                raise
            return found
    return _confirmed(reference, digest, login, pauses)


def _push_with_retries(
    command: PushCommand,
    reference: str,
    repository: ImageRepository,
    login: Login | None,
    on_line: OnLine,
    pauses: Sequence[float],
) -> str | None:
    """The digest that the program reports, after as many attempts as there are pauses, plus one."""
    for pause in pauses:
        try:
            return _push_once(command, reference, repository, login, on_line)
        except PushError as problem:
            if not problem.is_transient:
                raise
            seconds = pause * random.uniform(0.5, 1.5)  # noqa: S311 - not a secret
            on_line(f"the push failed; trying again in {seconds:.0f} s")
            time.sleep(seconds)
    return _push_once(command, reference, repository, login, on_line)


def _push_once(
    command: PushCommand,
    reference: str,
    repository: ImageRepository,
    login: Login | None,
    on_line: OnLine,
) -> str | None:
    last: deque[str] = deque(maxlen=_LAST_LINES)
    command.digest_file.unlink(missing_ok=True)

    def take(line: str | None) -> None:
        if line is not None:
            last.append(login.hide(line) if login else line)
            on_line(last[-1])

    if run_streamed(command.argv, take, command.env):
        raise push_error(list(last), reference, repository, login)
    if command.digest_file.exists():
        found = DIGEST.fullmatch(command.digest_file.read_text().strip())
        return found[0] if found else None
    return next((found[1] for line in reversed(last) if (found := _PUSHED.search(line))), None)


def _same_image(program: str, reference: str, login: Login | None) -> str | None:
    """The digest of the tag, if it is the digest of the engine's image; None otherwise.

    A registry whose tags are immutable refuses even to push the same image again.
    """
    found = find_pushed(reference, login)
    command = [program, "image", "inspect", "--format", "{{json .RepoDigests}}", reference]
    done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    try:
        known = json.loads(done.stdout or b"[]") or []
    except ValueError:
        known = []
    return found if any(str(name).endswith(f"@{found}") for name in known) else None


def _confirmed(
    reference: str, digest: str | None, login: Login | None, pauses: Sequence[float]
) -> str:
    """The digest under the tag, which some registries show only a moment after the push."""
    for pause in (*pauses, 0.0):
        found = find_pushed(reference, login)
        if found:
            break
        time.sleep(pause)
    else:
        message = f"{reference} was pushed, but the registry does not show it"
        raise RsctlError(ExitCode.REFUSED, error("push", message, "try again later", FIELD))
    if digest and found != digest:
        message = f"{reference} was pushed as {digest}, but the registry shows {found} for that tag"
        remedy = "another process pushed at the same time: run the command again"
        raise RsctlError(ExitCode.REFUSED, error("push-overtaken", message, remedy, FIELD))
    return found
