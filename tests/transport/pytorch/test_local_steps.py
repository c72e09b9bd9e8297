"""Local steps under a script that knows nothing of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.transport.pytorch.conftest import is_old

Run = Callable[..., Any]
Reducers = Callable[..., Any]

H4 = {"RSCTL_COMM_LOCAL_STEPS": "4"}
AVERAGE = {"RSCTL_COMM_OUTER_OPTIMIZER": "sgd", "RSCTL_COMM_OUTER_LR": "1"}
AVERAGE["RSCTL_COMM_OUTER_MOMENTUM"] = "0"


def equal_steps(ended: Any) -> list[int]:
    """The steps after which all ranks had the same bits."""
    columns = zip(*(line["seen"] for line in ended.ranks), strict=True)
    return [int(c[0].split()[0]) for c in columns if len(set(c)) == 1]


@pytest.mark.parametrize("pool", [0, 2])
def test_all_ranks_have_the_same_bits_after_each_exchange(
    run: Run, reducers: Reducers, pool: int
) -> None:
    comm = reducers(pool).environ if pool else {}
    ended = run("local.py", *("--norm", "--optimizer", "adam", "--steps", "10"), **H4, **comm)
    assert equal_steps(ended) == [4, 8]
    assert all(line["mask"] for line in ended.ranks)
    assert {line["counted"] for line in ended.ranks} == {10}
    (message, note) = ended.messages
    assert "exchanged every 4 steps (outer nesterov, lr 0.7, momentum 0.9)" in message
    assert "2 steps after the last exchange has the parameters of that exchange" in note
    (saved,) = {line["saved"] for line in ended.ranks}
    assert saved


def test_an_average_of_the_copies_is_what_the_outer_optimizer_starts_from(run: Run) -> None:
    apart = run("local.py", "--steps", "4", RSCTL_COMM_LOCAL_STEPS="100")
    ended = run("local.py", "--steps", "4", **H4, **AVERAGE)
    halves = [line["some"] for line in apart.ranks]
    middle = [(a + b) / 2 for a, b in zip(*halves, strict=True)]
    assert halves[0] != halves[1]
    assert ended.some == pytest.approx(middle, abs=1e-6)


@pytest.mark.parametrize("name", ["nesterov", "sgd"])
def test_the_outer_optimizer_is_torch_s_over_many_rounds(name: str) -> None:
    import torch

    from rsctl.transport.pytorch.outer import LocalSteps
    from rsctl.transport.pytorch.shared_tensor import SharedTensor

    torch.manual_seed(0)
    ours = torch.randn(5, 3)
    theirs = ours.clone().requires_grad_()
    settings = LocalSteps(4, optimizer=name)
    shared = SharedTensor("weight", ours, is_parameter=True)
    optimizer = torch.optim.SGD([theirs], lr=0.7, momentum=0.9, nesterov=name == "nesterov")
    for _ in range(6):
        gradient = torch.randn(5, 3)
        ours -= gradient  # the steps of a round
        shared.receive(shared.send(overlaps=False), settings)
        theirs.grad = gradient
        optimizer.step()
    assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        ("--unused",),
        ("--static",),
        ("--accumulate", "3", "--clip", "0.1"),
        ("--scaler", "--overflow", "2"),
        ("--dtype", "bfloat16"),
        ("--dtype", "float64", "--optimizer", "momentum"),
    ],
    ids=lambda options: "-".join(options).strip("-"),
)
def test_what_scripts_do_beside_a_step(run: Run, options: tuple[str, ...]) -> None:
    ended = run("local.py", *options, **H4)
    assert equal_steps(ended) == [4, 8]
    assert ended.digest


@pytest.fixture(scope="module")
def usual_run(run: Run) -> Any:
    """A run without any option."""
    return run("local.py", **H4)


@pytest.mark.parametrize(
    ("other", "usual"),
    [
        (("--accumulate", "3", "--flag"), ("--accumulate", "3")),
        (("--eval",), ()),
        (("--replicate",), ()),
        (("--copy",), ()),
        (("--compile",), ()),
        (("--validate",), ()),
        (("--teacher",), ()),
        (("--beside",), ()),
    ],
    ids=["flag", "eval", "replicate", "copy", "compile", "validate", "teacher", "beside"],
)
def test_other_ways_to_train_give_the_same_numbers(
    run: Run, usual_run: Any, other: tuple[str, ...], usual: tuple[str, ...]
) -> None:
    ended = run("local.py", *other, **H4)
    assert equal_steps(ended) == [4, 8]
    same = run("local.py", *usual, **H4) if usual else usual_run
    if "--compile" in other and is_old():  # a compiled step of its SGD rounds differently
        assert ended.some == pytest.approx(same.some, rel=1e-5)
    else:
        assert ended.digest == same.digest


@pytest.mark.parametrize(
    ("options", "equal"), [(("--sam",), [4, 8]), (("--copy-at", "5", "--steps", "10"), [4, 9])]
)
def test_ranks_that_begin_with_different_values_come_together(
    run: Run, options: tuple[str, ...], equal: list[int]
) -> None:
    ended = run("local.py", *options, **H4)
    assert equal_steps(ended) == equal
    assert any("begin with different values, as of a perturbation" in m for m in ended.messages)


def test_a_layer_that_the_script_freezes_stays_as_it_is(run: Run) -> None:
    ended = run("local.py", "--freeze", "4", "--steps", "12", "--optimizer", "momentum", **H4)
    assert equal_steps(ended) == [4, 8, 12]
    assert all(line["stays_frozen"] for line in ended.ranks)


@pytest.mark.parametrize(
    ("comm", "event"), [({}, "an exchange"), ({"RSCTL_COMM_FRAGMENTS": "2"}, "an exchange")]
)
def test_epochs_of_different_length_do_not_wait_for_each_other(
    run: Run, comm: dict[str, str], event: str
) -> None:
    ended = run("local.py", "--epoch", "8", "--uneven", "--steps", "32", **H4, **comm)
    assert ended.code == 1
    finding = next(f for f in ended.printed("finding") if f["code"] == "collective-mismatch")
    assert "ranks have made different numbers of steps: rank " in finding["message"]
    assert "the end of an epoch or a barrier" in finding["message"]
    assert event in finding["message"]
    assert finding["remedy"].startswith("Give all ranks equally many batches in each epoch")


def test_a_model_that_is_wrapped_again_publishes_its_own_exchanges(run: Run) -> None:
    before = run("local.py", "--steps", "5", **H4).ranks[0]["saved"]
    options = ("--again", "5", "--steps")
    later, then = (run("local.py", *options, steps, **H4) for steps in ("11", "9"))
    assert equal_steps(then) == [4, 9]
    assert later.ranks[0]["saved"] == later.ranks[1]["saved"] == then.ranks[0]["saved"] != before


def test_an_epoch_may_end_with_a_round(run: Run) -> None:
    ended = run("local.py", "--epoch", "8", "--steps", "16", **H4)
    assert equal_steps(ended) == [8, 16]


def test_parameters_join_a_round(run: Run) -> None:
    ended = run("local.py", "--add", "5", "--steps", "10", **H4)
    assert equal_steps(ended) == [4, 9]


def test_a_layer_that_the_script_unfreezes_joins_a_round(run: Run) -> None:
    """DDP itself leaves out what is frozen when it wraps a model."""
    ended = run("local.py", "--unfreeze", "5", "--steps", "10", **H4)
    assert equal_steps(ended) == [4, 9]


def test_buffers_are_equal_after_the_exchange_of_any_optimizer(run: Run) -> None:
    """Also where the optimizer whose round began first no longer steps."""
    ended = run("local.py", "--norm", "--staged", "4", "--steps", "13", "--barrier", "10", **H4)
    assert equal_steps(ended) == [4, 8, 10, 12]


@pytest.mark.parametrize("fragments", ["1", "2"])
def test_values_that_are_loaded_within_a_round_stay(run: Run, fragments: str) -> None:
    """A fragment under way is of the values before."""
    comm = {**H4, "RSCTL_COMM_FRAGMENTS": fragments}
    ended = run("local.py", "--reload", "7", "--steps", "14", **comm)
    assert all(line["stays_loaded"] for line in ended.ranks)


def test_the_average_of_a_checkpoint_is_not_compressed(run: Run) -> None:
    """The squares of gradients that Adam keeps are below the least number of 16 bits."""
    options = ("--optimizer", "adam", "--barrier", "5")
    comm = {"RSCTL_COMM_LOCAL_STEPS": "100"}
    plain = run("local.py", *options, **comm)
    ended = run("local.py", *options, **comm, RSCTL_COMM_COMPRESSION="fp16")
    assert equal_steps(ended) == [5]
    assert [line["losses"] for line in ended.ranks] == [line["losses"] for line in plain.ranks]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--hook",), "the script registers a hook for its gradients (allreduce_hook), which do "),
        (("--join",), "join() lets ranks have different numbers of steps, and rounds have"),
        (("--optimizer", "zero"), "ZeroRedundancyOptimizer exchanges parameters or gradients by"),
        (("--without-ddp",), None),
    ],
    ids=["hook", "join", "zero", "without-ddp"],
)
def test_what_cannot_take_local_steps(
    run: Run, options: tuple[str, ...], message: str | None
) -> None:
    ended = run("local.py", *options, **H4)
    finding, *_ = ended.printed("finding")
    assert finding["code"] == "comm-unapplied"
    if message is None:
        assert (ended.code, finding["severity"]) == (0, "warning")
        assert "the script made no DistributedDataParallel" in finding["message"]
    else:
        assert (ended.code, finding["severity"]) == (1, "error")
        assert finding["message"].startswith(f"comm.local_steps: {message}")


def test_fragments_travel_one_after_another_and_agree_at_a_barrier(run: Run) -> None:
    options = ("--norm", "--optimizer", "adam", "--steps", "11", "--barrier", "10")
    ended = run("local.py", *options, **H4, RSCTL_COMM_FRAGMENTS="3")
    # Between exchanges each rank has its own copy, but for the barrier's average.
    assert equal_steps(ended) == [10]
    again = run("local.py", *options, **H4, RSCTL_COMM_FRAGMENTS="3")
    assert [line["digest"] for line in again.ranks] == [line["digest"] for line in ended.ranks]
    assert len({line["saved"] for line in ended.ranks}) == 1
    assert "(outer nesterov, lr 0.7, momentum 0.9, 3 fragments)" in ended.messages[0]


def test_a_barrier_leaves_alone_what_has_no_average(run: Run) -> None:
    options = ("--optimizer", "counting", "--steps", "6", "--barrier", "5")
    ended = run("local.py", *options, RSCTL_COMM_LOCAL_STEPS="100")
    assert equal_steps(ended) == [5]


@pytest.mark.parametrize("pool", [0, 1])
def test_with_a_quorum_an_exchange_does_not_wait_for_a_late_rank(
    run: Run, reducers: Reducers, tmp_path: Any, pool: int
) -> None:
    comm = reducers(pool).environ if pool else {}
    options = ("--steps", "14", "--late", str(tmp_path / "go"), "--barrier", "13")
    ended = run("local.py", *options, **H4, **comm, RSCTL_COMM_QUORUM="1")
    # Rank 1 is late in the second exchange, and its steps then count in the third.
    assert equal_steps(ended) == [4, 12, 13]
    # What a checkpoint of a round's end has is the same on both.
    assert len({line["published"][7] for line in ended.ranks}) == 1
    assert "(outer nesterov, lr 0.7, momentum 0.9, quorum 1)" in ended.messages[0]


def test_a_quorum_of_more_ranks_than_there_are_is_an_error(run: Run) -> None:
    ended = run("local.py", **H4, RSCTL_COMM_QUORUM="3")
    (finding, *_) = ended.printed("finding")
    assert finding["message"] == "comm.quorum: 3 workers are wanted, and there are 2"
    assert finding["remedy"] == "Set a number from 1 to 2."


@pytest.mark.parametrize("quorum", [None, 1])
def test_what_a_narrow_parameter_cannot_hold_is_no_change(quorum: int | None) -> None:
    """All workers have the same rounded value; with a quorum some have moved on from it, and all
    count from the anchor.
    """
    import torch

    from rsctl.transport.pytorch.outer import LocalSteps
    from rsctl.transport.pytorch.shared_tensor import SharedTensor

    plain = LocalSteps(4, optimizer="sgd", lr=1.0, momentum=0.0, quorum=quorum)
    weight = torch.tensor([1.0], dtype=torch.bfloat16)
    shared = SharedTensor("weight", weight, is_parameter=True)
    shared.send(overlaps=False)
    shared.receive(torch.tensor([0.001]), plain)
    assert shared.anchor.item() == pytest.approx(0.999)
    rounding = shared.anchor.item() - weight.item()  # bfloat16 has 8 bits
    assert rounding != 0
    assert shared.change().item() == pytest.approx(0.0 if quorum is None else rounding, abs=1e-9)


def test_a_change_that_has_not_counted_stays_and_is_counted_next() -> None:
    import torch

    from rsctl.transport.pytorch.outer import LocalSteps
    from rsctl.transport.pytorch.shared_tensor import SharedTensor

    plain = LocalSteps(4, optimizer="sgd", lr=1.0, momentum=0.0, quorum=1)
    weight = torch.tensor([10.0])
    shared = SharedTensor("weight", weight, is_parameter=True)
    weight -= 3  # the steps of a round
    shared.send(overlaps=False)
    shared.receive(torch.tensor([1.0]), plain, has_counted=False)
    assert (shared.published.item(), weight.item()) == (9.0, 6.0)
    weight -= 2
    assert shared.send(overlaps=False).item() == 5.0
    shared.receive(torch.tensor([5.0]), plain)
    assert (shared.published.item(), weight.item()) == (4.0, 4.0)


@pytest.mark.parametrize(
    ("steps", "fragments", "at"),
    [(4, 1, ("--barrier", "10")), (4, 2, ("--barrier", "10")), (4, 1, ("--epoch", "5"))],
    ids=["barrier", "fragments", "epoch"],
)
def test_a_run_that_is_killed_and_resumed_has_the_same_curve(
    run: Run, tmp_path: Any, steps: int, fragments: int, at: tuple[str, ...]
) -> None:
    comm = {"RSCTL_COMM_LOCAL_STEPS": str(steps), "RSCTL_COMM_FRAGMENTS": str(fragments)}
    file = str(tmp_path / "last.pt")
    options = ("--optimizer", "adam", "--steps", "15", *at)
    whole = run("local.py", *options, "--save", file, "--save-at", "10", **comm)
    rest = run("local.py", *options, "--load", file, **comm)
    for before, after in zip(whole.ranks, rest.ranks, strict=True):
        assert after["losses"] == before["losses"][10:]
        assert after["digest"] == before["digest"]
        assert after["state"] == before["state"]


@pytest.mark.parametrize("options", [(), ("--two",)], ids=["one-model", "two-models"])
def test_a_checkpoint_of_a_round_s_end_needs_no_barrier(
    run: Run, tmp_path: Any, options: tuple[str, ...]
) -> None:
    file = str(tmp_path / "last.pt")
    options = (*options, "--steps", "12")
    whole = run("local.py", *options, "--save", file, "--save-at", "8", **H4)
    rest = run("local.py", *options, "--load", file, **H4)
    assert rest.digest == whole.digest
    without = run("local.py", *options, "--load", file)
    assert without.digest != whole.digest  # the entry in the checkpoint does no harm


def test_a_checkpoint_that_has_lost_the_outer_momentum(run: Run, tmp_path: Any) -> None:
    """PyTorch's `get_optimizer_state_dict` keeps only entries that it knows."""
    import torch

    file, options = str(tmp_path / "last.pt"), ("--steps", "8", "--optimizer", "momentum")
    run("local.py", *options, "--save", file, "--save-at", "4", **H4)
    saved = torch.load(file, weights_only=True)
    del saved["optimizer"]["rsctl_outer"]
    torch.save(saved, file)
    lost = "local steps: the optimizer's checkpoint has no outer momentum, which begins again"
    assert lost in run("local.py", *options, "--load", file, **H4).messages
    assert lost not in run("local.py", *options, "--load", file, **H4, **AVERAGE).messages


