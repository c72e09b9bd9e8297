"""What a gate asks for before it runs anything, and the baseline that it suggests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.api import gate_decision
from rsctl.api.gate_decision import PreparedGate, prepare_gate
from rsctl.bench.floors import Floors
from rsctl.bench.results import Results
from rsctl.bench.rules import GateRules
from rsctl.findings import ExitCode, RsctlError, error

JOB = ["job.yaml", "--set", "a=b c"]


def gate(rules: GateRules, is_planned: bool = True) -> PreparedGate:
    """A gate whose baseline was measured otherwise."""
    plan = SimpleNamespace(fingerprints=list, new_bench=lambda repeat: repeat)
    planned: Any = SimpleNamespace(plan=plan)
    candidate: Any = SimpleNamespace(
        prepared=planned if is_planned else None,
        cells=[],
        job_arguments=JOB,
        repeat=lambda asked: asked or 5,
    )
    return PreparedGate(candidate, Results(label="the baseline", kind="bench"), rules)


@pytest.fixture(autouse=True)
def _changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_decision, "condition_changes", lambda *_: ["workers: 1 -> 2"])
    monkeypatch.setattr(gate_decision, "content_changes", lambda *_: ["no cell"])


GATE = "rsctl gate job.yaml --set 'a=b c'"


@pytest.mark.parametrize(
    ("rules", "command"),
    [
        ({"baseline": "b.json"}, f"{GATE} --baseline b.json --update-baseline"),
        ({"baseline": "gs://b/x"}, f"{GATE} --baseline gs://b/x --update-baseline"),
        ({"baseline": "s3://b/x"}, f"{GATE} --baseline s3://b/x --update-baseline"),
        ({"baseline": "b.json", "is_from_file": True}, f"{GATE} --update-baseline"),
        (
            {"baseline": "b.json", "repeat": 3},
            f"{GATE} --baseline b.json --repeat 3 --update-baseline",
        ),
        (
            {"baseline": "b.json", "is_from_file": True, "given": ["curve.loss=5 %"]},
            f"{GATE} '--max-regression=curve.loss=5 %' --update-baseline",
        ),
        (
            {"baseline": "git:main:a/b.json", "is_from_file": True},
            f"{GATE} --update-baseline, and commit the file to main",
        ),
        (
            {"baseline": "job-bench-1"},
            "rsctl bench run job.yaml --set 'a=b c' --repeat 5, and give the ID of the bench as "
            "--baseline",
        ),
        (
            {"baseline": "job-bench-1", "repeat": 3},
            "rsctl bench run job.yaml --set 'a=b c' --repeat 3, and give the ID of the bench as "
            "--baseline",
        ),
    ],
)
def test_the_command_that_makes_the_right_baseline(rules: dict[str, Any], command: str) -> None:
    with pytest.raises(RsctlError) as refused:
        gate(GateRules(**rules)).require_comparable()
    message = "the conditions of the baseline differ, so nothing is run: workers: 1 -> 2; no cell"
    remedy = f"make a baseline of this job: {command}"
    assert refused.value.findings == (error("baseline-conditions", message, remedy),)


def test_what_does_not_stop_a_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    gate(GateRules(baseline="b.json"), is_planned=False).require_comparable()
    monkeypatch.setattr(gate_decision, "condition_changes", lambda *_: [])
    gate(GateRules(baseline="b.json")).require_comparable(must_be_whole=False)
    with pytest.raises(RsctlError, match="so nothing is run: no cell"):
        gate(GateRules(baseline="b.json")).require_comparable()


@pytest.mark.parametrize(
    ("baseline", "finding"),
    [
        (
            None,
            error(
                "baseline",
                "there is no baseline to compare with",
                "give --baseline, or set gate.baseline in the job file; "
                "--update-baseline creates one",
            ),
        ),
        (
            "b.json",
            error(
                "gate",
                "no metric has an allowed regression",
                "give --max-regression METRIC=5%, or set gate.max_regression in the job file",
            ),
        ),
    ],
)
def test_a_gate_without_its_rules(baseline: str | None, finding: Any) -> None:
    candidate: Any = SimpleNamespace(folder=".")
    with pytest.raises(RsctlError) as refused:
        prepare_gate(candidate, GateRules(baseline=baseline, floors=Floors()))
    assert (refused.value.exit_code, refused.value.findings) == (ExitCode.USAGE, (finding,))


@pytest.mark.parametrize(
    ("confirm", "suspects", "must"), [(0, ["x"], False), (2, [], False), (2, ["x"], True)]
)
def test_only_what_is_suspected_is_confirmed(confirm: int, suspects: list[str], must: bool) -> None:
    found: Any = SimpleNamespace(suspects=suspects)
    assert gate(GateRules(confirm=confirm)).must_confirm(found) is must


@pytest.mark.parametrize("is_planned", [False, True])
def test_what_repetitions_can_detect_and_what_they_cost(
    monkeypatch: pytest.MonkeyPatch, is_planned: bool
) -> None:
    asked: list[Any] = []

    def forecast(*given: Any) -> list[Any]:
        asked.append(given[2:])
        return [SimpleNamespace(in_words=lambda: "it detects 5 %")]

    monkeypatch.setattr(gate_decision, "forecast", forecast)
    monkeypatch.setattr(gate_decision, "format_cost", lambda *given: f"cost of {given[1:]}")
    own = (3, ["the baseline"])  # the runs of the baseline's bench do not count as done
    monkeypatch.setattr(
        gate_decision, "cost_remarks", lambda *given: [given[2]] * (given[1::2] == own)
    )
    made = gate(GateRules(repeat=3, confirm=2, looks=2), is_planned)
    assert made.remarks() == ["it detects 5 %", *(["cost of ([], 3)"] if is_planned else [])]
    assert asked == [([], 3, 2, made.rules.alpha)]
