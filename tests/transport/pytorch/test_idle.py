"""Nodes that did nothing for the training are reported when the script has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXPECTED = {"RSCTL_EXPECTED_RANKS": "2"}
PLAIN = (
    "Call torch.distributed.init_process_group() and wrap the model in DistributedDataParallel, "
    "or set workers.count: 1."
)
LIGHTNING = "Give Lightning's Trainer or Fabric num_nodes=2, devices=1 and strategy='ddp'."


def only(ended: Any) -> tuple[str, str, str]:
    """Code, message and remedy of the one finding, a warning."""
    assert ended.code == 0, ended.err
    (finding,) = ended.printed("finding")
    assert finding["severity"] == "warning"
    return finding["code"], finding["message"], finding["remedy"]


@pytest.mark.parametrize(
    ("modules", "remedy"),
    [
        ([], PLAIN),
        (["lightning"], LIGHTNING),
        (["pytorch_lightning"], LIGHTNING),
        (["lightning_fabric"], LIGHTNING),
        (
            ["deepspeed"],
            "Call deepspeed.initialize() or deepspeed.init_distributed() on all ranks.",
        ),
        (
            ["accelerate"],
            "Pass model and optimizer through Accelerator.prepare(); the script's own launcher "
            "must get the number of nodes and their rank.",
        ),
    ],
)
def test_ranks_that_train_alone(run: Callable[..., Any], modules: list[str], remedy: str) -> None:
    ended = run("apart.py", "alone", *modules, nodes=2, ranks=1, **EXPECTED)
    assert only(ended) == (
        "workers-apart",
        "2 workers, but no process group of 2 ranks was formed: they did not train together",
        remedy,
    )


def test_ranks_that_do_nothing_together(run: Callable[..., Any], tmp_path: Path) -> None:
    """Where it can be known that nothing that they have started has formed a group."""
    ended = run("apart.py", "nothing", nodes=2, ranks=1, RSCTL_DEBUG_DIR=str(tmp_path), **EXPECTED)
    assert only(ended) == (
        "workers-apart",
        "the job has 2 ranks, and they formed no process group: each worked by itself",
        PLAIN,
    )


SEPARATE = (
    "Use run.script with launcher torchrun, or give the script's own launcher the number of nodes, "
    "this node's number and the chief: NNODES, NODE_RANK, MASTER_ADDR, MASTER_PORT."
)


@pytest.mark.parametrize("kind", ["smaller", "caught"])
def test_a_group_that_has_not_all_nodes_fails(run: Callable[..., Any], kind: str) -> None:
    """However large it is, and whatever the script makes of the error."""
    expected = {"RSCTL_EXPECTED_RANKS": "2", "RSCTL_EXPECTED_NODES": "2"}
    ended = run("apart.py", kind, nodes=2, ranks=1, RSCTL_REPLICA="worker-1", **expected)
    assert ended.code == 1
    findings = {(f["severity"], f["message"], f["remedy"]) for f in ended.printed("finding")}
    message = "workers.count: the process group has 1 rank on worker-1 only, and the job has 2 "
    assert findings == {("error", f"{message}nodes: they train separately", SEPARATE)}


def test_a_group_of_some_ranks(run: Callable[..., Any]) -> None:
    ended = run("apart.py", "smaller", nodes=2, ranks=1, **EXPECTED)
    assert ended.code == 0
    findings = {finding["message"] for finding in ended.printed("finding")}
    assert findings == {
        "2 workers, but no process group of 2 ranks was formed, only of 1: they did not train "
        "together"
    }


def test_reducers_beside_ranks_that_train_alone(
    run: Callable[..., Any], reducers: Callable[..., Any]
) -> None:
    ended = run("apart.py", "alone", nodes=2, ranks=1, **EXPECTED, **reducers(1).environ)
    assert only(ended)[:2] == (
        "workers-apart",
        "2 workers, but no process group of 2 ranks was formed: they did not train together, and "
        "no gradient reached the reducers",
    )


@pytest.mark.parametrize(
    ("modules", "message", "remedy"),
    [
        (
            [],
            "the script made no DistributedDataParallel",
            "Wrap the model in DistributedDataParallel, set comm.backend: rsctl, "
            "or set reducers.count: 0.",
        ),
        (
            ["accelerate"],
            "the script made no DistributedDataParallel",
            "Pass the model through Accelerator.prepare(), set comm.backend: rsctl, "
            "or set reducers.count: 0.",
        ),
        (
            ["deepspeed"],
            "DeepSpeed reduces them by itself",
            "Train with DistributedDataParallel, or set reducers.count: 0.",
        ),
    ],
)
def test_reducers_that_no_gradient_reached(
    run: Callable[..., Any],
    reducers: Callable[..., Any],
    modules: list[str],
    message: str,
    remedy: str,
) -> None:
    ended = run("apart.py", "manual", *modules, nodes=2, ranks=1, **EXPECTED, **reducers(2).environ)
    text = f"no gradient reached the 2 reducers: {message}"
    assert only(ended) == ("reducers-idle", text, remedy)


@pytest.mark.parametrize("nodes", [1, 2])
def test_ranks_that_form_a_group_and_exchange_nothing(run: Callable[..., Any], nodes: int) -> None:
    """A barrier carries no data, so it does not count as an exchange. The launcher knows the ranks
    of nodes at least.
    """
    expected = {"RSCTL_EXPECTED_RANKS": str(nodes)}
    ended = run("apart.py", "forgotten", nodes=nodes, ranks=2 // nodes, **expected)
    assert only(ended) == (
        "workers-apart",
        "2 ranks formed a process group and exchanged nothing by it: each trained by itself",
        "Wrap the model in DistributedDataParallel, or reduce its gradients by torch.distributed.",
    )


def test_a_trainer_of_transformers_without_gpus(run: Callable[..., Any]) -> None:
    """It forms a group, which only `use_cpu` makes it use; it imports accelerate, too."""
    modules = ("accelerate", "transformers.trainer")
    ended = run("apart.py", "forgotten", *modules, nodes=2, ranks=1, **EXPECTED)
    assert only(ended)[2] == (
        "On nodes without GPUs, give TrainingArguments use_cpu=True: otherwise the Trainer of "
        "Transformers does not use the process group."
    )


def test_ranks_that_may_exchange_data_without_torch(run: Callable[..., Any]) -> None:
    ended = run("apart.py", "forgotten", "horovod", nodes=2, ranks=1, **EXPECTED)
    assert ended.printed("finding") == []


@pytest.mark.parametrize("kind", ["ddp", "ended", "manual", "messages", "nothing"])
def test_what_is_right_says_nothing(run: Callable[..., Any], kind: str) -> None:
    ended = run("apart.py", kind, nodes=2, ranks=1, **EXPECTED)
    assert (ended.code, ended.printed("finding"), ended.messages) == (0, [], [])


def test_reducers_that_are_used_say_nothing(
    run: Callable[..., Any], reducers: Callable[..., Any]
) -> None:
    ended = run("apart.py", "ddp", nodes=2, ranks=1, **EXPECTED, **reducers(1).environ)
    assert (ended.code, ended.printed("finding")) == (0, [])


def test_a_script_that_failed_has_other_worries(
    run: Callable[..., Any], reducers: Callable[..., Any]
) -> None:
    ended = run("apart.py", "failed", nodes=2, ranks=1, **EXPECTED, **reducers(1).environ)
    assert (ended.code, ended.printed("finding")) == (1, [])


_LATE_THREAD = """
import ctypes, hashlib, os, threading, torch
from rsctl.transport.pytorch import idle

def work():
    ctypes.CDLL(None).prctl(15, b"pt_gloo_runloop")
    named.set()
    hashlib.sha256(bytes(SIZE))  # without the interpreter's lock
    os.write(1, b"released")

named = threading.Event()
threading.Thread(target=work, daemon=True).start()
named.wait()
"""


def test_threads_of_gloo_finish_before_the_interpreter(
    in_interpreter: Callable[..., Any],
) -> None:
    """PyTorch's own end may abort or hang when such a thread comes later."""
    short, long = (_LATE_THREAD.replace("SIZE", size) for size in ("10_000_000", "1_000_000_000"))
    assert in_interpreter(short, **EXPECTED).out == "released"
    assert in_interpreter(long).out == ""