def test_a_reducer_is_lost_and_the_workers_continue(
    launch: Run, reducers: Reducers, tmp_path: Any
) -> None:
    from tests.kit.polling import wait_until

    go = tmp_path / "go"
    pool = reducers(2)
    comm = {**H4, **pool.environ, "RSCTL_ON_REDUCER_LOSS": "fallback"}
    job = launch("local.py", "--steps", "8", "--wait-for", str(go), **comm)
    wait_until(lambda: len(list(tmp_path.glob("ready-*"))) == 2)
    pool.processes[0].kill()
    pool.processes[0].wait()
    go.touch()
    ended = job.end()
    assert equal_steps(ended) == [4, 8]
    assert [line["code"] for line in ended.printed("finding")] == ["reducer-lost"]


def test_a_lost_worker_ends_the_others_at_the_next_exchange(
    launch: Run, reducers: Reducers
) -> None:
    job = launch("local.py", "--steps", "8", "--die", "5", **H4, **reducers(2).environ)
    ended = job.end()
    assert ended.code == 9
    (finding,) = ended.printed("finding")
    assert (finding["severity"], finding["code"]) == ("error", "worker-lost")
    assert "rank 1" in finding["message"]
    # The first exchange, if the worker was gone before rank 0 had its result.
    assert re.search(r"operation [12]\b", finding["message"])


