"""A target that breaks one rule of the contract fails on the test of that rule, and on no other.

Each is target `fake` with one fault. The suite runs on all of them in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from rsctl.targets.testing.conformance import RunTests

_TARGET = """

import msgspec
from msgspec.structs import replace

from rsctl.findings import JobState
from rsctl.runs.stream.events import LogEvent, StateEvent
from rsctl.targets.testing import fake


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    niceness: int = 0


INFO = replace(
    fake.INFO, name="{name}", target="{name}:TARGET", options="{name}:Options"
)


class Bad(fake.FakeTarget):
"""
_SUITE = """
import pytest
from rsctl.targets.testing.conformance import {tests}


class TestBad({tests}):
    target_name = "{name}"

    @pytest.fixture(autouse=True)
    def wait_less_for_what_never_comes(self, request):
        self.deadline = 5.0 if request.node.name in {broken} else 20.0
"""

_OF_RUNS = {name for name in dir(RunTests) if name.startswith("test_")}
"""Faults of these are looked for among runs, and the others among plans, which is faster."""

FAULTS = {
    "it ignores launcher torchrun and plans the bare command": (
        """
    def render(self, job, run):
        return super().render(
            replace(job, run=replace(job.run, launcher="once")), run
        )
""",
        {"test_no_key_is_ignored"},
    ),
    "it ignores image.base": (
        """
    info = replace(
        INFO, unused={k: v for k, v in INFO.unused.items() if k != "image.base"}
    )
""",
        {"test_no_key_is_ignored"},
    ),
    "it runs one node of several": (
        """
    info = replace(
        INFO, refused={k: v for k, v in INFO.refused.items() if k != "workers.count"}
    )

    def render(self, job, run):
        made = super().render(job, run)
        request = {**made.plan.request, "nodes": job.workers.count}
        return replace(made, plan=replace(made.plan, request=request))
""",
        {"test_several_nodes"},
    ),
    "it takes reducers and plans none": (
        """
    info = replace(
        INFO,
        refused={
            k: v for k, v in INFO.refused.items() if k not in ("workers.count", "reducers.count")
        },
    )

    def render(self, job, run):
        once = replace(job, run=replace(job.run, launcher="once"))
        made = super().render(once, run)
        plain = replace(job, run=replace(job.run, env={}))
        kept = msgspec.to_builtins(plain, enc_hook=str)
        request = {**made.plan.request, "job": kept}
        return replace(made, plan=replace(made.plan, request=request))
""",
        {"test_reducers_are_a_pool"},
    ),
    "it ignores an option of its own": (
        """
    def render(self, job, run):
        made = super().render(job, run)
        request = {**made.plan.request, "niceness": 0}
        return replace(made, plan=replace(made.plan, request=request))
""",
        {"test_no_option_is_ignored"},
    ),
    "it shows a secret": (
        """
    def render(self, job, run):
        made = super().render(job, run)
        env = {**made.plan.env, "TOKEN": str(job.run.env["TOKEN"])}
        return replace(made, plan=replace(made.plan, env=env))
""",
        {"test_secrets_are_not_shown"},
    ),
    "it reads no metrics": (
        """
    def render(self, job, run):
        made = super().render(job, run)
        return replace(made, job=replace(made.job, metrics={}))
""",
        {"test_metrics_are_read"},
    ),
    "it renders the clock": (
        """
    def render(self, job, run):
        import time

        made = super().render(job, run)
        request = {**made.plan.request, "at": time.time()}
        return replace(made, plan=replace(made.plan, request=request))
""",
        {"test_render_is_pure"},
    ),
    "it starts a job that is not recorded": (
        """
    def submit(self, submission, record, show):
        super().submit(submission, lambda: None, show)
        record()
""",
        {"test_a_run_whose_submission_was_killed"},  # its job ends, and the record says queued
    ),
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The tests that each target fails."""
    folder = tmp_path_factory.mktemp("bad")
    names = {f"bad{number}": fault for number, fault in enumerate(FAULTS)}
    for name, fault in names.items():
        code, broken = FAULTS[fault]
        body = code if "info =" in code else f"    info = INFO\n{code}"
        made = "\n\nBad.__init__ = lambda self: None\nINFO = Bad.info\nTARGET = Bad()\n"
        (folder / f"{name}.py").write_text(f"{_TARGET.replace('{name}', name)}{body}{made}")
        tests = "RunTests" if broken <= _OF_RUNS else "KeyTests, PlanTests"
        (folder / f"test_{name}.py").write_text(
            _SUITE.format(tests=tests, name=name, broken=broken)
        )
        metadata = folder / f"{name}-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(f"[rsctl.targets]\n{name} = {name}:INFO\n")
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [
            *command,
            "-c",
            os.devnull,
            f"--junitxml={report}",
            *(f"test_{name}.py" for name in names),
        ],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    print(done.stdout[-4000:])
    found: dict[str, set[str]] = {fault: set() for fault in FAULTS}
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            module = str(case.get("classname")).partition(".")[0]
            found[names[module.removeprefix("test_")]].add(str(case.get("name")))
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_target_fails_on_the_rule_that_it_breaks(
    failed: dict[str, set[str]], fault: str
) -> None:
    assert failed[fault] == FAULTS[fault][1]
