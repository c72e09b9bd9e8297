"""`--set KEY=VALUE`: typed like the file, and pointed at like the file."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.findings import Finding
from rsctl.job.matrix import plain
from rsctl.job.overrides import apply, override
from rsctl.job.yaml_parser import parse
from rsctl.job.yaml_tree import Mapping, Position, Scalar

BASE = """\
name: j
run: {script: train.py, args: [--epochs, "3"], env: {A: "1"}}
workers: {machine: big}
metrics: {val.loss: {regex: (a)}}
image:
"""


def set_on(read_text: Any, *settings: str) -> Any:
    """The job of BASE with these settings."""
    return read_text(BASE, *settings).require_job()


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("workers.count=8", "workers.count", 8),
        ("workers.count= 8 ", "workers.count", 8),
        ("workers.count=${N}", "workers.count", 4),
        ("reducers.count=auto", "reducers.count", "auto"),
        ("limits.spot=true", "limits.spot", True),
        ("limits.timeout=1h30m", "limits.timeout", 5400),
        ("target=compose", "target", "compose"),
        ("image.base=a:b", "image.base", "a:b"),
        ("image.apt=[a, b]", "image.apt", ["a", "b"]),
        ("image.apt=[]", "image.apt", []),
        ("image.python=[torch==2.0]", "image.python", ["torch==2.0"]),
        ("run.script=train.py", "run.script", "train.py"),
        ("run.args={lr: 1e-5}", "run.args", {"lr": 1e-5}),
        ("run.args[1]=5", "run.args", ["--epochs", "5"]),
        ("run.env.A=x: y", "run.env", {"A": "x: y"}),
        ("run.env.A=- x", "run.env", {"A": "- x"}),
        ("run.env.A=#fff", "run.env", {"A": "#fff"}),
        ("run.env.A=a #b", "run.env", {"A": "a #b"}),
        ("run.env.A=*.txt", "run.env", {"A": "*.txt"}),
        ("run.env.A=@x", "run.env", {"A": "@x"}),
        ("run.env.A=b=c", "run.env", {"A": "b=c"}),
        ("run.env.A='b'", "run.env", {"A": "b"}),
        ('run.env.A="b\\tc"', "run.env", {"A": "b\tc"}),
        ("run.env.A='b", "run.env", {"A": "'b"}),
        ("run.env.A='b': c", "run.env", {"A": "'b': c"}),
        ("run.env.A=[b", "run.env", {"A": "[b"}),
        ("run.env.A=[b] c", "run.env", {"A": "[b] c"}),
        ('run.env.A=""', "run.env", {"A": ""}),
        ("run.env.B=1.10", "run.env", {"A": "1", "B": "1.10"}),
        ("run.env.A=a\nb", "run.env", {"A": "a\nb"}),
        ("run.env={}", "run.env", {}),
        ("metrics.loss={regex: '(b)'}", "metrics.loss.regex", "(b)"),
        ("targets.vertex.project=p", "targets.vertex.project", "p"),
        ("targets.vertex.labels.a.b=c", "targets.vertex.labels", {"a.b": "c"}),
        ("targets.vertex.overlay.a.b=1", "targets.vertex.overlay", {"a": {"b": 1}}),
        ("targets.compose.network.delay=5ms", "targets.compose.network.delay", 0.005),
        ("workers.machine={vertex: a2}", "workers.machine.vertex", "a2"),
        ("workers.machine=small", "workers.machine", "small"),
        ("matrix.workers.count=[2, 4]", "matrix", {"workers.count": [2, 4]}),
        ("matrix={workers.count: [2]}", "matrix", {"workers.count": [2]}),
        ("workers.count=[2, 4]", "matrix", {"workers.count": [2, 4]}),
        ("run.env.A=[1, 2]", "matrix", {"run.env.A": [1, 2]}),
        ("comm.bucket_mb=[auto]", "matrix", {"comm.bucket_mb": ["auto"]}),
        ("x-anything.at.all=1", "name", "j"),
    ],
)
def test_settings(read_text: Any, setting: str, path: str, value: object) -> None:
    found = set_on(read_text, setting)
    for part in path.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert found == value


def test_a_dotted_key_of_the_file_is_found(read_text: Any) -> None:
    job = set_on(read_text, "metrics.val.loss.goal=min")
    assert job.metrics["val.loss"].goal == "min"


def test_dotted_arguments(read_text: Any) -> None:
    job = set_on(read_text, "run.args={}", "run.args.model.dim=8")
    assert job.run.args == {"model.dim": 8}


def test_null_is_the_default_and_quotes_are_an_empty_text(read_text: Any) -> None:
    assert set_on(read_text, "workers.machine=null").workers.machine is None
    assert set_on(read_text, "run.args={}", "run.args.tag=''").run.args == {"tag": ""}


@pytest.mark.parametrize("setting", ["workers.count=", "workers.count= ", "workers.machine="])
def test_a_value_that_is_missing_is_an_error(read_text: Any, setting: str) -> None:
    document = read_text(BASE, "workers.count=x", setting)
    key = setting.partition("=")[0]
    found = [f for f in document.findings if f.message == f"no value given for {key}"]
    assert [(f.is_error, f.column) for f in found] == [(True, len(key) + 2)]
    remedy = f"""for the default write {key}=null, for an empty text "{key}=''\""""
    assert (found[0].remedy or "").endswith(remedy)


