"""Numbers out of log lines: by the spec's expressions, metric lines, telemetry; hostile ones."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.findings import Finding
from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.metrics import MetricReader, MetricSpec, metric_findings, structured

TIME = "2026-01-31T12:00:00.000000Z"


def read(text: str, **regexes: str) -> list[tuple[str, float, int | None]]:
    reader = MetricReader({name: MetricSpec(regex) for name, regex in regexes.items()})
    return read_lines(reader, text)


def read_lines(reader: MetricReader, *texts: str) -> list[tuple[str, float, int | None]]:
    lines = [LogEvent(TIME, "worker-0", str(n), "stdout", text) for n, text in enumerate(texts)]
    events = [event for events in reader.read_all(lines) for event in events]
    assert all((event.time, event.replica) == (TIME, "worker-0") for event in events)
    return [(event.name, event.value, event.step) for event in events]


@pytest.mark.parametrize(
    ("regex", "text", "found"),
    [
        (r"loss=([0-9.]+)", "loss=0.5", [(0.5, None)]),
        (r"loss=([0-9.]+)", "nothing", []),
        (r"loss=([0-9.]+)", "loss=0.5 then loss=0.25", [(0.5, None), (0.25, None)]),
        (r"^loss=(\S+)$", "loss=1e-5", [(1e-5, None)]),
        (r"loss=(\S+)", "loss=-inf", [(-math.inf, None)]),
        (r"loss=(\S+)", "loss=oops", []),
        (r"loss=(\S+)", "loss=0.5,", []),
        (r"(?P<value>\S+) at (?P<step>\d+)", "0.5 at 7", [(0.5, 7)]),
        (r"step (?P<step>\d+): (?P<value>\S+)", "step 7: 0.5", [(0.5, 7)]),
        (r"step (?P<step>\d+): (\S+)", "step 7: 0.5", [(0.5, 7)]),
        (r"step (?P<step>\d+)", "step 7", [(7.0, 7)]),
        (r"(?:step (?P<step>\d+) )?loss (?P<value>\S+)", "loss 2", [(2.0, None)]),
        (r"(?:loss (?P<value>\S+)|nothing)", "nothing", []),
        (r"at (?P<step>\S+) (?P<value>\S+)", "at nan 1", [(1.0, None)]),
        (r"at (?P<step>\S+) (?P<value>\S+)", f"at {'9' * 400} 1", [(1.0, None)]),
        (r"at (?P<step>\S+) (?P<value>\S+)", "at 1e300 1", [(1.0, None)]),
        (r"x(\d+)", "\u0663 x\u0663", [(3.0, None)]),
    ],
)
def test_an_expression_finds_its_numbers(
    regex: str, text: str, found: list[tuple[float, int | None]]
) -> None:
    assert read(text, loss=regex) == [("loss", value, step) for value, step in found]


def test_a_diverged_loss_is_news() -> None:
    [(name, value, _)] = read("loss=nan", loss=r"loss=(\S+)")
    assert name == "loss"
    assert math.isnan(value)


def test_several_metrics_on_a_line_come_in_the_order_of_the_spec() -> None:
    found = read("acc 0.9 loss 0.1", loss=r"loss (\S+)", accuracy=r"acc (\S+)")
    assert found == [("loss", 0.1, None), ("accuracy", 0.9, None)]


def test_a_line_of_metrics() -> None:
    line = '{"rsctl": "metrics", "step": 10, "loss": 0.41, "eval/acc": 0.93, "rank": 0}'
    assert read(line, loss=r"never") == [("loss", 0.41, 10), ("eval/acc", 0.93, 10)]


@pytest.mark.parametrize(
    ("replica", "mark", "rank", "expected"),
    [
        ("worker-0", None, "0", "worker-0"),
        ("worker-0", None, "3", "worker-0/3"),
        ("worker-0", "worker-0/1", "3", "worker-0/1"),
        ("worker-1", None, "3", "worker-1"),
        ("worker-0", None, "-1", "worker-0"),
        ("worker-0", None, "true", "worker-0"),
        ("worker-0", None, "65536", "worker-0"),
    ],
)
def test_ranks_of_the_chief_s_node_are_told_apart(
    replica: str, mark: str | None, rank: str, expected: str
) -> None:
    """As of a torchrun that the command starts itself: the chief's series had the values of all."""
    text = f'{{"rsctl": "metrics", "step": 1, "loss": 0.5, "rank": {rank}}}'
    line = LogEvent(TIME, replica, "0", "stdout", text, rank=mark)
    [event] = MetricReader({}).read(line)
    assert (event.replica, event.name, event.value) == (expected, "loss", 0.5)


def test_telemetry_describes_the_node_and_its_gpus() -> None:
    line = json.dumps(
        {
            "rsctl": "telemetry",
            "cpu": 12.5,
            "memory": 1024,
            "gpus": [{"index": 0, "use": 97, "name": "H100"}, {"index": 1, "use": 3}],
        }
    )
    assert read(line) == [
        ("node.cpu", 12.5, None),
        ("node.memory", 1024.0, None),
        ("node.gpu0.use", 97.0, None),
        ("node.gpu1.use", 3.0, None),
    ]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ('"loss": "nan"', "nan"),
        ('"loss": "0.5"', "0.5"),
        ('"loss": true', None),
        ('"loss": null', None),
        ('"loss": [1]', None),
        ('"loss": {"a": 1}', None),
        ('"loss": ' + "9" * 300, "1e+300"),
        ('"loss": ' + "9" * 400, None),
        ('"loss": ' + "9" * 5000, None),
        ('"loss": 1e999', None),
        ('"loss": 1, "loss": 2', "2.0"),
        ('"loss": ' + "[" * 5000 + "]" * 5000, None),
        ('"loss": 1, "rsctl": []', None),
        ('"loss": 1, "rsctl": null', None),
        ('"loss": 1', None),
        ('"' + "l" * 101 + '": 1', None),
        ('"lo\\u001b[31mss": 1', None),
        ('"loss\\ud800": 1', None),
    ],
)
def test_a_hostile_line_of_metrics_gives_a_number_or_nothing(fields: str, found: str) -> None:
    text = '{"rsctl": "metrics", ' + fields
    text += "" if fields == '"loss": 1' else "}"
    assert [str(value) for _, value, _ in read(text)] == ([found] if found else [])


