"""`rsctl init`: every template gives a job that can be planned, and nothing is overwritten."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path

import pytest
import yaml

from rsctl.data import template_names, templates_folder

from .conftest import Cli


def test_the_templates_that_help_names(rsctl: Cli) -> None:
    assert template_names() == [
        *("allreduce", "bench", "ddp", "fsdp", "nccl-tests", "parameter-server", "single"),
        "webdataset",
    ]
    told = "".join(rsctl("init", "--help").out.split())  # a name may be broken at its hyphen
    assert all(name in told for name in template_names())


@pytest.mark.parametrize("template", template_names())
def test_a_template_becomes_a_job(rsctl: Cli, template: str) -> None:
    done = rsctl("init", template)
    folder = templates_folder() / template
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    assert done.code == 0
    assert done.out.splitlines() == [f"{template}/{name}" for name in files]
    verb = {"bench": "bench run", "webdataset": "bench run", "nccl-tests": "plan"}
    next_ = f"rsctl {verb.get(template, 'submit')} {template}/job.yaml"
    if template == "webdataset":
        next_ = f"pip install webdataset && python webdataset/make_data.py && {next_}"
    assert done.err == f"next: {next_}\n"
    for name in files:
        original = (folder / name).read_bytes()
        assert (rsctl.folder / template / name).read_bytes() == original
    if template == "webdataset":  # its data is to be made first: tests/targets/templates
        return
    for target in ("process", "compose"):
        planned = rsctl("plan", f"{template}/job.yaml", "-t", target, "-o", "json")
        assert planned.code == 0, planned.err
        found = planned.json["findings"]
        warnings = {finding["code"] for finding in found if finding["severity"] == "warning"}
        assert warnings <= {"oversubscription"}  # which depends on this machine's cores


def test_ddp_is_the_default_and_the_folder_is_free(rsctl: Cli) -> None:
    done = rsctl("init")
    assert done.out.splitlines()[0] == "ddp/job.yaml"
    assert done.err == (
        "note: neither this folder nor a package in it has a train.py or main.py: template ddp "
        "instead\n    -> for your own script: rsctl init SCRIPT.py\n"
        "next: rsctl submit ddp/job.yaml\n"
    )
    assert rsctl("init", "single", "a/b", "-q").err == ""
    assert (rsctl.folder / "a" / "b" / "job.yaml").is_file()
    (rsctl.folder / "here").mkdir()
    assert rsctl("init", "fsdp", "here").code == 0


def test_nothing_is_overwritten(rsctl: Cli) -> None:
    rsctl("init", "ddp")
    job = rsctl.folder / "ddp" / "job.yaml"
    job.write_text("mine")
    (rsctl.folder / "ddp" / "train.py").unlink()
    done = rsctl("init", "ddp")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: ddp/job.yaml already exists\n    -> give another folder\n"
    assert job.read_text() == "mine"
    assert not (rsctl.folder / "ddp" / "train.py").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["bash", "run.sh"],
        ["./run.sh"],
        ["sbatch", "job.slurm"],
        ["env", "ls"],
        ["chrt", "-f", "1", "python", "train.py"],
    ],
)
def test_a_command_that_init_does_not_read_is_not_a_template(rsctl: Cli, words: list[str]) -> None:
    done = rsctl("init", *words)
    assert (done.code, done.out) == (2, "")
    assert "does not start a script in a way that rsctl supports" in done.err
    assert "template" not in done.err


def test_a_file_of_another_tool(rsctl: Cli) -> None:
    Path("sky.yaml").write_text("run: torchrun train.py\n")
    done = rsctl("init", "sky.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: init reads commands and shell scripts, not files such as sky.yaml\n"
        "    -> give the command in it that starts your script: rsctl init torchrun ...\n"
    )


def test_a_folder_is_not_a_command(rsctl: Cli) -> None:
    for folder in (".", str(rsctl.folder)):
        done = rsctl("init", folder)
        assert (done.code, done.out) == (2, "")
        assert done.err == (
            f"error: init reads commands and shell scripts, not folders such as {folder}\n"
            "    -> change to it and run rsctl init, or give the command that starts your script\n"
        )


def test_an_unknown_template(rsctl: Cli) -> None:
    done = rsctl("init", "ddq")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: there is no template 'ddq'\n"
        "    -> use one of: allreduce, bench, ddp, fsdp, nccl-tests, parameter-server, single, "
        "webdataset; or give your script, such as train.py\n"
    )


def test_a_folder_that_cannot_be_made(rsctl: Cli) -> None:
    rsctl.write("", "file")
    done = rsctl("init", "ddp", "file/below")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: cannot write file/below: Not a directory\n"


def test_the_templates_travel_in_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inside = tmp_path / "_data" / "job_templates" / "mine"
    inside.mkdir(parents=True)
    (inside / "job.yaml").touch()
    monkeypatch.setattr("rsctl.data._PACKAGE", tmp_path)
    assert template_names() == ["mine"]


def test_next_to_a_script_only_a_job_file_is_written(rsctl: Cli) -> None:
    rsctl.write("print('loss=1')", "train.py")
    rsctl.write("numpy\n", "requirements.txt")
    done = rsctl("init")
    assert (done.code, done.out) == (0, "job.yaml\n")
    assert (
        (rsctl.folder / "job.yaml").read_text()
        == """\
