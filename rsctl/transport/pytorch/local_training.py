"""Local steps of all models of a process: which step belongs to which round.

A step is one of the script's optimizer after a forward pass for training, or one that a GradScaler
left out, which only some ranks may do. Optimizers that share parameters share a round, such as an
optimizer and a wrapper of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from rsctl.transport.pytorch.averaging import Averaging
from rsctl.transport.pytorch.outer import LocalSteps
from rsctl.transport.pytorch.report import print_line, print_once
from rsctl.transport.pytorch.round import KEY, Round, Saved, sums
from rsctl.transport.pytorch.settings import BindingError, CommSettings
from rsctl.transport.pytorch.shared_tensor import SharedTensor

_FOREIGN = ("ZeroRedundancyOptimizer", "PostLocalSGDOptimizer", "_NamedOptimizer")
_FORWARDS_WITHOUT_STEP = 1000
_MOST_BARRIERS = 8
"""How many barriers may follow each other without a round's end, until they no longer average."""


class Trained:
    """A model, and the parameters of it that one round brings together."""

    def __init__(self, model: Model, round_: Round) -> None:
        self.model = model
        self.round = round_
        self.parameters: list[torch.nn.Parameter] = []
        self.optimizer: weakref.ref[Any] | None = None
        self.counted = 0
        """The model's forward passes at the last step that counted."""
        self.since_agreed = 0
        """The steps since the workers agreed within a round or began."""
        self.is_stale = True
        """Whether the round must begin again, as parameters were added or loaded."""


class Model:
    """A DistributedDataParallel model whose gradients stay on their worker."""

    def __init__(self, ddp: DistributedDataParallel, averaging: Averaging, line: str) -> None:
        self.ddp = weakref.ref(ddp)
        self.averaging = averaging
        self.announcement: str | None = line
        self.forwards = 0
        self.unused_forwards = 0
        """The forward passes in training mode before the first step of an optimizer."""
        self.trained: list[Trained] = []
        self.sums: dict[int, int] | None = None
        """A number of each parameter's bits at the first forward pass after they were loaded."""
        self.was_loaded = False
        named = ((n, p) for n, p in ddp.module.named_parameters() if p.is_floating_point())
        ignored = set(getattr(ddp, "parameters_to_ignore", ()))
        self.names = {id(p): name for name, p in named if name not in ignored}
        self.ignored = ignored
        self.syncs_buffers = bool(getattr(ddp, "broadcast_buffers", True))

    def note_values(self) -> None:
        """Note the parameters' values, unless they are noted."""
        ddp = self.ddp()
        if self.sums is None and ddp is not None:
            found = [p for p in ddp.module.parameters() if p.requires_grad and id(p) in self.names]
            self.sums = dict(zip(map(id, found), sums(found), strict=True))

    def forget_values(self) -> None:
        """Parameters have been loaded."""
        self.sums, self.was_loaded = None, True

    def buffers(self, floating: bool) -> dict[str, torch.Tensor]:
        """The buffers that DDP would send from the first rank to all, by name."""
        ddp = self.ddp()
        if ddp is None or not self.syncs_buffers:
            return {}
        return {
            name: buffer
            for name, buffer in ddp.module.named_buffers()
            if name not in self.ignored and buffer.is_floating_point() == floating
        }


