"""Known errors of builds: patterns of a builder's output, each with its message and remedy."""

from __future__ import annotations

import re

from rsctl.findings import ExitCode
from rsctl.known_errors import (
    NO_IMAGE,
    NO_MEMORY,
    NO_SPACE,
    PULL_DENIED,
    WRONG_ARCHITECTURE,
    KnownError,
)

OWN_BUILD = "build that part with `docker build --ssh`, push it, and set image.base to it"
"""The remedy for a build that needs a key: rsctl passes none."""

MOUNTED = "set image.secrets to the name of an environment variable, and mount it with id=NAME"
"""The remedy for a Dockerfile that mounts a secret which no key of the job names."""

HELPER = (
    r"error getting credentials|docker-credential-\S+ .*(?:not found|exit status)",
    "docker's credential helper does not work, so that docker reads no credentials",
    "install the docker-credential program that the last lines name, or remove credsStore and "
    "credHelpers from ~/.docker/config.json and run `docker login`",
)
"""The pattern, message and remedy of a program in docker's configuration that fails, as Docker
Desktop's does on a machine without Docker Desktop."""

NO_ENGINE = KnownError(
    "engine",
    "start it, and check that `docker info` works for your user: not every user has permission",
    exit_code=ExitCode.ENVIRONMENT,
    pattern=re.compile(
        r"cannot connect to the docker daemon|is the docker daemon running"
        r"|permission denied while trying to connect to the docker|docker api at",
        re.IGNORECASE,
    ),
    summary="the Docker engine does not answer",
)
"""The engine does not work at all, for any command."""


def _environment(
    code: str, pattern: str, summary: str, remedy: str, path: str | None = None, source: str = ""
) -> KnownError:
    """An error of the environment."""
    return _known(code, pattern, summary, remedy, path, source, ExitCode.ENVIRONMENT)


def _spec(
    code: str, pattern: str, summary: str, remedy: str, path: str | None = None, source: str = ""
) -> KnownError:
    """An error of the spec."""
    return _known(code, pattern, summary, remedy, path, source, ExitCode.USAGE)


def _known(
    code: str,
    pattern: str,
    summary: str,
    remedy: str,
    path: str | None,
    source: str,
    exit_code: ExitCode,
) -> KnownError:
    """In the texts, `{base}` is the base; no `path` stands for the field of the failed step."""
    return KnownError(
        code,
        remedy,
        path,
        exit_code,
        pattern=re.compile(pattern, re.MULTILINE),
        source=re.compile(source) if source else None,
        summary=summary,
    )


_BASE = r"FROM |pull |\[internal\] load metadata "

