"""`rsctl validate`: every mistake at once, with its place, and nothing else on standard output."""

from __future__ import annotations

import os

import pytest

from .conftest import Cli

GOOD = "name: job\nrun: {script: train.py}\nimage: {source: src}\n"
BAD = """name: job
run: {script: train.py, launcher: Torchrun}
image: {source: src}
workers: {cuont: 2}
"""
FINDINGS = """\
bad.yaml:2:35: error: run.launcher: expected one of torchrun, mpi, once, none, \
got the text 'Torchrun'
    run: {script: train.py, launcher: Torchrun}
                                      ^
    -> write torchrun
bad.yaml:4:11: error: workers.cuont: unknown key 'cuont' in workers
    workers: {cuont: 2}
              ^
    -> did you mean 'count'?
"""
FINDING_KEYS = ["severity", "code", "message", "remedy", "path", "file", "line", "column"]


def test_a_good_file(rsctl: Cli) -> None:
    done = rsctl("validate", rsctl.write(GOOD))
    assert (done.code, done.out, done.err) == (0, "job.yaml: ok\n", "")


def test_findings_point_at_their_place(rsctl: Cli) -> None:
    done = rsctl("validate", rsctl.write(BAD, "bad.yaml"))
    assert (done.code, done.out, done.err) == (2, "", FINDINGS)


@pytest.mark.parametrize(("before", "after", "cut"), [(0, 0, 0), (40, 0, 26), (40, 80, 45)])
def test_a_line_is_shown_whole_if_it_is_short_enough(
    rsctl: Cli, before: int, after: int, cut: int
) -> None:
    """Otherwise 100 characters of it, with the position among them."""
    args = f"run: {{script: train.py, args: [{'a' * (30 + before)}], "
    line = f"{args}b: {'c' * (18 + after)}}}"
    done = rsctl("validate", rsctl.write(f"name: j\nimage: {{source: src}}\n{line}\n"))
    shown, caret = done.err.splitlines()[1:3]
    assert shown == "    " + line[cut : cut + 100]
    assert caret == " " * (4 + len(args) - cut) + "^"


def test_findings_as_json(rsctl: Cli) -> None:
    done = rsctl("validate", "-o", "json", rsctl.write(BAD, "bad.yaml"))
    assert (done.code, done.err) == (2, "")
    assert list(done.json) == ["findings"]
    first, second = done.json["findings"]
    assert list(first) == FINDING_KEYS
    assert (first["file"], first["line"], first["column"]) == ("bad.yaml", 2, 35)
    assert second["remedy"] == "did you mean 'count'?"


def test_several_files_are_all_looked_at(rsctl: Cli) -> None:
    files = [rsctl.write(BAD, "bad.yaml"), rsctl.write(GOOD, "good.yaml"), "nothing.yaml"]
    done = rsctl("validate", *files)
    assert (done.code, done.out) == (2, "good.yaml: ok\n")
    assert done.err == FINDINGS + (
        "nothing.yaml:1:1: error: cannot read this file: No such file or directory\n"
        "    -> check the path and its permissions\n"
    )
    found = rsctl("validate", "-o", "json", *files).json["findings"]
    assert [finding["file"] for finding in found] == ["bad.yaml", "bad.yaml", "nothing.yaml"]


@pytest.mark.parametrize("path", ["job.yml", "jobs.yaml", "Job.yaml", "job", "{folder}/job"])
def test_the_file_beside_a_missing_one(rsctl: Cli, path: str) -> None:
    written = rsctl.write(GOOD)
    rsctl.write("a note", "job.txt")
    asked = path.format(folder=rsctl.folder)
    meant = os.path.join(os.path.dirname(asked), os.path.basename(written))
    assert rsctl("validate", asked).err == (
        f"{asked}:1:1: error: cannot read this file: No such file or directory\n"
        f"    -> did you mean '{meant}'?\n"
    )


def test_no_findings_as_json(rsctl: Cli) -> None:
    assert rsctl("validate", "-o", "json", rsctl.write(GOOD)).json == {"findings": []}


def test_quiet_leaves_out_what_is_no_error(rsctl: Cli) -> None:
    secret = GOOD.replace("train.py", "train.py, env: {API_KEY: abc}")
    loud = rsctl("validate", rsctl.write(secret))
    assert loud.code == 0
    assert loud.err.startswith("job.yaml:2:40: warning: run.env.API_KEY: ")
    quiet = rsctl("validate", "--quiet", "job.yaml")
    assert (quiet.code, quiet.out, quiet.err) == (0, "job.yaml: ok\n", "")
    rsctl.write(secret.replace("train.py,", "nope.py,"))
    quiet = rsctl("validate", "--quiet", "job.yaml")
    assert quiet.code == 2
    assert "error: run.script: script 'nope.py' does not exist" in quiet.err
    assert "warning" not in quiet.err


