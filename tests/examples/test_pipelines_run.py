"""The scripts of the pipelines, run: a repository with a baseline, and a change of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from junitparser import JUnitXml

from tests.kit import fork_server

from .pipelines import ALL, FOLDER, Pipeline, github

DEADLINE = 240.0
FAST = """
import json, sys
for step in range(1, 31):
    speed = 1000 + step % 3 + int(sys.argv[sys.argv.index("--width") + 1])
    print(json.dumps({"rsctl": "metrics", "step": step, "throughput": speed}))
"""
GH = """#!/bin/sh
printf '%s\\n' "$@" >> "$RUNNER_TEMP/gh"
while [ $# -gt 0 ]; do
  if [ "$1" = --jq ]; then exec jq -r "$2" "$RUNNER_TEMP/comments"; fi
  shift
done
"""
GCLOUD = '#!/bin/sh\nshift 2\nfor f; do last=$f; done\nmkdir -p "$last"\ncp "$@"\n'


class Checkout:
    """A clone of a repository whose main branch has the baseline of the bench."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.path = folder / "clone"
        tools = folder / "tools"
        tools.mkdir()
        fork_server.write_program(tools / "rsctl", server, "-m", "rsctl")
        for name, text in {"gh": GH, "gcloud": GCLOUD}.items():
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        (folder / "rsctl" / "bin").mkdir(parents=True)
        (folder / "comments").write_text("[]")
        shutil.copy(tools / "rsctl", folder / "rsctl" / "bin")
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT")},
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "RSCTL_HOME": str(folder / "home"),
            "RUNNER_TEMP": str(folder),
            "CI": "true",
            "JOB": "bench/job.yaml",
            "TARGET": "process",
            "BASELINE": "bench/baseline.json",
            "AGAINST": "origin/main",
            "REPORTS": str(folder / "reports"),
            "OPTIONS": "--parallel=2\n",
            "NUMBER": "7",
            "AUTHOR": "github-actions[bot]",
            "REPOSITORY": "my-org/my-repo",
        }
        origin = folder / "origin"
        shutil.copytree(FOLDER / "bench", origin / "bench")
        job = origin / "bench" / "job.yaml"
        fewer = {"repeat: 5": "repeat: 4", "confirm: 5": "", "width: [64, 128]": "width: [64]"}
        text = job.read_text()
        for theirs, ours in fewer.items():
            assert theirs in text
            text = text.replace(theirs, ours)
        job.write_text(text)
        (origin / "bench" / "train.py").write_text(FAST)
        write = "rsctl gate bench/job.yaml --baseline bench/baseline.json --update-baseline"
        assert self.run(f"{write} --parallel 4", origin) == 0
        git = "git -c user.name=a -c user.email=a@b.c"
        commit = f"{git} init -q -b main && git add . && {git} commit -qm baseline"
        assert self.run(f"{commit} && git clone -q . '{self.path}'", origin) == 0

    def run(self, script: str, folder: Path | None = None) -> int:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=folder or self.path,
            env=self.env,
            timeout=DEADLINE,
        )
        return done.returncode

    def pipeline(self, pipeline: Pipeline) -> int:
        """Run a pipeline in the clone; returns the code that it ends with."""
        codes = [self.run(script) for script in pipeline.scripts]
        assert [self.run(script) for script in pipeline.afterwards] == [
            0 for _ in pipeline.afterwards
        ]
        return next(filter(None, codes), 0)

    def files(self, name: str) -> list[Path]:
        folders = [self.path, Path(self.env["REPORTS"])]
        return [path for folder in folders for path in folder.glob(name)]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, command_server: Path) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("pipelines"), command_server)


@pytest.fixture
def clean(checkout: Checkout) -> Iterator[Checkout]:
    """The clone without what an earlier pipeline has left."""
    yield checkout
    checkout.run("git reset -q --hard && git clean -qfdx")
    shutil.rmtree(checkout.env["REPORTS"], ignore_errors=True)