@pytest.mark.parametrize("step", ["1e300", "9" * 30, '"nan"', '"-inf"', "[]", "null", "true"])
def test_a_step_that_is_none_is_left_out(step: str) -> None:
    assert read(f'{{"rsctl": "metrics", "step": {step}, "loss": 1}}') == [("loss", 1.0, None)]


@pytest.mark.parametrize(
    "gpus",
    [
        "1",
        "{}",
        "[1]",
        '[{"use": 1}]',
        '[{"index": true, "use": 1}]',
        '[{"index": "0", "use": 1}]',
        f'[{{"index": {"9" * 200}, "use": 1}}]',
        '[{"index": -1, "use": 1}]',
        "null",
    ],
)
def test_hostile_telemetry_gives_nothing(gpus: str) -> None:
    assert read(f'{{"rsctl": "telemetry", "gpus": {gpus}}}') == []


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_any_json_gives_storable_numbers_or_nothing(value: Any) -> None:
    for kind in ("metrics", "telemetry", "exit", "x"):
        record = {"rsctl": kind, "step": value, "gpus": [{"index": 1, "u": value}], "a": value}
        for _, number, step in read(json.dumps(record)):
            assert isinstance(number, float)
            assert step is None or -(2**63) < step < 2**63


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ('{"rsctl": "metrics", "loss": NaN, "lr": 0.1}', {"loss": "nan", "lr": "0.1"}),
        ('{"rsctl": "metrics", "loss": Infinity}', {"loss": "inf"}),
        ('{"rsctl": "metrics", "loss": -Infinity}', {"loss": "-inf"}),
        ('{"rsctl": "metrics", "loss": nan, "lr": -inf, "x": inf}',
         {"loss": "nan", "lr": "-inf", "x": "inf"}),
        ('{"rsctl": "metrics", "loss": NaN, "inf": 1, "n": "a \\"nan"}',
         {"loss": "nan", "inf": "1.0"}),
        ('{"rsctl":"metrics","step":3,"loss":0.5}', {"loss": "0.5"}),
        ('{"rsctl" : "metrics", "loss":0.5}', {"loss": "0.5"}),
        ('{ "rsctl": "metrics", "loss": 0.5 }', {"loss": "0.5"}),
        ('  {"rsctl":"metrics","loss":NaN}\r', {"loss": "nan"}),
    ],
)  # fmt: skip
def test_what_programs_print_as_json_is_read(line: str, values: dict[str, str]) -> None:
    """Python prints NaN where JSON has no number, JavaScript leaves out the spaces."""
    reader = MetricReader({})
    assert reader.may_hold_metrics(f"before\n{line}")
    assert {name: str(value) for name, value, _ in read(line)} == values


def test_a_line_of_metrics_behind_a_progress_bar_is_read() -> None:
    """A bar on stdout has no line end of its own; without the runtime the log has all of it."""
    reader = MetricReader({"done": MetricSpec(r"(\d+)/9")})
    text = '\r 0/9\r 1/9{"rsctl": "metrics", "step": 1, "loss": 0.5}'
    assert sorted(read_lines(reader, text)) == [
        ("done", 0.0, None),
        ("done", 1.0, None),
        ("loss", 0.5, 1),
    ]
    assert reader.take_findings() == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"rsctl": "metrics", "step": 10, "los', "it is truncated, or other text follows it"),
        ('{"rsctl": "metrics", "loss": 1} done', "it is truncated, or other text follows it"),
        ('{"rsctl": "metrics", "loss": tensor(0.5)}', "it is not valid JSON"),
        ('{"rsctl": "metrics", "loss": None}', "it is not valid JSON"),
        ('{"rsctl": "metric", "loss": 1}', "its kind is 'metric', which must be 'metrics'"),
        ('{"loss": 1, "rsctl": "metrics"}', '"rsctl" must be its first key'),
        (
            "{'rsctl': 'metrics', 'loss': 0.5}",
            "it has single quotes, which are not valid in JSON (json.dumps writes JSON)",
        ),
        (
            ' 50%|##   | 5/10{"rsctl": "metrics", "loss": 0.5}',
            "other text precedes it on the same line",
        ),
        ('seen {"rsctl": "metrics", "loss": 1}\r', "other text precedes it on the same line"),
        ('    "rsctl": "metrics",', "its object does not start on the same line"),
    ],
)
def test_a_line_of_metrics_that_is_not_read_is_a_finding(line: str, reason: str) -> None:
    """Once, however many such lines there are."""
    reader = MetricReader({})
    assert reader.may_hold_metrics(f"one\n{line}\ntwo")
    for _ in range(3):
        assert list(reader.read(LogEvent(TIME, "worker-0", "0", "stdout", line))) == []
    [finding] = reader.take_findings()
    assert (finding.severity, finding.code) == ("warning", "metric-line")
    assert finding.message == f"a line of metrics is ignored: {reason}"


def test_a_cut_line_of_the_runtime_is_a_finding() -> None:
    [finding] = findings_of('{"rsctl": "telemetry", "cpu_percent": 12')
    assert finding.code == "metric-line"
    assert findings_of('{"rsctl": "telemetry", "cpu_percent": 12}') == []
    assert findings_of('x "rsctl" is a tool') == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('"loss": null', "metric loss: null is not a number, and is ignored"),
        ('"loss": "low"', 'metric loss: "low" is not a number, and is ignored'),
        ('"loss": [1,2]', "metric loss: [1,2] is not a number, and is ignored"),
        (
            '"val loss": 1',
            "metric name 'val loss' does not match [A-Za-z_][A-Za-z0-9_./:=()@%+-]{0,99}, and is "
            "ignored",
        ),
    ],
)
def test_what_is_left_out_of_a_line_of_metrics_is_a_finding(fields: str, message: str) -> None:
    assert [f.message for f in findings_of(f'{{"rsctl": "metrics", "lr": 1, {fields}}}')] == [
        message
    ]


def findings_of(*lines: str, **regexes: str) -> list[Finding]:
    reader = MetricReader({name: MetricSpec(regex) for name, regex in regexes.items()})
    reader.read_all([LogEvent(TIME, "worker-0", "0", "stdout", text) for text in lines])
    return reader.take_findings()


