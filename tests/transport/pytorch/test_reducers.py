"""Gradients over real reducers, from scripts that know nothing of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.transport.pytorch.conftest import is_old

Run = Callable[..., Any]
Reducers = Callable[..., Any]

NEEDS_GPUS = (
    "FSDP requires CUDA|Found no NVIDIA driver|CUDA driver version is insufficient"
    "|dummy base class Stream"
)
"""How FSDP2 of PyTorch 2.4 and 2.5 ends on CPUs."""

GRADIENT_BYTES = 70776
"""All gradients of train.py's model in fp32."""


def fsdp2() -> Any:
    """The package of FSDP2 in this version of torch."""
    try:
        import torch.distributed.fsdp._fully_shard as package
    except ImportError:  # before PyTorch 2.6
        import torch.distributed._composable.fsdp as package
    return package


def test_numbers_are_those_of_plain_training(run: Run, reducers: Reducers, plain: Any) -> None:
    ended = run("train.py", "--backend", "gloo", **reducers(2).environ)
    (line,) = ended.messages
    assert line.startswith(
        "gradients of DistributedDataParallel: 2 workers, 2 reducers sum all of it, "
    )
    assert line.endswith(", buckets of 64 MB, compression none")
    # Two numbers have the same sum in any order.
    assert ended.digest == plain.digest
    (telemetry,) = ended.printed("telemetry")
    counted = telemetry["transport"]
    assert (counted["rank"], counted["operations"]) == (0, 4)
    assert counted["sent_bytes"] > counted["reduced_bytes"] > 0
    assert set(counted) == {
        *("rank", "operations", "reduced_bytes", "sent_bytes", "received_bytes"),
        *("busy_seconds", "stalled_seconds", "gbit_per_second"),
    }


@pytest.mark.parametrize("backend", ["gloo", "rsctl"])
def test_a_script_that_forms_its_process_group_again(
    run: Run, reducers: Reducers, tmp_path: Path, backend: str
) -> None:
    """As scripts do that train with several settings, one after the other."""
    plain = run("train.py", "--backend", "gloo", "--again", str(tmp_path / "plain"))
    words = ("train.py", "--backend", backend, "--again", str(tmp_path / "store"))
    ended = run(*words, **reducers(2).environ)
    assert ended.digest == plain.digest


def test_the_python_engine_and_the_workers_own_reducers(
    run: Run, reducers: Reducers, plain: Any
) -> None:
    ended = run("train.py", "--bucket", "0.02", **reducers(1, engine="off").environ)
    assert ended.messages == [
        "gradients of DistributedDataParallel: 2 workers, 1 reducer sums a part, workers the "
        "rest (hybrid), Python engine, buckets of 0.02 MB, as set by the script, compression none"
    ]
    assert ended.some == pytest.approx(plain.some, rel=1e-5)


@pytest.mark.parametrize("compression", ["bf16", "powersgd", "int8", "fp8"])
def test_compression_over_reducers(
    run: Run, reducers: Reducers, plain: Any, compression: str
) -> None:
    pool = reducers(2)
    comm = {"RSCTL_COMM_COMPRESSION": compression, "RSCTL_POWERSGD_START": "3"}
    ended = run("train.py", *("--backend", "gloo"), **pool.environ, **comm)
    assert f"compression {compression}" in ended.messages[0]
    assert ended.digest != plain.digest
    assert ended.some == pytest.approx(plain.some, abs=0.05)
    counted = ended.printed("telemetry")[0]["transport"]
    assert counted["operations"] >= 4
    assert counted["reduced_bytes"] < 4 * GRADIENT_BYTES


def test_a_gradient_scaler_over_400_steps(run: Run, reducers: Reducers) -> None:
    """An overflow on one rank is skipped on all; nothing of it stays in the rounding errors."""
    pool = reducers(1)
    script = ("scaled.py", "400")
    plain = run(*script)
    ended = run(*script, **pool.environ, RSCTL_COMM_COMPRESSION="int8")
    assert ended.digest != plain.digest
    for ours, theirs in zip(ended.ranks, plain.ranks, strict=True):
        assert ours["scales"] == theirs["scales"]
        assert ours["scales"][1:4] == [4096.0, 2048.0, 2048.0]
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=0.02)
        assert ours["grown_kb"] < 2048


def test_gradients_of_a_dtype_that_reducers_do_not_know(run: Run, reducers: Reducers) -> None:
    own = run("train.py", "--dtype", "float64", "--backend", "gloo")
    ended = run("train.py", "--dtype", "float64", **reducers(2).environ)
    assert ended.digest == own.digest
    assert ended.messages[1:] == ["gradients that are float64 do not use reducers but all-reduce"]
    assert ended.printed("telemetry")[0]["transport"]["operations"] == 0


@pytest.mark.parametrize("compression", ["none", "int8"])
def test_gradients_of_complex_numbers(run: Run, reducers: Reducers, compression: str) -> None:
    own = run("train.py", "--backend", "gloo", "--complex")
    comm = {"RSCTL_COMM_COMPRESSION": compression, **reducers(1).environ}
    ended = run("train.py", "--complex", **comm)
    if is_old():  # its gloo cannot even distribute the parameters
        assert all("RuntimeError: Invalid scalar type" in each.err for each in (own, ended))
        return
    assert ended.digest
    assert ended.some == pytest.approx(own.some, abs=0.02)


