"""What builders print becomes events. The samples in `progress/` are the builders' own output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from rsctl.findings import Finding
from rsctl.images.events import BuildEvent, BuildOutput
from rsctl.images.progress import (
    CLASSIC,
    PODMAN,
    BuildKitProgress,
    BuildOutputReader,
    StepwiseProgress,
)
from rsctl.runs.stream.sanitize import sanitize_line

SAMPLES = Path(__file__).with_name("progress")


def make(builder: str) -> BuildOutputReader:
    """The reader of a builder's output, on a clock that stands still."""
    if builder in ("buildkit", "buildx"):
        return BuildKitProgress(lambda: 0.0)
    return StepwiseProgress({"classic": CLASSIC, "podman": PODMAN}[builder], lambda: 0.0)


def told(events: Iterable[BuildEvent]) -> list[str]:
    """Events as short lines."""
    return list(map(in_short, events))


def in_short(event: BuildEvent) -> str:
    if isinstance(event, BuildOutput):
        return f"{event.step}: {event.line}"
    if isinstance(event, Finding):
        return f"{event.severity} {event.code}: {event.message}"
    end = "cached" if event.cached else "failed" if event.failed else f"{event.seconds} s"
    number = f"{event.number}/{event.total} " if event.number or event.total else ""
    return f"{number}{event.instruction} {'starts' if event.seconds is None else end}"


def read(builder: str, lines: Iterable[str | None], failed: bool = False) -> list[str]:
    progress = make(builder)
    events = [event for line in lines for event in progress.read(line)]
    return told([*events, *progress.end(failed)])


def sample(name: str) -> list[str]:
    text = (SAMPLES / f"{name}.txt").read_bytes().decode()
    lines = [sanitize_line(line).rstrip() for line in text.split("\n")]
    return read(name.split("-")[0], lines, name.endswith("failed"))


CHECK = """RUN echo '{"rsctl": "finding", "severity": "warning", "code": "x", "message": "m"}'"""
LOAD = "[internal] load metadata for docker.io/library/rsctl-test-base:1"
EXPORT = [
    "exporting to image starts",
    "0: exporting layers done",
    "0: writing image sha256:DIGEST done",
    "0: naming to docker.io/b-cap/x:1 done",
    "exporting to image 0.0 s",
]
CACHED_BY_BUILDKIT = [
    "1/5 FROM docker.io/library/rsctl-test-base:1 starts",
    "1/5 FROM docker.io/library/rsctl-test-base:1 0.0 s",
    '2/5 RUN echo "hello there root" && sleep 1 && echo err >&2 cached',
    "3/5 COPY rsctl-launch /usr/local/bin/ cached",
    "4/5 WORKDIR /app cached",
    f"5/5 {CHECK} cached",
]
CACHED_STEP_BY_STEP = [
    "1/10 FROM rsctl-test-base:1 starts",
    "1/10 FROM rsctl-test-base:1 0.0 s",
    "2/10 ARG BASE_USER=root cached",
    "3/10 USER root cached",
    '4/10 RUN echo "hello there $BASE_USER" && sleep 1 && echo err >&2 cached',
    "5/10 COPY rsctl-launch /usr/local/bin/ cached",
    "6/10 WORKDIR /app cached",
    "7/10 USER $BASE_USER cached",
    '8/10 ENTRYPOINT ["rsctl-launch"] cached',
    f"9/10 {CHECK} cached",
]


def stepwise(label: str) -> list[str]:
    """The whole build by a builder that works step by step, but for the output of its steps."""
    steps = [line.removesuffix(" cached") for line in CACHED_STEP_BY_STEP[2:]]
    ends = [
        end for step in [*steps, f"10/10 {label}"] for end in (f"{step} starts", f"{step} 0.0 s")
    ]
    return CACHED_STEP_BY_STEP[:2] + ends


def test_buildkit() -> None:
    lines = sample("buildkit")
    run = '2/5 RUN echo "hello there root" && sleep 1 && echo err >&2'
    at = lines.index(f"{run} starts")
    assert lines[at : at + 4] == [f"{run} starts", "2: hello there root", "2: err", f"{run} 1.2 s"]
    at = lines.index(f"5/5 {CHECK} starts")
    assert lines[at + 1 : at + 3] == ["warning x: m", f"5/5 {CHECK} 0.2 s"]
    assert lines[-1].startswith("exporting to image ")


@pytest.mark.parametrize("name", ["buildx-cached", "buildkit-cached"])
def test_what_buildkit_takes_from_its_cache_comes_in_order(name: str) -> None:
    lines = [line for line in sample(name) if line[0].isdigit() and line[0] != "0"]
    assert lines == CACHED_BY_BUILDKIT


