"""The proof again where the job runs: beside the start of a node, in an image with a transport."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

Launch = Callable[..., Any]

FOREVER = ("--launcher", "once", "--", "sh", "-c", "echo up $$; exec sleep 999")


@pytest.fixture
def efa_node(image: Any, launch: Launch) -> Launch:
    """Start a node in an image that has been built for EFA."""
    root = image.without_transport()
    (root / "transport").write_text("efa\n")
    image.cuda_torch(8)

    def start(*arguments: str, **more: Any) -> Any:
        environ = image.environ | {"PYTHONPATH": f"{image.site}:{root}"} | more
        return launch(*arguments, root=root, **environ)

    return start


def test_what_is_proven_is_in_the_log(image: Any, efa_node: Launch) -> None:
    plugin = image.plugin(8)
    node = efa_node(*FOREVER)
    takes = "NCCL 2.27.3 of torch 2.8.0+cu128 takes v8"
    node.printed(f"rsctl: transport efa: {plugin} has ncclNetPlugin_v8, {takes}")


def test_no_plugin_ends_the_job(efa_node: Launch, gone: Callable[[int], None]) -> None:
    node = efa_node(*FOREVER)
    assert node.wait() == 3
    missing = "NCCL would not find aws-ofi-nccl: no file has the name libnccl-net.so"
    assert node.lines("finding") == [
        {
            "rsctl": "finding",
            "severity": "error",
            "code": "plugin-missing",
            "message": missing,
            "remedy": "Install AWS's EFA software, or set image.transport: none.",
        }
    ]
    assert node.lines("exit") == []
    for row in node.out.splitlines():
        if row.startswith("up "):
            gone(int(row.removeprefix("up ")))


def test_no_plugin_ends_a_node_that_still_waits_for_its_peers(efa_node: Launch) -> None:
    node = efa_node(*FOREVER, cluster_fields={"workers": ["127.0.0.1", "x" * 64]})
    assert node.wait() == 3
    assert [finding["code"] for finding in node.lines("finding")] == ["plugin-missing"]
    assert "up" not in node.out


def test_what_may_work_does_not_end_the_job(image: Any, efa_node: Launch) -> None:
    first, second = (image.plugin(8, folder=name) for name in ("one", "two"))
    node = efa_node(*FOREVER, LD_LIBRARY_PATH=f"{first.parent}:{second.parent}")
    doubled = node.printed('{"rsctl": "finding", "severity": "warning", "code": "plugin-doubled"')
    assert str(second) in doubled
    node.printed("up ")
    node.process.send_signal(signal.SIGTERM)
    assert node.wait() == 143
    assert [finding["severity"] for finding in node.lines("finding")] == ["warning"]


def test_a_job_that_fails_at_once_has_its_findings(efa_node: Launch) -> None:
    node = efa_node("--launcher", "once", "--", "false")
    assert node.wait() == 3
    assert [finding["code"] for finding in node.lines("finding")] == ["plugin-missing"]


def test_nothing_of_it_is_left_when_the_job_ends(
    image: Any, efa_node: Launch, hang: str, gone: Callable[[int], None]
) -> None:
    image.plugin(8, source=hang)
    until = "until test -s pid; do sleep 0.01; done; cat pid"
    node = efa_node("--launcher", "once", "--", "sh", "-c", until)
    assert node.wait() == 0
    gone(int(node.out))


def test_a_limit_that_is_no_number_ends_the_job(efa_node: Launch) -> None:
    node = efa_node(*FOREVER, RSCTL_CHECK_SECONDS="soon")
    assert node.wait() == 3
    assert [finding["code"] for finding in node.lines("finding")] == ["environment-invalid"]


def test_another_word_than_a_transport(image: Any, efa_node: Launch) -> None:
    (image.folder / "opt" / "transport").write_text("smoke-signals")
    node = efa_node(*FOREVER)
    row = node.printed('{"rsctl": "finding"')
    finding = json.loads('{"rsctl": "finding"' + row)
    assert (finding["severity"], finding["code"]) == ("warning", "transport-unknown")
    assert "'smoke-signals'" in finding["message"]


@pytest.mark.parametrize("content", ["none\n", None])
def test_an_image_without_a_transport(image: Any, efa_node: Launch, content: str | None) -> None:
    file = image.folder / "opt" / "transport"
    file.unlink() if content is None else file.write_text(content)
    node = efa_node("--launcher", "once", "--", "false")
    assert node.wait() == 1
    assert node.lines("finding") == []


def test_the_python_that_proves_is_that_of_the_job(efa_node: Launch) -> None:
    node = efa_node(
        "--launcher", "once", "--python", "--", "-c", "import sys; print(sys.executable)"
    )
    assert node.printed("/") == sys.executable.removeprefix("/")
