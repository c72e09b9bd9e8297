"""`rsctl rerun`: a run again, and what is said of what is not as it was."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rsctl.runs.folder import RunFolder
from rsctl.runs.origin import Origin, keep_origin
from rsctl.runs.store import Store
from tests.api.recorded import add

from .conftest import Cli
from .submissions import job

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def commit(folder: Path) -> None:
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one")):
        subprocess.run([*GIT, *words], cwd=folder, check=True)


def test_a_run_again(rsctl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its source is the commit, its arguments are those of --set, its secret is today's."""
    (rsctl.folder / "src" / "word").write_text("first\n")
    path = job(rsctl, "cat word; echo $KIND $API_KEY", run={"env": {"API_KEY": "${API_KEY}"}})
    commit(rsctl.folder)
    monkeypatch.setenv("API_KEY", "yesterday")
    assert rsctl("submit", path, "--set", "run.env.KIND=a").code == 0
    (rsctl.folder / "src" / "word").write_text("second\n")
    rsctl.write("name: other\n")
    monkeypatch.setenv("API_KEY", "today")
    again = rsctl("rerun", "@last")
    assert again.code == 0, again.err
    assert again.out.splitlines() == ["worker-0 | first", "worker-0 | a today"]
    said = [line for line in again.err.splitlines() if line.startswith(("note", "warning"))]
    assert [line.partition(" is commit")[0] for line in said] == [
        "note: the source",
        "note: secrets have the values of today's environment: API_KEY",
    ]
    assert "RSCTL_CHECKPOINT_DIR" not in again.err


def remarks(err: str) -> list[str]:
    lines = [line for line in err.splitlines() if line.startswith(("note", "warning"))]
    return [re.sub(r"\b[0-9a-f]{12}\b", "COMMIT", line) for line in lines]


def test_files_that_git_does_not_track_do_not_hide_the_commit(rsctl: Cli) -> None:
    """Such as the output of the job itself, with which the commit counts as changed."""
    (rsctl.folder / "src" / "word").write_text("first\n")
    path = job(rsctl, "cat word; test ! -e out.log || cat out.log")
    commit(rsctl.folder)
    (rsctl.folder / "src" / "out.log").write_text("an earlier run\n")
    assert rsctl("submit", path).code == 0
    assert not remarks(rsctl("rerun", "@last", "--dry-run").err)
    (rsctl.folder / "src" / "word").write_text("second\n")
    again = rsctl("rerun", "@last")
    assert again.out.splitlines() == ["worker-0 | first"]
    assert remarks(again.err) == [
        "note: the source is commit COMMIT, as it was, without the files that git does not track"
    ]


def test_changes_that_no_commit_has(rsctl: Cli) -> None:
    """Neither the commit nor the folder has what ran."""
    (rsctl.folder / "src" / "word").write_text("first\n")
    path = job(rsctl, "cat word")
    commit(rsctl.folder)
    (rsctl.folder / "src" / "word").write_text("second\n")
    assert rsctl("submit", path).code == 0
    (rsctl.folder / "src" / "word").write_text("third\n")
    again = rsctl("rerun", "@last")
    assert again.out.splitlines() == ["worker-0 | third"]
    assert [line.partition(": file")[0] for line in remarks(again.err)] == [
        "warning: not as it was",
        "warning: the source had changes that commit COMMIT does not have",
    ]


def test_a_commit_that_is_gone(rsctl: Cli) -> None:
    (rsctl.folder / "src" / "word").write_text("first\n")
    path = job(rsctl, "cat word")
    commit(rsctl.folder)
    assert rsctl("submit", path).code == 0
    shutil.rmtree(rsctl.folder / ".git")
    (rsctl.folder / "src" / "word").write_text("second\n")
    commit(rsctl.folder)
    again = rsctl("rerun", "@last")
    assert again.out.splitlines() == ["worker-0 | second"]
    gone, changed = remarks(again.err)
    assert gone.startswith("warning: the source is as it is now: cannot check out")
    assert gone.endswith("has no such branch, tag or commit")
    assert changed.startswith("warning: not as it was: file word")
    assert "-> restore commit" in again.err


