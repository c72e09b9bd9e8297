"""Change a room of rsctl/ at random places and count how many changes its own tests notice.

    python tools/mutants.py [--number 20] [--seed 1] [--jobs 2] rsctl/bench [TESTS...]

It works in temporary copies of the tree. It runs the room's tests once with a probe in each place
that it will change, and then, for each mutant, the tests that reach the place. For a value that is
made at import, these are the tests that call functions of the file, and then all. A mutant
survives if these pass, or if no test reaches it. A test run that exceeds the time limit counts as
killed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[1]
_NOT_COPIED = shutil.ignore_patterns(".git", ".*venv", ".*_cache", ".hypothesis")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_PROBE = '(getattr(__import__("sys").modules.get("rsctl"), "reached", bool)({}) and ('
"""Stands before a changeable part. It is true, also where rsctl is not installed."""

_PACKAGE = Path("rsctl/__init__.py")
_RECORDING = """
import os

test, known = None, set()


def reached(number):
    name = test or os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    mark = f"{{number}} {{name}}\\n"
    if mark not in known:
        known.add(mark)
        try:
            with open({!r}, "a") as file:
                file.write(mark)
        except OSError:
            pass
    return True
"""
"""Added to the package `rsctl` for the probes: writes which test reaches which mutant."""

_BOTH_CLOUDS = [
    *("tests/targets/managed/test_real_errors.py", "tests/targets/managed/test_ends.py"),
    *("tests/targets/doctor", "tests/images/remote", "tests/estimate/costs/test_refresh.py"),
]
_ALSO_TESTED_BY = {
    "rsctl/api": [
        f"tests/cli/test_{subject}.py"
        for subject in ("advise", "debug", "diff", "gate_against", "gate_pairs", "history", "rerun")
    ],
    "rsctl/bench": [
        f"tests/cli/test_{subject}.py" for subject in ("diff", "gate_conditions", "plan_packed")
    ],
    "rsctl/cli": [
        f"tests/results/{name}.py"
        for name in ("export/test_export", "report/test_report", "tracking/test_commands")
    ],
    "rsctl/clients": ["tests/runs/fetch", "tests/targets/managed/test_package_upload.py"],
    "rsctl/images": ["tests/bench/test_checkouts.py"],
    "rsctl/runs": ["tests/node/test_redraws.py", "tests/targets/managed/test_unknown_result.py"],
    "rsctl/targets/local": ["tests/targets/drill", "tests/targets/test_interrupts.py"],
    "rsctl/targets/managed": [
        *("tests/targets/sdk/test_code.py", "tests/targets/sagemaker/test_rules_machines.py"),
    ],
    "rsctl/targets/sagemaker": [
        *_BOTH_CLOUDS,
        *("tests/results/tracking/test_sagemaker.py", "tests/images/registry/test_aws.py"),
        *("tests/targets/sdk/test_sagemaker.py", "tests/targets/sdk/test_estimator.py"),
    ],
    "rsctl/targets/vertex": [
        *_BOTH_CLOUDS,
        *("tests/results/tracking/test_vertex.py", "tests/targets/sdk/test_vertex.py"),
    ],
}
"""Tests outside of a room's own folder that are about the room: what storage does is what is
uploaded and fetched, and a command does no more than call its function of the API, or show the
remark of a plan. The doctor, the builders and the errors of both clouds are tested together,
what the clouds share of a plan by a plan for one of them."""

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq},
    **{ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot},
    **{ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add},
    **{ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult},
}


@dataclass
class Mutant:
    """One change of the source: the bytes from `start` to `end` of `path` become `text`."""

    path: Path
    start: int
    end: int
    text: str
    is_called: bool
    """Whether it is executed by calls, and not at import."""

    def applied(self) -> bytes:
        """The file's content with the change."""
        source = (_ROOT / self.path).read_bytes()
        return source[: self.start] + self.text.encode() + source[self.end :]

    def __str__(self) -> str:
        before = (_ROOT / self.path).read_bytes()[self.start : self.end].decode()
        line = (_ROOT / self.path).read_bytes()[: self.start].count(b"\n") + 1
        return f"{self.path}:{line}: {' '.join(before.split())} -> {self.text}"