class LocalTraining:
    """All models that train by local steps. All methods run in the thread that trains."""

    def __init__(self, settings: LocalSteps, comm: CommSettings) -> None:
        self._settings = settings
        self._comm = comm
        self._averagings: dict[torch.device, Averaging] = {}
        self._models: weakref.WeakKeyDictionary[DistributedDataParallel, Model] = (
            weakref.WeakKeyDictionary()
        )
        self._saved: weakref.WeakKeyDictionary[Any, list[Saved] | None] = (
            weakref.WeakKeyDictionary()
        )
        self._barriers = 0
        self.saw_step = False
        """Whether any optimizer of torch.optim has made a step."""
        self.steps = 0
        """How many steps have counted in this process, over all models."""

    def add(self, ddp: DistributedDataParallel) -> None:
        """Leave out this model's exchange of gradients. All workers call this together.

        Raises BindingError for a model that cannot train so.
        """
        device = _require_suitable(ddp)
        if device not in self._averagings:
            self._averagings[device] = Averaging(device, self._comm)
        averaging = self._averagings[device]
        phrases = [*averaging.describe(), self._settings.describe()]
        line = f"parameters of DistributedDataParallel: {', '.join(phrases)}"
        line += f", compression {self._comm.compression}"
        made = Model(ddp, averaging, line)
        self._end_rounds_of(made)
        self._models[ddp] = made
        # As in `no_sync`, and for good: what DDP would exchange in a pass is left out.
        ddp.require_backward_grad_sync = False
        ddp._static_graph_delay_allreduce_enqueued = True
        if any(isinstance(each, torch.nn.SyncBatchNorm) for each in ddp.module.modules()):
            print_once("SyncBatchNorm exchanges its statistics in each step, despite local steps")

    def _end_rounds_of(self, made: Model) -> None:
        """Forget the models whose parameters a script has wrapped again.

        Raises BindingError if a parameter would belong to two models.
        """
        for ddp, model in list(self._models.items()):
            trains = {id(p) for p in ddp.module.parameters() if p.requires_grad}
            left = trains & model.names.keys()
            if model.names.keys() & made.names.keys() and left <= made.names.keys():
                del self._models[ddp]
            elif left & made.names.keys():
                message = "two DistributedDataParallel models share some of their parameters"
                remedy = "Wrap one module that has all of them, or remove comm.local_steps."
                raise BindingError(KEY, message, remedy)

    def forget_groups(self) -> None:
        """The script has made a new default process group, of which its models will be."""
        self._averagings.clear()
        self._models.clear()

    def forward(self, ddp: DistributedDataParallel) -> None:
        """A forward pass of a model begins. Raises BindingError if no optimizer follows any."""
        model = self._models.get(ddp)
        if model is None:
            return
        ddp.require_backward_grad_sync = False  # scripts set it themselves in place of no_sync()
        if not torch.is_grad_enabled():
            return
        model.note_values()  # an optimizer may perturb them before its first step
        model.forwards += 1
        model.unused_forwards += ddp.training and not model.trained and _can_train(ddp)
        if model.unused_forwards == _FORWARDS_WITHOUT_STEP:
            message = f"{model.forwards} forward passes, and no optimizer of torch.optim stepped"
            remedy = "Train with an optimizer of torch.optim, or remove comm.local_steps."
            raise BindingError(KEY, message, remedy)

    def prepare(self, optimizer: Any) -> None:
        """Before a step of an optimizer: begin the rounds of its parameters."""
        parameters = _parameters(optimizer)
        found = ((m, [p for p in parameters if id(p) in m.names]) for m in self._models.values())
        trains = [(model, mine) for model, mine in found if mine]
        saved = self._saved.pop(optimizer, []) if trains else []
        if saved is None and self._settings.momentum:
            print_once(
                "local steps: the optimizer's checkpoint has no outer momentum, which begins again"
            )
        left = list(saved or [])
        for model, mine in trains:
            self._assign(model, optimizer, mine, left)

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has made its step, or a GradScaler has left it out."""
        self.saw_step = True
        for trained in self._with(_parameters(optimizer)):
            if trained.counted == trained.model.forwards:
                continue
            trained.counted = trained.model.forwards
            self.steps += 1
            trained.since_agreed += 1
            self._step(trained)

    def agree(self) -> None:
        """Bring all parameters, buffers and states of optimizers to their average.

        All workers call this after the same step. What a worker saves then is complete.
        """
        for model in self._models.values():
            _finish_rounds(model)
        for trained in self._all():
            if trained.is_stale:
                continue
            trained.model.averaging.meet("the end of an epoch or a barrier")
            states = self._states(trained)
            trained.round.agree(states)
            _send_whole_numbers(trained)
            trained.since_agreed = 0

    def at_epoch_end(self) -> None:
        """At the end of an epoch: agree, unless that would be more often than rounds end."""
        steps = [trained.since_agreed for trained in self._all()]
        if steps and max(steps) >= self._settings.steps:
            self.agree()

    def at_barrier(self) -> None:
        """At a barrier of the script: agree, unless the script has a barrier in about each step."""
        if all(trained.round.is_agreed for trained in self._all()):
            return
        self._barriers += 1
        if self._barriers <= _MOST_BARRIERS:
            self.agree()
        elif self._barriers == _MOST_BARRIERS + 1:
            print_once("local steps: barriers follow each other closely and no longer average")

    def published(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The value that a `state_dict` gets in place of this tensor; None for its own."""
        for trained in self._all():
            if trained.round.is_agreed or trained.is_stale:
                continue
            for each in trained.round.tensors:
                if each.tensor is tensor:
                    steps = trained.round.steps
                    print_once(
                        f"local steps: a state_dict {steps} steps after the last exchange has the "
                        "parameters of that exchange; call torch.distributed.barrier() on all "
                        "ranks before saving to have their average"
                    )
                    return each.published.clone()
        return None

    def loaded(self, module: torch.nn.Module) -> None:
        """The script has loaded values into a module."""
        touched = {id(p) for p in module.parameters()}
        for model in self._models.values():
            if not touched.isdisjoint(model.names):
                model.forget_values()
        for trained in self._with(module.parameters()):
            trained.is_stale = True

    def save(self, optimizer: Any) -> list[Saved]:
        """The rounds of an optimizer's parameters, for its `state_dict`."""
        trained = self._with(_parameters(optimizer))
        return [each.round.save() for each in trained if not each.is_stale]

    def restore(self, optimizer: Any, saved: list[Saved] | None) -> None:
        """Rounds that the `state_dict` of an optimizer had; None if it has lost them.

        They begin at its next step.
        """
        self._saved[optimizer] = saved
        for trained in self._with(_parameters(optimizer)):
            trained.is_stale = True

    @property
    def has_models(self) -> bool:
        """Whether there is a model."""
        return len(self._models) > 0

    def _all(self) -> Iterator[Trained]:
        for model in list(self._models.values()):
            yield from model.trained

    def _with(self, parameters: Iterable[torch.nn.Parameter]) -> Iterator[Trained]:
        """All that train one of these parameters."""
        ids = {id(p) for p in parameters}
        return (each for each in self._all() if any(id(p) in ids for p in each.parameters))

    def _assign(
        self,
        model: Model,
        optimizer: Any,
        parameters: list[torch.nn.Parameter],
        saved: list[Saved],
    ) -> None:
        """Find or begin the round of an optimizer's parameters. Takes its state out of `saved`."""
        _require_plain(optimizer)
        owners = {id(p): trained for trained in model.trained for p in trained.parameters}
        new = [p for p in parameters if id(p) not in owners and p.requires_grad]
        touched = list(dict.fromkeys(owners[id(p)] for p in parameters if id(p) in owners))
        if new and not touched:
            touched = [Trained(model, Round(self._settings, model.averaging))]
            model.trained += touched
        if new:
            if not touched[0].is_stale:
                model.averaging.meet("a step with more parameters")
                _finish_rounds(model)
                touched[0].round.agree([])  # all begin again with the same values
            touched[0].parameters += new
            touched[0].is_stale = True
        for trained in touched:
            trained.optimizer = weakref.ref(optimizer)
        for trained in touched:
            if trained.is_stale:
                self._begin(trained, saved.pop(0) if saved else None)

    def _begin(self, trained: Trained, saved: Saved | None) -> None:
        """Begin a round, or begin it again with the momentum of parameters that stay."""
        model = trained.model
        _finish_rounds(model)
        kept = {id(each.tensor): each for each in trained.round.tensors}
        named = ((model.names[id(p)], p) for p in trained.parameters)
        shared = [SharedTensor(name, p, is_parameter=True) for name, p in named]
        shared += _shared_buffers(model)
        if saved is None:
            for each in shared:
                if id(each.tensor) in kept:
                    each.momentum = kept[id(each.tensor)].momentum
        model.note_values()
        known = model.sums or {}
        values = [known.get(id(p), 0) for p in trained.parameters]
        trained.round.begin(shared, saved, values, model.was_loaded or saved is not None)
        trained.is_stale = False

    def _step(self, trained: Trained) -> None:
        line, trained.model.announcement = trained.model.announcement, None
        if line is not None:
            print_line(line)
        _follow_buffers(trained)
        before = trained.round.exchanges
        trained.round.step()
        if trained.round.exchanges > before:
            self._barriers = 0
            if trained.round.steps == 0 and self._settings.quorum is None:
                _send_whole_numbers(trained)

    def _states(self, trained: Trained) -> list[torch.Tensor]:
        """The tensors of the optimizer's state, if all workers have the same ones."""
        optimizer = trained.optimizer() if trained.optimizer else None
        found = list(_state_tensors(optimizer, trained.parameters)) if optimizer else []
        layout = [(number, key, tuple(state.shape)) for number, key, state in found]
        everyone: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, layout, group=trained.model.averaging.control)
        if any(theirs != layout for theirs in everyone):
            print_once(
                "local steps: ranks have different states of the optimizer, which are not averaged"
            )
            return []
        return [state for _, _, state in found]