def test_many_steps_keep_no_memory(run: Run) -> None:
    few, many = (
        run("local.py", "--optimizer", "adam", "--steps", str(steps), **H4) for steps in (100, 500)
    )
    for before, after in zip(few.ranks, many.ranks, strict=True):
        assert after["peak_mb"] < before["peak_mb"] + 4


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("RSCTL_COMM_LOCAL_STEPS", "0", "comm.local_steps: RSCTL_COMM_LOCAL_STEPS is '0'"),
        ("RSCTL_COMM_FRAGMENTS", "5", "comm.fragments: RSCTL_COMM_FRAGMENTS is '5'"),
        ("RSCTL_COMM_OUTER_OPTIMIZER", "adam", "RSCTL_COMM_OUTER_OPTIMIZER is 'adam'"),
        ("RSCTL_COMM_OUTER_LR", "nan", "comm.outer.lr: RSCTL_COMM_OUTER_LR is 'nan'"),
        ("RSCTL_COMM_OUTER_LR", "0", "comm.outer.lr: RSCTL_COMM_OUTER_LR is '0'"),
        ("RSCTL_COMM_OUTER_MOMENTUM", "1", "Use a number from 0 to less than 1."),
    ],
)
def test_variables_that_make_no_sense(variable: str, value: str, message: str) -> None:
    from rsctl.transport.pytorch.outer import read_local_steps
    from rsctl.transport.pytorch.settings import BindingError

    with pytest.raises(BindingError) as caught:
        read_local_steps({**H4, variable: value})
    assert message in str(caught.value)


def test_settings_of_the_environment() -> None:
    from rsctl.transport.pytorch.outer import LocalSteps, read_local_steps

    assert read_local_steps({}) is None
    assert read_local_steps({"RSCTL_COMM_LOCAL_STEPS": "1", "RSCTL_COMM_FRAGMENTS": "9"}) is None
    assert read_local_steps({**H4, **AVERAGE, "RSCTL_COMM_FRAGMENTS": "3"}) == LocalSteps(
        steps=4, optimizer="sgd", lr=1.0, momentum=0.0, fragments=3
    )
    assert LocalSteps(10, fragments=3).due_steps() == [3, 6, 10]