def test_a_setting_has_its_own_place_and_shows_no_line_of_the_file(rsctl: Cli) -> None:
    done = rsctl("validate", rsctl.write(GOOD), "--set", "workers.count=x")
    assert done.code == 2
    assert done.err == (
        "--set workers.count:1:15: error: workers.count: expected a whole number from 1 to 10000, "
        "got the text 'x'\n"
    )


def test_standard_input(rsctl: Cli) -> None:
    done = rsctl.process("validate", "-", stdin="name: job\nrun: {module: a, Launcher: once}\n")
    assert done.code == 2
    assert done.err == (
        "-:2:18: error: run.Launcher: unknown key 'Launcher' in run\n"
        "    run: {module: a, Launcher: once}\n"
        "                     ^\n"
        "    -> did you mean 'launcher'?\n"
    )


def test_a_target_by_another_tools_name_is_pointed_to_ours(rsctl: Cli) -> None:
    done = rsctl("validate", "job.yaml", "--target", "docker")
    assert done.code == 2
    assert "'docker' is not the name of a target; rsctl calls it compose" in done.err


def test_what_only_a_target_finds_is_found(rsctl: Cli) -> None:
    done = rsctl("validate", rsctl.write(GOOD), "-t", "compose")
    assert done.code == 2
    assert "error: image: target compose needs an image" in done.err


def test_a_dockerignore_that_docker_refuses(rsctl: Cli) -> None:
    rsctl.write("*.log\na[\n", "src/.dockerignore")
    rsctl.write(GOOD.replace("source: src", "source: src, base: x"))
    done = rsctl("validate", "job.yaml", "-t", "compose")
    assert done.code == 2
    assert done.err == (
        f"{rsctl.folder}/src/.dockerignore:2:1: error: docker does not accept the pattern 'a['\n"
        "    a[\n"
        "    ^\n"
        "    -> correct it, or put a backslash before a literal special character\n"
    )


def test_the_caret_stands_below_its_place_in_any_script(rsctl: Cli) -> None:
    line = 'run: {script: train.py, args: ["\u4e2d\u6587\u0301", {}]}'
    rsctl.write(f"name: job\n{line}\nimage: {{source: src}}\n")
    err = rsctl("validate", "job.yaml").err.splitlines()
    assert err[1] == f"    {line}"
    assert err[2] == "    " + " " * len('run: {script: train.py, args: ["xxxx", ') + "^"


def test_a_very_long_line_is_shown_around_the_place(rsctl: Cli) -> None:
    args = ", ".join(["word"] * 200)
    line = f"run: {{script: train.py, args: [{args}], launcher: x}}"
    rsctl.write(f"name: job\n{line}\nimage: {{source: src}}\n")
    err = rsctl("validate", "job.yaml").err.splitlines()
    assert len(err[1]) <= 104
    assert err[1][err[2].index("^")] == "x"


def test_control_characters_of_a_file_do_not_reach_the_terminal(rsctl: Cli) -> None:
    done = rsctl("validate", rsctl.write('name: "\\e[2Jx\\u202e"\nrun: {script: a}\n'))
    assert done.code == 2
    assert "\x1b" not in done.err
    assert "\u202e" not in done.err


def test_a_secret_in_the_file_is_not_repeated_on_the_screen(rsctl: Cli) -> None:
    rsctl.write("name: a\nrun: {command: [x], launcher: once, env: {API_TOKEN: s3cr3t}}\n")
    done = rsctl("validate", "job.yaml")
    assert "API_TOKEN looks like a secret" in done.err
    assert "s3cr3t" not in done.out + done.err


@pytest.mark.parametrize(
    "tracker", ["mlflow: 'https://me:hunter2@host'", "wandb: 'https://me:hunter2@host/team/proj'"]
)
def test_a_line_with_a_secret_is_shown_for_no_finding(rsctl: Cli, tracker: str) -> None:
    """A second mistake on the same line would show it."""
    rsctl.write(
        f"name: j\nrun: {{command: [a], launcher: once}}\ntracking: [{{{tracker}, vertex: e}}]\n"
    )
    done = rsctl("validate", "job.yaml")
    assert done.code == 2
    assert "an item configures one service" in done.err
    assert "hunter2" not in done.out + done.err


