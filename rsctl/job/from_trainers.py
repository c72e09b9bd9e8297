"""Reads the command lines of programs that start torchrun with a module of their own.

Options by https://github.com/hiyouga/LlamaFactory/blob/main/src/llamafactory/launcher.py and
https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/cli/utils/train.py.
"""

from __future__ import annotations

from rsctl.job.from_accelerate import accelerate
from rsctl.job.from_torchrun import torchrun
from rsctl.job.launcher_options import Launched, unsupported

_LLAMA_FACTORY = "llamafactory-cli train"
_LLAMA_FACTORY_ENV = {
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "TORCH_NCCL_AVOID_RECORD_STREAMS": "1",
}
_AXOLOTL = "axolotl train"
_AXOLOTL_MODULE = ["-m", "axolotl.cli.train"]
_OF_ACCELERATE = ("num-processes", "main-process-port")


def llama_factory(arguments: list[str]) -> Launched:
    """The arguments of `llamafactory-cli train`, whose nodes and ranks are in variables."""
    if not arguments:
        unsupported(_LLAMA_FACTORY, "it has no configuration", "add its file")
    words = ["llamafactory.launcher", *arguments]
    return Launched("module", words, env=dict(_LLAMA_FACTORY_ENV))


def axolotl(arguments: list[str]) -> Launched:
    """The arguments of `axolotl train`; those behind `--` are the launcher's."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options, rest = {"launcher": "accelerate"}, arguments[at + 1 :]
    words: list[str] = []
    own = iter(arguments[:at])
    for word in own:
        name, separator, value = word.removeprefix("--").partition("=")
        name = name.replace("_", "-")
        if word.startswith("--") and name in ("launcher", "cloud", "sweep", *_OF_ACCELERATE):
            options[name] = value if separator else next(own, "")
        else:
            words.append(word)
    for name in ("cloud", "sweep"):
        if name in options:
            unsupported(_AXOLOTL, f"a job file has no key for --{name}", "omit it")
    program = [*_AXOLOTL_MODULE, *words]
    if options["launcher"] == "python":
        return Launched("module", program[1:], processes=1)
    if options["launcher"] == "torchrun":
        return torchrun([*rest, *program])
    given = [f"--{name}={options[name]}" for name in _OF_ACCELERATE if name in options]
    return accelerate([*given, *rest, *program])
