"""What nodes do alike, whether they are containers or processes."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from pathlib import Path

import pytest

from rsctl.findings import RsctlError
from rsctl.runs.home import home
from rsctl.targets.managed.emulator.nodes import Node, NotStarted
from tests.kit.polling import wait_until

from .conftest import IMAGE, BashNodes, leftovers, owners


def test_output_is_whole_lines_of_two_streams_with_times(bash_nodes: BashNodes) -> None:
    heard = bash_nodes.run("echo a; echo b >&2; printf 'no \\xff end'")
    assert heard.texts("one") == ["a", "no \ufffd end"]
    assert heard.texts("one", "stderr") == ["b"]
    assert heard.ends == {"one": [0]}
    form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
    assert all(re.fullmatch(form, time) for *_, time in heard.lines)


def test_nothing_of_a_long_log_is_lost(bash_nodes: BashNodes) -> None:
    heard = bash_nodes.run("seq 1 20000; exec >&2; seq 1 20000")
    assert heard.texts("one") == [str(n) for n in range(1, 20001)]
    assert heard.texts("one", "stderr") == heard.texts("one")
    assert heard.order[-1] == "ended 0"


def test_a_line_without_end_comes_in_pieces(bash_nodes: BashNodes) -> None:
    heard = bash_nodes.run("head -c 1000000 /dev/zero | tr '\\0' x")
    pieces = heard.texts("one")
    assert "".join(pieces) == "x" * 1000000
    assert max(map(len, pieces)) == 256 << 10


def test_exit_codes(bash_nodes: BashNodes) -> None:
    codes = [1, 7, 125, 255]
    for code in codes:
        bash_nodes.run(f"exit {code}")
    assert bash_nodes.heard.ends == {"one": codes}


def test_arguments_and_environment_arrive_as_they_are(bash_nodes: BashNodes) -> None:
    hostile = ["", "a b", "$(touch /tmp/x)", "--privileged", "ü\n\"'"]
    env = {
        "PATHS": "/a:/b",
        "LINES": "one\ntwo",
        "EMPTY": "",
        "HASH": "# no comment ",
        "D": "$HOME",
    }
    env |= {"LONG": "x" * 40000, "DOCKER_HOST": "tcp://192.0.2.1:1", "HOME": "/nowhere"}
    code = "import json, os, sys; print(json.dumps([sys.argv[2:], "
    code += f"{{name: os.environ[name] for name in {list(env)}}}]))"
    heard = bash_nodes.run('exec python3 -c "$1" "$@"', code, *hostile, env=env)
    assert json.loads(heard.texts("one")[0]) == [hostile, env]


def test_nothing_of_the_callers_environment_is_passed_on(
    bash_nodes: BashNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the caller")
    assert bash_nodes.run("echo ${AWS_SECRET_ACCESS_KEY-unset}").texts("one") == ["unset"]


def test_a_mount_is_a_folder_of_this_machine(bash_nodes: BashNodes, tmp_path: Path) -> None:
    """With a comma in its name, and made because it is missing; one lies in another."""
    outer, inner = tmp_path / "a,b c" / "outer", tmp_path / "inner"
    inner.mkdir()
    (inner / "given").write_text("in\n")
    mounts = {"/cloud/in": outer, "/cloud/in/data": inner}
    script = (
        'cat "$WHERE/data/given"; echo out > "$WHERE/made"; echo "${1#--to=}" | grep -c "^$WHERE/x"'
    )
    heard = bash_nodes.run(script, "--to=/cloud/in/x", env={"WHERE": "/cloud/in"}, mounts=mounts)
    assert heard.texts("one") == ["in", "1"]
    assert (outer / "made").read_text() == "out\n"


def test_nodes_reach_each_other(bash_nodes: BashNodes) -> None:
    host, port = bash_nodes.nodes.address("server"), bash_nodes.nodes.port("server", 2222)
    assert (host, port) == (
        bash_nodes.nodes.address("server"),
        bash_nodes.nodes.port("server", 2222),
    )
    assert host != bash_nodes.nodes.address("client")
    serve = (
        "import socket; s = socket.create_server(('', int(__import__('sys').argv[1]))); "
        "print('listens', flush=True); s.accept()[0].sendall(b'hello')"
    )
    ask = (
        "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2]))); "
        "print(s.recv(9).decode())"
    )
    heard = bash_nodes.start(f'exec python3 -c "{serve}" "$1"', "server", str(port))
    heard.wait_for("server", "listens")
    bash_nodes.start(f'exec python3 -c "{ask}" "$1" "$2"', "client", host, str(port))
    heard.wait_for_ends(2)
    assert heard.texts("client") == ["hello"]
    assert heard.ends == {"server": [0], "client": [0]}


def test_stop_gives_the_first_process_time(bash_nodes: BashNodes) -> None:
    heard = bash_nodes.start(
        "trap 'echo last words; exit 3' TERM; echo up; while :; do sleep 0.05; done"
    )
    heard.wait_for("one", "up")
    bash_nodes.nodes.stop("one", 60)
    heard.wait_for_ends()
    assert heard.texts("one") == ["up", "last words"]
    assert heard.ends == {"one": [3]}


def test_stop_kills_what_does_not_heed_it(bash_nodes: BashNodes) -> None:
    heard = bash_nodes.start("trap '' TERM; echo up; while :; do sleep 0.05; done")
    heard.wait_for("one", "up")
    bash_nodes.nodes.stop("one", 0.1)
    heard.wait_for_ends()
    assert heard.ends == {"one": [137]}


def test_a_node_can_be_killed_before_it_has_begun(bash_nodes: BashNodes) -> None:
    heard = bash_nodes.start("sleep 600")
    bash_nodes.nodes.kill("one")
    heard.wait_for_ends()
    assert heard.ends == {"one": [137]}


def test_what_a_node_leaves_running_ends_with_it(bash_nodes: BashNodes) -> None:
    heard = bash_nodes.run("setsid sleep 600 & exit 4")
    assert heard.ends == {"one": [4]}
    bash_nodes.nodes.stop("one", 1)  # harmless now
    bash_nodes.nodes.kill("one")
    bash_nodes.nodes.kill("never started")


def test_a_name_can_be_started_again(bash_nodes: BashNodes) -> None:
    bash_nodes.run("echo first; exit 1")
    heard = bash_nodes.run("echo second; exit 2")
    assert heard.order == ["first", "ended 1", "second", "ended 2"]


def test_a_command_that_is_not_there_fails_in_the_node(bash_nodes: BashNodes) -> None:
    bash_nodes.nodes.start(Node("one", IMAGE, ["/no/such/program"], [], {}, {}))
    bash_nodes.heard.wait_for_ends()
    assert bash_nodes.heard.ends == {"one": [127]}
    (code,) = bash_nodes.heard.ends["one"]
    assert isinstance(code, NotStarted)
    assert "OCI runtime create failed: " in code.message
    assert 'exec: "/no/such/program": ' in code.message
    assert "/no/such/program" in "".join(bash_nodes.heard.texts("one", "stderr"))


def test_a_shell_that_finds_no_command_has_started(bash_nodes: BashNodes) -> None:
    heard = bash_nodes.run("no-such-program")
    (code,) = heard.ends["one"]
    assert (code, isinstance(code, NotStarted)) == (127, False)


def test_an_image_that_is_not_there(bash_nodes: BashNodes) -> None:
    assert bash_nodes.runner.has_image(IMAGE)
    assert not bash_nodes.runner.has_image("no.example/such:image")
    with pytest.raises(RsctlError, match=r"no\.example/such"):
        bash_nodes.nodes.start(Node("one", "no.example/such:image", ["true"], [], {}, {}))


def test_close_ends_all_and_leaves_nothing(bash_nodes: BashNodes) -> None:
    # Its child may be killed first, and it is not to end by itself then.
    heard = bash_nodes.start("trap '' TERM; echo up; sleep 600 & wait; kill -KILL $$")
    heard.wait_for("one", "up")
    [owner] = owners(home())
    assert leftovers(owner)
    bash_nodes.nodes.close()
    assert heard.ends == {"one": [137]}
    assert leftovers(owner) == []
    with pytest.raises(OSError, match="closed"):
        bash_nodes.start("true", "two")
    bash_nodes.runner.close()
    assert owners(home()) == []
    assert list((home() / "emulators").iterdir()) == []


def test_a_killed_owner_leaves_nothing(abrupt: subprocess.Popen[str]) -> None:
    """Its guard has seen to that when the owner's file has gone."""
    [owner] = owners(home())
    assert leftovers(owner)
    abrupt.kill()
    wait_until(lambda: not owners(home()), "the guard")
    assert leftovers(owner) == []