def test_a_changed_source_without_a_commit(rsctl: Cli) -> None:
    """--dry-run names it, and sends nothing."""
    (rsctl.folder / "src" / "code.py").write_text("1\n")
    assert rsctl("submit", job(rsctl, "true")).code == 0
    (rsctl.folder / "src" / "code.py").write_text("2\n")
    shown = json.loads(rsctl("rerun", "@last", "--dry-run", "-o", "json").out)
    assert [f["message"].partition(":")[0:1] for f in shown["findings"]] == [("not as it was",)]
    assert "file code.py" in shown["findings"][0]["message"]
    assert shown["plan"]["target"] == "process"
    assert len(json.loads(rsctl("list", "-o", "json").out)["runs"]) == 1


def test_a_rerun_starts_anew(rsctl: Cli) -> None:
    path = job(rsctl, "touch $RSCTL_CHECKPOINT_DIR/a; ls $RSCTL_CHECKPOINT_DIR", checkpoints="ck")
    assert rsctl("submit", path).code == 0
    (rsctl.folder / "ck" / "old").touch()
    again = rsctl("rerun", "@last")
    assert again.out.splitlines() == ["worker-0 | a"]
    assert "note: the job starts from the beginning: its checkpoints are in" in again.err


def test_a_rerun_that_fails_says_how_it_is_resumed(rsctl: Cli) -> None:
    path = job(rsctl, "touch $RSCTL_CHECKPOINT_DIR/a; exit 3", target="compose")
    assert rsctl("submit", path, "--target", "process").code == 1
    again = rsctl("rerun", "@last")
    run = Store().runs()[0].run
    command = f"resume: rsctl submit {rsctl.folder / path} --resume {run} --target process"
    assert (again.code, again.err.splitlines()[-1]) == (1, command)


def test_a_rerun_of_a_script_names_no_file_that_does_not_exist(rsctl: Cli) -> None:
    script = "import os\nopen(os.environ['RSCTL_CHECKPOINT_DIR'] + '/a', 'w')\nexit(3)\n"
    (rsctl.folder / "train.py").write_text(script)
    assert rsctl("submit", "train.py", "--target", "process").code == 1
    again = rsctl("rerun", "@last")
    run = Store().runs()[0].run
    command = f"resume: rsctl submit JOB --resume {run} --target process"
    assert (again.code, again.err.splitlines()[-1]) == (1, command)


def test_checkpoints_of_a_rerun_are_never_those_of_an_earlier_run(rsctl: Cli) -> None:
    """Its own folder has them where the run used the folder of another run, which can be removed;
    a rerun of a rerun does not continue it.
    """
    path = job(rsctl, "touch $RSCTL_CHECKPOINT_DIR/$RSCTL_RUN; ls $RSCTL_CHECKPOINT_DIR")
    assert rsctl("submit", path).code == 0
    first = Store().runs()[0].run
    assert len(rsctl("submit", path, "--resume", first).out.splitlines()) == 2
    for _ in range(2):
        again = rsctl("rerun", "@last")
        run = Store().runs()[0]
        own = RunFolder(run.run).path / "checkpoints"
        assert again.out.splitlines() == [f"worker-0 | {run.run}"]
        assert f"its checkpoints are in {own}, not in " in " ".join(again.err.split())
    assert rsctl("forget", first).code == 0
    assert rsctl("submit", path, "--resume", run.run).code == 0


def test_a_rerun_of_a_rerun_starts_anew(rsctl: Cli) -> None:
    path = job(rsctl, "touch $RSCTL_CHECKPOINT_DIR/a-$RSCTL_RUN; ls $RSCTL_CHECKPOINT_DIR")
    assert rsctl("submit", path, "--set", f"checkpoints={rsctl.folder / 'ck'}").code == 0
    for _ in range(2):
        again = rsctl("rerun", "@last")
        run = Store().runs()[0]
        assert again.out.splitlines() == [f"worker-0 | a-{run.run}"]
        assert run.settings == [f"checkpoints={rsctl.folder / 'ck'}-{run.run}"]


def test_a_folder_that_is_gone(rsctl: Cli) -> None:
    add("job-1", "succeeded", spec="name: j\n")
    keep_origin("job-1", Origin(folder=str(rsctl.folder / "gone")))
    done = rsctl("rerun", "job-1")
    assert (done.code, "the folder of the job no longer exists" in done.err) == (2, True)


@pytest.mark.parametrize("option", ["--detach", "--dry-run"])
def test_results_are_only_downloaded_at_the_end(rsctl: Cli, option: str) -> None:
    done = rsctl("rerun", "@last", "--get", "here", option)
    assert (done.code, done.out) == (2, "")
    assert "--get downloads results when the run ends: omit --detach and --dry-run" in done.err
