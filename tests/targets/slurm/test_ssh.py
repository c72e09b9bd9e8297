"""Login nodes as people have them, played by a program in the place of OpenSSH's client."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.findings import RsctlError
from rsctl.targets.base import Unanswered
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.slurm.cluster import Submitted
from rsctl.targets.slurm.commands import CommandCluster, ssh_runner
from rsctl.targets.slurm.job import SlurmJob
from rsctl.targets.slurm.job_address import JobAddress

SSH = """#!/bin/sh
case " $* " in *" -O check "*) exit {check} ;; esac
printf '%s\\n' "$@" >{folder}/words
HOME={folder} SHELL=/bin/sh PATH={path} export HOME SHELL PATH
{login}
exec sh -s
"""
SBATCH = "#!/bin/sh\ncat >/dev/null\n{prints}echo 17\n"
SCONTROL = """#!/bin/sh
case $2 in
    config) echo 'ClusterName = alpha' ;;
    job) echo 'JobId=17 JobName=t-1 JobState=PENDING Reason=Priority Comment=rsctl:t-1' ;;
esac
"""
SCANCEL = '#!/bin/sh\necho "$@" >"$HOME/cancelled"\n'

Node = Callable[..., CommandCluster]


@pytest.fixture
def login_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Makes a login node, whose `login` runs before rsctl's program as a shell's files do."""
    real = shutil.which("ssh")
    programs, slurm = tmp_path / "bin", tmp_path / "slurm's"
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/gone")  # as in a container, or after `su`

    def make(
        login: str = "",
        *,
        host: str = "login1",
        prints: str = "",
        path: str = "",
        check: int = 255,
        start: str = "N/A",
    ) -> CommandCluster:
        for folder in (programs, slurm):
            folder.mkdir(exist_ok=True)
        files = {
            programs / "ssh": SSH.format(
                check=check,
                folder=tmp_path,
                login=login,
                path=path or f'"{slurm}:/usr/bin:/bin"',
            ),
            slurm / "sbatch": SBATCH.format(prints=prints),
            slurm / "scontrol": SCONTROL,
            slurm / "scancel": SCANCEL,
            slurm / "squeue": f"#!/bin/sh\necho {start}\n",
        }
        for file, text in files.items():
            file.write_text(text)
            file.chmod(0o755)
        return CommandCluster(f"ssh://{host}", ssh_runner(host), is_local=False)

    assert real is not None
    make.real = real  # type: ignore[attr-defined]
    return make


def submit(cluster: CommandCluster) -> Submitted:
    """The answer to a submission."""
    return cluster.submit("#!/bin/sh\ntrue\n", {"TOKEN": "it's"}, "train-abcdef")


@pytest.mark.parametrize(
    "login",
    ["", "echo Welcome to alpha", "echo 3 jobs; echo error: authentication is required >&2"],
)
def test_what_a_login_prints_is_no_answer(login_node: Node, login: str) -> None:
    """A .bashrc with `echo` made a job that had been submitted look refused."""
    assert submit(login_node(login)) == Submitted(17, "alpha")
    refused = login_node(login, prints="echo 'sbatch: error: QOS is full' >&2; exit 1;")
    with pytest.raises(RsctlError, match="submit the job: QOS is full"):
        submit(refused)


def test_what_a_sites_own_sbatch_prints_is_no_answer(login_node: Node) -> None:
    """As on clusters whose sbatch checks a job before it submits the job."""
    prints = "echo '--> Verifying 2 nodes... OK'; echo; "
    assert submit(login_node(prints=prints)) == Submitted(17, "alpha")


def test_options_that_a_start_file_sets_for_slurms_commands(login_node: Node) -> None:
    """Slurm 24.11 and 22.05 leave a job out of squeue's list, and alive after scancel, for them."""
    names = ("SQUEUE_PARTITION", "SCANCEL_STATE", "SCONTROL_ALL", "SACCT_FORMAT", "SBATCH_QOS")
    cluster = login_node(f"export SLURM_CONF=/s {' '.join(f'{name}=x' for name in names)}")
    assert cluster.output("env | grep -E '=(x|/s)$'", "list variables") == "SLURM_CONF=/s\n"


def test_an_answer_without_an_id_may_be_of_a_job(login_node: Node) -> None:
    """sbatch has succeeded, so the job is looked for."""
    with pytest.raises(Unanswered):
        submit(login_node(prints="echo queued; exit 0;"))


def test_commands_that_only_a_login_shell_finds(login_node: Node, tmp_path: Path) -> None:
    """As in /opt/slurm/bin, which a file of /etc/profile.d adds to PATH."""
    slurm = tmp_path / "slurm's"
    (tmp_path / ".profile").write_text(f'echo hello\nPATH="{slurm}:$PATH"\nexport PATH\n')
    assert submit(login_node(path="/usr/bin:/bin")) == Submitted(17, "alpha")


CSH = """#!/bin/sh
[ "$*" = -l ] || {{ echo "Unknown option: \\`$1'"; exit 1; }}
PATH="{slurm}:$PATH" exec sh
"""
"""As tcsh 6.24, which is a login shell only with the one option -l."""


def test_commands_that_only_the_login_shell_csh_finds(login_node: Node, tmp_path: Path) -> None:
    shell = tmp_path / "csh"
    shell.write_text(CSH.format(slurm=tmp_path / "slurm's"))
    shell.chmod(0o755)
    login = f"SHELL={shell}; export SHELL"
    assert submit(login_node(login, path="/usr/bin:/bin")) == Submitted(17, "alpha")