@pytest.mark.parametrize("text", ["nan", "NaN", "-inf", "inf", "Infinity"])
def test_a_divergence_that_a_regex_cannot_take_is_a_finding(text: str) -> None:
    """`[0-9.]+` finds no nan: the last value that was read would look like the end."""
    lines = ["step 1 loss=0.5 lr=1", f"step 2 loss={text} lr=1"]
    reader = MetricReader({"loss": MetricSpec(r"loss=([0-9.]+)")})
    reader.read_all([LogEvent(TIME, "worker-0", "0", "stdout", lines[0])])
    assert reader.may_hold_metrics(lines[1])
    [finding] = findings_of(*lines, loss=r"loss=([0-9.]+)")
    assert (finding.code, finding.path) == ("metric-nan", "metrics.loss.regex")
    assert f"the log has {text} where metric loss has its number" in finding.message
    assert findings_of(*lines, loss=r"loss=([-+.\w]+)") == []
    assert findings_of(lines[0], "info: loss of nanobots", loss=r"loss=([0-9.]+)") == []


def test_the_last_value_of_any_metric_may_show_a_divergence() -> None:
    """Whether or not the job file declares it; telemetry is not a metric of the training."""
    last = {"worker-1": {"loss": math.nan, "lr": 0.1, "node.gpu0.temperature": math.nan}}
    found = metric_findings({"lr": MetricSpec()}, last, is_success=True)
    assert [finding.message for finding in found] == [
        "the last loss is nan on worker-1: the training may have diverged"
    ]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        '{"rsctl": "metrics' + '\\"' * 100_000,
        '{"rsctl": "metrics", ' + '"' * 100_000,
        '{"rsctl": "metrics", ' + "nan" * 80_000,
        '{"rsctl"' * 30_000,
        "{" + " " * 250_000 + '"rsctl"' + " " * 1000,
        '{"rsctl": "metrics", "a": ' + "[" * 100_000,
    ],
)
def test_a_hostile_structured_line_takes_no_time(text: str) -> None:
    assert read(text) == []


def test_a_structured_line_begins_with_its_kind() -> None:
    assert structured('{"rsctl": "exit", "code": 1}') == {"rsctl": "exit", "code": 1}
    assert structured('{"code": 1, "rsctl": "exit"}') is None
    assert structured('{"rsctl": "exit", "code": 1') is None


@pytest.mark.parametrize("regex", [r"^loss=(\S+)", r"loss=(\S+)$", r"\Aloss=(\S+)\Z"])
def test_a_block_of_lines_is_looked_at_line_by_line(regex: str) -> None:
    """An anchor means the line's, not the block's that the supervisor happened to read."""
    reader = MetricReader({"loss": MetricSpec(regex)})
    assert reader.may_hold_metrics("one\nloss=1\ntwo")
    assert not reader.may_hold_metrics("one\nno loss=1 at an end\ntwo")


@pytest.mark.timeout(20)
def test_a_very_long_line_does_not_take_for_ever() -> None:
    """What a slow regex misses is the rest of long lines, which it is told once."""
    reader = MetricReader({"loss": MetricSpec(r".*loss=([0-9.]+)z?[ab]*c|loss=(?P<value>[0-9.]+)")})
    texts = ["loss=1 " + "a" * 262144, "loss=2 ", "loss=3 " + "b" * 262144]
    found = read_lines(reader, *texts)
    assert [value for _, value, _ in found] == [1.0, 2.0, 3.0]
    [finding] = reader.take_findings()
    assert (finding.code, finding.path, finding.message) == (
        "metric-slow",
        "metrics.loss.regex",
        "metric loss is read in the first 4096 characters of a long line only: its regex takes too "
        "long for the rest",
    )


@pytest.mark.parametrize("before", [0, 4090, 4096, 4097, 5000, 100_000])
def test_a_number_anywhere_in_a_long_line_is_read_once(before: int) -> None:
    text = "x" * before + " loss=0.25 step=7 " + "y" * 9000
    for regex in (r"loss=([0-9.]+) step=(?P<step>\d+)", r"\bloss=(?P<value>\S+).*?=(?P<step>\d+)"):
        assert read(text, loss=regex) == [("loss", 0.25, 7)]
        assert MetricReader({"loss": MetricSpec(regex)}).may_hold_metrics(text)
    assert read(text, loss=r"^ ?loss=(\S+)") == ([] if before else [("loss", 0.25, None)])
    assert read(text, loss=r"loss=(\S+)$") == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("loss=6.32e-05", 6.32e-05),
        ("loss=6.32e-05, lr=1", 6.32e-05),
        ("loss=6E+2.", 600.0),
        ("loss=7e3)", 7000.0),
        ("loss=1.5e", 1.5),
        ("loss=1.5epochs", 1.5),
        ("loss=2e5x", 2.0),
        ("loss=2e5.5", 2.0),
        ("loss=.5e-1", 0.05),
        ("loss=6.3e-05s", 6.3e-05),
        ("loss=1.5e+16B", 1.5e16),
        ("loss=2e-5.5", 2.0),
    ],
)
def test_an_exponent_belongs_to_its_number(text: str, value: float) -> None:
    """A script prints it as soon as a loss is below 0.0001."""
    assert read(text, loss=r"loss=([0-9.]+)") == [("loss", value, None)]
    assert read(f"{text} end", loss=r"loss=([0-9.]+).*end") == [("loss", value, None)]


