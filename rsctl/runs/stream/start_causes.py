"""Causes of failed jobs whose program did not start: its image, command, script or arguments."""

from __future__ import annotations

from rsctl.known_errors import NO_IMAGE, PULL_DENIED
from rsctl.runs.stream.service_causes import cause

SCRIPT_START_CAUSES = (
    cause(
        "tpu-device",
        r"TPU initialization failed: open\(/dev/\w{1,40}\)|Couldn't open device: /dev/accel\d"
        r"|TPU is already in use",
        "a process could not open the TPU, perhaps because another process has opened it",
        "set run.launcher: once, and let JAX or PyTorch/XLA start the processes of a host's TPUs",
    ),
    cause(
        "tpu-device",
        r"Please provide a TPU [Nn]ame to connect to|Could not find TPU|No TPU (?:devices?"
        r"|hosts?) found"
        r"|Unable to connect to TPU|TPU \S{1,80} (?:is )?not (?:yet )?(?:healthy|ready)",
        "TensorFlow does not know which TPU to use, or cannot reach it",
        "on a host that has the TPU itself use TPUClusterResolver(tpu='local') or "
        "TPU_NAME=local in "
        "run.env; otherwise the name, zone and project of the TPU",
    ),
    cause(
        "tpu-device",
        r"TPU initialization failed: (?:[^\n]{0,40}worker_addresses specified\. )?"
        r"((?!open\(/dev)[^\n]{1,160})"
        r"|instead of handling error \w{1,40}: (TpuPlatform[^\n]{1,60})",
        "the TPU could not be initialised: {names}",
        "start one process on each host of the TPU (run.launcher: once), and remove variables that "
        "describe another TPU from run.env and the image: TPU_PROCESS_ADDRESSES, "
        "TPU_WORKER_HOSTNAMES, TPU_WORKER_ID; use the libtpu that belongs to jaxlib or torch_xla",
    ),
    cause(
        "tpu-fault",
        r"\b(SLICE_FAILURE_\w{1,40})|(TPU session error from worker \S{1,120})"
        r"|(Driver must be Open[^\n]{0,40})"
        r"|(Halt is unexpected, all pending programs will fail)"
        r"|(Core halted unexpectedly[^\n]{0,60}|device halted prematurely[^\n]{0,80})",
        "a TPU, or the program on it, stopped: {names}",
        "see which host reports it first, and submit again; if it comes back at the same step on "
        "other TPUs, it is the compiled program: use other versions of jaxlib and libtpu",
    ),
    cause(
        "script",
        r"can't open file '([^'\n]{1,200})': \[Errno 2\]",
        "the script does not exist: {names}",
        "give its path relative to image.source, and check that .dockerignore does not exclude it",
    ),
    cause(
        "script-lines",
        r": line \d{1,6}: (--?\w[^\s:]{0,100}): command not found",
        "a shell ran options as commands, as the lines before them are not continued: {names}",
        "end each line but the last of the command with a backslash, and nothing after it",
    ),
    cause(
        "arguments",
        r"(Could not override '[^'\n]{1,100}'[^\n]{0,100}(?:\n(?:Did you mean|To append|Key)"
        r"[^\n]{1,120}){0,2})",
        "hydra does not accept an override: {names}",
        "write run.args as a list of overrides, such as [task@_global_=x, +new.key=1], by the "
        "names that the message proposes",
    ),
    cause(
        "arguments",
        r"OverrideParseException: ([^\n]{1,160})"
        r"|(?<![^\n])(?=([^\n]{1,300}))[^\n]{1,4000}\n[^\n]{0,4}See https://hydra\.cc/docs/[\w./]{1,20}"
        r"/override_grammar",
        "hydra cannot parse an override: {names}",
        "quote a value that has =, spaces, commas, colons or brackets inside the quotes of the "
        "argument, such as \"ckpt='a/epoch=1.ckpt'\", or write \\= for =; no space may "
        "follow the =, and a script needs Unix line endings",
    ),
    cause(
        "configuration",
        r"(?m:^)(Cannot find primary config '[^'\n]{1,160}')"
        r"|(Primary config (?:module|directory)[^\n]{0,120} not found)"
        r"|(?m:^)(In '[^'\n]{1,120}': Could not (?:find|load) '[^'\n]{1,160}')"
        r"|(You must specify '[^'\n]{1,80}'), e\.g, "
        r"|Error merging [^\n]{1,80}\n([^\n]{1,160})"
        r"|(?m:^)In '[^'\n]{1,120}': \w{1,60} raised while composing config:\n([^\n]{1,160})"
        r"|(?m:^)((?![\w.]{1,80}: )[^\n]{1,160})\n {1,12}full_key: ",
        "hydra cannot compose the configuration: {names}",
        "add the key or file that it names where the configuration has it: +KEY=VALUE in "
        "run.args, --config-path and --config-name (a folder and a name inside it), a choice "
        "GROUP=NAME; image.source must have the YAML files; otherwise install the version of hydra "
        "that the script was written for",
    ),
    cause(
        "configuration",
        r"HydraConfig was not set",
        "the configuration refers to a value of hydra itself (hydra.*), which exists only in a "
        "program that hydra starts",
        "start the script whose main function has @hydra.main, or replace the value, such as "
        "hydra.run.dir, by one of your own",
    ),
    cause(
        "arguments",
        r"(?:: |^|\n)error: ((?:[Uu]nrecognized arguments|the following arguments are required"
        r"|Parser key|ambiguous option|one of the arguments|argument [^\n:]{1,100}:)[^\n]{0,200})"
        r"|(?:^|\n)Error: ((?:No such (?:option|command)|Missing (?:option|argument|parameter"
        r"|command)|Invalid value for|Got unexpected extra argument|Argument \S{1,80} takes \d"
        r"|Option '[^'\n]{1,80}' (?:requires|does not))[^\n]{0,200})"
        r"|(?:IllegalFlagValueError|UnrecognizedFlagError|Flags parsing error|FATAL Flags): "
        r"?([^\n]{0,200})|arguments are not used by the HfArgumentParser: ([^\n]{0,200})"
        r"|ERROR: ((?:Could not consume arg\w{0,6}: |Missing required flags: "
        r"|The function received no value for the required argument: "
        r"|Cannot find key: )[^\n]{0,100})"
        r"|click\.exceptions\.((?:Usage|Bad|NoSuch|Missing|NoArgs)\w{1,40}: [^\n]{1,160})",
        "the script does not accept its arguments: {names}",
        "correct run.args: `NAME: VALUE` becomes --NAME VALUE and `NAME: true` only --NAME, so "
        'write "True" in quotes for an option that takes a value; torchrun passes the rank as the '
        "variable LOCAL_RANK, not as --local-rank",
    ),
    cause(
        "module-name",
        r"Error while finding module specification for '([^'\n]{1,100}\.(?:py|sh)|[^'\n/]{0,100}/"
        r"[^'\n]{1,100})'",
        "Python was started with -m and a file instead of a module: {names}",
        "set run.script to the file, or run.module to the module's name, such as pkg.train; for a "
        "shell script in SageMaker's images, set run.launcher: none",
    ),
    cause(
        "toolkit-program",
        r"Unsupported entry point type|Invalid distribution name or version syntax"
        r"|sagemaker_training/_?entry_point_type\.py",
        "the toolkit of SageMaker's image cannot start the program that it was given",
        "set run.script to a Python script of run.package, in a folder without setup.py for "
        "torchrun; for a shell script, set run.launcher: none",
    ),
    cause(
        "group-not-destroyed",
        r"terminate called without an active exception",
        "a process ended while threads of its libraries were still running; PyTorch's process "
        "group under gloo does this to scripts that have completed their training",
        "call torch.distributed.destroy_process_group() as the last statement of the script; "
        "what it saved before is complete",
    ),
)
"""Scripts that could not start or end, in the order in which they are shown."""

