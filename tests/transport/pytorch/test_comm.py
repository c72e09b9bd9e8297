"""The `comm:` block applied to a script that knows nothing of it."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_nothing_is_asked_and_nothing_happens(plain: Any) -> None:
    assert (plain.messages, plain.printed("finding")) == ([], [])
    assert plain.digest


def test_backend_bucket_size_and_fp16(torchrun: Run, plain: Any) -> None:
    ended = torchrun(
        "train.py",
        *("--backend", "nccl"),
        RSCTL_COMM_BACKEND="gloo",
        RSCTL_COMM_BUCKET_MB="32",
        RSCTL_COMM_COMPRESSION="fp16",
    )
    assert ended.messages == [
        "process group: backend gloo instead of the script's nccl",
        "gradients of DistributedDataParallel: 2 workers, backend gloo, buckets of 32 MB, "
        "compression fp16",
    ]
    assert ended.digest != plain.digest
    assert ended.some == pytest.approx(plain.some, rel=1e-2, abs=1e-4)


def test_powersgd_over_several_buckets(run: Run, plain: Any) -> None:
    ended = run(
        "train.py",
        *("--backend", "gloo", "--bucket", "0.02"),
        RSCTL_COMM_COMPRESSION="powersgd",
        RSCTL_POWERSGD_START="2",
    )
    assert ended.messages == [
        "gradients of DistributedDataParallel: 2 workers, backend gloo, buckets of 0.02 MB, as "
        "set by the script, compression powersgd (rank 2, from step 2)"
    ]
    assert ended.digest != plain.digest


@pytest.mark.parametrize("option", ["--scalar", "--empty"])
def test_powersgd_of_a_parameter_that_is_no_matrix(run: Run, option: str) -> None:
    comm = {"RSCTL_COMM_COMPRESSION": "powersgd", "RSCTL_POWERSGD_START": "2"}
    assert run("train.py", "--backend", "gloo", option, **comm).digest


def test_powersgd_of_gradients_that_are_zero(run: Run) -> None:
    comm = {"RSCTL_COMM_COMPRESSION": "powersgd", "RSCTL_POWERSGD_START": "2"}
    ended = run("train.py", "--backend", "gloo", "--zero", "2", **comm)
    assert all(map(math.isfinite, ended.some))


def test_powersgd_forgets_a_step_that_overflowed(run: Run) -> None:
    plain = run("scaled.py", "200")
    comm = {"RSCTL_COMM_COMPRESSION": "powersgd", "RSCTL_POWERSGD_START": "2"}
    ended = run("scaled.py", "200", **comm)
    for ours, theirs in zip(ended.ranks, plain.ranks, strict=True):
        assert ours["scales"] == theirs["scales"]
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=0.1)


def test_a_compression_refuses_to_divide_by_the_active_ranks(run: Run) -> None:
    plain = run("local.py", "--active", RSCTL_COMM_BUCKET_MB="1")
    assert plain.digest
    ended = run("local.py", "--active", RSCTL_COMM_COMPRESSION="bf16")
    assert ended.code == 1
    finding, *_ = ended.printed("finding")
    assert finding["message"] == (
        "comm.compression: join(divide_by_initial_world_size=False) divides gradients by the "
        "number of ranks that still have batches, and with comm.compression all ranks count"
    )
    assert finding["remedy"] == "Leave the argument out, or remove comm.compression."


def test_a_hook_of_the_script_stays(run: Run, plain: Any) -> None:
    own = run("train.py", "--backend", "gloo", "--own-hook")
    ended = run(
        "train.py",
        *("--own-hook", "--bucket", "4"),
        RSCTL_COMM_BACKEND="gloo",
        RSCTL_COMM_BUCKET_MB="2",
        RSCTL_COMM_COMPRESSION="bf16",
    )
    assert ended.messages == [
        "process group: backend gloo",
        "gradients of DistributedDataParallel: the hook that this script has registered is used "
        "(fp16_compress_hook), buckets of 2 MB instead of the script's 4.0; of comm, backend and "
        "bucket_mb apply; compression and reducers do not",
    ]
    assert ended.digest == own.digest != plain.digest


@pytest.mark.parametrize(
    ("comm", "message", "remedy"),
    [
        (
            {"RSCTL_COMM_BACKEND": "smddp"},
            "comm.backend: SageMaker's data parallel library cannot be loaded: "
            "No module named 'smdistributed'",
            "Use an AWS deep learning container as image.base, or set comm.backend: nccl.",
        ),
        (
            {"RSCTL_REDUCERS": "127.0.0.1:1", "RSCTL_RUN": "r"},
            "reducers: RSCTL_TOKEN must be a secret of at least 16 bytes",
            "See the reducers' logs, or set reducers.count: 0.",
        ),
    ],
)
def test_what_cannot_be_done_is_an_error(
    run: Run, comm: dict[str, str], message: str, remedy: str
) -> None:
    ended = run("train.py", "--steps", "1", ranks=1, **comm)
    assert ended.code == 1
    assert ended.printed("finding") == [
        {
            "rsctl": "finding",
            "severity": "error",
            "code": "comm-unapplied",
            "message": message,
            "remedy": remedy,
        }
    ]
    assert f"BindingError: {message}. {remedy}" in ended.err


def test_a_build_of_torch_without_nccl_is_told(alone: Callable[..., Any]) -> None:
    program = (
        "import torch.distributed as dist\n"
        "dist.is_nccl_available = lambda: False\n"
        "dist.init_process_group()"
    )
    ended = alone(program, RSCTL_COMM_BACKEND="nccl")
    assert ended.code == 1
    [finding] = ended.printed("finding")
    assert (finding["code"], finding["message"], finding["remedy"]) == (
        "comm-unapplied",
        "comm.backend: this build of torch has no NCCL",
        "Set comm.backend: gloo, or use an image with a CUDA build of torch.",
    )


def test_an_impossible_environment_stops_training_but_not_torch(
    alone: Callable[..., Any],
) -> None:
    program = (
        "import torch\nprint(torch.ones(2).sum().item())\n"
        "import torch.distributed as dist\ndist.init_process_group('gloo')"
    )
    ended = alone(program, RSCTL_COMM_BUCKET_MB="many")
    message = (
        "rsctl cannot attach to PyTorch: BindingError: comm.bucket_mb: RSCTL_COMM_BUCKET_MB is "
        "'many'. Use a number from 1 to 4096."
    )
    assert ended.code == 1
    assert ended.out == "2.0\n"
    assert ended.err.startswith(message + "\n")
    assert ended.err.endswith(f"RuntimeError: {message}\n")


REGISTERED = """
import os
import torch.distributed as dist
from importlib.metadata import entry_points
assert "RSCTL" not in dist.Backend._plugins
if not hasattr(dist.Backend, "_ensure_backend_registered"):  # before PyTorch 2.14
    next(iter(entry_points(group="torch.distributed.backends", name="rsctl"))).load()()
