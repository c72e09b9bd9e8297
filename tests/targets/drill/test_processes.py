"""`rsctl drill` on processes: faults that strike, jobs that survive them, and jobs that do not."""

from __future__ import annotations

import re
import signal
import xml.etree.ElementTree as ElementTree

import pytest

from tests.kit.polling import DEADLINE_SECONDS, wait_until
from tests.targets.conftest import Rsctl
from tests.targets.drill.drills import (
    HELD,
    assert_nothing_is_left,
    drill,
    write_held_job,
    write_job,
)


def test_a_job_that_survives(rsctl: Rsctl) -> None:
    job = write_held_job(rsctl, reducers={"count": 1})
    faults = "preemption,killed-worker,killed-reducer,notice-30s,full-disk"
    reports = ("--report", "junit=drill.xml", "--report", "html=drill.html")
    done, found = drill(rsctl, job, *HELD, "--faults", faults, *reports)
    assert done.exit_code == 0, found
    for result in found.values():
        assert (result["verdict"], result["course"]) == ("survived", "resumed"), result
        assert (result["exit_code"], result["checkpoint"]["damaged"]) == (1, []) or (
            result["fault"] == "full-disk"
        )
        assert 2 < result["resumed_at"] <= 16
        assert result["curve"]["difference"] <= result["curve"]["noise"]
        assert len(result["runs"]) == 2
    assert found["killed-worker"]["strike"] == "SIGKILL to rank of worker-1"
    assert found["killed-reducer"]["strike"] == "SIGKILL to all processes of reducer-0"
    assert found["notice-30s"]["remarks"] == []
    suites = ElementTree.parse(rsctl.folder / "drill.xml").getroot()
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("5", "0", "0")
    page = (rsctl.folder / "drill.html").read_text()
    assert "survived 5 of 5 faults at step " in page
    assert page.partition("<h2>")[2].startswith("Drill</h2>")
    assert all(f">{run}<" in page for run in found["preemption"]["runs"])
    assert_nothing_is_left(rsctl)


def test_a_job_that_restarts_by_itself(rsctl: Rsctl) -> None:
    job = write_held_job(rsctl, limits={"retries": 1}, workers={"count": 1})
    done, found = drill(rsctl, job, *HELD, "--faults", "preemption")
    result = found["preemption"]
    assert (done.exit_code, result["course"], result["exit_code"]) == (0, "restarted", 0), result


@pytest.mark.parametrize(
    ("variant", "reason"),
    [
        ("none", "it cannot be resumed: RUN has no checkpoints"),
        ("half-written", "the resumed run RUN failed: worker-"),
        ("wrong-step", "it resumed at step "),
        ("jump", "loss differs by "),
    ],
)
def test_jobs_that_do_not_survive(rsctl: Rsctl, variant: str, reason: str) -> None:
    job = write_held_job(rsctl, variant, workers={"count": 1})
    done, found = drill(rsctl, job, *HELD, "--faults", "preemption")
    result = found["preemption"]
    assert (done.exit_code, result["verdict"]) == (1, "not-survived"), result
    for run in result["runs"]:
        result["reasons"] = [text.replace(run, "RUN") for text in result["reasons"]]
    assert any(text.startswith(reason) for text in result["reasons"]), result


def test_a_hang_is_named(rsctl: Rsctl) -> None:
    done, found = drill(rsctl, write_job(rsctl), "--faults", "stopped-node", "--patience", "4s")
    stopped = found["stopped-node"]
    assert (done.exit_code, stopped["verdict"]) == (1, "not-survived"), stopped
    assert stopped["reasons"][0].startswith("the job hangs: nothing ended it for 0:0")
    assert_nothing_is_left(rsctl)


def test_a_script_that_saves_and_ends_with_exit_code_0_is_resumed(rsctl: Rsctl) -> None:
    job = write_held_job(rsctl, "early", workers={"count": 1})
    done, found = drill(rsctl, job, *HELD, "--faults", "notice-30s")
    notice = found["notice-30s"]
    assert (done.exit_code, notice["verdict"], notice["course"]) == (0, "survived", "resumed")