@pytest.mark.parametrize(
    ("regex", "text", "message"),
    [
        (r"rate=([0-9.]+)", "rate=1,234.5/s", "reads 1 where the log has 1,234.5"),
        (r"rate=(\d+)", "rate=1,234,567 a", "reads 1 where the log has 1,234,567"),
        (r"rate=(\d+)", "rate=0.75", "reads 0 where the log has 0.75"),
        (r"rate=(\d+),", "rate=1,234", None),
        (r"rate=([0-9.]+)", "rate=1, 234", None),
        (r"rate=([0-9.]+)", "rate=1,2345", None),
        (r"rate=([0-9.]+)", "rate=12.", None),
        (r"rate=(\d+)", "rate=12.", None),
        (r"rate=(\S+)", "rate=1e3", None),
        (r"rate=([0-9.]+)", "rate=1_234_567", "reads 1 where the log has 1_234_567"),
        (r"rate=([0-9.]+)", "rate=0,75", "reads 0 where the log has 0,75"),
        (r"rate=([0-9.]+)", "rate=0,7,5", None),
        (r"rate[^0-9]*([0-9.]+)", "rate: -0.75", "reads 0.75 where the log has -0.75"),
        (r"rate=-?([0-9.]+)", "rate=-2", "reads 2 where the log has -2"),
        (r"rate=-([0-9.]+)", "rate=-2", None),
        (r"rate=([-0-9.]+)", "rate=-2", None),
        (r"rate.*([0-9.]+)", "rate=12.75", "reads 5 where the log has 12.75"),
        (r"rate=.*?\.([0-9.]+)", "rate=v.2", None),
        (r".*(?P<step>\d+) rate=(?P<value>\S+)", "step 12 rate=1", "reads 2 where the log has 12"),
        (r"rate=a-(?:b|c)?([0-9.]+)", "rate=a-2", None),
        (r"([0-9.]+)/s", "2,088,992/s", "reads 992 where the log has 2,088,992"),
        (r"([0-9.]+)/s", "up: 1'234.5/s", "reads 234.5 where the log has 1'234.5"),
        (
            r"(?P<step>\d+) steps, (?P<value>\S+)",
            "1,000 steps, 2",
            "reads 000 where the log has 1,000",
        ),
        (r"([0-9.]+)/s", "x,100/s", None),
        (r"([0-9.]+)/s", "12,1000/s", None),
        (r"([0-9.]+)/s", "1.5,100/s", None),
        (r"([0-9.]+)/s", "1000,100/s", None),
        (r"rate=(\d+)", "rate=1'234.5", "reads 1 where the log has 1'234.5"),
        (r"rate=(\d+)", "rate=1\u202f234", "reads 1 where the log has 1\u202f234"),
        (r"rate='(\d+)", "rate='1' '234'", None),
        (r"(?P<step>\d+).* rate=(?P<value>\S+)", "1,000 rate=2", "reads 1 where the log has 1,000"),
        (
            r"(?P<step>\d+).* rate=(?P<value>\S+)",
            "1_000: rate=2",
            "reads 1 where the log has 1_000",
        ),
        (r"(?P<step>\d+).* rate=(?P<value>\S+)", "1,200,0.5 rate=2", None),
        (r"(?P<step>\d+),(?P<value>\S+)", "1,200", None),
        (r"(?P<step>\d+).* rate=(?P<value>\S+)", "1, 200 rate=2", None),
        (r"(?P<step>[\d,]+) rate=(?P<value>\S+)", "1,000 rate=2", None),
        (r"rate=([0-9.]+)", "rate=1:02:03", "reads 1 where the log has 1:02:03"),
        (r"rate=([0-9.]+)", "rate=00:15.25 s", "reads 00 where the log has 00:15.25"),
        (r"rate=([0-9.]+)", "rate=1:60", None),
        (r"rate=([0-9.]+)", "rate=1:2", None),
        (r"rate=([0-9.]+):", "rate=1:02:03", None),
    ],
)
def test_a_regex_that_ends_in_a_number_is_told(regex: str, text: str, message: str | None) -> None:
    reader = MetricReader({"rate": MetricSpec(regex)})
    assert len(read_lines(reader, text, text)) == 2
    expected = [message and f"metric rate: its regex {message}"]
    assert [finding.message for finding in reader.take_findings()] == list(filter(None, expected))


def test_a_negative_number_that_a_regex_cannot_match_is_a_finding() -> None:
    """The sample would be that of the positive values."""
    lines = ["step 1 reward=1.5", "step 2 reward=-2.5"]
    reader = MetricReader({"reward": MetricSpec(r"reward=([0-9.]+)")})
    assert read_lines(reader, lines[0]) == [("reward", 1.5, None)]
    assert reader.may_hold_metrics(lines[1])
    assert read_lines(reader, lines[1]) == []
    [finding] = reader.take_findings()
    assert (finding.code, finding.path) == ("metric-value", "metrics.reward.regex")
    assert finding.message == (
        "the log has -2.5 where metric reward has its number, and its regex does not match it: "
        "the value is ignored"
    )
    group = (finding.remedy or "").rpartition(" ")[2]
    assert [value for _, value, _ in read(lines[1], reward=f"reward={group}")] == [-2.5]
    assert findings_of(*lines, reward=f"reward={group}") == []
    assert findings_of(lines[0], "2026-01-31 reward: none", reward=r"reward=([0-9.]+)") == []


def test_an_exponent_that_a_regex_cannot_match_is_a_finding() -> None:
    """Keras prints 4.0000e-04 where it printed 0.0123, and the regex has text behind the number."""
    lines = ["loss: 0.0123 - mae: 0.1", "loss: 4.0000e-04 - mae: 0.1"]
    regex = r"loss: ([0-9.]+) - mae"
    reader = MetricReader({"loss": MetricSpec(regex)})
    assert read_lines(reader, lines[0]) == [("loss", 0.0123, None)]
    assert reader.may_hold_metrics(lines[1])
    assert read_lines(reader, lines[1]) == []
    [finding] = reader.take_findings()
    assert (finding.code, finding.path) == ("metric-value", "metrics.loss.regex")
    assert finding.message == (
        "the log has 4.0000e-04 where metric loss has its number, and its regex does not match it: "
        "the value is ignored"
    )
    group = (finding.remedy or "").rpartition(" ")[2]
    assert read(lines[1], loss=f"loss: {group} - mae") == [("loss", 4e-4, None)]


@pytest.mark.parametrize("value", ["1e-05", "-2", "-.5", "-3e-07"])
def test_a_number_without_a_point_is_a_finding_of_a_regex_that_needs_one(value: str) -> None:
    """As str() writes a small number."""
    [finding] = findings_of("loss: 0.5, lr", f"loss: {value}, lr", loss=r"loss: ([0-9]+\.[0-9]+)")
    assert f"the log has {value} where metric loss has its number" in finding.message


def test_a_line_that_a_regex_does_not_mean_is_no_finding() -> None:
    """Not for its exponent or its sign: it would not match without them either."""
    for value in ("4.0000e-04", "-2.5", "3e+16"):
        lines = ["loss: 0.0123 - mae: 0.1", f"loss: {value} of 12"]
        assert findings_of(*lines, loss=r"loss: ([0-9.]+) - mae") == []


