"""Models that cannot take local steps, and scripts that do not train by them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.deferred import Deferred

torch = Deferred("torch")
outer = Deferred("rsctl.transport.pytorch.outer")
settings = Deferred("rsctl.transport.pytorch.settings")
local_training = Deferred("rsctl.transport.pytorch.local_training")

REMOVE = "Remove comm.local_steps."
AUTOCAST = "Use torch.autocast in place of mixed_precision, or remove comm.local_steps."
OWN = "DistributedDataParallel has a hook or mixed_precision of its own"


def parameter(device: str = "cpu", dtype: str = "float32", **marks: Any) -> Any:
    made = torch.nn.Parameter(torch.ones(2, device=device, dtype=getattr(torch, dtype)))
    for name, value in marks.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("kinds", "changes", "message", "remedy"),
    [
        ([{}], {"ranks": 1}, "the model spans 1 of 2 workers", REMOVE),
        ([{}], {"_comm_hooks": ["a hook"]}, OWN, AUTOCAST),
        ([{}], {"mixed_precision": "bf16"}, OWN, AUTOCAST),
        (
            *([{}, {"_in_backward_optimizers": []}], {}),
            *("the optimizer steps in the backward pass, parameter by parameter", REMOVE),
        ),
        ([{}, {"device": "meta"}], {}, "the parameters are on several devices", REMOVE),
        ([{}, {"dtype": "complex64"}], {}, "some parameters are complex numbers", REMOVE),
        ([{"device": "meta"}], {}, "the parameters are on meta", REMOVE),
        (
            *([{}], {"_delay_all_reduce_params": ["weight"]}),
            *("delay_all_reduce_named_params exchanges gradients by itself", REMOVE),
        ),
    ],
)
def test_a_model_that_cannot_take_local_steps(
    monkeypatch: pytest.MonkeyPatch,
    kinds: list[dict[str, Any]],
    changes: dict[str, Any],
    message: str,
    remedy: str,
) -> None:
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2)
    parameters = [parameter(**kind) for kind in kinds]
    frozen = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64), requires_grad=False)
    model = SimpleNamespace(
        module=SimpleNamespace(parameters=lambda: [frozen, *parameters]),
        process_group=SimpleNamespace(size=lambda: changes.get("ranks", 2)),
        **{"_comm_hooks": [], **changes},
    )
    training = local_training.LocalTraining(outer.LocalSteps(4), settings.CommSettings())
    with pytest.raises(settings.BindingError) as refused:
        training.add(model)
    assert str(refused.value) == f"comm.local_steps: {message}. {remedy}"


SCRIPT = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEPS = """
for _ in range({}):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    dist.barrier()
"""


def test_a_script_without_an_optimizer_of_torch_ends(alone: Callable[..., Any]) -> None:
    passes = "model.eval()\nfor _ in range(9): model(torch.ones(1, 2))\nmodel.train()\n"
    passes += "for number in range(1001): model(torch.ones(1, 2)); print(number)"
    ended = alone(SCRIPT + passes, RSCTL_COMM_LOCAL_STEPS="4")
    assert ended.code == 1
    [finding] = ended.printed("finding")
    assert (finding["code"], finding["message"], finding["remedy"]) == (
        "comm-unapplied",
        "comm.local_steps: 1009 forward passes, and no optimizer of torch.optim stepped",
        "Train with an optimizer of torch.optim, or remove comm.local_steps.",
    )
    assert "\n998\n" in ended.out
    assert "\n999\n" not in ended.out


@pytest.mark.parametrize(("steps", "is_told"), [(8, False), (9, True)])
def test_barriers_in_about_each_step_do_not_average(
    alone: Callable[..., Any], steps: int, is_told: bool
) -> None:
    ended = alone(SCRIPT + STEPS.format(steps), RSCTL_COMM_LOCAL_STEPS="100")
    assert ended.code == 0, ended.err
    text = "local steps: barriers follow each other closely and no longer average"
    assert (text in ended.messages) is is_told
