"""A real Slurm of four nodes in a container of an image that `.ci/slurm` builds."""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
import os
import select
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSIONS = ("24.11", "22.05")
COMMANDS = ("sbatch", "squeue", "scontrol", "scancel", "sacct", "sinfo")

_WRAPPER = """#!/bin/sh
# What sbatch's caller has set travels by name, so that no value is in a command line.
names=$(env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p' |
    grep -vxE 'PATH|HOME|PWD|OLDPWD|USER|LOGNAME|SHELL|SHLVL|_|TMPDIR|TZ' | sed 's/^/-e /')
exec docker exec -i -u me $names {container} {command} "$@"
"""

_ENTERING_WRAPPER = """#!/bin/sh
unset PWD OLDPWD USER LOGNAME SHELL SHLVL TMPDIR TZ
export PATH={path} HOME=/home/me LANG="${{LANG:-C.UTF-8}}"
exec {enter} {command} "$@"
"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def image(version: str) -> str:
    """The image of a version of Slurm."""
    return f"rsctl-test-slurm:{version}"


def _has_image(version: str) -> bool:
    if shutil.which("docker") is None:
        return False
    found = subprocess.run(["docker", "image", "inspect", image(version)], capture_output=True)
    return found.returncode == 0


_CHOSEN = os.environ.get("RSCTL_SLURM", "")
"""Versions with commas between, as `.ci/run` sets it."""


def needs_slurm(version: str = "24.11") -> pytest.MarkDecorator:
    """Skips a test where the image is missing; in CI never."""
    is_wanted = os.environ.get("CI") == "true" or version in _CHOSEN.split(",")
    return pytest.mark.skipif(
        not is_wanted and not _has_image(version),
        reason=f"needs Docker and Slurm: .ci/docker-engine, .ci/slurm {version}",
    )


class SlurmCluster:
    """The container, and a folder that all of its nodes and this machine see at the same path."""

    def __init__(self, version: str, folder: Path, name: str) -> None:
        self.version, self.name = version, name
        self.shared = folder / "shared"
        self.commands = folder / "bin"
        self._pid = 0

    @property
    def setup(self) -> list[str]:
        """`targets.slurm.setup` by which jobs get the Python of these tests."""
        return [f"export PATH={Path(sys.executable).parent}:$PATH"]

    @property
    def environ(self) -> dict[str, str]:
        """Variables by which the commands of Slurm are found on this machine."""
        return {"PATH": f"{self.commands}:{os.environ['PATH']}"}

    def run(self, *command: str, user: str = "root", text: str | None = None) -> str:
        """What a command in the container prints."""
        way = ["docker", "exec", "-i", "-u", user, self.name]
        environ = None
        if self._pid:
            home = "/root" if user == "root" else f"/home/{user}"
            way, environ = self._enter(user), {"PATH": _PATH, "HOME": home, "LANG": "C.UTF-8"}
        done = subprocess.run(
            [*way, *command], input=text, capture_output=True, text=True, env=environ
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _enter(self, user: str) -> list[str]:
        """The beginning of a command line that runs in the container."""
        spaces = ("-m", "-u", "-i", "-n", "-p", "-w")
        become = ("setpriv", "--reuid", user, "--regid", user, "--init-groups")
        return [str(shutil.which("nsenter")), "-t", str(self._pid), *spaces, "--", *become]

    def use_commands(self) -> None:
        """Make the commands of Slurm that act on this cluster, once it has started.

        They enter the container without Docker where this process may: each `docker exec` takes
        70 ms of processor, and a test makes a hundred.
        """
        if os.geteuid() == 0 and shutil.which("nsenter"):
            form = ["docker", "inspect", "-f", "{{.State.Pid}}", self.name]
            found = subprocess.run(form, capture_output=True, text=True, check=True).stdout.strip()
            # Where the engine runs on another machine, that number is of another process.
            if Path(f"/proc/{found}/root{self.shared}").exists():
                self._pid = int(found)
        for command in COMMANDS:
            path = self.commands / command
            if self._pid:
                enter = " ".join(self._enter("me"))
                text = _ENTERING_WRAPPER.format(path=_PATH, enter=enter, command=command)
            else:
                text = _WRAPPER.format(container=self.name, command=command)
            path.write_text(text)
            path.chmod(0o755)

    def control(self, *words: str) -> None:
        """Act on a daemon; see tests/kit/slurm/start."""
        start = str(ROOT / "tests/kit/slurm/start")
        command = ["docker", "exec", self.name, start, *words]  # daemons end with the container
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def jobs(self) -> list[str]:
        """ID, state and name of the jobs that the controller knows."""
        return self.run("squeue", "-h", "--states=all", "-o", "%A %T %j").splitlines()

    @property
    def address(self) -> str:
        """The container's address."""
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        found = subprocess.run(
            ["docker", "inspect", "-f", form, self.name], capture_output=True, text=True, check=True
        )
        return found.stdout.strip()

    @contextlib.contextmanager
    def rest(self) -> Iterator[str]:
        """The URL of slurmrestd on this machine's loopback, as of a tunnel."""
        address = (self.address, 6820)

        class Forward(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.create_connection(address) as other:
                    ends = {self.request: other, other: self.request}
                    while readable := select.select([*ends], [], [])[0]:
                        for end in readable:
                            if not (block := end.recv(1 << 16)):
                                return
                            ends[end].sendall(block)

        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Forward) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            yield f"http://127.0.0.1:{server.server_address[1]}"
            server.shutdown()

    def allow_ssh(self, folder: Path) -> str:
        """Let this machine log in as `me`; the host's name. The configuration of OpenSSH is that
        of `folder`, because OpenSSH takes the home from the password file and not from HOME.
        """
        key = folder / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        public = key.with_suffix(".pub").read_text()
        self.run("tee", "-a", "/etc/ssh/authorized", text=public)
        host_key = self.run("cat", "/etc/ssh/ssh_host_ed25519_key.pub")
        (folder / "known_hosts").write_text(f"{self.address} {host_key}")
        (folder / "config").write_text(
            f"Host login\n HostName {self.address}\n User me\n IdentityFile {key}\n"
            f" UserKnownHostsFile {folder / 'known_hosts'}\n StrictHostKeyChecking yes\n"
        )
        wrapper = self.commands / "ssh"
        others = [path for path in os.environ["PATH"].split(":") if path != str(self.commands)]
        real = shutil.which("ssh", path=":".join(others))
        wrapper.write_text(f'#!/bin/sh\nexec {real} -F {folder}/config "$@"\n')
        wrapper.chmod(0o755)
        return "login"

    def token(self) -> str:
        """A token of slurmrestd for the user `me`."""
        return self.run("scontrol", "token", "username=me").partition("=")[2].strip()

    def expired_token(self) -> str:
        """The same from yesterday. Slurm's own tokens last a minute at least, so that this one is
        signed here, by the key of the cluster.
        """
        head, claims, _ = self.token().split(".")
        known = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        day = 24 * 3600
        text = json.dumps({**known, "iat": known["iat"] - day, "exp": known["exp"] - day})
        key = base64.b64decode(self.run("base64", "/etc/slurm/jwt.key"))
        signed = f"{head}.{_as_base64(text.encode())}"
        return f"{signed}.{_as_base64(hmac.digest(key, signed.encode(), 'sha256'))}"


