"""Arguments that were too long for the platform's request, out of SageMaker's hyperparameters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rsctl_start
from rsctl.node import launch_arguments
from rsctl.node.errors import LaunchError
from rsctl.targets.sagemaker.long_arguments import encode_arguments

from .conftest import cluster
from .sagemaker import resource_config, write_config

REFERENCE = ["--arguments-from", "hyperparameters"]


def hyperparameters(root: Path, text: str) -> dict[str, str]:
    """An environment below whose root the platform's file has this text."""
    path = root / "opt/ml/input/config/hyperparameters.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return {"RSCTL_ROOT": str(root)}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--launcher", "once", "--", "x" * 5000, "two\nlines", "ä\U0001f600"],
        ["a"] * 101,
        ["\u2028"],
    ],
)
def test_what_was_carried_arrives(arguments: list[str], tmp_path: Path) -> None:
    sent = encode_arguments(arguments)
    environ = hyperparameters(tmp_path, json.dumps({"mine": "x", **sent.hyperparameters}))
    assert sent.arguments == REFERENCE
    assert launch_arguments.read_arguments(["train"], environ) == arguments  # SageMaker's call
    assert all(len(piece) <= 256 for piece in sent.hyperparameters.values())
    assert launch_arguments.read_arguments(sent.arguments, environ) == arguments


@pytest.mark.parametrize(("host", "words"), [("algo-2", ["--chief"]), ("algo-1", [])])
def test_the_chief_has_its_own(tmp_path: Path, host: str, words: list[str]) -> None:
    common = ["--launcher", "once", "--", "train"]
    sent = encode_arguments(common, {"chief": [*common, "--chief"], "reducers": common})
    environ = hyperparameters(tmp_path, json.dumps(sent.hyperparameters))
    groups = {"workers": ["algo-1"], "chief": ["algo-2"]}
    write_config(tmp_path, resource_config(groups, host, "eth0"))
    assert launch_arguments.read_arguments(sent.arguments, environ) == [*common, *words]


def test_a_variable_of_this_node_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os; print(os.environ['A'], os.environ['B'])"]
    arguments = ["--launcher", "once", "--env", "A=x=y", "--env", "B="]
    done = subprocess.run(
        [*rsctl_start.command("rsctl.node.launch"), *arguments, "--", *command],
        env={**os.environ, "RSCTL_CLUSTER": cluster(), "RSCTL_TELEMETRY_SECONDS": "0"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "x=y "), done.stderr


def test_what_is_short_is_not_carried() -> None:
    arguments = ["--launcher", "once", "--", *["x" * 256] * 97]
    assert encode_arguments(arguments) == (arguments, {})
    assert launch_arguments.read_arguments(arguments, {}) == arguments


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "cannot be read: Expecting property name enclosed in double quotes"),
        ("[]", "cannot be read: it is not a JSON object"),
        ("{}", "cannot be read: Expecting value"),
        (
            '{"rsctl_arguments_1": "[]"}',
            "cannot be read: some of rsctl_arguments_0 to rsctl_arguments_0 are missing",
        ),
        ('{"rsctl_arguments_0": "[1]"}', "has no list of arguments in rsctl_arguments_0"),
    ],
)
def test_a_file_that_makes_no_sense(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as refused:
        launch_arguments.read_arguments(REFERENCE, hyperparameters(tmp_path, text))
    assert refused.value.message.startswith(f"/opt/ml/input/config/hyperparameters.json {problem}")


def test_rsctl_launch_reads_them(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print(len(sys.argv[1]))", "x" * 3000]
    sent = encode_arguments(["--launcher", "once", "--", *command])
    config = tmp_path / "opt/ml/input/config"
    environ = {**os.environ, **hyperparameters(tmp_path, json.dumps(sent.hyperparameters))}
    resources = {
        "current_host": "127.0.0.1",
        "hosts": ["127.0.0.1"],
        "network_interface_name": "lo",
    }
    (config / "resourceconfig.json").write_text(json.dumps(resources))
    done = subprocess.run(
        [*rsctl_start.command("rsctl.node.launch"), *sent.arguments],
        env={**environ, "RSCTL_TARGET": "sagemaker", "RSCTL_TELEMETRY_SECONDS": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3000" in done.stdout.splitlines()


def test_rsctl_launch_says_that_they_are_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [*rsctl_start.command("rsctl.node.launch"), *REFERENCE],
        env={**os.environ, "RSCTL_ROOT": str(tmp_path), "RSCTL_TARGET": "sagemaker"},
        capture_output=True,
        text=True,
    )
    told = json.loads(done.stdout)
    assert (done.returncode, told["code"]) == (2, "arguments-missing")
