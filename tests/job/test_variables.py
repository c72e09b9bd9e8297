"""`${VAR}` in values, and which of them are secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.job.document import read

RUN = "run: {module: x}\n"
OVERLAY = "targets.vertex.overlay.a[0].b"
HEAD = "name: j\nrun:\n  module: x\n"


def env_of(read_text: Any, value: str) -> Any:
    """The environment value that a text of the file becomes."""
    return read_text(f"{HEAD}  env:\n    A: {value}\n").require_job().run.env["A"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${N}", "4"),
        ('"${N}"', "4"),
        ("'${N}'", "4"),
        ("a${N}b${N}", "a4b4"),
        ("${UNSET:-x}", "x"),
        ("${UNSET:-}", ""),
        ("${EMPTY:-x}", "x"),
        ('"${EMPTY}"', ""),
        ("${N:-x}", "4"),
        ("${UNSET:-a:-b}", "a:-b"),
        ('"${UNSET:-a b # c}"', "a b # c"),
        ("${UNSET:-$x}", "$x"),
        ("$${N}", "${N}"),
        ("$$${N}", "$${N}"),
        ("$$$${N}", "$$${N}"),
        ("${YES:-true}", "true"),
        ("$N", "$N"),
        ("$", "$"),
        ("$$", "$$"),
        ("a$b{N}", "a$b{N}"),
        ("${LITERAL}", "${X}"),
    ],
)
def test_replacement(read_text: Any, written: str, value: str) -> None:
    assert env_of(read_text, written) == value


@pytest.mark.parametrize(
    ("written", "secret"),
    [
        ("${TOKEN}", True),
        ("a ${TOKEN} b", True),
        ("${TOKEN:-x}", True),
        ("${LITERAL}", True),
        ("${UNSET:-x}", False),
        ("${EMPTY:-x}", False),
        ("$${TOKEN}", False),
        ("plain", False),
    ],
)
def test_only_what_came_from_the_environment_is_secret(
    read_text: Any, written: str, secret: bool
) -> None:
    assert env_of(read_text, written).secret is secret


def test_variables_are_typed_like_the_file(read_text: Any) -> None:
    text = (Path(__file__).parent / "valid" / "variables.yaml").read_text()
    job = read_text(text).require_job()
    assert (job.name, job.target) == ("job-from-env", "compose")
    assert (job.workers.count, job.workers.processes, job.workers.disk) == (4, 4, 400 * 10**9)
    assert job.workers.accelerator is None
    assert job.limits.spot is True
    assert job.limits.timeout == 4 * 3600
    assert job.targets.compose.cpus == 4.0
    assert job.targets.compose.network.bandwidth == 4 * 10**9
    assert job.targets.vertex.overlay == {"a": ["4", {"b": "from-env"}]}
    assert job.run.args == [
        "--epochs", "4", "--lr", "1e-5", "${HOME}", "$HOME", "a ${B} 44",
    ]  # fmt: skip
    assert job.run.env == {"COUNT": "4", "EMPTY": "", "ORELSE": "default: yes", "NOTHING": ""}


EMPTY = (
    "the environment variable EMPTY is empty",
    "set it, or write ${EMPTY:-} for the default of ",
)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("workers:\n  count: $", "workers.count"),
        ("workers:\n  count: $$", "workers.count"),
        ("limits:\n  spot: $", "limits.spot"),
        ("comm:\n  backend: $", "comm.backend"),
        ("outputs: $", "outputs"),
    ],
)
def test_an_empty_variable_is_not_the_default(read_text: Any, key: str, path: str) -> None:
    (finding,) = read_text(f"{HEAD}{key.replace('$', '${EMPTY}')}\n").findings
    assert (finding.code, finding.path) == ("variable", path)
    assert (finding.message, finding.remedy) == (EMPTY[0], EMPTY[1] + path)
    for default in ("${EMPTY:-}", "null", "~", ""):
        assert not read_text(f"{HEAD}{key.replace('$$', '$').replace('$', default)}\n").findings


def test_an_empty_variable_of_an_override(folder: Path) -> None:
    file = folder / "job.yaml"
    file.write_text(HEAD)
    (finding,) = read(str(file), ("workers.count=${EMPTY}",), {"EMPTY": ""}).findings
    assert finding.message == EMPTY[0]
    assert read(str(file), ("workers.count=${EMPTY:-}",), {}).require_job().workers.count == 1


@pytest.mark.parametrize("value", ["[a, b]", "{a: b}", "a: b", "*x", "# x", "a\nb: c", "true", "~"])
def test_a_value_of_the_environment_is_never_structure(folder: Path, value: str) -> None:
    file = folder / "job.yaml"
    file.write_text(HEAD + "  args:\n  - ${A}\n  - '${A}'\n  env:\n    A: ${A}\n")
    job = read(str(file), (), {"A": value}).require_job()
    assert (job.run.args, job.run.env) == ([value, value], {"A": value})


def test_free_keys_are_left_alone(read_text: Any) -> None:
    assert read_text(f"x-a: ${{UNSET}} ${{\n{HEAD}").findings == []


def test_bytes_of_the_environment_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"{HEAD}  env: {{A: '${{BYTES}}'}}\n")
    (finding,) = read(str(file), (), {"BYTES": "s3cret\udcff"}).findings
    assert finding.message == (
        "expected text, got a value from the environment: it contains bytes that are not UTF-8"
    )


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("run: {module: x, args: {token: '${HF_TOKEN}'}}", "run.args.token"),
        ("run: {module: x, args: [--token, '${HF_TOKEN}']}", "run.args[1]"),
        ("run: {command: [x, 'a=${HF_TOKEN}']}", "run.command[1]"),
        (f"{RUN}inputs: {{a: 'gs://b/${{HF_TOKEN}}'}}", "inputs.a"),
        (
            f"{RUN}targets: {{vertex: {{labels: {{a: '${{HF_TOKEN}}'}}}}}}",
            "targets.vertex.labels.a",
        ),
        (f"{RUN}targets: {{vertex: {{overlay: {{a: [{{b: '${{HF_TOKEN}}'}}]}}}}}}", OVERLAY),
    ],
)
def test_a_secret_outside_of_env_is_told(tmp_path: Path, key: str, path: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"name: j\n{key}\n")
    found = read(str(file), (), {"HF_TOKEN": "any"}).findings
    assert [(f.severity, f.code, f.path, f.message) for f in found if f.code == "secret"] == [
        (
            *("warning", "secret", path),
            "${HF_TOKEN} looks like a secret, and here it is visible in the plan, in the saved "
            "run, and on a command line",
        )
    ]


@pytest.mark.parametrize(
    "value",
    [
        *("hf_" + "a1" * 17, "ghp_" + "a1" * 18, "AKIAIOSFODNN7EXAMPLE", "ya29." + "a" * 40),
        *("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abc", "https://me:s3cret@host/x"),
        "-----BEGIN RSA PRIVATE KEY-----\nabc",
    ],
)
def test_a_value_that_is_known_to_be_secret_is_refused(tmp_path: Path, value: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: j\nrun: {command: [x, '${V}'], env: {V: '${V}'}}\nimage: {uri: u}\n")
    [finding] = read(str(file), (), {"V": value}).findings
    assert (finding.severity, finding.code, finding.path) == ("error", "secret", "run.command[1]")
    assert finding.message == (
        "the value of ${V} is a secret, and here it would be visible in the plan, in the saved "
        "run, and on a command line"
    )
    assert finding.remedy == (
        "put it in run.env, which is never saved or shown, and read it from there"
    )


@pytest.mark.parametrize("value", ["us-central1", "4", "0f" * 20, "gs://bucket/a", "me@host"])
def test_other_values_are_not_taken_for_secrets(tmp_path: Path, value: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: j\nrun: {command: [x, '${V}', '${HF_TOKEN:-none}', '$${HF_TOKEN}']}\n")
    [finding] = read(str(file), (), {"V": value}).findings
    assert (finding.severity, finding.path) == ("note", "run.command[1]")
    assert value not in finding.message
