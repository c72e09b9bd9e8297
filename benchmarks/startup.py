"""How long the commands take that everybody runs all the time, beside the nearest peer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import ROOT, Command, Failed, Usage, measure_in_turn, rsctl
from benchmarks.peers import VERSION, plain_rsctl, torchx
from benchmarks.report import Report

RUNS = 15
_JOB = "examples/quickstart/job.yaml"
_VERTEX = [
    *("--target", "vertex", "--set", "targets.vertex.project=my-project"),
    *("--set", "targets.vertex.region=us-central1", "--set", "outputs=gs://bucket/out"),
    *("--set", "image.repository=us-docker.pkg.dev/p/r/i", "--set", "reducers.count=auto"),
]
_SAGEMAKER = [
    *("--target", "sagemaker", "--set", "targets.sagemaker.region=us-east-1"),
    *("--set", "targets.sagemaker.role=arn:aws:iam::123456789012:role/train"),
    *("--set", "image.repository=123456789012.dkr.ecr.us-east-1.amazonaws.com/i"),
    *("--set", "outputs=s3://bucket/out", "--set", "reducers.count=auto"),
]
_OURS = {
    "--help": ["--help"],
    "validate": ["validate", _JOB],
    "plan, process": ["plan", _JOB, "--target", "process"],
    "plan, process, json": ["plan", _JOB, "--target", "process", "-o", "json"],
    "plan, compose": ["plan", _JOB, "--target", "compose"],
    "plan, compose, json": ["plan", _JOB, "--target", "compose", "-o", "json"],
    "plan, vertex": ["plan", _JOB, *_VERTEX],
    "plan, sagemaker": ["plan", _JOB, *_SAGEMAKER],
}
_PLAIN = ("--help", "validate", "plan, process")
"""What is also measured with the newest packages that a plain `pip install .` brings."""
_HELP, _DRY_RUN = "torchx --help", "torchx dry run, local_docker"
_THEIRS = {
    _HELP: ["--help"],
    _DRY_RUN: ["run", "--dryrun", "-s", "local_docker", "--workspace", "", "utils.echo"],
}
_HEAVY = ("boto3", "botocore", "docker", "google", "numpy", "plotille", "pydantic", "rich", "torch")
_IMPORTS = """\
import sys
before = set(sys.modules)
from rsctl.cli.app import run
code = run(sys.argv[1:])
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}), file=sys.stderr)
sys.exit(code)
"""


def run(runs: int, is_compared: bool = True) -> Report:
    """Time and memory of every command, ratios to the peer's, modules that should not be there."""
    peer = torchx() if is_compared else None
    plain = plain_rsctl() if is_compared else None
    commands = {name: rsctl(*arguments) for name, arguments in _OURS.items()}
    if plain:
        commands |= {f"{n}, plain install": Command([str(plain), *_OURS[n]]) for n in _PLAIN}
    if peer:
        home = Path(os.environ["RSCTL_HOME"])
        commands |= {name: Command([str(peer), *a], home) for name, a in _THEIRS.items()}
    used = measure_in_turn(commands, runs)
    report = Report("startup", f"median of {runs} runs of each command in turn")
    for name, all_usage in used.items():
        report.add(name, "CPU s", [usage.cpu for usage in all_usage])
    for name, all_usage in used.items():
        report.add(name, "peak MB", [usage.peak / 1e6 for usage in all_usage])
    if peer:
        _add_ratios(report, used)
    elif is_compared:
        report.notes.append(f"torchx {VERSION} is absent: it could not be installed")
    if is_compared and not plain:
        report.notes.append("a plain pip install was not measured: it could not be made")
    report.notes += [_modules(name, arguments) for name, arguments in _OURS.items()]
    return report


def _add_ratios(report: Report, used: dict[str, list[Usage]]) -> None:
    """The median of the ratios of the pairs, which is not that of the ratio of the medians."""
    for name in (name for name in used if name not in _THEIRS):
        theirs, budget = (_HELP, "0.6") if name.startswith("--help") else (_DRY_RUN, "0.5")
        pairs = zip(used[name], used[theirs], strict=True)
        report.add(f"{name} / {theirs}", "ratio", [a.cpu / b.cpu for a, b in pairs], budget)


def _modules(name: str, arguments: list[str]) -> str:
    argv = [sys.executable, "-c", _IMPORTS, *arguments]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(arguments)}: {done.stderr}")
    loaded = done.stderr.splitlines()[-1].split()
    heavy = [module for module in loaded if module in _HEAVY]
    return f"{name}: {len(loaded)} top-level modules, of these heavy: {', '.join(heavy) or 'none'}"
