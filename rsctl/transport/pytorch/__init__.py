"""How the spec's `comm:` block and the reducers reach an unmodified PyTorch script.

`import torch` calls `autoload`, the entry point of the group `torch.backends`. Every torch program
of this interpreter pays for this file, so it imports nothing that Python has not already.
"""

from __future__ import annotations

import os

ACTIVATES = (
    *("RSCTL_REDUCERS", "RSCTL_COMM_BACKEND", "RSCTL_COMM_BUCKET_MB"),
    *("RSCTL_COMM_COMPRESSION", "RSCTL_COMM_HOOK", "RSCTL_COMM_LOCAL_STEPS"),
    *("RSCTL_MEASURE_STEPS", "RSCTL_RECORD_STEPS"),
)
"""The variables of which one must ask for something, or this package does nothing at all."""


def autoload() -> None:
    """Attach the binding if the environment asks for it; raises nothing.

    A failure is repeated, as an exception, when the script starts a process group.
    """
    _arm()
    _profile()
    if not any(os.environ.get(name) for name in ACTIVATES):
        _watch()
        return
    try:
        from rsctl.transport.pytorch.attach import attach

        attach(os.environ)
    except Exception as error:  # noqa: BLE001 - `import torch` must continue
        _refuse_later(error)


def register() -> None:
    """Make `rsctl` a backend of PyTorch, which asks for it when a script names it.

    The entry point of the group `torch.distributed.backends`, from PyTorch 2.14 on. It is there
    where PyTorch loads no entry point with `import torch`: TORCH_DEVICE_BACKEND_AUTOLOAD=0. Raises
    BindingError.
    """
    import torch.distributed as dist

    from rsctl.transport.pytorch import attach, backend
    from rsctl.transport.pytorch.settings import read_settings

    attach.attach(os.environ)
    if "RSCTL" not in dist.Backend._plugins:
        backend.register(read_settings(os.environ))


def _arm() -> None:
    """Let the node's launcher ask this rank what it does, if it wants to."""
    if not os.environ.get("RSCTL_DEBUG_DIR"):
        return
    try:
        from rsctl.transport.pytorch import inspection

        inspection.arm(os.environ)
    except Exception as error:  # noqa: BLE001 - no evidence must not mean no training
        os.write(2, f"rsctl: cannot inspect this rank: {error}\n".encode(errors="replace"))


def _profile() -> None:
    """Profile steps of this rank, if the job asks for it."""
    if not (os.environ.get("RSCTL_PROFILE") and os.environ.get("RSCTL_PROFILE_STEPS")):
        return
    try:
        from rsctl.transport.pytorch import profiling

        profiling.arm(os.environ)
    except Exception as error:  # noqa: BLE001 - no profile must not mean no training
        os.write(2, f"rsctl: cannot profile this rank: {error}\n".encode(errors="replace"))


def _watch() -> None:
    """Where the job has several ranks, warn at the end if they have not trained together, fail if
    one was left alone in a collective, and let gloo's threads finish.
    """
    if not os.environ.get("RSCTL_EXPECTED_RANKS"):
        return
    try:
        import torch.distributed as dist

        if dist.is_available():
            from rsctl.transport.pytorch import idle, shutdown
            from rsctl.transport.pytorch.settings import CommSettings
            from rsctl.transport.pytorch.wrapping import replace_function

            idle.watch()
            replace_function("destroy_process_group", shutdown.wrap_destroy_process_group)
            shutdown.register_exit_handler(CommSettings())
    except Exception as error:  # noqa: BLE001 - a warning that cannot come must not end a job
        os.write(2, f"rsctl: cannot watch process groups: {error}\n".encode(errors="replace"))


def _refuse_later(error: Exception) -> None:
    """Make `init_process_group` raise, so that training never starts without what was asked for."""
    import sys

    message = f"rsctl cannot attach to PyTorch: {type(error).__name__}: {error}"
    os.write(2, f"{message}\n".encode(errors="replace"))

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(message)

    for name in ("torch.distributed", "torch.distributed.distributed_c10d"):
        if hasattr(sys.modules.get(name), "init_process_group"):
            setattr(sys.modules[name], "init_process_group", refuse)  # noqa: B010