def test_all_that_buildx_says_of_a_build_from_the_cache() -> None:
    lines = sample("buildx-cached")
    digest = next(line.split(":")[2][:64] for line in lines if "writing image" in line)
    assert [line.replace(digest, "DIGEST") for line in lines] == [
        '0: building with "default" instance using docker driver',
        f"{LOAD} starts",
        f"{LOAD} 0.0 s",
        *CACHED_BY_BUILDKIT,
        *EXPORT,
    ]


@pytest.mark.parametrize("name", ["buildx-failed", "buildkit-failed"])
def test_a_failure_in_buildkit_is_said_once(name: str) -> None:
    run = '2/5 RUN echo "failing root" && exit 3'
    why = 'executor failed running [/bin/sh -c echo "failing $BASE_USER"  && exit 3]: exit code: 3'
    assert sample(name)[-4:] == [
        f"{run} starts",
        "2: failing root",
        f"2: {why}",
        f"{run} failed",
    ]


PODMAN_STAGES = """\
[2/3] STEP 1/2: FROM scratch AS tools
[2/3] STEP 2/2: COPY x /tool
--> 51fc1e6b93a
[3/3] STEP 1/3: FROM scratch
[3/3] STEP 2/3: COPY --from=tools /tool /tool
--> Using cache 51fc1e6b93a7637142d6da01b6b1d9b0e9658abbf21e994c044f7be54ca1323c
--> 51fc1e6b93a
[3/3] STEP 3/3: {last}"""


def test_podman_names_the_stage_of_a_step() -> None:
    """Of its own output; it skips a stage that is not used."""
    problem = (
        'Error: building at STEP "COPY missing /missing": copier: stat: "/missing": no such file'
    )
    failing = [*PODMAN_STAGES.format(last="COPY missing /missing").split("\n"), problem]
    begin = [
        "1/2 FROM scratch AS tools starts",
        "1/2 FROM scratch AS tools 0.0 s",
        "2/2 COPY x /tool starts",
        "2/2 COPY x /tool 0.0 s",
        "1/3 FROM scratch starts",
        "1/3 FROM scratch 0.0 s",
        "2/3 COPY --from=tools /tool /tool cached",
    ]
    assert read("podman", failing, failed=True) == [
        *begin,
        "3/3 COPY missing /missing starts",
        f"3: {problem}",
        "3/3 COPY missing /missing failed",
    ]
    printing = PODMAN_STAGES.format(last="RUN it").split("\n")
    printed = ["[2/3] STEP 1/3: FROM x", "[3/3] STEP 2/3: RUN y", "[4/3] STEP 1/9: FROM z"]
    assert read("podman", [*printing, *printed, "[3/3] COMMIT lookb/x:1"]) == [
        *begin,
        "3/3 RUN it starts",
        *(f"3: {line}" for line in printed),
        "3/3 RUN it 0.0 s",
    ]


@pytest.mark.parametrize(
    ("name", "label"), [("classic", "LABEL a.b=c"), ("podman", 'LABEL "a.b"="c"')]
)
def test_step_by_step(name: str, label: str) -> None:
    lines = sample(name)
    run = '4/10 RUN echo "hello there $BASE_USER" && sleep 1 && echo err >&2'
    at = lines.index(f"{run} starts")
    assert lines[at : at + 4] == [f"{run} starts", "4: hello there root", "4: err", f"{run} 0.0 s"]
    lines[at + 1 : at + 3] = []
    lines.remove("warning x: m")
    assert lines == stepwise(label)


@pytest.mark.parametrize(
    ("name", "label"), [("classic", "LABEL a.b=c"), ("podman", 'LABEL "a.b"="c"')]
)
def test_step_by_step_from_the_cache(name: str, label: str) -> None:
    assert sample(f"{name}-cached") == [*CACHED_STEP_BY_STEP, f"10/10 {label} cached"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "classic",
            "The command '/bin/sh -c echo \"failing $BASE_USER\"  && exit 3' "
            "returned a non-zero code: 3",
        ),
        (
            "podman",
            'Error: building at STEP "RUN echo "failing $BASE_USER"  && exit 3": '
            "while running runtime: exit status 3",
        ),
    ],
)
def test_a_failure_step_by_step(name: str, why: str) -> None:
    run = '4/10 RUN echo "failing $BASE_USER" && exit 3'
    assert sample(f"{name}-failed")[-4:] == [
        f"{run} starts",
        "4: failing root",
        f"4: {why}",
        f"{run} failed",
    ]


@pytest.mark.parametrize(
    ("builder", "heading"),
    [("classic", "Step 1/1 : RUN true"), ("podman", "STEP 1/1: RUN true")],
)
def test_a_step_that_prints_nothing_is_seen_to_start(builder: str, heading: str) -> None:
    progress = make(builder)
    assert told(progress.read(heading)) == []
    assert told(progress.read(None)) == ["1/1 RUN true starts"]
    assert told(progress.read(None)) == []


def test_a_step_of_buildkit_that_prints_nothing_is_seen_to_start() -> None:
    progress = make("buildkit")
    assert told(progress.read("#7 [2/2] RUN true")) == []
    assert told(progress.read(None)) == ["2/2 RUN true starts"]
    assert told(progress.read("#7 DONE 61.5s")) == ["2/2 RUN true 61.5 s"]