def test_the_cells_of_a_matrix_are_looked_at(rsctl: Cli) -> None:
    cells = "matrix: {reducers.count: [0, 1], comm.backend: [auto, smddp]}\n"
    done = rsctl("validate", rsctl.write(GOOD + cells + "workers: {count: 2}\n"))
    assert (done.code, done.out) == (2, "")
    assert "smddp" in done.err
    assert done.err.count("error") == 1


RUN = "name: j\nrun: {command: [a], launcher: once}\n"


@pytest.mark.parametrize(
    "line",
    [
        "image: {base: x, env: {HF_TOKEN: hunter2}, uri: x}",
        'image: {base: x, run: ["git clone https://oauth2:hunter2@host/a.git"], uri: x}',
        'image: {base: x, python: ["--extra-index-url https://u:hunter2@host/a"], uri: x}',
        "image: {base: x, run: [\"curl -H 'Authorization: Bearer hunter2' host\"], uri: x}",
        "tracking: [{wandb: {project: p, api_key: hunter2}}]",
        "x-old: {HF_TOKEN: hunter2}, b: [",
        'watch: {args: ["--password", "hunter2"]}',
        "workers: {token: hunter2}",
        "workers: {count: 'https://u:hunter2@host'}",
        "image: {source: ['https://u:hunter2@host']}",
        "run: {script: ['${https://u:hunter2@host']}",
        "run: 'PASSWORD=hunter2 python train.py'",
        "run: {command: 'PASSWORD=hunter2 python train.py'}",
        "run: {command: [export, HF_TOKEN=hunter2, '&&', python, train.py]}",
        "run: {command: ['PASSWORD=hunter2', python, train.py]}",
        "targets: {sagemaker: {hyperparameters: {api_key: [hunter2], token: {a: hunter2}}}}",
    ],
)
@pytest.mark.parametrize("target", ["process", "vertex"])
def test_no_message_or_line_shows_a_secret(rsctl: Cli, line: str, target: str) -> None:
    """Whatever is wrong with the line, and also if no finding is about the secret."""
    rsctl.write((RUN if not line.startswith("run:") else "name: j\n") + line + "\n")
    for output in ("text", "json"):
        done = rsctl("validate", "-t", target, "-o", output, "job.yaml")
        assert "hunter2" not in done.out + done.err
        assert done.out + done.err != "job.yaml: ok\n"


def test_a_line_with_a_secret_from_the_environment_is_shown(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    line = 'run: {command: [a], launcher: onse, env: {HF_TOKEN: "${HF_TOKEN}", B: c}}'
    rsctl.write(f"name: j\n{line}\n")
    assert f"    {line}\n" in rsctl("validate", "job.yaml").err


def test_a_name_with_a_line_break_makes_no_line_of_its_own(rsctl: Cli) -> None:
    done = rsctl("validate", rsctl.write(BAD, "bad\ngood.yaml: ok"))
    assert done.code == 2
    assert all(line.startswith(("bad", "    ")) for line in done.err.splitlines())
    assert "\n    good.yaml: ok:2:35: error: run.launcher:" in done.err


@pytest.mark.parametrize("indent", ["", "  "])
def test_a_line_of_a_private_key_is_not_shown(rsctl: Cli, indent: str) -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\n{}b3BlbnNzaC1rZXk\n    -----END X PRIVATE KEY-----"
    text = f"{GOOD}env:\n  A: |\n    {key.format(indent)}\nworkers: {{cuont: 2}}\n"
    done = rsctl("validate", rsctl.write(text))
    assert done.code == 2
    assert "job.yaml:7:" in done.err
    assert "b3Blbn" not in done.err
    done = rsctl("validate", rsctl.write(text.replace("b3Bl", "    b3Bl")))
    assert "workers: {cuont: 2}" in done.err


@pytest.mark.parametrize("output", ["text", "json", "sarif"])
def test_a_full_output_hides_no_mistakes(rsctl: Cli, output: str) -> None:
    """Neither what is written at the end of the command nor what is more than a buffer holds."""
    rsctl.write("name: job\nrun: {command: [x]}\n" + "".join(f"x{n}: 1\n" for n in range(200)))
    (rsctl.folder / "good.yaml").write_text(GOOD)
    done = rsctl.shell(f"rsctl validate good.yaml job.yaml -o {output} > /dev/full")
    assert done.code == 2
    assert done.err.count("cannot write to standard output: No space left on device") == 1
