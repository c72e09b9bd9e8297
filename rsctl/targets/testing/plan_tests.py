"""Tests of a target as data, and of its plans."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rsctl.estimate import catalog
from rsctl.job.roles import Role
from rsctl.runs.ids import new_run_id
from rsctl.target_info import TargetInfo, has_target, target_info
from rsctl.targets.base import Plan, Submission, Target
from rsctl.targets.capabilities import capability_findings
from rsctl.targets.testing.spec_keys import merged
from rsctl.targets.testing.suite import COUNT, HIDDEN_VALUE, Suite, shown


class PlanTests(Suite):
    """The plan shows exactly the request that is sent."""

    def test_it_is_installed(self, target: Target) -> None:
        """Its entry point leads to its TargetInfo, and that to the target with the same."""
        assert has_target(self.target_name)
        info = target_info(self.target_name)
        assert target.info == info
        assert isinstance(info, TargetInfo)
        assert info.schemes, "a target that reaches no data"

    def test_options_have_defaults(self) -> None:
        """A job file need not mention the target's options."""
        options = target_info(self.target_name).options_type()
        assert options() == options()

    def test_refused_keys_have_remedies(self, tmp_path: Path, target: Target) -> None:
        """Each is an error of its key that names the target and has a remedy."""
        job = self.job(tmp_path, COUNT)
        for path, (_, _, values) in target.info.refused.items():
            value = min(values) if values else "other than the default"
            refused = list(capability_findings(_with(job, path.split("."), value), target.info))
            [finding] = [each for each in refused if each.path == path and each.is_error]
            assert finding.code == "unsupported"
            assert self.target_name in finding.message
            assert finding.remedy

    def test_unused_keys_have_notes(self, tmp_path: Path, target: Target) -> None:
        """Keys of other targets are not errors."""
        job = self.job(tmp_path, COUNT)
        for path in target.info.unused:
            changed = _with(job, path.split("."), "other than the default")
            found = [f for f in capability_findings(changed, target.info) if f.path == path]
            assert [finding.severity for finding in found] == ["note"]

    def test_render_is_pure(
        self, plan: Callable[..., Submission], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No network; neither the clock nor the environment changes the submission."""
        run = new_run_id("suite")
        first = shown(plan(run=run))
        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", _refuse_network)
            patch.setattr(socket.socket, "connect", _refuse_network)
            patch.setattr(time, "time", lambda: 4e9)
            for name in ("TOKEN", "AWS_REGION"):
                patch.setenv(name, "another")
            assert shown(plan(run=run)) == first

    def test_render_is_of_its_run(self, plan: Callable[..., Submission]) -> None:
        """The request distinguishes two runs of a job."""
        one, other = plan(run="suite-aaaaaa").plan, plan(run="suite-bbbbbb").plan
        assert (one.run, one.target) == ("suite-aaaaaa", self.target_name)
        assert one.request != other.request

    def test_a_plan_is_json(self, plan: Callable[..., Submission]) -> None:
        """A stored plan is complete."""
        made = plan().plan
        assert msgspec.json.decode(msgspec.json.encode(made), type=Plan) == made
        assert made.world_size >= 1
        assert [pool.role for pool in made.pools][:1] == ["worker"]

    def test_secrets_are_not_shown(self, plan: Callable[..., Submission]) -> None:
        """A secret is None in the plan, and its name is among the placeholders' names."""
        submission = plan()
        assert submission.plan.env["TOKEN"] is None
        assert "TOKEN" in submission.secrets
        assert HIDDEN_VALUE not in shown(submission)

    def test_placeholders_are_in_the_request(self, plan: Callable[..., Submission]) -> None:
        """Each leads to a value of the request; that of a secret is unknown yet."""
        submission = plan()
        for placeholder in submission.placeholders:
            value: Any = submission.plan.request
            for part in placeholder.path:
                value = value[part]
            assert value is None or placeholder.secret is None

    def test_reducers_are_a_pool(self, tmp_path: Path, target: Target) -> None:
        """A target that takes reducers plans nodes for them."""
        keys = merged(
            self.job_keys,
            {
                "run": {"command": None, "script": "train.py", "launcher": "torchrun"},
                "workers": {"count": 2},
                "reducers": {"count": 2},
            },
        )
        (tmp_path / "source").mkdir(exist_ok=True)
        (tmp_path / "source" / "train.py").touch()
        planned = self.planned(tmp_path, keys, "workers.count", "reducers.count", "run.launcher")
        if planned is not None:
            counts = {pool.role: pool.count for pool in planned.plan.pools}
            assert counts == {"worker": 2, "reducer": 2}

    def test_placements_are_planned_in_their_order(self, tmp_path: Path, target: Target) -> None:
        """A target that tries several regions plans a separate request for each."""
        if not target.info.has_placements:
            return
        regions = self.regions or tuple(catalog.load(self.target_name).regions[:2])
        options = {"targets": {self.target_name: {"region": list(regions)}}}
        planned = self.planned(tmp_path, merged(self.job_keys, options))
        assert planned is not None
        assert planned.placement.region == regions[0]
        assert [each.placement.region for each in planned.alternatives] == list(regions[1:])
        requests = [planned.plan.request, *(each.plan.request for each in planned.alternatives)]
        assert all(requests[0] != other for other in requests[1:])


def _refuse_network(*_: Any, **__: Any) -> Any:
    raise AssertionError("render uses the network")


def _with(job: Any, path: list[str], value: Any) -> Any:
    """The struct with another value at a key path, of any type; NAME is a role."""
    if isinstance(job, dict):
        return {**job, path[0]: _with(Role(), path[1:], value)}
    inner = _with(getattr(job, path[0]), path[1:], value) if path[1:] else value
    return replace(job, **{path[0]: inner})