def test_two_levels(run: Run, reducers: Reducers) -> None:
    own = run("train.py", "--backend", "gloo", "--steps", "3", nodes=2)
    ended = run(
        *("train.py", "--backend", "gloo", "--steps", "3", "--bucket", "0.02"),
        nodes=2,
        RSCTL_ON_REDUCER_LOSS="fallback",
        **reducers(2, lanes=2).environ,
    )
    assert ended.messages[0].startswith(
        "gradients of DistributedDataParallel: 2 nodes of 2 workers (two levels), "
        "2 reducers sum all of it"
    )
    assert ended.digest
    assert ended.some == pytest.approx(own.some, rel=1e-4, abs=1e-6)
    # Rank 0 of each node counts its half of the gradients, and nothing else.
    counted = [line["transport"] for line in ended.printed("telemetry")]
    assert sorted(line["rank"] for line in counted) == [0, 2]
    halves = 3 * GRADIENT_BYTES // 2
    assert all(halves <= line["reduced_bytes"] < halves + 64 for line in counted)


def test_two_levels_end_though_reducers_cannot_add_the_last_bucket(
    run: Run, reducers: Reducers
) -> None:
    options = ("--backend", "gloo", "--double", "--bucket", "0.04")
    own = run("train.py", *options, nodes=2)
    ended = run("train.py", *options, nodes=2, **reducers(2, lanes=2).environ)
    assert ended.digest
    assert ended.some == pytest.approx(own.some, rel=1e-4, abs=1e-6)


def test_the_backend_by_name(run: Run, reducers: Reducers) -> None:
    ended = run("collectives.py", **reducers(2).environ)
    same = {
        "matrix": [[3.0] * 3] * 2,
        "average": [0.5, 1.0],
        "largest": [1],
        "integers": [1],
        "alone": [1.0],
        "gathered": [0.0, 1.0],
        "word": "from 1",
        "backend": "rsctl",
    }
    assert ended.ranks == [{"rank": 0, "part": 0.0, **same}, {"rank": 1, "part": 2.0, **same}]
    assert ended.printed("telemetry")[0]["transport"]["operations"] == 2
    assert sorted(ended.messages) == [
        "backend rsctl: all-reduce of groups other than all workers does not use reducers",
        "backend rsctl: all-reduce of int64 does not use reducers",
        "backend rsctl: all-reduce of max does not use reducers",
        "sharded gradients (FSDP): reduce-scatter and all-gather do not use reducers; only an "
        "all-reduce between nodes can use them (hybrid sharding, or all_reduce_hook)",
    ]


def test_fsdp_between_nodes(run: Run, reducers: Reducers) -> None:
    ended = run("sharded.py", nodes=2, **reducers(2, lanes=2).environ)
    if not hasattr(fsdp2().FSDPModule, "set_all_reduce_hook"):  # before PyTorch 2.7
        assert ended.code == 1
        assert "has no attribute 'set_all_reduce_hook'" in ended.err
        return
    assert ended.ranks == [{"rank": rank, "same": True} for rank in range(4)]
    assert ended.messages[-1].startswith("sharded gradients (FSDP): reduce-scatter and all-gather")


@pytest.mark.parametrize("api", ["fsdp1", "fsdp2"])
def test_hybrid_sharding_between_nodes(run: Run, reducers: Reducers, api: str) -> None:
    own = run("hybrid_sharded.py", api, nodes=2)
    if api == "fsdp2" and "_composable" in fsdp2().__name__:  # see the next test
        assert own.code != 0
        assert re.search(NEEDS_GPUS, own.err), own.err
        return
    ended = run("hybrid_sharded.py", api, nodes=2, **reducers(2, lanes=2).environ)
    assert [line["losses"] for line in ended.ranks] == [
        pytest.approx(line["losses"], rel=1e-5) for line in own.ranks
    ]
    assert (
        "sharded gradients (FSDP), all-reduce between nodes: 2 nodes of 2 workers (two levels), "
        "2 reducers sum all of it, "
    ) in "\n".join(ended.messages)
    counted = [line["transport"] for line in ended.printed("telemetry")]
    assert [line["operations"] for line in counted] == [4, 4]


def test_fsdp2_of_every_version_reduces_between_nodes(run: Run, reducers: Reducers) -> None:
    ended = run("between_nodes.py", nodes=2, **reducers(2, lanes=2).environ)
    assert [line["sum"] for line in ended.ranks] == [[2.0] * 4, [4.0] * 4] * 2
    assert "all-reduce between nodes: 2 nodes of 2 workers" in "\n".join(ended.messages)
    counted = [line["transport"] for line in ended.printed("telemetry")]
    assert [line["operations"] for line in counted] == [1, 1]


def test_a_hook_that_the_spec_names_reduces_by_the_reducers(run: Run, reducers: Reducers) -> None:
    name = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks:bf16_compress_hook"
    pool = reducers(2)
    own = run("train.py", "--backend", "gloo", RSCTL_COMM_COMPRESSION="bf16", **pool.environ)
    named = {**pool.environ, "RSCTL_COMM_HOOK": name, "RSCTL_EPOCH": "1"}
    ended = run("train.py", "--backend", "gloo", **named)
    assert ended.some == pytest.approx(own.some, abs=0.01)
    assert f", hook {name}, buckets of 64 MB, compression of the hook" in ended.messages[0]
    counted = ended.printed("telemetry")[0]["transport"]
    assert (counted["operations"], counted["reduced_bytes"]) == (4, 4 * GRADIENT_BYTES // 2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:hook", "cannot be imported: ModuleNotFoundError"),
        ("torch.nn:no_such_hook", "cannot be imported: AttributeError"),
        ("math:pi", "is a float, not a function"),
        ("operator:is_", "returns a bool, not a future"),
    ],
)
def test_a_hook_that_cannot_be_used_is_refused(run: Run, name: str, message: str) -> None:
    ended = run("train.py", "--backend", "gloo", RSCTL_COMM_HOOK=name)
    assert ended.code == 1
    finding = ended.printed("finding")[0]
    assert finding["message"].startswith(f"comm.hook: {name} {message}")
