"""Job files: loaded, planned and validated, with findings that know their lines."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy
import pytest

import rsctl.api
from rsctl.api import ExitCode, RsctlError
from rsctl.api.job_file import setting_texts

from .conftest import Write


def test_what_is_set_is_typed_as_in_the_file(write_job: Write) -> None:
    settings = {
        "workers.count": 8,
        "run.args": {"lr": 2e-5, "name": "a b"},
        "run.env.FLAG": "true",
        "run.env.VERSION": "1.10",
        "workers.disk": "200GB",
    }
    job = rsctl.api.load(write_job(), set=settings).spec
    assert job.workers.count == 8
    assert job.run.args == {"lr": 2e-5, "name": "a b"}
    assert (job.run.env["FLAG"], job.run.env["VERSION"]) == ("true", "1.10")
    same = rsctl.api.load("job.yaml", set=["workers.count=8", "run.env.FLAG=true"]).spec
    assert same.workers.count == 8


def test_a_job_file_has_its_text(write_job: Write) -> None:
    path = write_job()
    job = rsctl.api.load(path)
    assert (job.path, job.text) == (path, Path(path).read_text())


def test_a_job_file_goes_to_another_process(write_job: Write) -> None:
    path = write_job(workers={"machine": {"vertex": "n1-standard-8"}}, targets={"process": {}})
    job = rsctl.api.load(path, set={"workers.count": 2})
    plan = rsctl.api.plan(job)
    Path(path).unlink()
    for same in (pickle.loads(pickle.dumps(job)), copy.deepcopy(job)):
        assert (same.text, same.settings, same.findings) == (job.text, job.settings, ())
        assert same.spec.workers.count == 2
        assert rsctl.api.plan(same) == plan


def test_mistakes_are_one_exception_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("name: job\nworkers:\n  cuont: 2\nrun: {script: 3x, launcher: nope}\n")
    with pytest.raises(RsctlError) as caught:
        rsctl.api.load(path)
    problem = caught.value
    assert problem.exit_code is ExitCode.USAGE
    found = [(f.file, f.line, f.path) for f in problem.findings if f.is_error]
    assert found[0] == (str(path), 3, "workers.cuont")
    assert found[-1][1] == 4


def test_a_target_adds_its_findings_to_those_of_the_file(write_job: Write) -> None:
    path = write_job(targets={"vertex": {"project": "p", "region": "us-central1"}}, outputs="./out")
    job = rsctl.api.load(path)
    with pytest.raises(RsctlError) as caught:
        rsctl.api.plan(job, target="vertex")
    [finding] = [f for f in caught.value.findings if f.path == "outputs"]
    assert (finding.code, finding.file) == ("unsupported", "job.yaml")
    assert finding.line
    assert finding in rsctl.api.validate(job, target="vertex")
    assert job.findings == ()
    assert rsctl.api.plan(job).target == "process"


def test_a_plan_is_what_the_command_line_prints(write_job: Write) -> None:
    path = write_job(workers={"count": 2})
    plan = rsctl.api.plan(path, run_id="job-a")
    command = [sys.executable, "-m", "rsctl", "plan", path, "--run-id", "job-a", "-o"]
    done = subprocess.run([*command, "json"], capture_output=True, check=True)
    assert msgspec.json.decode(done.stdout) == msgspec.to_builtins(plan)


def test_a_job_made_in_python_is_planned_with_the_same_checks(write_job: Write) -> None:
    job = rsctl.api.load(write_job()).spec
    assert rsctl.api.plan(job).run == "job-xxxxxx"
    with pytest.raises(RsctlError):
        rsctl.api.plan(job, target="vertex")


def test_a_matrix_is_seen_and_not_submitted(write_job: Write) -> None:
    job = rsctl.api.load(write_job(), set={"workers.count": [1, 2]})
    assert job.cells == [{"workers.count": 1}, {"workers.count": 2}]
    with pytest.raises(RsctlError, match="this file has a matrix of cells") as caught:
        rsctl.api.submit(job)
    assert [f.path for f in caught.value.findings if f.is_error] == ["matrix"]
    assert rsctl.api.runs() == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (numpy.int64(2), "2"),
        (numpy.arange(1, 3), "[1, 2]"),
        ([Path("a"), numpy.float32(0.5)], '["a", 0.5]'),
    ],
)
def test_values_of_other_libraries(value: object, text: str) -> None:
    assert setting_texts({"run.args.n": value}) == (f"run.args.n={text}",)


def test_a_value_that_no_job_file_has() -> None:
    with pytest.raises(RsctlError) as caught:
        setting_texts({"run.args.n": [1, {2}]})
    assert str(caught.value) == (
        "run.args.n: a job file has no such value: type set\n"
        "    -> give text, a number, a list or a mapping"
    )


def test_the_text_of_an_error_has_what_the_command_line_shows(write_job: Write) -> None:
    path = write_job(workers={"cuont": 2})
    with pytest.raises(RsctlError) as caught:
        rsctl.api.load(path)
    [found] = caught.value.findings
    assert caught.value.summary == "unknown key 'cuont' in workers"
    assert str(caught.value) == (
        f"{path}:{found.line}:{found.column}: workers.cuont: unknown key 'cuont' in workers\n"
        "    -> did you mean 'count'?"
    )
    with pytest.raises(RsctlError) as caught:
        rsctl.api.run("@last")
    assert str(caught.value).startswith("there are no runs yet\n    -> ")


def test_what_is_returned_is_frozen(write_job: Write) -> None:
    job = rsctl.api.load(write_job())
    for value, name in ((job, "settings"), (rsctl.api.plan(job), "run")):
        with pytest.raises(AttributeError):
            setattr(value, name, "other")


def test_a_prepared_run_shows_in_a_notebook_what_it_was_made_from(write_job: Write) -> None:
    """Without the plan, which is long."""
    prepared = rsctl.api.prepare(rsctl.api.load(write_job(), set={"workers.count": 2}))
    assert repr(prepared) == (
        f"PreparedRun(findings={prepared.findings!r}, settings=('workers.count=2',), "
        f"file={str(Path('job.yaml').resolve())!r}, folder={str(Path.cwd())!r})"
    )


LIGHT = """
import sys
before = set(sys.modules)
import rsctl.api
from rsctl.api import load, plan, submit, run, runs
plan(load("job.yaml"))
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(new & {"boto3", "botocore", "google", "rich", "typer", "torch", "plotille"}))
"""


def test_it_is_light_and_prints_nothing(write_job: Write) -> None:
    write_job()
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("\n", "")


def test_every_name_is_there_and_documented() -> None:
    for name in rsctl.api.__all__:
        assert getattr(rsctl.api, name) is not None
    with pytest.raises(AttributeError):
        rsctl.api.nothing  # noqa: B018
