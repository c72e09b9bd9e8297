"""Command lines of a shell in job files, and whether the remedies for them work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rsctl.findings import Finding
from rsctl.job.document import read
from rsctl.job.shell_words import flow_list

LINES = [
    ("python train.py --lr 1", ["python", "train.py", "--lr", "1"]),
    ("python src/train.py", ["python", "src/train.py"]),
    ('python train.py --msg "a b" @x', ["python", "train.py", "--msg", "a b", "@x"]),
    ('bash -c "python train.py; echo done"', ["bash", "-c", "python train.py; echo done"]),
    ("python -c 'print(1, \"$x\")'", ["python", "-c", 'print(1, "$x")']),
    (r"python train.py a\ b 'it'\''s'", ["python", "train.py", "a b", "it's"]),
    ("python train.py - -- true null ~x", None),
    (
        "python train.py - -- true null 1e-5",
        ["python", "train.py", "-", "--", *["true", "null"], "1e-5"],
    ),
    (
        "python train.py a:b c: [x] {y} %z !t =u ,",
        ["python", "train.py", "a:b", "c:", "[x]", "{y}", "%z", "!t", "=u", ","],
    ),
    ("cd pkg && python __main__.py", None),
    ("cd pkg", None),
    ("torchrun --nnodes 2 train.py > log 2>&1", None),
    ("torchrun --nnodes $N train.py", None),
    ('python train.py --out "$HOME/x"', None),
    ("python train.py --data *.bin", None),
    ("python train.py | tee log", None),
    ("python a.py; python b.py", None),
]


def findings(folder: Path, run: object, **keys: object) -> list[Finding]:
    job = {"name": "j", "run": run, **keys}
    (folder / "job.yaml").write_text(json.dumps(job).replace("${", "$${"))
    return list(read(str(folder / "job.yaml"), ()).findings)


def written(remedy: str, folder: Path) -> list[str]:
    """The command that a remedy gives, as a job file with it has it."""
    text = remedy.partition(": ")[2].removeprefix("command: ")
    (folder / "better.yaml").write_text(f"name: j\nrun: {{command: {text}}}\n")
    command = read(str(folder / "better.yaml"), ()).require_job().run.command
    assert yaml.load(text.replace("$${", "${"), yaml.BaseLoader) == command
    assert command is not None
    return command


@pytest.mark.parametrize(("line", "words"), LINES)
def test_a_line_as_one_word(tmp_path: Path, line: str, words: list[str] | None) -> None:
    (finding,) = findings(tmp_path, {"command": [line]})
    assert finding.message == f"{line!r} is one word, the name of a program"
    assert written(finding.remedy or "", tmp_path) == (words or ["bash", "-c", line])


def test_a_line_as_one_word_before_arguments(tmp_path: Path) -> None:
    (plain,) = findings(tmp_path, {"command": ["python train.py", "--msg", "a b"]})
    (shell,) = findings(tmp_path, {"command": ["cd x && python train.py", "--msg", "a b"]})
    assert written(plain.remedy or "", tmp_path) == ["python", "train.py", "--msg", "a b"]
    line = "cd x && python train.py --msg 'a b'"
    assert written(shell.remedy or "", tmp_path) == ["bash", "-c", line]


def test_a_line_with_an_open_quote(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, {"command": ["python train.py --msg it's"]})
    assert finding.remedy == (
        "close its quotes, and write each word by itself: command: [PROGRAM, ARGUMENT]"
    )


def test_a_line_in_place_of_a_list(tmp_path: Path) -> None:
    for line, words in LINES:
        (finding,) = findings(tmp_path, {"command": line})
        remedy = finding.remedy or ""
        if words:
            assert written(remedy, tmp_path) == words
        elif line != "cd pkg":
            assert remedy == "write it as a list: [FIRST, SECOND]"


@given(
    st.lists(st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])), min_size=1)
)
def test_a_list_on_one_line(words: list[str]) -> None:
    text = flow_list(words)
    assert yaml.load(text.replace("$${", "${"), yaml.BaseLoader) == words
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (["python", "train.py", ">", "log"], ">"),
        (["python", "train.py", "--lr", "1", ">>", "log", "2>&1"], ">>"),
        (["python", "train.py", "2>&1"], "2>&1"),
        (["python", "train.py", "2>/dev/null"], "2>/dev/null"),
        (["python", "train.py", "<", "data.txt"], "<"),
        (["python", "train.py", "|", "tee", "log"], "|"),
        (["python", "a.py", ";", "python", "b.py"], ";"),
        (["python", "a.py", "--verbose", "&&", "python", "b.py"], "&&"),
        (["python", "a.py", "--sep", "|", "||", "true"], "||"),
    ],
)
def test_an_operator_among_words(tmp_path: Path, line: list[str], shown: str) -> None:
    for run, more in (
        ({"command": line}, {}),
        ({"command": ["x"]}, {"roles": {"ps": {"command": line}}}),
    ):
        (finding,) = findings(tmp_path, run, **more)
        assert finding.severity == "error"
        assert finding.message == f"{shown} is for a shell, and rsctl uses none"
        shell, option, text = written(finding.remedy or "", tmp_path)
        assert (shell, option) == ("bash", "-c")
        assert text.replace("'|'", "|").split() == line


@pytest.mark.parametrize("value", ["|", ">", ";", "<", "&"])
def test_an_operator_that_may_be_the_value_of_an_option(tmp_path: Path, value: str) -> None:
    (finding,) = findings(tmp_path, {"command": ["python", "train.py", "--separator", value, "x"]})
    assert finding.severity == "warning"
    assert finding.message == f"{value} is for a shell, and rsctl uses none"


@pytest.mark.parametrize(
    "word", [">=2.0", "<pad>", "<|endoftext|>", "a|b", "a;b", "x>0", "->", "&x"]
)
def test_what_only_contains_an_operator(tmp_path: Path, word: str) -> None:
    assert findings(tmp_path, {"command": ["python", "train.py", word], "args": [word]}) == []


def test_a_command_in_the_background(tmp_path: Path) -> None:
    remedy = "remove the &: submit --detach runs a job in the background"
    for command in (["python", "train.py", "&"], ["python train.py &"]):
        (finding,) = findings(tmp_path, {"command": command})
        assert (finding.severity, finding.remedy) == ("error", remedy)


def test_an_operator_among_arguments(tmp_path: Path) -> None:
    """The script may take it: a warning."""
    args = ["a", ">", "log"]
    ps = {"command": ["serve"], "args": args}
    (tmp_path / "train.py").touch()
    found = findings(
        tmp_path, {"script": "train.py", "args": args}, chief={"args": args}, roles={"ps": ps}
    )
    assert [(each.severity, each.path) for each in found] == [
        ("warning", "run.args"),
        ("warning", "chief.args"),
        ("warning", "roles.ps.args"),
    ]
    assert {each.message for each in found} == {
        "> is for a shell, and the program receives it as an argument"
    }
    assert findings(tmp_path, {"script": "train.py", "args": {"separator": "|"}}) == []