def test_the_last_setting_wins(read_text: Any) -> None:
    assert set_on(read_text, "workers.count=2", "workers.count=3").workers.count == 3


def test_settings_mend_the_file(read_text: Any) -> None:
    document = read_text(
        "name: j\nrun: {script: train.py}\nworkers: {count: x}\n", "workers.count=2"
    )
    assert document.require_job().workers.count == 2


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("workers.cuont=3", "--set workers.cuont:1:9 unknown key 'cuont' in workers"),
        ("workers.count=x", "--set workers.count:1:15 expected a whole number"),
        ("worker.count=3", "--set worker.count:1:1 unknown key 'worker'"),
        ("script=a", "--set script:1:1 unknown key 'script'"),
        ("limits.timeout=90", "--set limits.timeout:1:16 expected a duration"),
        ("run.command=[python, [x]]", "--set run.command:1:22 expected text, got a list"),
        ("run.args={lr: }", "--set run.args:1:15 expected"),
        ("workers={count: 1, count: 2}", "--set workers:1:20 the key 'count' is a duplicate"),
        ("run.env.A=${UNSET}", "--set run.env.A:1:11 the environment variable UNSET is not set"),
        ("run.script=nope.py", "--set run.script:1:12 script 'nope.py' does not exist"),
        ("run.args[2]=x", "--set run.args[2]:1:9 there is no item [2] to set"),
        ("workers[0]=x", "--set workers[0]:1:8 there is no item [0] to set"),
        (
            "run.args.lr=3",
            "--set run.args.lr:1:10 there is no key 'lr' to set: the file has a list",
        ),
        (
            "workers.machine.vertex=a",
            "--set workers.machine.vertex:1:17 there is no key 'vertex'",
        ),
        ("workers.count", "--set workers.count:1:1 it is not in the form KEY=VALUE"),
        ("", "--set :1:1 it is not in the form KEY=VALUE"),
        ("=3", "--set :1:1 it is not in the form KEY=VALUE"),
        ("a..b=3", "--set a..b:1:1 it is not in the form KEY=VALUE"),
        ("run.args[-1]=x", "--set run.args[-1]:1:1 it is not in the form KEY=VALUE"),
        ("run.args[x]=x", "--set run.args[x]:1:1 it is not in the form KEY=VALUE"),
        ("[0]=x", "--set [0]:1:1 it is not in the form KEY=VALUE"),
        (".a=x", "--set .a:1:1 it is not in the form KEY=VALUE"),
        ("matrix.wrong.key=[1]", "--set matrix.wrong.key:1:8 'wrong.key' is not a key of the spec"),
        ("run.env.A=a\0", "--set run.env.A:1:11 expected text"),
    ],
)
def test_mistakes_in_settings_point_at_the_setting(
    read_text: Any, setting: str, expected: str
) -> None:
    finding = read_text(BASE, setting).findings[0]
    shown = f"{finding.file}:{finding.line}:{finding.column} {finding.message}"
    assert shown.startswith(expected)
    assert finding.is_error


def test_all_mistakes_of_file_and_settings_at_once(read_text: Any) -> None:
    document = read_text("name: J\nrun: {script: train.py}\n", "a", "workers.count=x", "b")
    assert [finding.file for finding in document.findings] == [
        document.path,
        "--set a",
        "--set b",
        "--set workers.count",
    ]


@pytest.mark.parametrize("matrix", ["null", "{workers.count: [2]}"])
def test_the_value_of_an_axis_stays_if_the_matrix_is_replaced(matrix: str) -> None:
    """In any order of the two settings."""
    settings = ["run.args.lr=0.4", f"matrix={matrix}"]
    for given in (settings, settings[::-1]):
        root = parse("name: j\nmatrix: {run.args.lr: [0.1, 0.2]}", "f", [])
        assert isinstance(root, Mapping)
        findings: list[Finding] = []
        changed = plain(apply(root, given, findings))
        assert not findings
        assert changed["run"] == {"args": {"lr": 0.4}}
        assert "run.args.lr" not in (changed["matrix"] or {})


def test_a_cell_of_a_matrix_overrides_one_value() -> None:
    root = parse("workers: {count: 2}\nrun: {args: {a.b: 1}}", "f", [])
    assert isinstance(root, Mapping)
    value = Scalar(Position("f", 1, 1), "4")
    changed = override(override(root, "workers.count", value), "run.args.a.b", value)
    again = parse("workers: {count: 4}\nrun: {args: {a.b: 4}}", "f", [])
    assert isinstance(again, Mapping)
    assert plain(changed) == plain(again)