@pytest.mark.timeout(DEADLINE)
@pytest.mark.parametrize("pipeline", ALL, ids=lambda pipeline: pipeline.name)
def test_an_unchanged_program_passes_and_leaves_its_reports(
    clean: Checkout, pipeline: Pipeline
) -> None:
    assert clean.pipeline(pipeline) == 0
    [junit, *_] = clean.files("gate.xml")
    assert all(not case.result for suite in JUnitXml.fromfile(str(junit)) for case in suite)
    assert "throughput" in clean.files("gate.md")[0].read_text()
    assert "<h2>Gate: pass</h2>" in clean.files("report.html")[0].read_text()
    if pipeline.name == "github":
        arguments = Path(clean.env["RUNNER_TEMP"], "gh").read_text().splitlines()
        assert arguments[-6:-3] == ["--method", "POST", "repos/my-org/my-repo/issues/7/comments"]
    if pipeline.name == "gitlab":
        assert (clean.path / "metrics.txt").read_text().endswith("# EOF\n")


MARKER = "<!-- rsctl gate bench -->"
OWN = {"id": 3, "user": {"login": "github-actions[bot]"}, "body": f"{MARKER}\r\n### old"}
OTHERS = [
    {"id": 1, "user": {"login": "mallory"}, "body": f"{MARKER}\nedit me"},
    {"id": 2, "user": {"login": "github-actions[bot]"}, "body": "coverage: 80 %"},
    {"id": 4, "user": {"login": "github-actions[bot]"}, "body": f"quoted: {MARKER}"},
    {"id": 5, "user": {"login": "github-actions[bot]"}, "body": "<!-- rsctl gate bench-2 -->"},
]


@pytest.mark.parametrize(
    ("comments", "asked"),
    [
        ([*OTHERS, OWN], ["PATCH", "repos/my-org/my-repo/issues/comments/3"]),
        ([*OTHERS, OWN, {**OWN, "id": 9}], ["PATCH", "repos/my-org/my-repo/issues/comments/3"]),
        (OTHERS, ["POST", "repos/my-org/my-repo/issues/7/comments"]),
    ],
    ids=["own", "two", "none"],
)
def test_only_the_comment_with_its_own_marker_is_edited(
    clean: Checkout, comments: list[object], asked: list[str]
) -> None:
    [comment] = [script for script in github().afterwards if "gate.md" in script]
    folder = Path(clean.env["RUNNER_TEMP"])
    (folder / "comments").write_text(json.dumps(comments))
    (folder / "gh").unlink(missing_ok=True)
    Path(clean.env["REPORTS"]).mkdir(exist_ok=True)
    Path(clean.env["REPORTS"], "gate.md").write_text(f"{MARKER}\n### new\n")
    assert clean.run(comment) == 0
    (folder / "comments").write_text("[]")
    arguments = (folder / "gh").read_text().splitlines()
    body = f"body=@{clean.env['REPORTS']}/gate.md"
    assert arguments[-7:] == ["api", "--method", *asked, "--field", body, "--silent"]


@pytest.mark.timeout(DEADLINE)
def test_a_slower_program_fails_each_of_them(clean: Checkout) -> None:
    script = clean.path / "bench" / "train.py"
    script.write_text(FAST.replace("1000", "700"))
    assert {pipeline.name: clean.pipeline(pipeline) for pipeline in ALL} == {
        pipeline.name: 7 for pipeline in ALL
    }


@pytest.mark.timeout(DEADLINE)
def test_the_example_of_a_bench_runs_as_it_is(tmp_path: Path, checkout: Checkout) -> None:
    shutil.copytree(FOLDER / "bench", tmp_path / "bench")
    run = "rsctl bench run bench/job.yaml --repeat 1 -o json > events.ndjson"
    assert checkout.run(f"{run} --set run.args.steps=20", tmp_path) == 0
    result = json.loads((tmp_path / "events.ndjson").read_text().splitlines()[-1])
    assert [cell["metrics"]["throughput"]["n"] for cell in result["cells"]] == [1, 1]
