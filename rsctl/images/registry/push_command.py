"""The push command, with credentials that only this process gets and that are not stored."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import ImageRepository
from rsctl.user_folders import docker_folder

_HELPER = "docker-credential-rsctl"
_HOST = "RSCTL_LOGIN_HOST"
_LOGIN = "RSCTL_LOGIN"
# printf is the shell's own, so the secret is not an argument of a program. The protocol is from
# docker-credential-helpers: the host comes on standard input, the credentials go out as JSON.
_SCRIPT = f"""#!/bin/sh
# Answers docker's request for credentials, from the environment of one command.
read -r host
[ "$1" = get ] && [ "$host" = "${_HOST}" ] && printf '%s\\n' "${_LOGIN}"
"""


@dataclass(frozen=True)
class PushCommand:
    """A push: its arguments, its environment, and the file that podman writes the digest to."""

    argv: list[str]
    env: dict[str, str]
    digest_file: Path


@contextmanager
def push_command(
    program: str, reference: str, repository: ImageRepository, login: Login | None
) -> Iterator[PushCommand]:
    """The command that pushes a reference with `program` (docker or podman).

    With a login, the program gets a separate configuration in a folder that only this user can read
    and that is removed afterwards; it has no secret, only the name of a credential helper, which
    answers from the environment of this one command. With None the user's own configuration
    applies.

    Raises RsctlError (environment) if no program may run in the folder for temporary files.
    """
    with tempfile.TemporaryDirectory(prefix="rsctl-login-") as name:
        folder = Path(name)
        is_podman = Path(program).name == "podman"
        digest_file = folder / "digest"
        options = ["--digestfile", str(digest_file)] if is_podman else []
        if is_podman and repository.is_loopback:
            options.append("--tls-verify=false")  # docker does so by itself
        if login:
            _write_helper(folder)
            (folder / "config.json").write_text(json.dumps(_configuration(login)))
            if is_podman:
                options += ["--authfile", str(folder / "config.json")]
            else:
                _link_contexts(folder)
        env = _environment(folder, login, is_podman) if login else dict(os.environ)
        yield PushCommand([program, "push", *options, reference], env, digest_file)


def _write_helper(folder: Path) -> None:
    helper = folder / _HELPER
    helper.write_text(_SCRIPT)
    helper.chmod(0o700)
    if not os.access(helper, os.X_OK):
        message = f"programs cannot run in {folder.parent}, which must hold the credential helper"
        remedy = "set TMPDIR to a folder on a file system that is not mounted noexec"
        raise RsctlError(ExitCode.ENVIRONMENT, error("noexec", message, remedy))


def _configuration(login: Login) -> dict[str, object]:
    """Docker's config.json. From the user's own it takes only the engine's address.

    Proxies in it are for containers and may hold passwords; a push needs none, since it is the
    engine that talks to the registry.
    """
    configuration: dict[str, object] = {"credHelpers": {login.host: "rsctl"}}
    with suppress(OSError, ValueError, AttributeError):
        context = json.loads((docker_folder() / "config.json").read_bytes()).get("currentContext")
        if isinstance(context, str):
            configuration["currentContext"] = context
    return configuration


def _link_contexts(folder: Path) -> None:
    """Engines that the user has named, with their certificates, are found through a link."""
    contexts = docker_folder() / "contexts"
    if contexts.is_dir():
        (folder / "contexts").symlink_to(contexts.absolute())


def _environment(folder: Path, login: Login, is_podman: bool) -> dict[str, str]:
    env = dict(os.environ)
    env.pop("DOCKER_AUTH_CONFIG", None)  # it would take precedence over these credentials
    if not is_podman:
        # Docker looks for a remote engine's certificates in the folder of its configuration.
        env["DOCKER_CERT_PATH"] = env.get("DOCKER_CERT_PATH") or str(docker_folder())
        env["DOCKER_CONFIG"] = str(folder)
    env["PATH"] = os.pathsep.join((str(folder), env.get("PATH", os.defpath)))
    env[_HOST] = login.host
    env[_LOGIN] = json.dumps(
        {"ServerURL": login.host, "Username": login.user, "Secret": login.secret}
    )
    return env