def test_a_long_text_in_the_place_of_a_number_is_shown_in_part() -> None:
    [finding] = findings_of(f"loss={'x' * 70}", loss=r"loss=(\S+)")
    assert finding.message == f"metric loss: '{'x' * 60}' is not a number, and is ignored"


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (("speed=985it/s", "speed=1.02kit/s"), "985it/s, 1.02kit/s"),
        (("speed=1.5it/s", "speed=1.5s/it"), "1.5it/s, 1.5s/it"),
        (("speed=985 ", "speed=1.02k"), "985, 1.02k"),
        (("speed=12.5ms", "speed=1.5s", "speed=3h"), "12.5ms, 1.5s"),
        (("speed=512 MB", "speed=1.2 GB"), "512 MB, 1.2 GB"),
        (("speed=985 Mbit/s", "speed=9.4 Gbit/s"), "985 Mbit/s, 9.4 Gbit/s"),
        (("speed=9.5e-1ms", "speed=1.5e+1s"), "9.5e-1ms, 1.5e+1s"),
        (("speed=0.5", "speed=50%"), "0.5, 50%"),
        (("speed=985it/s", "speed=986it/s"), None),
        (("speed=1epoch", "speed=2epochs"), None),
        (("speed=1 loss=2", "speed=1 s=2", "speed=1 and", "speed=1, k"), None),
    ],
)
def test_values_in_different_units_are_a_finding(texts: Sequence[str], shown: str | None) -> None:
    """Programs print a number with the unit that makes it short: 985it/s, later 1.02kit/s."""
    why = "has values in different units, which are read as plain numbers"
    expected = [f"metric speed {why}: {shown}"] if shown else []
    found = findings_of(*texts, speed=r"speed=([0-9.]+)")
    assert [(finding.code, finding.message) for finding in found] == [
        ("metric-value", message) for message in expected
    ]


@pytest.mark.parametrize(
    ("regex", "texts", "values"),
    [
        (r"([0-9.]+)it/s", ("1.25it/s", "2.50s/it", "500ms/it"), [1.25, 0.4, 2.0]),
        (r"train.* ([0-9.]+) ?batch/s", ("2.50s/batch", "train 2.50s/batch"), [0.4]),
        (r"train.* ([0-9.]+)it/s", ("train 1.25it/s", "epochs 12.0s/it"), [1.25]),
        (r"([0-9.]+)s/it", ("1.25s/it", "2.50it/s", "1kit/s"), [1.25, 0.4, 0.001]),
        (r"\b([0-9.]+)[t-z/s]+", ("1.25it/s", "2.50s/it"), [2.5]),
        (r"([0-9.]+) GB/sec", ("1.25 GB/sec", "2.50 s/GB", "950 MB/sec"), [1.25, 0.4, 0.95]),
        (r"([0-9.]+)ms/step", ("5ms/step", "1s/step"), [5.0, 1000.0]),
        (r"([0-9.]+)s/step", ("1s/step", "87us/step", "950ms/step"), [1.0, 87e-6, 0.95]),
        (r"val ([0-9.]+)ms/step", ("val 5ms/step", "train 1s/step"), [5.0]),
        (r"([0-9.]+)it/s", ("985it/s", "1.02kit/s 2kit/s"), [985.0, 1020.0, 2000.0]),
        (r"(?P<step>\d+)/9 ([0-9.]+)it/s", ("3/9 3.51Kit/s",), [3510.0]),
        (r"([0-9.]+)kit/s", ("1.02kit/s", "985it/s", "2s/it"), [1.02, 0.985, 0.0005]),
        (r", ([0-9.]+)\s?samples/s", (", 985 samples/s", ", 1.02k samples/s"), [985.0, 1020.0]),
        # Of tqdm with unit=" examples", as Dataset.map of datasets has it.
        (
            r"([0-9.]+) examples/s",
            ("226 [00:01,  2.5 examples/s]", "1 [00:01,  1.25s/ examples]"),
            [2.5, 0.8],
        ),
        (
            r"([0-9.]+)s/ examples",
            ("1.25s/ examples", "1.02k examples/s"),
            [1.25, 0.000980392156862745],
        ),
        (r"(?x) ([0-9.]+)\s*examples/s", ("2.5 examples/s", "1.25s/ examples"), [2.5, 0.8]),
        (r"\(([0-9.]+)/s", ("3 in 1s (985.2/s)", "9k in 9s (1.0k/s)"), [985.2, 1000.0]),
        (r"([0-9.]+) ?MB/s", ("985 MB/s", "1.02 GB/s"), [985.0, 1020.0]),
        (r"([0-9.]+)kB/s", ("985kB/s", "512B/s"), [985.0, 0.512]),
        (r"([0-9.]+) Gbits/sec", ("9.41 Gbits/sec", "985 Mbits/sec"), [9.41, 0.985]),  # iperf3
        (r"([0-9.]+)MiB/s", ("985MiB/s", "1.5GiB/s"), [985.0, 1536.0]),
        (r"([0-9.]+) tokens/sec", ("985 tokens/sec", "1.02M tokens/sec"), [985.0, 1.02e6]),
        (r"([0-9.]+)it/s", ("985it/s", "1.02kB/s", "1.02bit/s", "kit/s", "0.00s/it"), [985.0]),
        (r"([0-9.]+)/s", ("985/s", "12.3MB/s", "1.02k/step"), [985.0]),
        (r"([0-9.]+)it/s", ("1.001kit/s", "1.1ms/it"), [1001.0, 909.0909090909091]),
        (r"([0-9.e]+)it/s", ("1e999kit/s", "1.7e308kit/s", "1e999s/it"), [math.inf, math.inf, 0.0]),
        (r"(nan|[0-9.]+)it/s", ("nankit/s",), [math.nan]),
        (r"(?i)([0-9.]+) mb/s", ("985 mb/s", "12 Mb/s", "1.5 MB/s"), [985.0, 12.0, 1.5]),
        (r"in (?:[0-9.]+)MB/s out ([0-9.]+)GB/s", ("in 985MB/s out 1.5GB/s",), [1.5]),
    ],
)
def test_a_rate_in_another_unit_than_that_of_the_regex_is_converted(
    regex: str, texts: Sequence[str], values: list[float]
) -> None:
    """tqdm prints 1.02kit/s after 985it/s, and seconds for each iteration below 1 it/s: the sample
    would be of the others.
    """
    reader = MetricReader({"speed": MetricSpec(regex)})
    lines = filter(reader.may_hold_metrics, texts)
    found = [value for _, value, _ in read_lines(reader, *lines)]
    assert [*map(str, found)] == [*map(str, values)]


def test_a_group_that_takes_no_part_in_a_match_has_no_value() -> None:
    assert findings_of("5it/s of 9 ", "5s/it of 9 ", speed=r"loss ([0-9.]+)|[0-9.]+it/s") == []


def test_a_converted_rate_of_which_the_regex_reads_a_part_is_a_finding() -> None:
    [finding] = findings_of("12.5s/it", speed=r".*([0-9.]+)it/s")
    assert finding.message == "metric speed: its regex reads 5 where the log has 12.5"


