"""A build that failed: which step, its last lines, the known cause and what helps."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rsctl.findings import ExitCode, RsctlError, error, warning
from rsctl.images.build_errors import FailureDetails, explain_failure, field_of
from rsctl.images.events import BuildOutput, BuildStep
from rsctl.images.transport import fragment
from tests.fixtures import real

from .engines import Recipe

APT = "RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y g++"
PIP = "RUN PIP_BREAK_SYSTEM_PACKAGES=1 rsctl-python -m pip install -r /opt/rsctl/requirements/x"
CHECK = "RUN rsctl-launch --check --transport efa --launcher torchrun"

ENVIRONMENT = [
    ("Cannot connect to the Docker daemon at tcp://h. Is the docker daemon running?", "", "engine"),
    # https://github.com/docker/buildx/issues/2064
    (
        "failed to receive status: rpc error: code = Unavailable desc = error reading from server: "
        "EOF",
        PIP,
        "engine",
    ),
    ("write /var/lib/docker/x: no space left on device", APT, "disk"),
    ("OSError: [Errno 28] No space left on device", PIP, "disk"),
    ("E: You don't have enough free space in /var/cache/apt/archives/.", APT, "disk"),
    ('process "/bin/sh -c x" did not complete successfully: exit code: 137', PIP, "memory"),
    ("The command '/bin/sh -c x' returned a non-zero code: 137", PIP, "memory"),
    ("g++: fatal error: Killed signal terminated program cc1plus", PIP, "memory"),
    ("exec /bin/sh: exec format error", APT, "platform"),
    ("sha256sum: WARNING: 1 computed checksum did NOT match", "", "checksum"),
    ("standard_init_linux.go:228: exec user process caused: exec format error", APT, "platform"),
    (
        "toomanyrequests: You have reached your unauthenticated pull rate limit.",
        "pull x",
        "rate-limit",
    ),
    (
        "Error response from daemon: pull access denied for x, repository does not exist or may "
        "require 'docker login': denied: requested access to the resource is denied",
        "pull x",
        "base",
    ),
    (
        'error getting credentials - err: exec: "docker-credential-desktop.exe": executable file '
        "not found in $PATH, out: ``",
        "pull x",
        "credential-helper",
    ),
    ("failed to authorize: 403 Forbidden", "[internal] load metadata for h/x:1", "base"),
    ("ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED]", PIP, "certificate"),
    ("tls: failed to verify certificate: x509: certificate signed by ...", "pull x", "certificate"),
    ("dial tcp: lookup registry.example on 192.0.2.1:53: no such host", "pull x", "network"),
    (
        "Failed to establish a new connection: [Errno -3] Temporary failure in name re",
        PIP,
        "network",
    ),
    ("W: Failed to fetch http://h/InRelease  Temporary failure resolving 'h'", APT, "network"),
    ("COPY failed: file not found in build context: stat source", "COPY source/ /app/", "context"),
    (
        'failed to calculate checksum of ref a::b: "/source": not found',
        "COPY source/ /app/",
        "context",
    ),
    (
        'building at STEP "COPY source/ /app/": copier: stat: "/source": no such file',
        "COPY source/ /app/",
        "context",
    ),
]

SPEC = [
    (
        "no matching manifest for linux/arm64/v8 in the manifest list entries",
        "pull x",
        "platform image.base: BASE does not exist for the required platform linux/arm64/v8",
    ),
    (
        'Error: short-name "x:1" did not resolve to an alias and no unqualified-search registries',
        "FROM x:1",
        "base image.base: podman does not know the registry of BASE, and has no local image of "
        "that name",
    ),
    (
        "manifest for x:9 not found: manifest unknown",
        "pull x",
        "base image.base: image BASE does not exist",
    ),
    (
        "failed to resolve source metadata for docker.io/library/x:9: docker.io/library/x:9: not "
        "found",
        "[internal] load metadata for docker.io/library/x:9",
        "base image.base: image BASE does not exist",
    ),
    (
        "ERROR: Package 'numpy' requires a different Python: 3.8.1 not in '>=3.10'",
        PIP,
        "python-version image.python: a requirement does not support the Python of BASE, which is "
        "3.8.1",
    ),
    (
        "ERROR: Could not find a version that satisfies the requirement torhc\n"
        "ERROR: No matching distribution found for torhc",
        PIP,
        "requirement image.python: torhc has no version for the Python and the platform of BASE",
    ),
    (
        "  ERROR: Failed building wheel for mpi4py\nERROR: Failed to build mpi4py",
        PIP,
        "wheel image.python: a requirement has no wheel for BASE, and compiling it failed: mpi4py",
    ),
    (
        "error: subprocess-exited-with-error",
        PIP,
        "wheel image.python: a requirement has no wheel for BASE, and compiling it failed",
    ),
    (
        "ERROR: Cannot find command 'git' - do you have 'git' installed and in your PATH?",
        PIP,
        "git image.apt: BASE has no git, which a requirement needs",
    ),
    (
        "git@github.com: Permission denied (publickey).\nerror: subprocess-exited-with-error",
        PIP,
        "private-package image.python: a git repository needs a key, or a token that the "
        "build does not have",
    ),
    (
        "WARNING: 401 Error, Credentials not correct for https://h/simple/x/\n"
        "ERROR: No matching distribution found for x",
        PIP,
        "private-package image.python: a package index needs a password that the build does "
        "not have, or another one",
    ),
    (
        "# Executing 2 build triggers\nCOPY failed: file not found in build context or excluded by "
        ".dockerignore: stat requirements.txt: file does not exist",
        "FROM onbuild:1",
        "context image.base: the build copies a file that it does not have: requirements.txt",
    ),
    (
        "ADD failed: file not found in build context or excluded by .dockerignore: stat data: file "
        "does not exist",
        "ADD data /data/",
        "context image.base: the build copies a file that it does not have: data",
    ),
    (
        "COPY failed: no source files were specified",
        "COPY data* /data/",
        "context image.base: the build copies a file that it does not have",
    ),
    (
        '"/requirements.txt" not found: not found',
        "COPY requirements.txt /tmp/",
        "context image.base: the build copies a file that it does not have: requirements.txt",
    ),
    (
        "ERROR: ResolutionImpossible: for help visit",
        PIP,
        "requirement image.python: the requirements conflict with one another",
    ),
    (
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
        PIP,
        "requirement image.python: a requirement does not match its hash",
    ),
    (
        "ERROR: Invalid requirement: 'a b'",
        PIP,
        "requirement image.python: not a valid requirement: 'a b'",
    ),
    (
        "error: externally-managed-environment",
        PIP,
        "python image.base: the distribution manages the Python of BASE, and pip cannot install "
        "packages into it",
    ),
    (
        "/usr/bin/python3: No module named pip",
        PIP,
        "python image.base: the Python of BASE has no pip",
    ),
    (
        'runc create failed: unable to start container process: exec: "/bin/sh": stat /bin/sh: no '
        "such file or directory: unknown",
        PIP,
        "base image.base: BASE has no /bin/sh, or its PATH is without /usr/local/bin",
    ),
    (
        "/bin/sh: 1: rsctl-launch: not found",
        "RUN rsctl-launch --check --transport none --launcher once",
        "base image.base: BASE has no /bin/sh, or its PATH is without /usr/local/bin",
    ),
    (
        "E: Unable to locate package libaoi1\nE: Package 'g+' has no installation candidate\n"
        "E: Unable to locate package libaoi1",
        APT,
        "apt image.apt: the distribution of BASE has no package libaoi1, g+",
    ),
    (
        "E: Version '1.0' for 'git' was not found",
        APT,
        "apt image.apt: the distribution of BASE has no package git",
    ),
    (
        "/bin/sh: 1: apt-get: not found",
        APT,
        "apt image.apt: BASE has no apt-get: it is neither Debian nor Ubuntu",
    ),
    (
        "failed to solve: dockerfile parse error line 3: unknown instruction: ECHO",
        "",
        "dockerfile image.dockerfile: the builder cannot read the Dockerfile: unknown instruction: "
        "ECHO",
    ),
    (
        "unable to find user jovyan: no matching entries in passwd file",
        CHECK,
        "user image.base: BASE runs as user jovyan, who is not in its /etc/passwd",
    ),
]


@pytest.mark.parametrize(("said", "instruction", "code"), ENVIRONMENT)
def test_causes_outside_the_spec(said: str, instruction: str, code: str) -> None:
    known = explain_failure(["before", said, "after"], instruction, "BASE")
    assert known is not None
    assert known.exit_code == ExitCode.ENVIRONMENT
    assert known.findings[0].code == code
    assert known.findings[0].remedy


@pytest.mark.parametrize(("said", "instruction", "message"), SPEC)
def test_causes_in_the_spec(said: str, instruction: str, message: str) -> None:
    known = explain_failure(["before", *said.split("\n"), "after"], instruction, "BASE")
    assert known is not None
    assert known.exit_code == ExitCode.USAGE
    finding = known.findings[0]
    assert f"{finding.code} {finding.path}: {finding.message}" == message
    assert known.findings[0].remedy


@pytest.mark.parametrize(
    ("said", "instruction"),
    [
        ("everything is fine", PIP),
        ("unauthorized: this is what the user's own script says", "RUN script"),
        ("Successfully built 137 wheels", PIP),
        ("exit code: 1370", PIP),
    ],
)
def test_no_cause_is_made_up(said: str, instruction: str) -> None:
    assert explain_failure([said], instruction, "BASE") is None


def test_without_a_network_it_is_not_the_requirement_that_is_missing() -> None:
    lines = [
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(': "
        "Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')'",
        "ERROR: No matching distribution found for numpy",
    ]
    known = explain_failure(lines, PIP, "BASE")
    assert known is not None
    assert (known.findings[0].code, known.findings[0].path) == ("network", "image.python")


def test_what_is_captured_is_only_text() -> None:
    known = explain_failure(["No matching distribution found for {base}{0}"], PIP, "BASE")
    assert known is not None
    assert "{base}{0} has no version" in known.findings[0].message


@pytest.mark.parametrize(
    ("instruction", "field"),
    [
        ("FROM base", "image.base"),
        ("pull base", "image.base"),
        ("[internal] load metadata for docker.io/library/base:1", "image.base"),
        ("ENV A=b", "image.env"),
        (APT, "image.apt"),
        (PIP, "image.python"),
        (CHECK, "image.transport"),
        ("COPY --chown=root source/ /app/", "image.source"),
        ("COPY rsctl-launch /usr/local/bin/", "image"),
        ("exporting to image", "image"),
        ("", "image"),
    ],
)
def test_the_field_of_an_instruction(instruction: str, field: str) -> None:
    assert field_of(instruction) == field


def follow(*events: object) -> FailureDetails:
    trail = FailureDetails()
    for event in events:
        trail.add(event)  # type: ignore[arg-type]
    return trail


def end(trail: FailureDetails) -> RsctlError:
    return trail.to_error(Recipe(base="BASE"), "docker")


def test_the_step_that_failed_its_last_lines_and_the_cause() -> None:
    failure = end(
        follow(
            BuildStep(1, 3, "FROM BASE"),
            BuildStep(1, 3, "FROM BASE", cached=True, seconds=0.0),
            BuildStep(2, 3, PIP),
            *(BuildOutput(f"line {number}", 2) for number in range(30)),
            BuildOutput("ERROR: No matching distribution found for torhc", 2),
            BuildStep(2, 3, PIP, seconds=1.0, failed=True),
        )
    )
    cause, build = failure.findings
    assert failure.exit_code == ExitCode.USAGE
    assert (cause.code, cause.path) == ("requirement", "image.python")
    assert build == error(
        "build",
        f"docker could not build rsctl/job:0123, step 2/3 failed: {PIP}; its last lines:\n"
        + "".join(f"  line {number}\n" for number in range(19, 30))
        + "  ERROR: No matching distribution found for torhc",
        None,
        "image.python",
    )


def test_an_unknown_failure() -> None:
    failure = end(
        follow(
            BuildStep(2, 2, APT),
            BuildOutput("what?", 2),
            BuildStep(2, 2, APT, seconds=1.0, failed=True),
        )
    )
    assert failure.exit_code == ExitCode.ENVIRONMENT
    assert failure.findings == (
        error(
            "build",
            f"docker could not build rsctl/job:0123, step 2/2 failed: {APT}; its last lines:\n"
            "  what?",
            "correct image.apt, or check the builder's network and disk",
            "image.apt",
        ),
    )


def test_what_other_steps_have_printed_does_not_count() -> None:
    failure = end(
        follow(
            BuildStep(1, 2, APT),
            BuildOutput("E: Unable to locate package x", 1),
            BuildStep(1, 2, APT, seconds=1.0),
            BuildStep(2, 2, PIP),
            BuildStep(2, 2, PIP, seconds=1.0, failed=True),
        )
    )
    assert failure.findings == (
        error(
            "build",
            f"docker could not build rsctl/job:0123, step 2/2 failed: {PIP}",
            "correct image.python, or check the builder's network and disk",
            "image.python",
        ),
    )


def test_the_first_of_several_failed_steps_cut_to_a_line() -> None:
    """BuildKit's steps beside those of the Dockerfile have no number."""
    first, second = BuildStep(0, 0, "x" * 301), BuildStep(2, 2, PIP)
    ends = [replace(step, seconds=1.0, failed=True) for step in (first, second)]
    [found] = end(follow(first, second, *ends)).findings
    assert found.message == (f"docker could not build rsctl/job:0123, a step failed: {'x' * 300}")
    assert found.path == "image"


