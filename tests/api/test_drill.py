"""The verdict of a drill, by what a struck run and the run that continued it have shown."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rsctl.api.drill_checkpoint import CheckpointFiles, checkpoint_files, has_files
from rsctl.api.drill_curve import compare_curves
from rsctl.api.drill_faults import FAULTS, Fault, Situation, behaviour_of, chosen_faults, obstacle
from rsctl.api.drill_verdict import FaultResult, Reference, judge
from rsctl.api.drill_watch import Observation, Point
from rsctl.findings import JobState, RsctlError
from rsctl.runs.stream.events import parse_time

STEPS = 20
LOSSES = {step: 10 * 0.9**step + (step * 7919 % 13 - 6) / 300 for step in range(1, STEPS + 1)}
REFERENCE = Reference(
    run="t-000000", metric="loss", values=LOSSES, seconds=20.0, saves_until=18, first_saved=2
)
BY_NAME = {fault.name: fault for fault in FAULTS}
WHOLE = CheckpointFiles(files=2, bytes=80, checked=2, newest=0.0)


def at(second: float) -> str:
    return f"2026-11-21T12:00:{second:09.6f}Z"


def points(first: int, last: int, begin: float = 0.0, offset: float = 0.0) -> list[Point]:
    return [
        Point(at(begin + n), step, LOSSES[step] + offset)
        for n, step in enumerate(range(first, last + 1))
    ]


def observed(values: list[Point], **fields: Any) -> Observation:
    state = fields.pop("state", JobState.SUCCEEDED)
    fields.setdefault("seconds", 10.0)
    return Observation(
        run="t-111111",
        state=state,
        exit_code=int(state.exit_code),
        points={"loss": values},
        **fields,
    )


def struck(values: list[Point], **fields: Any) -> Observation:
    known = {"struck_at": 9, "strike_time": at(9.5), "strike": "it", "files": WHOLE}
    return observed(values, **{"state": JobState.FAILED, **known, **fields})


def verdict_on(
    first: Observation,
    second: Observation | None = None,
    fault: str = "killed-worker",
    why: str = "",
) -> FaultResult:
    return judge(BY_NAME[fault], REFERENCE, first, second, why)


def test_a_job_that_is_resumed_survives() -> None:
    found = verdict_on(struck(points(1, 10)), observed(points(9, 20), per_hour=36.0, seconds=14.0))
    assert (found.verdict, found.reasons, found.course) == ("survived", [], "resumed")
    assert (found.struck_at, found.resumed_at, found.repeated, found.exit_code) == (9, 9, 2, 1)
    assert (found.seconds, found.seconds_lost, found.dollars_lost) == (24.0, 4.0, 0.04)
    assert found.curve is not None
    assert found.curve.is_same
    assert found.curve.steps == 12


def test_a_job_that_restarts_by_itself_survives() -> None:
    values = [*points(1, 10), *points(9, 20, begin=30)]
    found = verdict_on(struck(values, state=JobState.SUCCEEDED, restarts=[at(15), at(25)]))
    assert (found.verdict, found.course, found.resumed_at) == ("survived", "restarted", 9)
    assert found.exit_code == 0


def test_a_restart_that_the_run_does_not_report_is_seen_by_its_steps() -> None:
    values = [*points(1, 10), *points(9, 20, begin=30)]
    found = verdict_on(struck(values, state=JobState.SUCCEEDED))
    assert (found.course, found.resumed_at, found.repeated) == ("restarted", 9, 2)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (points(1, 10), points(1, 20), "it started again at step 1: nothing was continued"),
        (points(1, 10), points(13, 20), "it resumed at step 13, and steps 11 to 12 never ran"),
        (points(1, 10), [], "it reported no loss after the fault"),
        (points(1, 10), points(9, 15), "exit code 0 is wrong: t-111111 ended at step 15 of 20"),
        (
            points(1, 10),
            points(9, 20, offset=2.0),
            "loss differs by 2 at step",
        ),
    ],
)
def test_what_is_not_survival(first: list[Point], second: list[Point], reason: str) -> None:
    found = verdict_on(struck(first), observed(second))
    assert found.verdict == "not-survived"
    assert [r for r in found.reasons if r.startswith(reason)], found.reasons


def test_a_job_without_checkpoints_and_one_that_cannot_resume() -> None:
    nothing = struck(points(1, 10), files=CheckpointFiles(), location="/ckpt")
    assert verdict_on(nothing, why="no file").reasons == ["it cannot be resumed: no file"]
    again = struck(
        [*points(1, 10), *points(1, 20, begin=30)],
        files=CheckpointFiles(),
        location="/ckpt",
        state=JobState.SUCCEEDED,
        restarts=[at(12)],
    )
    assert verdict_on(again).reasons == [
        "no checkpoint: /ckpt",
        "it started again at step 1: nothing was continued",
    ]
    damaged = replace(WHOLE, damaged=["last.pt"])
    broken = observed([], state=JobState.FAILED, failure="worker-0 failed: EOFError")
    found = verdict_on(struck(points(1, 10), files=damaged), broken)
    assert found.reasons == ["the resumed run t-111111 failed: worker-0 failed: EOFError"]
    assert found.remarks == ["damaged checkpoint: last.pt"]
    assert found.seconds_lost is None


def test_a_hang_is_not_survival() -> None:
    hung = struck(points(1, 10), state=JobState.CANCELLED, hung=125.0)
    found = verdict_on(hung, fault="stopped-node")
    assert (found.verdict, found.course) == ("not-survived", None)
    assert found.reasons == [
        "the job hangs: nothing ended it for 2:05; set limits.stall and limits.on_stall"
    ]
    found = judge(BY_NAME["stopped-node"], REFERENCE, hung, None, ends_stalls=True)
    assert found.reasons == ["the job hangs: nothing ended it for 2:05; limits.stall did not"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("killed-worker", "the job had ended before the fault had an effect"),
        ("notice-30s", "the job ended by itself within 30 s of notice"),
        ("stopped-node", "the job succeeded without the node"),
    ],
)
def test_a_fault_without_an_effect_is_no_success(fault: str, reason: str) -> None:
    found = verdict_on(struck(points(1, 20), state=JobState.SUCCEEDED), fault=fault)
    assert (found.verdict, found.reasons) == ("not-struck", [reason])
    late = struck(points(1, 20), not_struck="the run ended at step 20, before step 30")
    assert verdict_on(late).reasons == ["the run ended at step 20, before step 30"]


@pytest.mark.parametrize(("last", "verdict"), [(20, "not-struck"), (19, "not-survived")])
def test_a_fault_after_the_last_step_is_too_late(last: int, verdict: str) -> None:
    found = verdict_on(struck(points(1, last)), observed([]))
    assert found.verdict == verdict
    assert found.reasons == (
        ["all steps had run when the fault ended the job: strike earlier"]
        if last == 20
        else [
            "it reported no loss after the fault",
            "exit code 0 is wrong: t-111111 ended at step 19 of 20",
        ]
    )


def test_a_full_disk_needs_a_later_checkpoint() -> None:
    through = struck(points(1, 20), state=JobState.SUCCEEDED)
    early = replace(REFERENCE, saves_until=9)
    found = judge(BY_NAME["full-disk"], early, through, None)
    assert found.verdict == "not-struck"
    assert found.reasons == ["the job writes no checkpoint after step 9"]


def test_a_job_that_ignores_a_full_disk_and_succeeds_has_lost_its_work() -> None:
    through = struck(points(1, 20), state=JobState.SUCCEEDED)
    found = verdict_on(through, fault="full-disk")
    assert (found.verdict, found.course) == ("not-survived", "continued")
    assert found.reasons == [
        "exit code 0 is wrong: no checkpoint was written after step 9, and the run without a "
        "fault wrote them until step 18"
    ]
    late = replace(WHOLE, newest=parse_time(at(9.8)).timestamp())  # while the strike took place
    during = struck(points(1, 20), state=JobState.SUCCEEDED, files=late, effect_time=at(10))
    assert verdict_on(during, fault="full-disk").reasons == found.reasons
    elsewhere = struck(points(1, 20), state=JobState.SUCCEEDED, files=replace(WHOLE, newest=2e9))
    assert verdict_on(elsewhere, fault="full-disk").verdict == "survived"
    emptied = replace(WHOLE, newest=2e9, damaged=["state.json"])
    broken = struck(points(1, 20), state=JobState.SUCCEEDED, files=emptied)
    found = verdict_on(broken, fault="full-disk")
    assert (found.verdict, found.remarks) == ("not-survived", ["damaged checkpoint: state.json"])
    assert found.reasons == [
        "exit code 0 is wrong: a write failed after step 9 and left a damaged checkpoint"
    ]


def test_a_job_may_continue_without_a_reducer() -> None:
    found = verdict_on(struck(points(1, 20), state=JobState.SUCCEEDED), fault="killed-reducer")
    assert (found.verdict, found.course) == ("survived", "continued")


def test_a_replica_that_ends_early_makes_the_exit_code_wrong() -> None:
    reference = replace(REFERENCE, reached={"worker-0": 20, "worker-1": 20})
    run = struck(points(1, 20), state=JobState.SUCCEEDED, reached={"worker-0": 20, "worker-1": 10})
    found = judge(BY_NAME["notice-30s"], reference, run, None)
    assert found.reasons == ["exit code 0 is wrong: worker-1 ended at step 10 of 20"]


def test_a_replica_that_does_nothing_when_resumed_makes_the_exit_code_wrong() -> None:
    """It reports no step in the resumed run, and only replicas that did were looked at."""
    reference = replace(REFERENCE, reached={"worker-0": 20, "worker-1": 20})
    resumed = observed(points(9, 20), reached={"worker-0": 20})
    for last, reasons in (
        (10, ["exit code 0 is wrong: worker-1 ended at step 10 of 20"]),
        (20, []),
    ):
        run = struck(points(1, 10), reached={"worker-0": 10, "worker-1": last})
        assert judge(BY_NAME["preemption"], reference, run, resumed).reasons == reasons


def test_a_chief_that_had_all_its_steps_says_nothing_about_the_other_workers() -> None:
    """With launcher once the chief goes on alone; the verdict was not-struck: strike earlier."""
    reference = replace(REFERENCE, reached={"worker-0": 20, "worker-1": 20})
    run = struck(points(1, 20), reached={"worker-0": 20, "worker-1": 10})
    whole = judge(BY_NAME["preemption"], reference, run, observed([], reached={"worker-1": 20}))
    assert (whole.verdict, whole.reasons) == ("survived", [])
    found = judge(BY_NAME["preemption"], reference, run, observed([]))
    assert found.reasons == ["exit code 0 is wrong: worker-1 ended at step 10 of 20"]


def test_a_notice_that_nobody_uses_is_named() -> None:
    resumed = observed(points(9, 20))
    assert verdict_on(struck(points(1, 10)), resumed, "notice-30s").remarks == [
        "nothing was saved after the notice"
    ]
    saved = struck(points(1, 10), files=replace(WHOLE, newest=2e9))
    assert verdict_on(saved, resumed, "notice-30s").remarks == []


def test_the_noise_of_a_curve() -> None:
    """Noise between runs counts where they did the same, and a NaN is always a difference."""
    before = points(1, 10)
    assert compare_curves(LOSSES, before, points(10, 20, offset=0.1)).is_same
    assert not compare_curves(LOSSES, before, points(10, 20, offset=0.5)).is_same
    noisy = points(1, 10, offset=0.4)
    assert compare_curves(LOSSES, noisy, points(10, 20, offset=0.5)).is_same
    broken = [point._replace(value=float("nan")) for point in points(12, 20)]
    found = compare_curves(LOSSES, before, [*points(10, 11), *broken])
    assert (found.is_same, found.step) == (False, 12)
    assert compare_curves(LOSSES, before, [Point(at(1), 99, 1.0)]).steps == 0


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_value_that_is_not_finite_hides_no_difference(value: float) -> None:
    """An infinite loss of the first step made the noise infinite, so that all curves were same."""
    losses = {**LOSSES, 1: value}
    before = [points(1, 1)[0]._replace(value=value), *points(2, 10)]
    same = compare_curves(losses, before, points(1, 20))
    assert (same.is_same, same.steps) == (True, 19)
    assert not compare_curves(losses, before, points(10, 20, offset=0.5)).is_same
    once = [*points(10, 14), points(15, 15)[0]._replace(value=value), *points(16, 20)]
    found = compare_curves(LOSSES, points(1, 10), once)
    assert (found.is_same, found.step) == (False, 15)


def test_a_first_loss_far_above_the_others_hides_no_difference() -> None:
    losses = {**LOSSES, 1: 1000.0}
    before = [points(1, 1)[0]._replace(value=1000.0), *points(2, 10)]
    assert not compare_curves(losses, before, points(10, 20, offset=0.5)).is_same


def test_steps_between_the_steps_of_the_run_without_a_fault_are_compared() -> None:
    """A script that logs each third step from its start on logs other steps when resumed."""
    reference = replace(REFERENCE, values={step: LOSSES[step] for step in range(2, 21, 3)})
    first = struck(points(1, 10)[1::3])
    whole = judge(BY_NAME["preemption"], reference, first, observed(points(10, 19)[::3]))
    assert (whole.verdict, whole.reasons) == ("survived", [])
    assert whole.curve is not None
    assert whole.curve.steps == 4
    other = observed(points(10, 19, offset=3.0)[::3])
    found = judge(BY_NAME["preemption"], reference, first, other)
    assert found.verdict == "not-survived"
    assert found.reasons[0].startswith("loss differs by "), found.reasons


def test_a_curve_of_which_nothing_can_be_compared_is_not_survival() -> None:
    nothing = replace(REFERENCE, values=dict.fromkeys(LOSSES, float("nan")))
    found = judge(BY_NAME["preemption"], nothing, struck(points(1, 10)), observed(points(9, 20)))
    assert found.verdict == "not-survived"
    assert found.reasons == ["no loss after the fault can be compared with the run without a fault"]


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    assert not has_files(str(tmp_path))
    (tmp_path / "last.partial").write_text("half")
    assert not has_files(str(tmp_path))
    with zipfile.ZipFile(tmp_path / "whole.pt", "w") as archive:
        archive.writestr("data.pkl", b"x" * 1000)
    (tmp_path / "half.pt").write_bytes((tmp_path / "whole.pt").read_bytes()[:600])
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    content = len(header).to_bytes(8, "little") + header + b"abcd"
    (tmp_path / "whole.safetensors").write_bytes(content)
    (tmp_path / "half.safetensors").write_bytes(content[:-1])
    (tmp_path / "tiny.safetensors").write_bytes(content[:7])
    for name, text in (("list", b"[]"), ("text", b"{"), ("bare", b'{"w": {}}'), ("long", b"")):
        size = len(text) or 1000
        damaged = size.to_bytes(8, "little") + text
        (tmp_path / f"{name}.safetensors").write_bytes(damaged)
    (tmp_path / "empty.bin").touch()
    (tmp_path / "unknown.bin").write_text("anything")
    (tmp_path / "half.json").write_text('{"step": ')
    found = checkpoint_files(str(tmp_path))
    assert (found.files, found.checked) == (12, 11)
    assert found.damaged == [
        *("bare.safetensors", "empty.bin", "half.json", "half.pt", "half.safetensors"),
        *("list.safetensors", "long.safetensors", "text.safetensors", "tiny.safetensors"),
    ]
    assert has_files(str(tmp_path))


LOCAL = Situation(target="process", in_containers=False, has_reducers=True, is_spot=False)
VERTEX = LOCAL._replace(target="vertex", is_spot=True, behaviours=frozenset({"stockouts"}))
SAGEMAKER = VERTEX._replace(target="sagemaker", behaviours=frozenset({"stockouts", "spot_notice"}))


def names(situation: Situation) -> list[str]:
    return [fault.name for fault in FAULTS if obstacle(fault, situation)]


def test_faults_that_a_target_cannot_have() -> None:
    assert names(LOCAL) == ["stock-out", "dropped-node"]
    assert names(LOCAL._replace(in_containers=True, has_reducers=False)) == [
        "killed-reducer",
        "stock-out",
    ]
    assert names(VERTEX) == ["notice-30s", "notice-120s", "dropped-node"]
    assert names(SAGEMAKER) == ["dropped-node"]
    assert names(SAGEMAKER._replace(is_spot=False)) == ["notice-30s", "notice-120s", "dropped-node"]
    without = LOCAL._replace(has_processes=False)
    assert names(without) == [fault.name for fault in FAULTS]


def test_the_notice_of_a_rehearsed_cloud_is_in_real_seconds() -> None:
    notice: Fault = BY_NAME["notice-120s"]
    behaviour = behaviour_of(notice, SAGEMAKER, 0.05)
    assert behaviour == {"ingest": 0, "spot_notice": True, "grace": pytest.approx(2400)}
    lost = behaviour_of(BY_NAME["preemption"], SAGEMAKER, 0.05)
    assert lost == {"ingest": 0, "spot_notice": False}
    assert behaviour_of(notice, LOCAL, 0.05) == {}


def test_faults_by_name() -> None:
    assert [fault.name for fault in chosen_faults(["full-disk", "full-disk"])] == ["full-disk"]
    assert chosen_faults([]) == list(FAULTS)
    with pytest.raises(RsctlError, match="there is no fault 'preemtion'"):
        chosen_faults(["preemtion"])