def test_a_rate_whose_unit_is_not_behind_it_is_a_finding() -> None:
    found = findings_of("it/s: 1.25", "s/it: 2.50", speed=r"it/s: ([0-9.]+)")
    assert [(finding.code, finding.message) for finding in found] == [
        (
            "metric-value",
            "the log has 2.50 where metric speed has its number, and its regex does not match it: "
            "the value is ignored",
        )
    ]


@pytest.mark.parametrize(
    ("goal", "texts", "values", "shown"),
    [
        ("max", ("1.25it/s", "1.25s/it"), [1.25], "1.25s/it"),
        ("max", ("1,250 ms/step",), [], "1,250 ms/step"),
        ("max", ("1.25s/ examples",), [], "1.25s/ examples"),
        ("max", ("3it/s", "2it/s/rank", "4 s", "6M tokens/s"), [3.0, 2.0, 4.0, 6.0], None),
        ("min", ("1.25s/it", "1.25it/s", "1.02kit/s"), [1.25], "1.25it/s"),
        ("min", ("2GB/s", "3 errors/s", "4ms"), [2.0, 3.0, 4.0], None),
        # https://docs.lammps.org/Run_output.html
        ("max", ("54.985 ns/day", "5 s/s", "6 s/sec", "7 s/hour"), [54.985, 5.0, 6.0, 7.0], None),
        (None, ("1.25s/it", "2.5s/it"), [1.25, 2.5], None),
    ],
)
def test_a_unit_that_contradicts_the_goal_is_not_read(
    goal: str | None, texts: Sequence[str], values: list[float], shown: str | None
) -> None:
    """tqdm prints 1.25it/s, and 1.25s/it if it is slower: a run that is slow throughout would have
    the value of a faster one.
    """
    reader = MetricReader({"speed": MetricSpec(r"(?<!\d)([\d.,]+)(?!\d)", goal)})
    found = [value for _, value, _ in read_lines(reader, *texts)]
    messages = [f.message for f in reader.take_findings() if "goal" in f.message]
    assert found == values
    expected = f"metric speed: {shown} is ignored, because its unit contradicts goal: {goal}"
    assert messages == ([expected] if shown else [])


@pytest.mark.parametrize(
    ("goal", "unit", "regex", "text"),
    [
        ("min", "it/s", "([0-9.]+)s/it", "1.25s/it"),
        ("max", "s/it", "([0-9.]+)it/s", "1.25it/s"),
        ("min", None, "([0-9.]+)it/s", "1.25it/s is ignored"),
        ("max", None, "([0-9.]+)s/it", "1.25s/it is ignored"),
        ("max", "ms/step", "([0-9.]+)", "1.25ms/step is ignored"),
    ],
)
def test_values_are_not_converted_into_a_unit_that_contradicts_the_goal(
    goal: str, unit: str | None, regex: str, text: str
) -> None:
    """The inverse of a time would be the better, the slower the run is."""
    line, _, ignored = text.partition(" ")
    reader = MetricReader({"speed": MetricSpec(regex, goal, unit=unit)})
    assert [value for _, value, _ in read_lines(reader, line)] == ([] if ignored else [1.25])
    why = [f"metric speed: {text}, because its unit contradicts goal: {goal}"] if ignored else []
    assert [finding.message for finding in reader.take_findings()] == why


@pytest.mark.parametrize(
    ("unit", "texts", "values"),
    [
        ("it/s", ("985it/s", "1.02kit/s", "2.5s/it"), [985.0, 1020.0, 0.4]),
        ("kit/s", ("985it/s", "1.02kit/s", "1.5Kit/s"), [0.985, 1.02, 1.5]),
        ("ms", ("12.5ms", "1.5s", "2 s", "3us", "4", "5/s"), [12.5, 1500, 2000, 0.003, 4, 5]),
        ("ms", ("950ms/step", "1s/step"), [950.0, 1000.0]),
        ("us", ("1us", "2µs", "3ms"), [1.0, 2.0, 3000.0]),
        ("GB/s", ("1 GB/s", "985 MB/s", "2 GiB/s", "3 GB/step"), [1.0, 0.985, 2.0, 3.0]),
        ("samples/s", ("1 samples/s", "2k samples/s", "3ms"), [1.0, 2000.0, 3.0]),
        ("m", ("1m", "2 km", "3s"), [1.0, 2.0, 3.0]),
        ("samples/s", ("1.25s/ samples",), [0.8]),
        ("Gbit/s", ("9.41 Gbit/s", "985 Mbit/s"), [9.41, 0.985]),
        ("Gbps", ("9.41 Gbps", "985 Mbps"), [9.41, 0.985]),
        ("samples/s", ("1.2m samples/s", "1.2msamples/s"), [1.2, 1.2]),  # a million for some
        ("k tokens/s", ("1.2k tokens/s", "985 tokens/s"), [1.2, 0.985]),
        ("mB/s", ("12 MB/s", "12mB/s"), [12.0, 12.0]),
        ("mb", ("12 Mb", "12 mb"), [12.0, 12.0]),
        ("GB", ("950MB/", "950 MB of", "1.5GB/step"), [0.95, 0.95, 1.5]),
        ("ms", ("1.001s", "2.03s", "12.5 s=", "12.5 s:"), [1001.0, 2030.0, 12.5, 12500.0]),
    ],
)
def test_another_scale_of_the_declared_unit_is_converted(
    unit: str, texts: Sequence[str], values: list[float]
) -> None:
    """A run at 985it/s would be better than one at 1.02kit/s."""
    spec = MetricSpec(r"(?<![\d.])([\d.]+)(?![\d.])", "max", unit=unit)
    assert [value for _, value, _ in read_lines(MetricReader({"speed": spec}), *texts)] == values


@pytest.mark.parametrize(
    ("unit", "texts", "shown"),
    [
        ("s", ("took 45 s", "took 1.5 min"), "45 s, 1.5 min"),
        ("s", ("took 1.5 min", "took 45 s"), "1.5 min, 45 s"),
        ("it/s", ("took 1.02kit/s", "took 985it/s", "took 1.02k"), "1.02kit/s, 1.02k"),
        ("it/s", ("took 1.02kit/s", "took 985it/s", "took 2.5s/it"), None),
    ],
)
def test_a_value_that_cannot_be_converted_is_a_finding(
    unit: str, texts: Sequence[str], shown: str | None
) -> None:
    reader = MetricReader({"time": MetricSpec("took ([0-9.]+)", unit=unit)})
    assert len(read_lines(reader, *texts)) == len(texts)
    why = f"metric time has values in different units, which are read as plain numbers: {shown}"
    assert [finding.message for finding in reader.take_findings()] == ([why] if shown else [])