def _as_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@contextlib.contextmanager
def slurm_cluster(version: str = "24.11", **settings: str) -> Iterator[SlurmCluster]:
    """Start a cluster, and remove it at the end. `settings` are variables of the start script."""
    folder = Path(tempfile.mkdtemp(prefix="rsctl-slurm-"))
    folder.chmod(0o755)
    cluster = SlurmCluster(version, folder, f"rsctl-slurm-{uuid.uuid4().hex[:8]}")
    cluster.shared.mkdir()
    cluster.shared.chmod(0o777)
    cluster.commands.mkdir()
    mounts = [f"{cluster.shared}:{cluster.shared}"]
    pythons = {Path(sys.prefix), Path(sys.base_prefix)} - {Path("/usr")}
    mounts += [f"{path}:{path}:ro" for path in {ROOT, *pythons} if ROOT not in path.parents]
    options = [word for mount in mounts for word in ("--volume", mount)]
    options += [word for key, value in settings.items() for word in ("--env", f"{key}={value}")]
    start = f"chmod a+x /root; exec {ROOT}/tests/kit/slurm/start {version}"
    # Slurm binds the tasks of another user to processors.
    words = ["--init", "--cap-add", "SYS_NICE", "--name", cluster.name, "--hostname", "ctl"]
    words += [*options, image(version)]
    try:
        _start([*words, "bash", "-c", start], cluster.name)
        cluster.use_commands()
        yield cluster
    finally:
        _remove(cluster.name)
        shutil.rmtree(folder, ignore_errors=True)


_START_SECONDS = 150
"""A cluster starts in 4 seconds, and within 60 on the busiest machine that was seen."""


def _start(container: list[str], name: str) -> None:
    """Start the daemons, a second time if they fail; fail the test with what they have said."""
    for _ in range(2):
        begin = ["docker", "run", "--detach", *container]
        subprocess.run(begin, check=True, capture_output=True)
        attached = ["docker", "logs", "--follow", name]
        with subprocess.Popen(attached, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as logs:
            try:
                printed = _read_until(logs, b"ready", seconds=_START_SECONDS)
            finally:
                logs.kill()
        if b"ready" in printed:
            return
        tail = "sinfo -N -l; tail -n 20 /tmp/*.log"
        found = subprocess.run(
            ["docker", "exec", name, "timeout", "20", "bash", "-c", tail],
            capture_output=True,
            text=True,
        )
        said = printed.decode() + found.stdout + found.stderr
        print(f"Slurm has not started: {said}", file=sys.stderr)
        _remove(name)
    pytest.fail(f"Slurm has not started twice: {said}")


def _read_until(process: subprocess.Popen[bytes], word: bytes, *, seconds: float) -> bytes:
    """What a process prints until a word of it, its end or a deadline."""
    assert process.stdout is not None
    printed = b""
    end = time.monotonic() + seconds
    while word not in printed and (left := end - time.monotonic()) > 0:
        if select.select([process.stdout], [], [], left)[0]:
            if not (block := os.read(process.stdout.fileno(), 1 << 16)):
                break
            printed += block
    return printed


def _remove(name: str) -> None:
    subprocess.run(["docker", "rm", "--force", name], capture_output=True)