KNOWN_ERRORS = (
    NO_ENGINE,
    _environment("credential-helper", *HELPER),
    _environment(
        "disk",
        rf"{NO_SPACE}|You don't have enough free space in",
        "the disk of the container engine is full",
        "free disk space: `docker system df` shows the usage, `docker builder prune` and `docker "
        "image prune` free some",
    ),
    _environment(
        "memory",
        r"exit code: 137\b|exit status 137\b|non-zero code: 137\b"
        rf"|Killed signal terminated program|^Killed$|{NO_MEMORY}",
        "the step was killed, most likely because it ran out of memory",
        "give the engine more memory, or use requirements that have wheels instead of being "
        "compiled",
    ),
    _environment(
        "platform",
        WRONG_ARCHITECTURE,
        "the base image is for a different processor architecture, which this machine "
        "cannot emulate",
        "build on a machine of that architecture, or install emulation: `docker run --privileged "
        "--rm tonistiigi/binfmt --install all`",
        "image.base",
    ),
    _spec(
        "platform",
        r"no matching manifest for ([\w/]+)|no image found in image index for "
        r"|does not match the specified platform|no match for platform in manifest",
        "{base} does not exist for the required platform {names}",
        "use a base image that exists for it",
        "image.base",
        _BASE,
    ),
    _environment(
        "rate-limit",
        r"toomanyrequests|pull rate limit",
        "the registry of {base} refuses more pulls at the moment",
        "log in with `docker login`, or wait",
        "image.base",
        _BASE,
    ),
    _spec(
        "base",
        r"short-name \S+ did not resolve|no unqualified-search registries",
        "podman does not know the registry of {base}, and has no local image of that name",
        "include the registry in the name, as in docker.io/{base}",
        "image.base",
        _BASE,
    ),
    _environment(
        "base",
        rf"{PULL_DENIED}|requested access to the resource is denied|[Uu]nauthorized"
        r"|authentication required|no basic auth credentials|^denied: |403 Forbidden",
        "cannot read {base}: it does not exist, or this machine is not logged in",
        "check image.base, or log in to its registry with `docker login`",
        "image.base",
        _BASE,
    ),
    _spec(
        "base",
        rf"{NO_IMAGE}|name unknown|repository \S+ not found|: not found$",
        "image {base} does not exist",
        "check its name and tag",
        "image.base",
        _BASE,
    ),
    _spec(
        "git",
        r"Cannot find command 'git'",
        "{base} has no git, which a requirement needs",
        "add git to image.apt",
        "image.apt",
    ),
    _spec(
        "private-package",
        r"Permission denied \(publickey|Host key verification failed|could not read Username"
        r"|Authentication failed for '|could not read from remote repository",
        "a git repository needs a key, or a token that the build does not have",
        "put a token into an environment variable, name it in image.secrets, and write "
        "git+https://${{NAME}}@HOST/PATH in the requirements file",
        "image.python",
        r"RUN .* -m pip ",
    ),
    _spec(
        "private-package",
        r"401 Error, Credentials not correct|EOFError: EOF when reading a line",
        "a package index needs a password that the build does not have, or another one",
        "put the index's URL with its password into PIP_INDEX_URL or PIP_EXTRA_INDEX_URL, and "
        "name that variable in image.secrets",
        "image.python",
        r"RUN .* -m pip ",
    ),
    _environment(
        "checksum",
        r"computed checksums? did NOT match",
        "a downloaded file is not the expected one: it was truncated, or changed on the way",
        "build again; if the error persists, look for a proxy that alters downloads",
    ),
    _environment(
        "certificate",
        r"CERTIFICATE_VERIFY_FAILED|x509: |certificate verify failed|SSLCertVerificationError",
        "the certificate of a server is not trusted",
        "if a proxy intercepts TLS here, add its authority to the base image (PIP_CERT for pip) "
        "and to the engine",
    ),
    _environment(
        "network",
        r"Temporary failure (?:in name resolution|resolving)|[Cc]ould not resolve host"
        r"|no such host|Name or service not known|Failed to establish a new connection"
        r"|Network is unreachable|[Cc]ould not connect to|[Cc]onnection timed out"
        r"|[Cc]onnection refused|i/o timeout|TLS handshake timeout|ReadTimeoutError"
        r"|server misbehaving|Client\.Timeout exceeded",
        "the build has no network access, or a server does not answer",
        "check the network and the DNS of the container engine; configure a proxy in "
        "~/.docker/config.json",
    ),
    _environment(
        "engine",
        r"rpc error: code = Unavailable desc = |error during connect: .*\bEOF\b",
        "the container engine or its builder ended during the build",
        "run the command again; if it happens again, look for the reason in the engine's log, and "
        "at the memory and disk of its machine",
    ),
    _spec(
        "python-version",
        r"requires? a different Python: (\S+)",
        "a requirement does not support the Python of {base}, which is {names}",
        "use another version of the requirement, or a base image with another Python",
        "image.python",
    ),
    _spec(
        "wheel",
        r"Failed building wheel for (\S+)|Could not build wheels for (\S+?),?(?: |$)"
        r"|Failed to build '?([\w.-]+)|subprocess-exited-with-error|metadata-generation-failed",
        "a requirement has no wheel for {base}, and compiling it failed: {names}",
        "use a version that has a wheel for this Python, or add the packages that compiling "
        "needs to image.apt, such as build-essential and python3-dev",
        "image.python",
    ),
    _spec(
        "requirement",
        r"No matching distribution found for (\S+)",
        "{names} has no version for the Python and the platform of {base}",
        "check its name and version, or use a base image with another Python",
        "image.python",
    ),
    _spec(
        "requirement",
        r"ResolutionImpossible|have conflicting dependencies",
        "the requirements conflict with one another",
        "relax the versions that pip names",
        "image.python",
    ),
    _spec(
        "requirement",
        r"DO NOT MATCH THE HASHES|HashMismatch|Hashes are required in --require-hashes mode",
        "a requirement does not match its hash",
        "generate the hashes again, or find out who changed the file",
        "image.python",
    ),
    _spec(
        "requirement",
        r"Invalid requirement: (.{1,100})",
        "not a valid requirement: {names}",
        "correct the requirement",
        "image.python",
    ),
    _spec(
        "python",
        r"externally-managed-environment",
        "the distribution manages the Python of {base}, and pip cannot install packages into it",
        "use a base image with a separate Python, such as python:3.11 or pytorch/pytorch",
        "image.base",
    ),
    _spec(
        "base",
        r"exec: \"/bin/sh\"|executable file `/bin/sh` not found"
        r"|rsctl-(?:launch|python): (?:command )?not found",
        "{base} has no /bin/sh, or its PATH is without /usr/local/bin",
        "use a base image with a shell and that PATH",
        "image.base",
    ),
    _spec(
        "python",
        r"No module named '?pip\b",
        "the Python of {base} has no pip",
        "add python3-pip to image.apt, or use a base image that has it",
        "image.base",
    ),
    _spec(
        "dockerfile",
        r"[Dd]ockerfile parse error line \d+: (.{1,100})",
        "the builder cannot read the Dockerfile: {names}",
        "correct it; here-documents and options of RUN need BuildKit, and older engines also "
        "need `# syntax=docker/dockerfile:1` as its first line",
        "image.dockerfile",
    ),
    _spec(
        "apt-key",
        r"[Tt]he repository '(\S+(?: \S+)?) +(?:In)?Release' is not signed"
        r"|GPG error: (\S+(?: \S+)?) +(?:In)?Release: The following signatures",
        "{base} contains an apt repository whose signing key is out of date: {names}",
        "use a newer base image; or renew that repository's key, or remove its file in "
        "/etc/apt/sources.list.d, with a command in image.run",
        "image.base",
    ),
    _spec(
        "apt",
        r"Unable to locate package (\S+)|Package '?(\S+?)'? has no installation candidate"
        r"|Version '\S+' for '(\S+)' was not found|Couldn't find any package by \S+ '(\S+)'",
        "the distribution of {base} has no package {names}",
        "check its name for that release, and its version if you set one",
    ),
    _spec(
        "apt",
        r"apt-get: (?:command )?not found|\"apt-get\": executable file not found",
        "{base} has no apt-get: it is neither Debian nor Ubuntu",
        "use a base image based on one of them, or remove image.apt and image.transport",
    ),
    _spec(
        "user",
        r"unable to find user (\S+?):|unknown user error looking up user \"(\S+)\"",
        "{base} runs as user {names}, who is not in its /etc/passwd",
        "use a base image whose user exists",
        "image.base",
    ),
    _spec(
        "context",
        r"(?:COPY|ADD) failed: [^\n]{0,200}?stat (\S{1,200}?): file does not exist"
        r"|(?:COPY|ADD) failed: no source files were specified()"
        r"|\"/(\S{1,200}?)\":? not found|copier: stat: \"/(\S{1,200}?)\"",
        "the build copies a file that it does not have: {names}",
        "check the path and .dockerignore; if the base image copies it by ONBUILD, use another "
        "base, or a Dockerfile of your own that begins with it, beside the file",
        "image.base",
        # Not the files that rsctl itself adds. The classic builder runs ONBUILD in FROM.
        r"FROM |(?:ADD|COPY) (?!(?:--\S+ )?(?:rsctl-python|rsctl-launch|requirements/|runtime/"
        r"|source/) )",
    ),
    _environment(
        "context",
        r"(?:COPY|ADD) failed: |failed to (?:compute|calculate) (?:cache key|checksum)"
        r"|copier: stat: |\"/\S*\":? not found",
        "a file to copy has not reached the builder",
        "make sure that nothing changes the files while they are copied, and try again",
        "image.source",
    ),
)
"""In the order in which they are searched: an error that causes others comes before them."""