def test_the_next_runner_clears_away_if_the_guard_was_killed_too(
    abrupt: subprocess.Popen[str], bash_nodes: BashNodes
) -> None:
    dead, alive = _dead_and_alive(bash_nodes)
    guard = subprocess.run(
        ["pgrep", "-f", f"nodes/guard.py {dead}-"],
        capture_output=True,
        text=True,
    )
    subprocess.run(["kill", "-KILL", guard.stdout.strip()], check=True)
    abrupt.kill()
    abrupt.wait()
    assert leftovers(dead)
    from rsctl.targets.managed.emulator.nodes.owner import clean_up_dead

    clean_up_dead()
    assert leftovers(dead) == []
    assert owners(home()) == [alive]


def _dead_and_alive(bash_nodes: BashNodes) -> tuple[str, str]:
    """The owner that will be killed, and this process's own."""
    own = bash_nodes.runner._owner.name  # type: ignore[attr-defined]
    [other] = [name for name in owners(home()) if name != own]
    return other, own


def test_two_jobs_do_not_meet(bash_nodes: BashNodes) -> None:
    other = BashNodes(bash_nodes.runner)
    first = bash_nodes.start("echo up; sleep 600")
    second = other.start("echo up; sleep 600")
    first.wait_for("one", "up")
    second.wait_for("one", "up")
    other.nodes.close()
    assert (first.ends, second.ends) == ({}, {"one": [137]})


def test_many_nodes_at_once(bash_nodes: BashNodes) -> None:
    names = [f"n{number}" for number in range(6)]
    threads = [threading.Thread(target=bash_nodes.start, args=(f"echo {n}", n)) for n in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bash_nodes.heard.wait_for_ends(len(names))
    assert {name: bash_nodes.heard.texts(name) for name in names} == {
        name: [name] for name in names
    }