def _can_train(ddp: DistributedDataParallel) -> bool:
    """Whether a model is not frozen, as a teacher is."""
    return any(p.requires_grad for p in ddp.module.parameters())


def _parameters(optimizer: Any) -> list[torch.nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _state_tensors(
    optimizer: Any, parameters: Iterable[torch.nn.Parameter]
) -> Iterator[tuple[int, str, torch.Tensor]]:
    for number, parameter in enumerate(parameters):
        state = optimizer.state.get(parameter, {})
        for key in sorted(state, key=str):
            value = state[key]
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim():
                yield number, str(key), value


def _finish_rounds(model: Model) -> None:
    """Take all results that travel: the rounds of a model share its buffers."""
    for trained in model.trained:
        if not trained.is_stale:
            trained.round.finish()


def _shared_buffers(model: Model) -> Iterator[SharedTensor]:
    """The buffers that have averages, with each round: any optimizer may cease to step."""
    begun = [each for each in model.trained if not each.is_stale]
    shared = {t.name: t for each in begun for t in each.round.tensors if not t.is_parameter}
    for name, buffer in model.buffers(floating=True).items():
        yield shared.get(name) or SharedTensor(name, buffer, is_parameter=False)


def _follow_buffers(trained: Trained) -> None:
    """A module may put another tensor in the place of a buffer."""
    buffers = trained.model.buffers(floating=True)
    for each in trained.round.tensors:
        if not each.is_parameter and each.name in buffers:
            each.tensor = buffers[each.name]


def _send_whole_numbers(trained: Trained) -> None:
    """Give all workers the first one's buffers that have no average, as DDP does."""
    for buffer in trained.model.buffers(floating=False).values():
        value = buffer.detach().cpu().contiguous()
        dist.broadcast(value, src=0, group=trained.model.averaging.control)
        buffer.detach().copy_(value)


def _require_plain(optimizer: Any) -> None:
    """Raise BindingError for an optimizer that has exchanges of its own."""
    names = {each.__name__ for each in type(optimizer).__mro__}
    found = sorted(names.intersection(_FOREIGN))
    if found:
        message = f"{found[0]} exchanges parameters or gradients by itself in each step"
        remedy = "Use an optimizer of torch.optim, or remove comm.local_steps."
        raise BindingError(KEY, message, remedy)


def _require_suitable(ddp: DistributedDataParallel) -> torch.device:
    """The device of a model's parameters. Raises BindingError if local steps are not possible."""
    trained = [p for p in ddp.module.parameters() if p.requires_grad]
    reason = None
    remedy = "Remove comm.local_steps."
    if ddp.process_group.size() != dist.get_world_size():
        reason = f"the model spans {ddp.process_group.size()} of {dist.get_world_size()} workers"
    elif ddp._comm_hooks or getattr(ddp, "mixed_precision", None) is not None:
        reason = "DistributedDataParallel has a hook or mixed_precision of its own"
        remedy = "Use torch.autocast in place of mixed_precision, or remove comm.local_steps."
    elif any(hasattr(p, "_in_backward_optimizers") for p in trained):
        reason = "the optimizer steps in the backward pass, parameter by parameter"
    elif len({p.device for p in trained}) > 1:
        reason = "the parameters are on several devices"
    elif any(not p.is_floating_point() for p in trained):
        reason = "some parameters are complex numbers"
    elif trained[0].device.type not in ("cpu", "cuda"):
        reason = f"the parameters are on {trained[0].device.type}"
    elif getattr(ddp, "_delay_all_reduce_params", None):
        reason = "delay_all_reduce_named_params exchanges gradients by itself"
    if reason is not None:
        raise BindingError(KEY, reason, remedy)
    device: torch.device = trained[0].device
    return device