dist.init_process_group("rsctl")
print(dist.get_backend(), dist.get_world_size())
"""


def test_pytorch_finds_the_backend_by_its_name(alone: Callable[..., Any]) -> None:
    ended = alone(REGISTERED, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (ended.code, ended.out) == (0, "rsctl 1\n"), ended.err


@pytest.mark.parametrize("asked", ["rsctl", "gloo"])
def test_torchcomms_in_place_of_the_backend_is_told_before_the_start(
    alone: Callable[..., Any], asked: str
) -> None:
    from torch.distributed import distributed_c10d as c10d

    program = (
        "import torch.distributed as dist\n"
        "c10d = dist.distributed_c10d\n"
        "c10d._TORCHCOMM_AVAILABLE = True\n"
        "if hasattr(c10d, 'dist_config'):\n    c10d.dist_config.use_torchcomms = True\n"
        f"dist.init_process_group({asked!r})\nprint(dist.get_backend())"
    )
    comm = {"RSCTL_COMM_BACKEND": "rsctl"}
    ended = alone(program, **comm, TORCH_DISTRIBUTED_USE_TORCHCOMMS="1")
    has_torchcomms = hasattr(c10d, "_TORCHCOMM_AVAILABLE")
    if not has_torchcomms or hasattr(c10d, "_torchcomms_handles_backend"):
        assert (ended.code, ended.out) == (0, "rsctl\n"), ended.err
        return
    assert ended.code == 1
    [finding] = ended.printed("finding")
    assert (finding["code"], finding["message"]) == (
        "torchcomms",
        "comm.backend: torch.distributed sends every backend to torchcomms, which does not have "
        "rsctl",
    )


@pytest.mark.parametrize(("key", "value"), [("compression", "fp16"), ("hook", "a:b")])
def test_a_key_without_a_model_is_told(alone: Callable[..., Any], key: str, value: str) -> None:
    program = "import torch.distributed as dist\ndist.init_process_group('gloo')"
    ended = alone(program, **{f"RSCTL_COMM_{key.upper()}": value})
    assert ended.code == 0
    assert [(line["message"], line["remedy"]) for line in ended.printed("finding")] == [
        (
            f"comm.{key}: {value} was not applied: the script made no DistributedDataParallel",
            f"Remove comm.{key}, or wrap the model in DistributedDataParallel.",
        )
    ]


@pytest.mark.parametrize(
    ("name", "asked", "left_out", "line"),
    [
        ("gloo", None, [], "gloo"),
        ("gloo", "GLOO", [], "gloo"),
        (
            *("gloo", "nccl", ["pg_options", "device_id"]),
            "gloo instead of the script's nccl, without its pg_options and device_id",
        ),
        (
            *("rsctl", "nccl", ["pg_options"]),
            "rsctl instead of the script's nccl, without its pg_options",
        ),
    ],
)
def test_what_only_the_script_s_own_backend_understands_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
    asked: str | None,
    left_out: list[str],
    line: str,
) -> None:
    from rsctl.transport.pytorch.backend import wrap_init_process_group
    from rsctl.transport.pytorch.settings import CommSettings

    def init_process_group(
        backend: Any = None, timeout: Any = None, pg_options: Any = None, device_id: Any = None
    ) -> Any:
        return locals()

    monkeypatch.delenv("RANK", raising=False)
    call = wrap_init_process_group(init_process_group, CommSettings(backend=name))
    given = {"timeout": 5, "pg_options": "options", "device_id": "cuda:0"}
    assert call(asked, **given) == {**given, **dict.fromkeys(left_out), "backend": name}
    assert capfd.readouterr().err == f"rsctl: process group: backend {line}\n"


def test_without_a_wish_one_small_module_is_imported(
    environ: dict[str, str], import_torch: str
) -> None:
    program = (
        f"import sys\n{import_torch}\n"
        "print(sorted(name for name in sys.modules if name.startswith('rsctl.')))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**environ, "RSCTL_REDUCERS": "", "RSCTL_ON_REDUCER_LOSS": "fail"},
        capture_output=True,
        text=True,
        check=True,
    )
    names = ["rsctl.transport", "rsctl.transport.pytorch"]
    assert (ended.stdout, ended.stderr) == (f"{names}\n", "")


def test_a_module_that_is_broken_does_not_break_torch(
    alone: Callable[..., Any], environ: dict[str, str], tmp_path: Path
) -> None:
    package = tmp_path / "rsctl" / "transport" / "pytorch"
    package.mkdir(parents=True)
    for folder in (package.parents[1], package.parents[0]):
        (folder / "__init__.py").touch()
    import rsctl.transport.pytorch as binding

    shutil.copy(str(binding.__file__), package)
    (package / "attach.py").write_text("import what_is_not_there")
    path = f"{tmp_path}{os.pathsep}{environ['PYTHONPATH']}"
    ended = alone("print(torch.ones(2).sum().item())", PYTHONPATH=path, RSCTL_COMM_BACKEND="gloo")
    assert (ended.code, ended.out) == (0, "2.0\n")
    assert ended.err == (
        "rsctl cannot attach to PyTorch: ModuleNotFoundError: No module named 'what_is_not_there'\n"
    )


@pytest.mark.parametrize(
    ("call", "comm"),
    [
        ("DistributedDataParallel(torch.nn.Linear(2, 1), check_reduction=True)", "COMM_BACKEND"),
        ("dist.reduce_scatter_tensor(torch.ones(1), torch.ones(1))", "REDUCERS"),
    ],
)
def test_a_warning_of_torch_names_the_line_of_the_script(
    alone: Callable[..., Any], call: str, comm: str
) -> None:
    program = f"""
import torch, torch.distributed as dist, warnings
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
seen = []
warnings.showwarning = lambda text, kind, path, line, *_: seen.append((kind, path, line))
{call}
print([(kind.__name__, path == __file__, line) for kind, path, line in seen])
dist.destroy_process_group()
"""
    value = {"COMM_BACKEND": "gloo", "REDUCERS": "127.0.0.1:1"}[comm]
    ended, plain = alone(program, **{f"RSCTL_{comm}": value}), alone(program)
    assert ended.code == plain.code == 0, ended.err
    is_warned = plain.out != "[]\n"  # not in every version of torch
    assert ended.out.splitlines()[0] == ("[('FutureWarning', True, 8)]" if is_warned else "[]")