def _replacements(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Parts of a node that can be changed, each with its new text."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        changed = copy.copy(node)
        changed.ops = [_SWAPS[type(node.ops[0])](), *node.ops[1:]]  # type: ignore[list-item]
        yield node, f"({ast.unparse(changed)})"
    elif isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in _SWAPS:
        other = copy.copy(node)
        other.op = _SWAPS[type(node.op)]()  # type: ignore[assignment]
        yield node, f"({ast.unparse(other)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield node, str(node.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
        yield node, repr(node.value + "X")
    elif isinstance(node, ast.Return) and node.value and ast.unparse(node.value) != "None":
        yield node.value, "None"
    if isinstance(node, ast.If | ast.IfExp) and not _is_for_types(node):
        yield node.test, "True"
        yield node.test, "False"


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _skipped(node: ast.AST, field: str, value: ast.AST) -> bool:
    """Text and declarations: docstrings, annotations, `TYPE_CHECKING`, `Literal`, f-strings, log
    calls, what a class or dataclass is made with such as `frozen=True`."""
    call = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
    return (
        field in ("annotation", "returns")
        or (isinstance(node, ast.ClassDef) and field == "keywords")
        or (isinstance(value, ast.Expr) and isinstance(value.value, ast.Constant))
        or (isinstance(value, ast.FunctionDef) and value.name == "__repr__")
        or _is_for_types(node)
        or isinstance(value, ast.JoinedStr)
        or (isinstance(value, ast.Subscript) and ast.unparse(value.value).endswith("Literal"))
        or call.startswith(("log.", "_log.", "logging.", "dataclass"))
    )


def _nodes(node: ast.AST, is_called: bool) -> Iterator[tuple[ast.AST, bool]]:
    """The nodes below one that may be changed, and whether each is in the body of a function."""
    yield node, is_called
    for field, value in ast.iter_fields(node):
        within = is_called or (field == "body" and isinstance(node, _FUNCTIONS))
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _skipped(node, field, child):
                yield from _nodes(child, within)


def mutants_of(path: Path) -> list[Mutant]:
    """All changes of a file that can be made, in the file's order."""
    source = (_ROOT / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return [
        Mutant(
            path,
            starts[part.lineno - 1] + part.col_offset,
            starts[(part.end_lineno or 1) - 1] + (part.end_col_offset or 0),
            text,
            is_called,
        )
        for node, is_called in _nodes(ast.parse(source), False)
        for part, text in _replacements(node)
    ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """As a plug-in of the run with probes: what is reached from here on is this test's."""
    vars(sys.modules["rsctl"])["test"] = item.nodeid
    return (yield)


def _copied_tree(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder, ignore=_NOT_COPIED, symlinks=True)
    for environment in _ROOT.glob(".*venv"):
        (folder / environment.name).symlink_to(environment)
    return folder


def _pytest(tree: Path, arguments: list[str], limit_s: float, keeps_bytecode: bool) -> int | None:
    """The exit status of pytest in a copy of the tree, or None where the time limit ended it."""
    bytecode = {"PYTHONDONTWRITEBYTECODE": "" if keeps_bytecode else "1"}
    command = [sys.executable, "-m", "pytest", "-x", *arguments]
    paths = {"PYTHONPATH": f"{tree}:{tree / 'tools'}"}
    with open(tree / "pytest.out", "w") as output:
        process = subprocess.Popen(
            command,
            cwd=tree,
            env=os.environ | paths | bytecode,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


def _with_probes(path: Path, mutants: Mapping[int, Mutant]) -> bytes:
    """A file that reports when it reaches one of the mutants, by their numbers."""
    probes = {
        (part.start, part.end, number)
        for number, mutant in mutants.items()
        if mutant.path == path
        for part in ([mutant] if mutant.is_called else mutants_of(path))
        if part.is_called
    }
    inserted = [(end, 0, 0, "))") for _, end, _ in probes]
    inserted += [(start, 1, -end, _PROBE.format(number)) for start, end, number in probes]
    source, at, parts = (_ROOT / path).read_bytes(), 0, []
    for place, _, _, text in sorted(inserted):
        parts += [source[at:place], text.encode()]
        at = place
    return b"".join([*parts, source[at:]])


def _tests_of_mutants(
    tree: Path, tests: list[str], mutants: Mapping[int, Mutant], jobs: int
) -> dict[int, set[str]]:
    """The tests that reach each mutant, by its number. Keeps the bytecode in the copy of the tree:
    without it, each command that a test runs would take a second more."""
    marks = tree.parent / "marks"
    marks.touch()
    changed = {mutant.path: _with_probes(mutant.path, mutants) for mutant in mutants.values()}
    changed[_PACKAGE] = changed.get(_PACKAGE, (_ROOT / _PACKAGE).read_bytes())
    changed[_PACKAGE] += _RECORDING.format(str(marks)).encode()
    for path, content in changed.items():
        (tree / path).write_bytes(content)
    # Tests wait more than they compute.
    arguments = ["-p", "mutants", "-n", str(2 * jobs), "--dist", "loadfile", *tests]
    if _pytest(tree, arguments, 3600, True):
        sys.exit("The room's tests fail without a change:\n" + (tree / "pytest.out").read_text())
    for path in changed:
        shutil.copy2(_ROOT / path, tree / path)
    found: dict[int, set[str]] = {number: set() for number in mutants}
    for line in marks.read_text().splitlines():
        number, _, test = line.partition(" ")
        found[int(number)].add(test)
    return found


def main() -> None:
    """Print each mutant with what became of it, and the sum."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("room", help="a folder or file below rsctl/")
    parser.add_argument(
        "tests",
        nargs="*",
        help="their tests (default: the same folder of tests/, and those listed for it)",
    )
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--limit", type=float, default=300, help="seconds for the tests of a mutant"
    )
    options = parser.parse_args()
    room = options.room.rstrip("/")
    also = [
        test
        for part, more in _ALSO_TESTED_BY.items()
        if Path(room).is_relative_to(part)
        for test in more
    ]
    tests = options.tests or [room.replace("rsctl", "tests", 1), *also]
    files = sorted((_ROOT / room).rglob("*.py")) or [_ROOT / room]
    every = [mutant for file in files for mutant in mutants_of(file.relative_to(_ROOT))]
    chosen = random.Random(options.seed).sample(every, min(options.number, len(every)))  # noqa: S311
    numbered = dict(enumerate(chosen, 1))
    with tempfile.TemporaryDirectory(prefix="rsctl-mutants-") as scratch:
        first_tree = _copied_tree(_ROOT, Path(scratch, "0"))
        reaching = _tests_of_mutants(first_tree, tests, numbered, options.jobs)
        trees: queue.Queue[Path] = queue.Queue()
        trees.put(first_tree)
        for number in range(1, options.jobs):
            trees.put(_copied_tree(first_tree, Path(scratch, str(number))))
        reached = Counter(test for names in reaching.values() for test in names)

        def tried(number: int) -> str:
            mutant, names = numbered[number], reaching[number]
            if mutant.is_called and not names:
                return "survived, not reached"
            first = sorted(names - {""}, key=lambda name: reached[name])
            tree = trees.get()
            try:
                (tree / mutant.path).write_bytes(mutant.applied())
                status = 0
                if first:
                    status = _pytest(tree, ["--timeout", "120", *first], options.limit, False)
                # 4, 5: it found no test of such a name
                if status in (4, 5) or (status == 0 and not (first and mutant.is_called)):
                    status = _pytest(tree, tests, 4 * options.limit, False)
            finally:
                shutil.copy2(_ROOT / mutant.path, tree / mutant.path)
                trees.put(tree)
            return {None: "killed by the time limit", 0: "survived"}.get(status, "killed")

        results = []
        with ThreadPoolExecutor(options.jobs) as pool:
            for mutant, result in zip(chosen, pool.map(tried, numbered), strict=True):
                print(f"{result:24} {mutant}", flush=True)
                results.append(result)
    killed = sum(result.startswith("killed") for result in results)
    late = sum("time limit" in result for result in results)
    by_limit = f", {late} of them by the time limit" if late else ""
    print(f"{room}: {killed} of {len(results)} killed{by_limit} (seed {options.seed})")


if __name__ == "__main__":
    main()
