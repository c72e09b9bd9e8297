"""Gradients of 8 bits: what is sent, what is kept for the next step, and what resumes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rsctl.transport import native
from tests.kit.deferred import Deferred

torch = Deferred("torch")
packing = Deferred("rsctl.transport.pytorch.packing")
residuals = Deferred("rsctl.transport.pytorch.residuals")

Run = Callable[..., Any]

KINDS = pytest.mark.parametrize("kind", ["int8", "fp8"])


def _gradient(seed: int, size: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    numbers = torch.randn(size, generator=random) * 10.0 ** torch.randint(
        -20, 20, (size,), generator=random
    )
    numbers[5] = torch.nan
    numbers[300] = torch.inf
    numbers[512:800] = 1e-33
    return numbers


@KINDS
@pytest.mark.skipif(not native.library(), reason="no core")
def test_torch_packs_what_the_core_packs(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    lengths, made = [1000, 1, 256, 3, 300], []
    for library in (native.library(), None):
        monkeypatch.setattr(native, "library", lambda library=library: library)
        residual = torch.full([1560], 1e-3)
        for seed in range(3):
            packed = packing.pack(_gradient(seed, 1560), residual, lengths, kind)
        numbers = packing.unpack(packed, lengths, kind)
        reduced = packing.reduce(torch.stack([packed, packed, packed]), kind, average=True)
        comparable = packing.unpack(reduced, lengths, kind).nan_to_num(7)
        made.append([residual.tolist(), numbers.nan_to_num(7).tolist(), comparable.tolist()])
        assert len(packed) == packing.packed_bytes(lengths) == 260 * (4 + 1 + 1 + 1 + 2)
    assert made[0] == made[1]


@KINDS
def test_what_rounding_takes_away_comes_later(kind: str) -> None:
    gradient, residual = torch.full([256], 1e-4), torch.zeros(256)
    gradient[0] = 1.0  # the others are far below half a step of its scale
    total = torch.zeros(256)
    for _ in range(1000):
        packed = packing.pack(gradient, residual, [256], kind)
        total += packing.unpack(packed, [256], kind)
    assert total.tolist() == pytest.approx((1000 * gradient).tolist(), abs=0.01)


@KINDS
def test_a_step_that_overflowed_leaves_no_trace(kind: str) -> None:
    before = torch.linspace(-1e-3, 1e-3, 512)
    residual, gradient = before.clone(), torch.ones(512)
    gradient[300] = torch.inf
    numbers = packing.unpack(packing.pack(gradient, residual, [512], kind), [512], kind)
    assert numbers[:256].isfinite().all()
    assert numbers[256:].isnan().all()
    assert residual[256:].equal(before[256:])


def _curve(ended: Any) -> list[list[float]]:
    losses = [line["losses"] for line in ended.ranks]
    assert len({line["digest"] for line in ended.ranks}) == 1
    return losses


@KINDS
def test_a_killed_training_resumes_with_the_same_bits(
    run: Run, reducers: Run, tmp_path: Path, kind: str
) -> None:
    comm = {"RSCTL_COMM_COMPRESSION": kind, **reducers(2).environ}
    script = ("resumed.py", str(tmp_path), "--backend", "rsctl")
    whole = run(*script, "--stop", "12", **comm)
    assert run(*script, "--stop", "6", "--save", **{**comm, "RSCTL_EPOCH": "1"}).ranks
    rest = run(*script, "--stop", "12", "--load", **{**comm, "RSCTL_EPOCH": "2"})
    assert rest.digest == whole.digest
    assert _curve(rest) == [losses[6:] for losses in _curve(whole)]
    exact = run("resumed.py", str(tmp_path), "--stop", "12")
    ends = _curve(whole)[0][-1], _curve(exact)[0][-1]
    assert ends[0] == pytest.approx(ends[1], rel=0.03)
    # Metrics are not gradients: their all-reduce is exact.
    assert {line["metric"] for line in whole.ranks} == {1 + 2**-20}


def test_eight_bits_in_two_levels(run: Run, reducers: Run) -> None:
    own = run("train.py", "--backend", "gloo", "--steps", "3", nodes=2)
    pool = reducers(2, lanes=2)
    # With the job's own timeout that of the process group does not count, for gloo either.
    comm = {"RSCTL_COMM_COMPRESSION": "int8", "RSCTL_TRANSPORT_TIMEOUT": "60"}
    ended = run("train.py", "--steps", "3", nodes=2, **pool.environ, **comm)
    assert ended.digest
    assert ended.some == pytest.approx(own.some, abs=0.02)


@pytest.mark.parametrize("engine", ["on", "off"], ids=["core", "python"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_bucket_without_numbers_has_no_groups(
    run: Run, reducers: Run, nodes: int, engine: str
) -> None:
    plain, empty = (
        run(
            *("train.py", "--steps", "2", *more),
            nodes=nodes,
            **reducers(1, lanes=nodes, engine=engine).environ,
            RSCTL_COMM_COMPRESSION="int8",
        )
        for more in ((), ("--empty",))
    )
    counts = [each.printed("telemetry")[0]["transport"]["operations"] for each in (plain, empty)]
    assert counts[1] == counts[0] + 2  # it was sent in each step
    assert empty.digest == plain.digest


def test_eight_bits_without_reducers_are_refused(run: Run) -> None:
    ended = run("train.py", "--backend", "gloo", RSCTL_COMM_COMPRESSION="int8")
    assert ended.code == 1
    finding = ended.printed("finding")[0]
    assert (finding["code"], finding["remedy"]) == (
        "comm-unapplied",
        "Set reducers.count, or comm.compression: bf16.",
    )
    assert "only reducers can add gradients of int8, and this job has no reducers" in str(finding)


def test_the_errors_of_a_checkpoint_go_to_the_device_of_the_gradients() -> None:
    """Scripts load checkpoints onto the CPU. `meta` stands for another device."""

    class Wrapped:
        module = torch.nn.Linear(2, 2)

    kept = residuals.Residuals(Wrapped())
    kept.load_state_dict({"parts": [(["weight"], torch.ones(4))]})
    assert kept.of_part(("weight",), 4, torch.device("cpu")).tolist() == [1.0] * 4
    assert kept.of_part(("weight",), 4, torch.device("meta")).device.type == "meta"