def test_a_builder_that_fails_before_any_step() -> None:
    said = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock."
    failure = end(follow(BuildOutput(said)))
    assert [finding.code for finding in failure.findings] == ["engine", "build"]
    assert failure.findings[1].message == (
        f"docker could not build rsctl/job:0123; its last lines:\n  {said}"
    )


def test_what_the_check_in_the_build_has_found_comes_first_and_is_the_message() -> None:
    missing = error("plugin-missing", "the base has no libnccl-net.so", "take a DLC as base")
    competing = error("plugins", "two plugins compete", None, "image.base")
    failure = end(
        follow(
            warning("old", "an old plugin"),
            BuildStep(5, 5, CHECK),
            missing,
            competing,
            BuildOutput("exit code: 137", 5),
            BuildStep(5, 5, CHECK, seconds=1.0, failed=True),
        )
    )
    assert failure.exit_code == ExitCode.USAGE
    assert failure.findings == (
        error("plugin-missing", missing.message, missing.remedy, "image.transport"),
        competing,
        error(
            "build",
            f"docker could not build rsctl/job:0123, step 5/5 failed: {CHECK}",
            None,
            "image.transport",
        ),
    )


def test_memory_does_not_grow_with_what_a_build_prints() -> None:
    trail = follow(BuildStep(1, 1, PIP))
    for number in range(5000):
        trail.add(BuildOutput(f"{number} " + "x" * 10_000, 1))
        trail.add(error("c", f"finding {number}"))
    assert len(trail.errors) == 50
    trail.errors.clear()
    trail.add(BuildStep(1, 1, PIP, seconds=1.0, failed=True))
    message = end(trail).findings[-1].message
    assert "4999 xxx" in message
    assert len(message) < 13_000


@pytest.mark.parametrize("one", real("apt_keys"), ids=lambda one: one["source"])
@pytest.mark.parametrize(
    "instruction", [APT, f"RUN {fragment('google-plugin').partition('RUN ')[2]}"]
)
def test_a_repository_whose_key_is_out_of_date(one: dict[str, str], instruction: str) -> None:
    known = explain_failure(one["text"].splitlines(), instruction, "BASE")
    assert known is not None
    assert (known.findings[0].code, known.findings[0].path) == ("apt-key", "image.base")
    assert known.findings[0].message == (
        f"BASE contains an apt repository whose signing key is out of date: {one['repository']}"
    )


def test_what_fails_in_a_transport_is_no_matter_of_apt() -> None:
    instruction = f"RUN {fragment('google-plugin').partition('RUN ')[2]}"
    assert field_of(instruction) == "image.transport"
    known = explain_failure(["E: Unable to locate package google-fast-socket"], instruction, "BASE")
    assert known is not None
    assert known.findings[0].path == "image.transport"