def test_a_fault_that_does_not_strike_is_no_success(rsctl: Rsctl) -> None:
    """The job keeps no checkpoint in its second half; dropping a node needs containers."""
    job = write_job(rsctl, "short")
    done, found = drill(rsctl, job, "--faults", "full-disk,dropped-node", "--at-step", "16")
    assert done.exit_code == 1
    full, dropped = found["full-disk"], found["dropped-node"]
    assert (full["verdict"], full["reasons"]) == (
        "not-struck",
        [f"the job writes no checkpoint after step {full['struck_at']}"],
    )
    assert dropped["verdict"] == "not-possible"
    done = rsctl("drill", job, "--faults", "dropped-node")
    assert done.exit_code == 2
    assert "no fault is possible: dropped-node: nodes that are processes share" in done.stderr


def test_an_interruption_cancels_the_current_run(rsctl: Rsctl) -> None:
    job = write_job(rsctl, steps=200)
    process = rsctl.start("drill", job, "--faults", "stopped-node", "--report", "junit=drill.xml")
    wait_until(
        lambda: [run for run in rsctl.runs() if "step 2 " in rsctl.log(run["run"])], "a step"
    )
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=DEADLINE_SECONDS)
    [run] = rsctl.runs()
    assert process.returncode == 130, stderr
    assert stderr.splitlines()[-1] == f"interrupted: {run['run']} is cancelled"
    assert run["state"] == "cancelled"
    suites = ElementTree.parse(rsctl.folder / "drill.xml").getroot()
    assert (suites.get("tests"), suites.get("errors")) == ("1", "1")
    assert_nothing_is_left(rsctl)


def test_what_cannot_be_drilled(rsctl: Rsctl) -> None:
    def reported(*options: str, variant: str = "good") -> str:
        done = rsctl("drill", write_job(rsctl, variant, 4, workers={"count": 1}), *options)
        assert done.exit_code == 2, done.stderr
        return done.stderr

    assert "there is no fault 'preemptoin'" in reported("--faults", "preemptoin")
    assert "did you mean preemption?" in reported("--faults", "preemptoin")
    assert "a drill compares the loss" in reported(variant="silent")
    assert "and not of accuracy" in reported("--metric", "accuracy")
    assert "the job ends at step 4" in reported("--at-step", "4")
    assert "'xml=x' is not html=FILE or junit=FILE" in reported("--report", "xml=x")
    assert "give --rehearse" in reported("-t", "vertex")
    failing = rsctl("drill", rsctl.write_job(bash="exit 3"))
    assert failing.exit_code == 1
    assert "the run without a fault failed: worker-0 failed with exit code 3" in failing.stderr


@pytest.mark.parametrize(
    ("template", "first_line", "step", "settings"),
    [
        ("ddp", "        sampler.set_epoch(", "epoch", {"epochs": 8}),
        (
            *("fsdp", "        tokens = batch(", "step"),
            {"steps": 40, "checkpoint-every": 10, "batch-size": 8},
        ),
        ("single", "        sampler.set_epoch(", "epoch", {"epochs": 8}),
    ],
    ids=["ddp", "fsdp", "single"],
)
def test_the_templates_survive(
    rsctl: Rsctl,
    torch_forks: dict[str, str],
    template: str,
    first_line: str,
    step: str,
    settings: dict[str, int],
) -> None:
    """Each with one worker and little data, which are enough to lose a state that is not in the
    checkpoint.

    The run that is struck waits for that in its last quarter: it would end before it on a busy
    machine, which may also see the first checkpoint so late that a drill would strike at the end.
    """
    rsctl.env.update(torch_forks)
    assert rsctl("init", template).exit_code == 0
    script, ended = rsctl.folder / template / "train.py", rsctl.folder / "reference-ended"
    last, text = next(iter(settings.values())), script.read_text()
    wait = f"if not done and {step} > {last} * 0.75 and os.path.exists({str(ended)!r}):"
    assert text.count(first_line) == 1
    text = re.sub("samples: int = [0-9_]+", "samples: int = 1000", text)
    text = text.replace("if step % 10 == 0", "if step % 5 == 0")
    text = text.replace(first_line, f"        {wait}\n            time.sleep(600)\n{first_line}")
    script.write_text(f"import time\n{text}    Path({str(ended)!r}).touch()\n")
    values = [word for name in settings for word in ("--set", f"run.args.{name}={settings[name]}")]
    options = ("--faults", "killed-worker", "--at-step", str(last * 5 // 8))
    done, found = drill(
        rsctl, f"{template}/job.yaml", *options, "--set", "workers.count=1", *values
    )
    result = found["killed-worker"]
    assert (done.exit_code, result["verdict"], result["course"]) == (0, "survived", "resumed"), (
        result
    )
    assert result["checkpoint"]["damaged"] == []