@pytest.mark.parametrize(
    ("regex", "texts", "names"),
    [
        (r"loss=([0-9.]+)", ("loss=0.5", "val_loss=0.9"), ("loss", "val_loss")),
        (r"loss=([0-9.]+)", (" loss=0.5", " val_loss=0.9"), ("loss", "val_loss")),
        (r"loss=([0-9.]+)", ("train/loss=0.5 val/loss=0.9",), ("train/loss", "val/loss")),
        (r"loss': ([0-9.]+)", ("{'loss': 2.5}", "{'eval_loss': 2.7}"), ("loss", "eval_loss")),
        (r"step .*loss=([0-9.]+)", ("step 1 loss=0.5", "step 1 a-loss=9"), ("loss", "a-loss")),
        (r"loss=([0-9.]+)", ("val_loss=0.5", "val_loss=0.9", "loss"), None),
        (r"loss=([0-9.]+)", ("rank0/loss=0.5", "rank12/loss=0.9"), None),
        (r"it/s, loss=([0-9.]+)", ("9it/s, loss=0.5", "1.5kit/s, loss=0.9"), None),
        (r"(?<![\w./-])loss=([0-9.]+)", ("loss=0.5", "val_loss=0.9", "a/loss=1"), None),
        (r"([0-9.]+) loss", ("12 loss", "v1.5 loss", "train 1 loss", "a train 1 loss"), None),
        (r"(?:loss|nll)=([0-9.]+)", ("loss=1", "nll=2"), None),
        (r"Loss ([0-9.]+)", ("Train Loss 1 Val Loss 2",), ("Train Loss", "Val Loss")),
        (r"loss ([0-9.]+)", ("1: loss 1", "2: val loss 2"), ("loss", "val loss")),
        (r"loss ([0-9.]+)", ("1: loss 1", "the loss 2", "retrain loss 3"), None),
        (r"Rate=([0-9.]+)", ("AvgRate=1", "CurrRate=2"), ("AvgRate", "CurrRate")),
        (r"rate=([0-9.]+)", ("rate=1", "overrate=2"), None),
    ],
)
def test_a_regex_that_reads_values_of_two_names_is_a_finding(
    regex: str, texts: Sequence[str], names: tuple[str, str] | None
) -> None:
    """One that begins with `loss` reads `val_loss` too, and the sample would be of both."""
    expected = (
        [f"metric loss: its regex reads the values of {names[0]} and of {names[1]}"]
        if names
        else []
    )
    found = findings_of(*texts, loss=regex)
    assert [(finding.code, finding.message) for finding in found] == [
        ("metric-value", message) for message in expected
    ]


@pytest.mark.parametrize(
    ("regex", "lengths", "bars"),
    [
        (r"([0-9.]+)it/s", (16, 8, 16), ("16", "8")),
        (r"loss=([0-9.]+)", (3, 13, 13, 3), ("3", "13")),
        (r"/16 .*?([0-9.]+)it/s", (16, 8, 16), None),
        (r"([0-9.]+)it/s", (2, 32, 8, 32), ("32", "8")),  # Lightning's check comes first
        (r"([0-9.]+)it/s", ("1.20k", 900, 60, "1.20k"), ("1.20k", "60")),
        (r"([0-9.]+)it/s", (16, 15, 8, 16), ("16", "8")),
        (r"([0-9.]+)it/s", (16, 16, 16), None),
        # The batches of one bar change with the epoch, the rank or, in Lightning 1, a validation.
        (r"loss=([0-9.]+)", (1021, 1019, 1021), None),
        (r"loss=([0-9.]+)", (32, 40, 32, 40), None),
        (r"loss=([0-9.]+)", (16, 25, 24), None),
        (r"loss=([0-9.]+)", (0, 0, 0), None),
        (r"loss=([0-9.]+)", ("1.2.3", 9, "1.2.3"), None),  # not the length of a bar
    ],
)
def test_a_regex_that_reads_the_values_of_two_bars_is_a_finding(
    regex: str, lengths: Sequence[object], bars: tuple[str, str] | None
) -> None:
    """Such as the bars of training and of validation, which take turns without a name."""
    texts = [f"100%|██| {n}/{n} [00:05<00:00,  2.78it/s, lr=1, loss=0.5]" for n in lengths]
    why = "metric rate: its regex reads the values of progress bars of {} and of {} steps"
    expected = [why.format(*bars)] if bars else []
    assert [finding.message for finding in findings_of(*texts, rate=regex)] == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("tps: 12,346  mfu", 12346.0),
        ("tps: 1,234,567.5/s", 1234567.5),
        ("tps: 346,", 346.0),
        ("tps: 0.25", 0.25),
    ],
)
def test_separators_of_thousands_are_read(text: str, value: float) -> None:
    """By the group that the finding on `([0-9.]+)` gives."""
    reader = MetricReader({"tps": MetricSpec("tps: ([0-9.]+)")})
    read_lines(reader, "tps: 12,346")
    remedy = reader.take_findings()[0].remedy or ""
    assert read(text, tps="tps: " + remedy.rpartition(" ")[2]) == [("tps", value, None)]


@pytest.mark.parametrize("regex", ["tps: {}", "{}/s"])
@pytest.mark.parametrize("separator", ["_", "'", "\u2019", "\u00a0", "\u202f"])
def test_other_separators_of_thousands_are_read(separator: str, regex: str) -> None:
    """As Python, Swiss and French locales print them; by the group that the finding gives."""
    text = f"tps: 12{separator}345{separator}678.5/s"
    reader = MetricReader({"tps": MetricSpec(regex.format("([0-9.]+)"))})
    read_lines(reader, text)
    group = (reader.take_findings()[0].remedy or "").rpartition("such as ")[2]
    assert read(text, tps=regex.format(group)) == [("tps", 12345678.5, None)]


@pytest.mark.parametrize("text", ["0,123", "12,34", "1,2345", "1,234.5,678"])
def test_other_commas_are_not_separators(text: str) -> None:
    assert read(f"loss {text}", loss=r"loss (\S+)") == []