def test_steps_of_buildkit_side_by_side() -> None:
    lines = [
        *("#4 [stage-0 2/3] RUN one", "#5 [linux/amd64 stage-0 3/3] RUN two", "#4 0.1 a"),
        *("#4 ...", "", "#5 [linux/amd64 stage-0 3/3] RUN two", "#5 0.2 b", "#5 DONE 0.3s"),
        *("#4 [stage-0 2/3] RUN one", "#4 1234.5 c", "#4 CANCELED"),
    ]
    assert read("buildkit", lines) == [
        "2/3 RUN one starts",
        "3/3 RUN two starts",
        "2: a",
        "3: b",
        "3/3 RUN two 0.3 s",
        "2: c",
        "2/3 RUN one 0.0 s",
    ]


def test_nothing_that_a_step_prints_in_buildkit_is_a_heading() -> None:
    fakes = ["#5 DONE 9.9s", "Step 2/9 : RUN evil", "#9 [9/9] RUN evil", "CACHED", "ERROR: evil"]
    lines = ["#5 [1/1] RUN it", *(f"#5 0.1 {fake}" for fake in fakes), "#5 DONE 1.0s"]
    assert read("buildkit", lines) == [
        "1/1 RUN it starts",
        *(f"1: {fake}" for fake in fakes),
        "1/1 RUN it 1.0 s",
    ]


@pytest.mark.parametrize(
    "fake",
    ["Step 1/3 : RUN evil", "Step 3/3 : RUN evil", "Step 2/9 : RUN evil", "Step 0/3 : RUN evil"],
)
def test_a_step_cannot_print_just_any_heading(fake: str) -> None:
    lines = ["Step 1/3 : FROM base", " ---> 0123456789ab", fake, "Step 2/3 : RUN it"]
    assert read("classic", lines) == [
        "1/3 FROM base starts",
        f"1: {fake}",
        "1/3 FROM base 0.0 s",
        "2/3 RUN it starts",
        "2/3 RUN it 0.0 s",
    ]


def test_what_a_step_prints_is_not_taken_for_the_cache() -> None:
    lines = ["Step 1/1 : RUN it", " ---> Running in 0123456789ab", " ---> Using cache"]
    assert read("classic", lines)[1:] == ["1:  ---> Using cache", "1/1 RUN it 0.0 s"]


def test_pip_is_not_taken_for_docker() -> None:
    lines = ["Step 1/1 : RUN pip", "Successfully built numpy", "Successfully built 0123456789ab"]
    assert "1: Successfully built numpy" in read("classic", lines)
    assert "1: Successfully built 0123456789ab" not in read("classic", lines)


def test_what_the_builder_says_outside_of_steps_is_output() -> None:
    said = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock."
    for builder in ("buildx", "classic", "podman"):
        assert read(builder, [said], failed=True) == [f"0: {said}"]


FINDING = '{"rsctl": "finding", "severity": "error", "code": "c", "message": %s}'


@pytest.fixture
def found() -> Callable[[str], BuildEvent]:
    """The event of a line that a step prints."""

    def reader(line: str) -> BuildEvent:
        progress = make("buildkit")
        assert list(progress.read("#1 [1/1] RUN check")) == []
        return list(progress.read(f"#1 0.25 {line}"))[-1]

    return reader


def test_a_finding_from_inside_the_build(found: Callable[[str], BuildEvent]) -> None:
    line = FINDING.replace("%s", '"no plugin", "remedy": "r", "path": "image.base"')
    assert found(line) == Finding(
        severity="error", code="c", message="no plugin", remedy="r", path="image.base"
    )


def test_a_finding_from_inside_cannot_point_into_files_nor_write_to_the_terminal(
    found: Callable[[str], BuildEvent],
) -> None:
    text = r'"a\u001b[2Jb\nerror: fake \u202e", "file": "/etc/shadow", "line": 1, "column": 1'
    assert found(FINDING % text) == Finding(
        severity="error", code="c", message="ab error: fake \\u202e"
    )


def test_a_finding_from_inside_has_bounds(found: Callable[[str], BuildEvent]) -> None:
    event = found(FINDING % f'"{"x" * 10_000}"')
    assert isinstance(event, Finding)
    assert len(event.message) == 2000


@pytest.mark.parametrize(
    "line",
    [
        FINDING % "7",
        FINDING % '"m", "severity": "fatal"',
        FINDING % '"m"' + "trailing",
        '{"rsctl": "finding"}',
        '{"rsctl": "metrics", "loss": 1}',
        '{"rsctl": "' + "[" * 5000,
    ],
)
def test_what_only_looks_like_a_finding_is_output(
    line: str, found: Callable[[str], BuildEvent]
) -> None:
    assert found(line) == BuildOutput(line, 1)
