"""A cluster by its commands, on this machine or by the user's own OpenSSH.

What runs is a program for `sh`, which comes by standard input: no secret is in a command line, and
no text of a job file is in one without quotes. One connection of ssh serves all calls.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.targets.base import Unanswered
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.slurm import shared_files
from rsctl.targets.slurm.cluster import FileState, JobRecord, Part, Submitted
from rsctl.targets.slurm.errors import ENDED, NO_JOB, UNANSWERED, refusal
from rsctl.targets.slurm.records import record_of_sacct, record_of_scontrol

_SECONDS = 60.0
_ACCOUNTING_SECONDS = 40.0
"""How long accounting may take: without its answer, the job's own records decide."""

_OPEN = frozenset({"PENDING", "REQUEUED", "RESIZING", "RUNNING", "SUSPENDED"})
"""States of sacct(1) that a job no longer has once the controller has forgotten it: accounting is
late, or has missed the job's end ("runaway")."""

_NO_COMMAND = 127
"""The exit code of a shell for a command that does not exist; its message has any language."""

_MOST_PROBLEMS = 1 << 16
_LONGEST_FOLDER = 48
"""ssh adds 41 characters, and 17 more while it makes the socket, whose path can have 107."""

_KEPT = (
    *("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "MODULEPATH", "PATH"),
    *("SHELL", "SLURM_CONF", "TMPDIR", "TZ", "USER"),
)
"""The variables of rsctl's environment that the local commands get. A SBATCH_PARTITION, say, would
override the script's options."""

_CLEAN = (
    "unset $(env | sed -nE 's/^((SBATCH|SLURM|SQUEUE|SCANCEL|SCONTROL|SACCT|SINFO)_[A-Z0-9_]*)=.*"
    "/\\1/p' | grep -vx SLURM_CONF)"
)
"""Removes the options of Slurm's commands from the environment: SQUEUE_PARTITION hides jobs of
other partitions, and SCANCEL_STATE lets others live (seen with 24.11)."""

_MARK = "rsctl-part"

_FIND_COMMANDS = (
    'command -v sbatch >/dev/null 2>&1 || eval "$('
    '{ "${SHELL:-sh}" -lc env </dev/null || echo env | "${SHELL:-sh}" -l; } 2>/dev/null | '
    "sed -n \"s/'/'\\\\\\\\''/g; s/^\\(PATH\\|SLURM_CONF\\)=\\(.*\\)/export \\1='\\2'/p\""
    ')"'
)
"""Sets the PATH of the user's login shell if sshd's has no Slurm: many clusters have its commands
in a folder such as /opt/slurm/bin, which /etc/profile.d names. csh takes no option beside -l."""

_NO_LOGIN = re.compile(
    r"Permission denied|Host key verification failed|Could not resolve"
    r"|Too many authentication failures|Bad configuration option|Bad owner or permissions"
)
"""Texts of ssh for which another try to log in fails in the same way."""


def run_locally(program: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program of `sh` on this machine. Raises Unreachable if it does not end."""
    environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return _run(["sh", "-s"], program, environ, "the commands of Slurm")


def ssh_runner(host: str) -> Callable[[str], subprocess.CompletedProcess[bytes]]:
    """Runs programs on a host. OpenSSH reads the user's own configuration and known hosts.

    A connection that the user shares (ControlMaster) is used, because a login node may ask for a
    one-time code. What the host prints before the program begins, such as a banner, is removed.
    """
    host, port = _host_and_port(host)
    address = [*(("-p", port) if port else ()), "--", host]
    login = shlex.join(["ssh", *address[:-2], host, "true"])
    command = [
        *("ssh", "-T", "-o", "RemoteCommand=none", "-o", "ClearAllForwardings=yes"),
        *("-o", "BatchMode=yes", "-o", "ConnectTimeout=15"),
        *("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"),
    ]
    own = [
        *("-o", "ControlMaster=auto", "-o", "ControlPersist=120"),
        *("-o", f"ControlPath={_control_folder()}/%C"),
    ]

    def run(program: str) -> subprocess.CompletedProcess[bytes]:
        who = f"ssh {host}"
        is_shared = _run(["ssh", "-O", "check", *address], "", None, who).returncode == 0
        mark = f"rsctl-begins-{secrets.token_hex(8)}"
        begin = f"printf '\\n%s\\n' {mark}; printf '\\n%s\\n' {mark} >&2\n{_FIND_COMMANDS}\n"
        words = [*command, *([] if is_shared else own), *address, "sh -s"]
        done = _run(words, f"{begin}{program}", None, who)
        _, begun, output = done.stdout.partition(f"\n{mark}\n".encode())
        problems = done.stderr.rpartition(f"\n{mark}\n".encode())[2]
        text = (problems.strip() or done.stdout.strip()).decode(errors="replace")
        last = text.splitlines()[-1][:300] if text else "no answer"
        is_lost = done.returncode == 255 or done.returncode < 0  # ssh's own code, or a signal
        if is_lost and not _NO_LOGIN.search(text):
            raise Unreachable(f"{who}: {last}")
        if is_lost or not begun:
            message = f"cannot {'log in to' if is_lost else 'run commands on'} {host}: {last}"
            remedy = f"make `{login}` work without a password prompt"
            finding = error("ssh", message, remedy, "targets.slurm.connection")
            raise RsctlError(ExitCode.ENVIRONMENT, finding)
        return subprocess.CompletedProcess(words, done.returncode, output, problems)

    return run


def _host_and_port(host: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*[^:\]]|.*\]):(\d{1,5})", host)
    host, port = (match[1], match[2]) if match else (host, "")
    return re.sub(r"\[(.*)\]$", r"\1", host), port  # ssh takes no brackets


def _control_folder() -> str:
    """A private folder for the socket of the shared connection, whose path must be short."""
    base, name = os.environ.get("XDG_RUNTIME_DIR") or "/tmp", f"rsctl-ssh-{os.getuid()}"  # noqa: S108
    folder = Path(base) / name
    if len(str(folder)) > _LONGEST_FOLDER or not os.access(base, os.W_OK):
        folder = Path("/tmp") / name  # noqa: S108
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or folder.is_symlink():
        message = f"{folder} belongs to another user, or others can use it"
        raise RsctlError(ExitCode.ENVIRONMENT, error("ssh", message, f"remove {folder}"))
    return str(folder)


def _run(
    command: list[str], program: str, environ: Mapping[str, str] | None, who: str
) -> subprocess.CompletedProcess[bytes]:
    # Not a pipe: the connection that ssh leaves in the background holds stderr open.
    with tempfile.TemporaryFile() as problems:
        try:
            done = subprocess.run(
                command,
                input=program.encode(),
                stdout=subprocess.PIPE,
                stderr=problems,
                env=environ,
                timeout=_SECONDS,
                check=False,
                start_new_session=True,
            )
        except FileNotFoundError:
            finding = error("ssh", f"{command[0]} is not installed", f"install {command[0]}")
            raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
        except subprocess.TimeoutExpired:
            raise Unreachable(f"{who} gave no answer within {_SECONDS:g} s") from None
        problems.seek(0)
        return subprocess.CompletedProcess(
            command, done.returncode, done.stdout, problems.read(_MOST_PROBLEMS)
        )


class CommandCluster:
    """See Cluster. `run` runs programs; `is_local` is whether this machine sees the files."""

    def __init__(
        self,
        connection: str,
        run: Callable[[str], subprocess.CompletedProcess[bytes]],
        *,
        is_local: bool,
    ) -> None:
        self.connection = connection
        self._run_program, self._is_local = run, is_local

    def submit(self, script: str, environ: Mapping[str, str], name: str) -> Submitted:
        """See Cluster."""
        end = f"END-{secrets.token_hex(8)}"
        program = "\n".join(
            [
                _CLEAN,
                *(f"export {key}={shlex.quote(value)}" for key, value in environ.items()),
                f"sbatch --parsable <<'{end}' || exit",
                script.rstrip("\n"),
                end,
                "scontrol show config | sed -n 's/^ClusterName *= *//p'",
                "",
            ]
        )
        try:
            done = self._run_program(program)
        except Unreachable as problem:
            lost = RsctlError(ExitCode.ENVIRONMENT, error("network", str(problem)))
            raise Unanswered(name, lost) from None
        text, problem_text = _texts(done)
        # A site's own sbatch may print more before the ID.
        match = re.search(r"^(\d+)(?:;(\S+))?\s+(\S*)\s*\Z", text, re.MULTILINE)
        if done.returncode == 0 and match:
            return Submitted(int(match[1]), match[2] or match[3] or "slurm")
        self._require_commands(done.returncode)
        if match or done.returncode == 0 or UNANSWERED.search(problem_text):
            raise Unanswered(name, refusal(problem_text, "submit the job"))
        raise refusal(problem_text, "submit the job")

    def find(self, comment: str) -> Submitted | None:
        """See Cluster."""
        program = (
            f"{_CLEAN}\nsqueue --noheader --states=all --me --format='%A %k' || exit\n"
            "echo; scontrol show config | sed -n 's/^ClusterName *= *//p'\n"
        )
        listed, _, cluster = self._output(program, "list your jobs").rpartition("\n\n")
        found = [
            int(line.partition(" ")[0])
            for line in listed.splitlines()
            if line.partition(" ")[2].strip() == comment
        ]
        return Submitted(min(found), cluster.strip() or "slurm") if found else None

    def job(self, job: int) -> JobRecord | None:
        """See Cluster."""
        done = self._run_program(f"{_CLEAN}\nSLURM_TIME_FORMAT=%s scontrol show job -o {job}\n")
        text, problem = _texts(done)
        if done.returncode == 0:
            return record_of_scontrol(text, job)
        if NO_JOB.search(problem):
            return self._of_accounting(job)
        raise self._problem(done.returncode, problem, f"describe job {job}")

    def _of_accounting(self, job: int) -> JobRecord | None:
        """The job by sacct; None if accounting is off or slow, or does not know its end."""
        fields = "State,ExitCode,Submit,Start,End,NodeList,Restarts,JobName"
        program = (
            f"{_CLEAN}\nSLURM_TIME_FORMAT=%s timeout {_ACCOUNTING_SECONDS:g} sacct --jobs={job}"
            f" --allocations --noheader --parsable2 --format={fields}\n"
        )
        done = self._run_program(program)
        record = record_of_sacct(_texts(done)[0], job) if done.returncode == 0 else None
        return record if record is not None and record.state not in _OPEN else None

    def cancel(self, job: int) -> None:
        """See Cluster."""
        done = self._run_program(f"{_CLEAN}\nscancel {job}\n")
        _, problem = _texts(done)
        is_gone = NO_JOB.search(problem) or ENDED.search(problem)
        if done.returncode != 0 and not is_gone:
            raise self._problem(done.returncode, problem, f"cancel job {job}")

    def expected_start(self, job: int) -> float | None:
        """See Cluster."""
        command = f"squeue --noheader --start --jobs={job} --format=%S"
        program = f"{_CLEAN}\nSLURM_TIME_FORMAT=%s {command}\n"
        texts = _texts(self._run_program(program))[0].split()
        return float(texts[0]) if texts and texts[0].isdigit() else None

    def output(self, program: str, doing: str) -> str:
        """The output of a program, for `rsctl doctor`. Raises Unreachable and RsctlError."""
        return self._output(f"{_CLEAN}\n{program}", doing)

    def test(self, script: str) -> str:
        """The answer of `sbatch --test-only` to a script. Raises RsctlError if it refuses."""
        end = f"END-{secrets.token_hex(8)}"
        program = f"{_CLEAN}\nsbatch --test-only <<'{end}' 2>&1\n{script}\n{end}\n"
        done = self._run_program(program)
        text = _texts(done)[0]
        if done.returncode != 0:
            raise self._problem(done.returncode, text, "schedule the job")
        return text.strip()

    def has_files(self, folder: str) -> bool:
        """See Cluster."""
        return not self._is_local or os.path.isdir(os.path.dirname(folder))

    def files(self, folder: str) -> list[FileState] | None:
        """See Cluster."""
        if self._is_local:
            return shared_files.list_files(folder)
        at = shlex.quote(folder)
        # `wc` opens each file, so that an NFS client asks the server for its size.
        program = (
            f"cd {at} 2>/dev/null || {{ [ -e {at} ] || echo none; exit 0; }}\n"
            f"wc -c states ../{shlex.quote(os.path.basename(folder))}.batch.log"
            " logs/[0-9]*/*.log logs/[0-9]*/*.step 2>/dev/null; true\n"
        )
        text = self._output(program, f"list {folder}")
        if text.strip() == "none":
            return None
        rows = (line.strip().partition(" ") for line in text.splitlines())
        return [FileState(p, int(size)) for size, _, p in rows if size.isdigit() and p != "total"]

    def read(self, folder: str, parts: Iterable[Part]) -> dict[str, bytes]:
        """See Cluster."""
        if self._is_local:
            return shared_files.read_parts(folder, parts)
        wanted = list(parts)
        mark = f"{_MARK}-{secrets.token_hex(8)}"
        lines = [f"if cd {shlex.quote(folder)} 2>/dev/null; then :"]  # not there before the start
        for number, part in enumerate(wanted):
            lines.append(f"printf '\\n%s %d\\n' {mark} {number}")
            path = shlex.quote(part.path)
            lines.append(f"tail -c +{part.offset + 1} {path} 2>/dev/null | head -c {part.size}")
        lines += ["fi", f"printf '\\n%s end\\n' {mark}"]
        done = self._run_program("\n".join(lines) + "\n")
        pieces = done.stdout.split(f"\n{mark} ".encode())
        if not pieces[-1].startswith(b"end"):
            raise Unreachable(f"cannot read {folder}: {_texts(done)[1][:200]}")
        found = {}
        for piece in pieces[1:-1]:
            number_text, _, content = piece.partition(b"\n")
            found[wanted[int(number_text)].path] = content
        return found

    def _output(self, program: str, doing: str) -> str:
        done = self._run_program(program)
        text, problem = _texts(done)
        if done.returncode != 0:
            raise self._problem(done.returncode, problem, doing)
        return text

    def _problem(self, code: int, text: str, doing: str) -> Exception:
        """Unreachable, or the error, for what a command has printed."""
        self._require_commands(code)
        if UNANSWERED.search(text):
            return Unreachable(f"the Slurm controller gives no answer: {text.strip()[-200:]}")
        return refusal(text, doing)

    def _require_commands(self, code: int) -> None:
        if code == _NO_COMMAND:
            where = "this machine" if self.connection == "local" else self.connection
            message = f"{where} has no commands of Slurm"
            remedy = "set targets.slurm.connection: ssh://LOGIN-NODE, or to the URL of slurmrestd"
            finding = error("slurm-missing", message, remedy, "targets.slurm.connection")
            raise RsctlError(ExitCode.ENVIRONMENT, finding)


def _texts(done: subprocess.CompletedProcess[bytes]) -> tuple[str, str]:
    return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