@pytest.mark.parametrize(
    ("step", "text", "fraction", "counted"),
    [
        (r"(?P<step>[0-9.]+) ", "0.75 x=1", "0.75", "0"),
        (r"(?P<step>\d+).*", "12.5 x=1", "12.5", "12"),
        (r"(?P<step>[0-9.]+).*", "5e-1 x=1", "5e-1", "0"),
        (r"(?P<step>[0-9.]+) ", "2.0 x=1", None, None),
        (r"(?P<step>[0-9.]+).*", "1.5e3 x=1", None, None),
        (r"(?P<step>\d+).*", "1.2.3 x=1", None, None),
        (r"(?P<step>\d+)", "12 x=1.5", None, None),
        (r"(?P<step>\w+) ", "inf x=1", None, None),
    ],
)
def test_a_step_that_is_not_whole_is_told(
    step: str, text: str, fraction: str | None, counted: str | None
) -> None:
    """Several values would be of one step."""
    found = [f.message for f in findings_of(text, text, rate=step + r" ?x=(?P<value>[0-9.]+)")]
    told = f"metric rate: its step {fraction} is not a whole number, and counts as {counted}"
    assert found == ([told] if fraction else [])


def test_a_step_may_have_separators() -> None:
    regex = r"step (?P<step>[\d,]+) loss (?P<value>\S+)"
    assert read("step 12,000 loss 0.5", loss=regex) == [("loss", 0.5, 12000)]
    regex = r"step (?P<step>[0-9.]+).*loss (?P<value>\S+)"
    assert read("step 1.2e+06 loss 0.5", loss=regex) == [("loss", 0.5, 1_200_000)]
    assert read("step 1.2.3e+06 loss 0.5", loss=regex) == [("loss", 0.5, None)]


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[1mloss=\x1b[32m0.5\x1b[0m",
        "\x1b]0;title\x07loss=0\x1b[K.5\x1b[0m",
        "step 1 \x1b[38;5;9mloss\x1b[0m=0.5\x1b[0m",
    ],
)
def test_colours_are_no_part_of_a_line(text: str) -> None:
    """A regex matches what `rsctl logs` shows; one that has the colours itself matches them."""
    for regex in (r"loss=([0-9.]+)", r"\bloss=(\S+)$"):
        assert MetricReader({"loss": MetricSpec(regex)}).may_hold_metrics(f"a\n{text}\nb")
        assert read(text, loss=regex) == [("loss", 0.5, None)]
    colours = r"loss=\x1b\[32m([0-9.]+)"
    assert read("\x1b[1mloss=\x1b[32m0.5\x1b[0m", loss=colours) == [("loss", 0.5, None)]


def test_without_metrics_only_structured_lines_are_looked_at() -> None:
    reader = MetricReader({})
    assert not reader.may_hold_metrics("loss=1\n" * 100)
    assert reader.may_hold_metrics('x\n{"rsctl": "exit"}')


@pytest.mark.parametrize(
    ("regex", "line"),
    [
        (r"(x|xx)+(y)", "x" * 90),
        (r"(a+)+$", "a" * 60 + "b"),
        (r"(?=(a+)+b)", "a" * 60),
        (r"^(([a-z])+.)+[A-Z]$", "a" * 60),
    ],
)
def test_a_regex_that_takes_too_long_is_switched_off(
    monkeypatch: pytest.MonkeyPatch, regex: str, line: str
) -> None:
    monkeypatch.setattr("rsctl.runs.stream.cpu_limit.BURST_SECONDS", 0.1)
    specs = {"slow": MetricSpec(regex), "loss": MetricSpec(r"loss=(\S+)")}
    lines = [
        LogEvent(TIME, "worker-0", str(n), "stdout", t) for n, t in enumerate([line, "loss=1"])
    ]
    for read_first in (True, False):
        reader = MetricReader(specs)
        if not read_first:
            assert not reader.may_hold_metrics(line)
        found = reader.read_all(lines)
        assert [[metric.name for metric in metrics] for metrics in found] == [[], ["loss"]]
        [finding] = reader.take_findings()
        assert finding.path == "metrics.slow.regex"
        assert reader.take_findings() == []


def test_a_good_regex_has_the_time_for_a_long_log() -> None:
    reader = MetricReader({"loss": MetricSpec(r".*loss=([0-9.eE+-]+)")})
    lines = [
        LogEvent(TIME, "worker-0", str(n), "stdout", f"{'word ' * 20}{n} loss=1")
        for n in range(2000)
    ]
    for _ in range(50):
        assert sum(map(len, reader.read_all(lines))) == 2000
    assert reader.take_findings() == []


def test_a_metric_that_was_never_seen_says_what_to_do() -> None:
    specs = {"loss": MetricSpec("loss=(.*)"), "f1": MetricSpec(), "run.time": MetricSpec()}
    last = {"worker-0": {"node.cpu_percent": math.nan}}
    found = metric_findings(specs, last, is_success=True, read_lines=lambda: ["epoch"])
    assert [(f.code, f.path, f.message) for f in found] == [
        (
            "metric-unseen",
            "metrics.loss.regex",
            "metric loss has no value: its regex matches no number in the log",
        ),
        (
            "metric-unseen",
            "metrics.f1",
            "metric f1 has no value: it has no regex, and the script has not logged it",
        ),
    ]
    assert '"f1": 0.5}' in (found[1].remedy or "")
    assert metric_findings(specs, {}, is_success=False) == []


def test_an_empty_log_has_no_value() -> None:
    """As of a cloud's job whose role may not write to the log."""
    found = metric_findings({"loss": MetricSpec("loss=(.*)")}, {}, is_success=True)
    assert [(f.code, f.path, f.message) for f in found] == [
        ("metric-unseen", "metrics.loss.regex", "metric loss has no value: the log is empty")
    ]
    assert "`rsctl doctor JOB`" in (found[0].remedy or "")


def test_a_log_of_structured_lines_alone_is_not_empty() -> None:
    """`read_lines` leaves these out, but their metrics show that the log was written."""
    last = {"worker-0": {"loss": 0.5}}
    [found] = metric_findings({"f1": MetricSpec()}, last, is_success=True)
    assert found.message.endswith(": it has no regex, and the script has not logged it")


def test_a_metric_that_diverged_is_named_once_with_a_replica() -> None:
    last = {"worker-0": {"loss": 1.0, "x": 2.0}, "worker-1": {"loss": math.inf, "x": 1.0}}
    last["worker-2"] = {"loss": math.nan}
    [found] = metric_findings({}, last, is_success=False)
    assert (found.code, found.path) == ("metric-nan", "metrics.loss")
    assert found.message == "the last loss is inf on worker-1: the training may have diverged"