name: work
target: process                 # or compose, slurm, sagemaker, vertex; --target overrides it

image:                          # `process` uses your Python environment instead
  base: pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime
  python: requirements.txt
  source: .                     # this folder becomes /app in the image

run:
  script: train.py
  # launcher: once              # if the script starts its ranks, or needs no RANK

workers:
  count: 1                      # nodes
  processes: 1                  # ranks on each; auto: one per accelerator, or 1
  # accelerator: l4:1           # GPUs on each node; absent: CPU

# metrics:                      # numbers to read from the log
#   loss: {regex: 'loss=([0-9.eE+-]+)', goal: min}
"""
    )
    assert rsctl("validate", "job.yaml").code == 0
    again = rsctl("init")
    assert again.code == 2
    assert again.err == "error: job.yaml already exists\n    -> move or edit it\n"


@pytest.mark.parametrize(
    ("line", "words", "nodes", "ranks"),
    [
        ("train.py", "train.py", 1, 1),
        ("python -u train.py x", "train.py x", 1, 1),
        (
            "torchrun --standalone --nnodes=2 --nproc_per_node 4 --rdzv_backend c10d train.py"
            " --lr 2e-5 --epochs 3 --fp16 --seed 007 --tag ${X}",
            *("train.py --lr 2e-5 --epochs 3 --fp16 --seed 007 --tag ${X}", 2, 8),
        ),
        (
            "/opt/bin/python3 -m torch.distributed.run --nnodes 1:3 --nproc-per-node=gpu -m a.b -v",
            *("-m a.b -v", 3, 3),
        ),
        ("train.py --a=1 --b 2 --b 3", "train.py --a=1 --b 2 --b 3", 1, 1),
        ("-- train.py --yes no -- 1.0", "train.py --yes no -- 1.0", 1, 1),
    ],
)
def test_the_command_of_today_becomes_a_job_file(
    rsctl: Cli, line: str, words: str, nodes: int, ranks: int
) -> None:
    rsctl.write("", "train.py")
    done = rsctl("init", *line.split())
    assert done.code == 0, done.err
    plan = rsctl("plan", "job.yaml", "-o", "json").json
    started = plan["request"]["commands"][0]["argv"]
    assert " ".join(started).endswith(f" -- {words}")
    assert (plan["pools"][0]["count"], plan["world_size"]) == (nodes, ranks)


def test_a_dockerfile_is_named_as_an_alternative(rsctl: Cli) -> None:
    rsctl.write("", "train.py")
    rsctl.write("FROM pytorch/pytorch\n", "Dockerfile")
    assert rsctl("init").code == 0
    job = rsctl.folder / "job.yaml"
    lines = [line for line in job.read_text().splitlines() if not line.startswith("  base:")]
    job.write_text("\n".join(lines).replace("# dockerfile:", "dockerfile:"))
    assert rsctl("validate", "job.yaml").code == 0
    assert yaml.safe_load(job.read_text())["image"] == {"dockerfile": "Dockerfile", "source": "."}


def test_a_script_that_does_not_exist(rsctl: Cli) -> None:
    (rsctl.folder.parent / "other.py").touch()
    (rsctl.folder / "folder.py").mkdir()
    for line in ("nothere.py", "torchrun nothere.py", "python src/nope.py", "folder.py"):
        done = rsctl("init", *line.split())
        assert (done.code, done.out) == (2, "")
        assert f"there is no script {line.split()[-1]} in {rsctl.folder}" in done.err
    done = rsctl("init", "../other.py")
    assert (done.code, done.out) == (2, "")
    assert "script ../other.py is not inside of" in done.err
    assert not (rsctl.folder / "job.yaml").exists()


def test_a_script_s_path_is_relative_to_the_folder(rsctl: Cli) -> None:
    for given in ("./src/train.py", str(rsctl.folder / "src" / "train.py")):
        assert rsctl("init", "torchrun", given).code == 0
        assert "  script: src/train.py\n" in (rsctl.folder / "job.yaml").read_text()
        assert rsctl("validate", "job.yaml").code == 0
        (rsctl.folder / "job.yaml").unlink()


def test_a_module_that_is_nowhere(rsctl: Cli) -> None:
    done = rsctl("init", "torchrun", "-m", "nothere.train")
    assert done.code == 0
    assert "warning: neither" in done.err
    assert "has a module 'nothere'" in done.err
    rsctl.write("", "here.py")
    (rsctl.folder / "job.yaml").unlink()
    assert rsctl("init", "python", "-m", "here").err == "next: rsctl submit job.yaml\n"


@pytest.mark.parametrize("line", ["accelerate config x.py", "torchrun --nnodes", "python -c 1"])
def test_a_command_that_starts_no_script(rsctl: Cli, line: str) -> None:
    done = rsctl("init", *line.split())
    assert (done.code, done.out) == (2, "")
    assert not (rsctl.folder / "job.yaml").exists()


@pytest.mark.parametrize("options", [["-q"], ["--help"], ["--no-color", "--", "-x"]])
def test_what_is_behind_a_script_is_its_own(rsctl: Cli, options: list[str]) -> None:
    rsctl.write("", "train.py")
    for words in (["train.py"], ["torchrun", "train.py"], ["uv", "run", "train.py"]):
        assert rsctl("init", *words, *options).code == 0
        args = yaml.safe_load((rsctl.folder / "job.yaml").read_text())["run"]["args"]
        assert (args == options) or args == dict.fromkeys(o[2:] for o in options) | {"help": True}
        (rsctl.folder / "job.yaml").unlink()
    assert rsctl("init", "single", "--help").out.startswith("Usage: rsctl init")


def test_what_is_omitted_is_said(rsctl: Cli) -> None:
    rsctl.write("", "train.py")
    line = "torchrun --standalone --tee 3 --max_restarts 2 train.py"
    done = rsctl("init", *line.split())
    assert done.err == (
        "note: torchrun: omitted --standalone: rsctl does this itself\n"
        "note: torchrun: omitted --tee 3: no key for it\n"
        "next: rsctl submit job.yaml\n"
    )
    text = (rsctl.folder / "job.yaml").read_text()
    assert text.startswith("# torchrun: omitted --standalone: rsctl does this itself\n")
    assert "limits:\n  restarts_in_place: 2\n" in text
    assert rsctl("validate", "job.yaml").code == 0


@pytest.mark.parametrize(
    ("root", "pyproject"),
    [
        ("src", '[project]\nname = "mine"\n'),
        ("code", '[tool.setuptools.packages.find]\nwhere = ["code"]\n'),
    ],
)
def test_a_package_in_a_src_layout_is_found_and_runs(rsctl: Cli, root: str, pyproject: str) -> None:
    package = rsctl.folder / root / "mine"
    package.mkdir(parents=True)
    (rsctl.folder / "pyproject.toml").write_text(pyproject)
    (package / "__init__.py").touch()
    (package / "parts.py").write_text("TEXT = 'from the package'\n")
    (package / "train.py").write_text("from mine.parts import TEXT\nprint(TEXT)\n")
    assert rsctl("init").code == 0
    assert "  module: mine.train\n" in (rsctl.folder / "job.yaml").read_text()
    done = rsctl.process("submit", "job.yaml", "--set", "run.launcher=once")
    assert (done.code, done.out) == (0, "worker-0 | from the package\n"), done.err


@pytest.mark.parametrize("folder", ["", "src/pkg/"])
def test_a_file_that_only_defines_functions_is_not_the_program(rsctl: Cli, folder: str) -> None:
    """As in open_clip, whose `train.py` has the functions of `main.py`: it would train nothing."""
    (rsctl.folder / "src" / "pkg").mkdir(parents=True)
    rsctl.write("", "src/pkg/__init__.py")
    rsctl.write("[project]\nname = 'pkg'\n", "pyproject.toml")
    rsctl.write("def train():\n    pass\n", f"{folder}train.py")
    main = "def main():\n    pass\nif __name__ == '__main__':\n    main()\n"
    rsctl.write(main, f"{folder}main.py")
    assert rsctl("init").code == 0
    expected = "module: pkg.main" if folder else "script: main.py"
    assert f"  {expected}\n" in (rsctl.folder / "job.yaml").read_text()


@pytest.mark.parametrize("text", ["print(1)\n", "while True:\n    break\n", "trainer.fit(model)\n"])
def test_a_script_without_a_guard_starts_itself(rsctl: Cli, text: str) -> None:
    """`uv init` writes a `main.py` that prints a greeting beside it."""
    rsctl.write(text, "train.py")
    rsctl.write("def main():\n    pass\nif __name__ == '__main__':\n    main()\n", "main.py")
    assert rsctl("init").code == 0
    assert "  script: train.py\n" in (rsctl.folder / "job.yaml").read_text()


def test_settings_of_tools_do_not_put_folder_src_before_other_packages(rsctl: Cli) -> None:
    (rsctl.folder / "src" / "colorsys").mkdir(parents=True)
    (rsctl.folder / "src" / "colorsys" / "__init__.py").touch()
    (rsctl.folder / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    (rsctl.folder / "train.py").write_text("from colorsys import hsv_to_rgb\nimport src.colorsys\n")
    done = rsctl.process("submit", "train.py", "--set", "run.launcher=once")
    assert done.code == 0, done.err


def test_a_missing_module_without_init_is_named_where_it_lies(rsctl: Cli) -> None:
    (rsctl.folder / "src" / "mine").mkdir(parents=True)
    (rsctl.folder / "src" / "mine" / "parts.py").touch()
    (rsctl.folder / "train.py").write_text("import mine.parts\n")
    done = rsctl.process("submit", "train.py", "--set", "run.launcher=once")
    assert done.code == 1
    assert "mine is in the source itself, in folder src" in done.err


def test_a_missing_module_that_lies_in_the_source_is_named_there(rsctl: Cli) -> None:
    folder = rsctl.folder / "python" / "mine"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (rsctl.folder / "train.py").write_text("import mine\n")
    assert rsctl("init", "train.py").code == 0
    done = rsctl.process("submit", "job.yaml", "--set", "run.launcher=once")
    assert done.code == 1
    assert "mine is in the source itself, in folder python" in done.err
    assert "image.python" not in done.err


def test_the_next_command_has_a_folder_that_looks_like_an_option(rsctl: Cli) -> None:
    done = rsctl("init", "single", "--", "-my job")
    assert done.out.splitlines() == ["-my job/job.yaml", "-my job/train.py"]
    assert done.err == "next: rsctl submit './-my job/job.yaml'\n"
    assert rsctl("validate", *shlex.split(done.err)[3:]).code == 0
    done = rsctl("init", "webdataset", "--", "-w")
    assert " && python ./-w/make_data.py && rsctl bench run ./-w/job.yaml\n" in done.err


def test_files_that_do_not_fit_on_the_disk_leave_none(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command works once there is space."""
    real = Path.write_bytes

    def write(path: Path, content: bytes) -> int:
        if path.name == "train.py":
            real(path, content[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, content)

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", write)
        done = rsctl("init", "single")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: cannot write single: No space left on device\n"
    assert rsctl("init", "single").code == 0


def test_a_command_in_quotes_is_its_words(rsctl: Cli) -> None:
    rsctl.write("", "train.py")
    assert rsctl("init", "torchrun --nproc-per-node 2 train.py --name 'a b'").code == 0
    job = yaml.safe_load((rsctl.folder / "job.yaml").read_text())
    assert job["run"] == {"script": "train.py", "args": {"name": "a b"}}


@pytest.mark.parametrize("home", ["home", "my home"])
def test_a_command_of_srun_becomes_a_job_for_slurm(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """With all that Slurm needs, so that the next command works."""
    (rsctl.folder / "train.py").touch()
    monkeypatch.setenv("HOME", str(rsctl.folder / home))
    options = ("-N", "2", "--ntasks-per-node=8", "--gpus-per-node=8")
    done = rsctl("init", "srun", *options, "python", "train.py")
    shared = f"{rsctl.folder}/home/rsctl" if home == "home" else "/shared/rsctl"
    assert done.err.splitlines()[-1] == f"next: mkdir -p {shared} && rsctl submit job.yaml"
    assert "note: targets.slurm.shared is a folder that all nodes see, or the job ends" in done.err
    job = yaml.safe_load((rsctl.folder / "job.yaml").read_text())
    assert job["target"] == "slurm"
    assert job["workers"] == {"count": 2, "processes": 8, "accelerator": "gpu:8"}
    assert job["targets"]["slurm"]["shared"] == shared
    assert "error" not in rsctl("validate", "job.yaml").err