COMMAND_CAUSES = (
    cause(
        "entrypoint",
        r'exec: "rsctl-launch": executable file not found',
        "the image does not have rsctl-launch",
        "build it with image.base; on a cloud, image.source delivers it; or set run.launcher: "
        "none; if run.env sets PATH, it must contain /usr/local/bin",
    ),
    cause(
        "python",
        r'exec: "python3": executable file not found',
        "the image does not have python3, which unpacks image.source",
        "use an image with Python 3.10 or newer on its PATH, or build one on it with image.base",
    ),
    cause(
        "line-endings",
        r"env: [^\w\n]{0,2}([\w./-]{1,100})(?:\\r|\r|\^M)[^\w\n]{0,2}: No such file"
        r"|(\$'\\r'): command not found|([\w./-]{1,200}\^M): bad interpreter"
        r"|cannot run (\S{1,200}): its first line ends with a carriage return",
        "a script has Windows line endings, so its interpreter is not found",
        "save the script with Unix line endings: `sed -i 's/\\r$//' SCRIPT`; with git, "
        "core.autocrlf=false keeps them",
    ),
    cause(
        "interpreter",
        r"cannot run \S{1,200}: its interpreter (\S{1,200}) does not exist"
        r"|: (/[\w./-]{1,200}): bad interpreter: No such file",
        "the interpreter in the first line of a script does not exist: {names}",
        "correct that line, such as `#!/usr/bin/env bash`, or install the program: in an image by "
        "image.apt, on target process on this machine",
    ),
    cause(
        "interpreter",
        r"cannot run (\S{1,200}): its first line names no interpreter",
        "a script does not name its interpreter in its first line: {names}",
        "begin it with such as `#!/usr/bin/env bash`, or start it with its interpreter: "
        "command: [bash, SCRIPT]",
    ),
    cause(
        "interpreter",
        r"cannot run (\S{1,200}): it is a file here, and no program of PATH",
        "the command is a file of the job, and no program of PATH: {names}",
        "start it with its interpreter: command: [python, SCRIPT], or as ./SCRIPT",
    ),
    cause(
        "interpreter",
        r"env: [^\w\n]{0,2}([\w./-]{1,100} [^\n]{1,100}?)[^\w\n]{0,2}: No such file or directory\n"
        r"[^\n]{0,40}env: use -\[v\]S to pass options in shebang lines",
        "the first line of a script gives env several words as the name of one program: {names}",
        "begin it with such as `#!/usr/bin/env -S python -u`",
    ),
    cause(
        "interpreter",
        r"(?<![\w./-])([\w./-]{1,200}): (?:line )?\d{1,6}: (?:[\w./-]{1,200}: )?"
        r"(?:set: Illegal option -o pipefail|Bad substitution"
        r"|(?:\[\[|source|declare|function|pushd|shopt|let): not found"
        r"|Syntax error: (?:\"\(\" unexpected|redirection unexpected))",
        "sh runs a script that is written for bash: {names}",
        "start it as command: [bash, SCRIPT], and begin it with `#!/usr/bin/env bash`",
    ),
    cause(
        "shell",
        r"cannot run ([^\n]{1,200}): it is for a shell, and none runs it",
        "the command is one of a shell, and rsctl starts programs without a shell: {names}",
        'start a shell: command: [bash, -c, "cd x && python train.py"]',
    ),
    cause(
        "command",
        r"cannot run (python): there is no such program",
        "there is no program {names}",
        "use python3 in run.command, or add `python` to the image: image.run: [ln -s python3 "
        "/usr/local/bin/python]",
    ),
    cause(
        "command",
        r"(?:^|[\s/:])(srun|sbatch|scontrol|sinfo|squeue|sacct): (?:command )?not found"
        r"|cannot run (srun|sbatch|scontrol): there is no such program",
        "a script calls a program of Slurm, which this place does not have: {names}",
        "start the script without it: run.launcher: torchrun starts the ranks (with OpenMMLab's "
        "tools --launcher pytorch); on a node of Slurm, add the folder of its programs to PATH",
    ),
    cause(
        "command",
        r"cannot run (?!python:)(\S{1,200}): there is no such program"
        r'|exec: \\{0,4}"(?!rsctl-launch\\{0,4}"|python3\\{0,4}")([^"\\\n]{1,200})\\{0,4}": '
        r"(?:executable file not found|(?:stat|lstat) [^:\n]{1,200}: no such file)"
        r"|FATAL tini \(\d{1,7}\)\] exec (\S{1,200}) failed: No such file"
        r"|(?:^|[\s/])(?:ba|da|z|k)?sh: (?:line )?(?:\d{1,6}: )?([^\s:-][^\s:]{0,200}): "
        r"(?:command )?not found"
        r"|(?:^|[\s/])env: [^\w\n./-]{0,2}([\w./-]{1,200})[^\w\n]{0,2}: No such file or directory"
        r"|(?:^|\n)[\w./-]{1,200}: (?:line )?\d{1,6}: (?:[\w./-]{1,200}: )?"
        r"([^\s:-][^\s:]{0,200}): (?:command )?not found"
        r"|(?m:^)([\w./+-]{1,60}): command not found$|(?:^|\n)sudo: "
        r"([^\s:]{1,200}): command not found"
        r"|(?:nohup|timeout|nice|setsid): failed to (?:run command"
        r"|execute) \W([^\s:]{1,200}?)\W?: No "
        r"such file|: line \d{1,6}: exec: ([^\s:]{1,200}): (?:cannot execute: required file )?not "
        r"found",
        "the command to run is not installed: {names}",
        "correct run.command, or add the program to the image (image.apt, image.python); on target "
        "process, install it in the environment of rsctl and activate that; on SageMaker an image "
        "without a command is started as `train`",
    ),
    cause(
        "command",
        r"daemon: [Nn]o command specified",
        "the image has no command of its own",
        "set run.command: with launcher none an image without ENTRYPOINT and CMD needs it",
    ),
    cause(
        "command",
        r"(?m:^)exec (\S{1,200}): no such file or directory",
        "the program of the container, or the interpreter in its first line, does not exist: "
        "{names}",
        "check its path in the image, and the first line of a script: Windows line endings (`sed "
        "-i 's/\\r$//'`) or a shell that the image lacks give this, too; start it as command: "
        "[bash, SCRIPT]",
    ),
    cause(
        "executable",
        r"cannot run (\S{1,200}): its file is not executable"
        r'|exec: \\{0,4}"([^"\\\n]{1,200})\\{0,4}": permission denied'
        r"|: line \d{1,6}: exec: ([^\s:]{1,200}): cannot execute: Permission denied"
        r"|exec user process caused:? \"?permission denied()"
        r"|FATAL tini \(\d{1,7}\)\] exec (\S{1,200}) failed: Permission denied"
        r"|(?:^|[\s/])(?:ba|da|z|k)?sh: (?:line )?(?:\d{1,6}: )?([^\s:]{1,200}): Permission denied",
        "the command to run is not executable: {names}",
        "make it executable (`chmod +x`), for an image before it is built, or start it with its "
        "interpreter, such as `bash SCRIPT`",
    ),
    cause(
        "executable",
        r"cannot run (\S{1,200}): it is a folder"
        r"|: (?:exec: )?([^\s:]{1,200}): cannot execute: Is a directory"
        r'|exec: \\{0,4}"([^"\\\n]{1,200})\\{0,4}": is a directory',
        "the command to run is a folder: {names}",
        "correct run.command: it must begin with a program, not with a folder or a `.`",
    ),
    cause(
        "package",
        r"rsctl cannot start the source: |package\.tar\.gz is not what was submitted",
        "could not download image.source from the staging bucket",
        "give the job's account permission to read the bucket; if the package there is damaged, "
        "delete it and submit again",
    ),
    cause(
        "pull-limit",
        r"toomanyrequests|reached your (?:unauthenticated )?pull rate limit",
        "a registry limits how often images are pulled",
        "log in to the registry, or copy the image to a registry of the job's cloud; try later",
    ),
    cause(
        "image-login",
        r"no basic auth credentials|authorization token has expired|unauthorized: "
        r"|(?:denied|Permission)[^\n]{0,40}artifactregistry\.repositories\.downloadArtifacts"
        r"|/manifests/[^\n]{1,100}: 40[13] "
        r"|Error response from daemon: (?:(?:Head|Get) [^\n]{1,300}: )?denied: ",
        "the registry does not let the job's account, or this machine, pull the image",
        "log in to the registry again; in a cloud, give the job's account permission to read the "
        "repository",
    ),
    cause(
        "image",
        rf"{PULL_DENIED}|{NO_IMAGE}|ErrImagePull|ImagePullBackOff|Back-off pulling image"
        r"|Error response from daemon: [^\n]{0,300}(?:name|blob) unknown: ",
        "the image was not found",
        "check image.uri, and that you are logged in to its registry",
    ),
)
"""Commands and images, in the order in which they are shown."""
