"""What the runtime says where Python has a part of its library, as in images of minimal size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MISSING = """
    _aix_support _asyncio _bz2 _compression _contextvars _ctypes _decimal _json _lzma _markupbase
    _multiprocessing _osx_support _posixshmem _pydecimal _pyio _queue _sqlite3 _uuid _zoneinfo
    asyncio bdb bz2 cProfile cmd code codeop concurrent contextvars ctypes curses dataclasses
    dbm decimal difflib doctest fileinput fractions ftplib getpass graphlib gzip hmac html http
    imaplib json lzma mailbox mimetypes mmap multiprocessing netrc numbers pdb plistlib pprint
    profile pstats pty pyclbr pydoc queue readline resource sched secrets shelve shlex shutil
    smtplib socketserver sqlite3 statistics symtable tabnanny tarfile termios timeit tomllib
    trace tty unittest uuid venv wave webbrowser wsgiref xml xmlrpc zipapp zoneinfo
""".split()  # noqa: SIM905
"""Modules that python3.11-minimal of Debian 12 lacks, less gettext: Debian's argparse, unlike
Python's own, does without it.
"""
PROBLEM = (
    f"{sys.executable} cannot import a module that rsctl's runtime needs: "
    "import of json halted; None in sys.modules"
)


def started(*arguments: str) -> tuple[int, str, str]:
    """The exit code and the output of one of rsctl's own programs on such a Python."""
    code = (
        "import sys, runpy\n"
        f"sys.modules.update(dict.fromkeys({MISSING!r}))\n"
        f"sys.argv = {['x', *arguments]!r}\n"
        f"runpy.run_path({str(ROOT / 'rsctl_start.py')!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_container_says_it() -> None:
    """It can, although its Python has no module for JSON."""
    code, said, errors = started("rsctl.node.launch", "--", "true")
    assert (code, errors) == (3, "")
    assert json.loads(said) == {
        "rsctl": "finding",
        "severity": "error",
        "code": "python-incomplete",
        "message": PROBLEM,
        "remedy": "Use an image.base with the complete Python standard library, unlike "
        "python3-minimal.",
    }


def test_a_node_of_slurm_says_it(tmp_path: Path) -> None:
    code, said, errors = started(
        "rsctl.node.platforms.slurm_probe", "worker", "0", str(tmp_path), "token"
    )
    assert (code, errors) == (1, "")
    assert said.endswith(
        f" has an unfit Python: {PROBLEM}; "
        "load another one in targets.slurm.setup, or use another image\n"
    )