@pytest.mark.parametrize(
    ("login", "message"),
    [
        (
            "echo 'Password change required but no TTY available.' >&2; exit 1",
            "cannot run commands on me@login1: Password change required but no TTY available.",
        ),
        (
            "echo 'This account is currently not available.'; exit 1",
            "cannot run commands on me@login1: This account is currently not available.",
        ),
        (
            "echo 'Received disconnect: Too many authentication failures' >&2; exit 255",
            "cannot log in to me@login1: Received disconnect: Too many authentication failures",
        ),
    ],
)
def test_a_login_that_runs_nothing(login_node: Node, login: str, message: str) -> None:
    """An expired password, a forced command or too many keys: not a refusal of Slurm."""
    with pytest.raises(RsctlError) as caught:
        submit(login_node(login, host="me@login1:2222"))
    [finding] = caught.value.findings
    assert finding.message == message
    assert finding.remedy == "make `ssh -p 2222 me@login1 true` work without a password prompt"


def test_a_connection_that_breaks_off_is_no_answer(login_node: Node) -> None:
    """It may work later."""
    with pytest.raises(Unreachable, match="Connection closed"):
        login_node("echo 'Connection closed by login1' >&2; exit 255").job(17)


def test_the_users_own_settings_for_terminals_do_not_count(
    login_node: Node, tmp_path: Path
) -> None:
    """OpenSSH itself says what its options come to with such a file."""
    (tmp_path / "config").write_text(
        "Host login1\n LocalForward 8888 localhost:8888\n RemoteCommand tmux attach\n"
        " RequestTTY force\n"
    )
    submit(login_node())
    words = (tmp_path / "words").read_text().splitlines()
    real = login_node.real  # type: ignore[attr-defined]
    argv = [real, "-F", str(tmp_path / "config"), "-G", *words]
    shown = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    assert "requesttty false" in shown
    assert not [line for line in shown if line.startswith(("localforward", "remotecommand"))]


@pytest.mark.parametrize("check", [0, 255])
def test_a_connection_that_the_user_shares_is_used(
    login_node: Node, tmp_path: Path, check: int
) -> None:
    """So a host that asks for a one-time code works; otherwise rsctl shares one of its own."""
    submit(login_node(check=check))
    words = (tmp_path / "words").read_text()
    assert ("ControlPath" in words) is (check != 0)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("login1", ["--", "login1"]),
        ("me@login1:2222", ["-p", "2222", "--", "me@login1"]),
        ("[::1]", ["--", "::1"]),
        ("me@[fe80::1]:22", ["-p", "22", "--", "me@fe80::1"]),
    ],
)
def test_the_words_of_a_host(
    login_node: Node, tmp_path: Path, host: str, address: list[str]
) -> None:
    """ssh takes the port by an option, and an address of IPv6 without brackets."""
    submit(login_node(host=host))
    words = (tmp_path / "words").read_text().splitlines()
    assert words[-len(address) - 1 :] == [*address, "sh -s"]


def test_a_job_that_waits_has_no_folder_yet(login_node: Node, tmp_path: Path) -> None:
    """Its status was without a reason, and it could not be cancelled."""
    address = JobAddress("ssh://login1", "alpha", 17, f"{tmp_path}/shared/t-1")
    job = SlurmJob(address, login_node())
    assert job.status().reason == "jobs with a higher priority are before it (Priority)"
    job.cancel()
    assert (tmp_path / "cancelled").read_text() == "17\n"
    expected = SlurmJob(address, login_node(start="1764241200")).status().reason
    assert str(expected).endswith("; Slurm expects to start it at 2025-11-27T11:00Z")


def test_a_host_without_slurm(login_node: Node) -> None:
    """A job was not refused: its cluster is elsewhere."""
    with pytest.raises(RsctlError) as caught:
        submit(login_node(path="/usr/bin:/bin"))
    [finding] = caught.value.findings
    assert finding.message == "ssh://login1 has no commands of Slurm"
    assert finding.path == "targets.slurm.connection"


def test_a_host_without_slurm_that_speaks_another_language(
    login_node: Node, tmp_path: Path
) -> None:
    """The message of its shell is not known, and its exit code is."""
    login_node()
    for name in ("sbatch", "scontrol", "squeue", "scancel"):
        program = tmp_path / "slurm's" / name
        program.write_text(
            f"#!/bin/sh\necho 'sh: {name}: Kommando nicht gefunden.' >&2; exit 127\n"
        )
    cluster = CommandCluster("ssh://login1", ssh_runner("login1"), is_local=False)
    calls: list[Callable[[], object]] = [
        *(lambda: submit(cluster), lambda: cluster.job(17), lambda: cluster.cancel(17)),
        *(lambda: cluster.find("rsctl:t-1"), lambda: cluster.test("#!/bin/sh\n")),
    ]
    for call in calls:
        with pytest.raises(RsctlError, match="ssh://login1 has no commands of Slurm"):
            call()


def test_a_folder_of_sockets_that_others_can_use(
    login_node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user could put a connection of his own in the place of rsctl's."""
    with tempfile.TemporaryDirectory() as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        folder = Path(short, f"rsctl-ssh-{os.getuid()}")
        folder.mkdir()
        folder.chmod(0o770)
        with pytest.raises(RsctlError) as caught:
            login_node()
        [finding] = caught.value.findings
        assert finding.message == f"{folder} belongs to another user, or others can use it"
        folder.chmod(0o700)
        submit(login_node())
        assert f"ControlPath={folder}/%C" in (tmp_path / "words").read_text().splitlines()
