"""The names that other launchers have for keys and values of a job file, mapped to rsctl's.

From torchrun, SkyPilot, TorchX, dstack, Kubeflow and the estimators and requests of clouds.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from rsctl.target_info import all_targets

_KEYS = {
    "workers.count": "nnodes num_nodes nodes replicas num_replicas replica_count instance_count "
    "machine_count num_workers",
    "workers.processes": "nproc_per_node nproc procs_per_node processes_per_host num_processes",
    "workers.accelerator": "gpus gpu num_gpus gpus_per_node accelerators accelerator_type "
    "accelerator_count resources",
    "workers.machine": "instance_type machine_type machine_spec vm_size",
    "workers.disk": "disk_size boot_disk_size boot_disk_size_gb volume_size",
    "run.script": "entry_point entrypoint entry_script main python_file script_path",
    "run.module": "python_module module_name",
    "run.command": "cmd commands",
    "run.args": "hyperparameters arguments params parameters argv",
    "run.env": "environment envs env_vars environment_variables",
    "image.base": "base_image from",
    "image.uri": "docker_image image_uri container_image container container_uri",
    "image.dockerfile": "dockerfile docker_file containerfile",
    "image.run": "setup_commands run_commands build_commands",
    "image.python": "requirements dependencies pip pip_packages requirements_file",
    "image.secrets": "build_secrets secret",
    "image.apt": "system_packages apt_packages",
    "image.source": "source_dir workdir working_dir src code",
    "target": "backend scheduler cloud provider platform",
    "outputs": "output output_dir output_path base_output_dir",
    "checkpoints": "checkpoint checkpoint_dir checkpoint_path checkpoint_s3_uri",
    "inputs": "data datasets channels data_dir",
    "limits.timeout": "max_run max_runtime max_duration time_limit walltime max_run_in_seconds",
    "limits.queue": "max_wait max_wait_duration",
    "limits.retries": "max_restarts max_retries retry",
    "limits.spot": "use_spot spot_instances use_spot_instances preemptible enable_spot",
    "comm.bucket_mb": "bucket_cap_mb",
}
_VALUES = {
    "compose": "docker local_docker docker-compose docker_compose container containers",
    "process": "local localhost local_cwd subprocess host",
    "once": "python plain",
    "platform": "always on-failure onfailure default",
    "mpi": "mpirun mpiexec openmpi horovod horovodrun",
}

KEYS = {name: path for path, names in _KEYS.items() for name in names.split()}
"""Their key to our key path."""

_OF_DOCKERFILE = (
    "rsctl builds a Dockerfile's last stage with the defaults of its ARGs: change them there, or "
    "build the image yourself and set image.base"
)
BUILD_OPTIONS = {
    **dict.fromkeys(("target", "stage", "args", "build_args", "build_arg"), _OF_DOCKERFILE),
    "pull": "name the digest of the base, as in image.base: NAME@sha256:..., which decides its "
    "content",
}
"""Docker's options of a build that `image` does not have, and what to do instead."""

_FILES = (
    ("apiVersion kind", "a Kubernetes manifest"),
    ("workerPoolSpecs", "a configuration of gcloud ai custom-jobs"),
    ("jobSpec", "a request for a custom job"),
    ("AlgorithmSpecification", "a request for a training job"),
    ("resources setup run", "a task of SkyPilot"),
    ("resources num_nodes run", "a task of SkyPilot"),
    ("services", "a file of docker compose"),
    ("compute_environment distributed_type", "a configuration of accelerate"),
)
"""The keys of other programs' files, and what the files are."""

_SCRIPTS = (
    (".py", "a Python script", "write its job file: rsctl init {0}; or run it: rsctl submit {0}"),
    (".sh .bash .sbatch .slurm", "a shell script", "write its job file: rsctl init {0}"),
    (".ipynb", "a notebook", "convert it: jupyter nbconvert --to script {0}"),
)
"""The endings of scripts' names, what they are, and the command that leads to a job."""


def foreign_file(keys: Mapping[str, object]) -> tuple[str, str]:
    """The first key of a file of another program, and what the file is; empty for a job file."""
    for names, what in _FILES:
        if all(name in keys for name in names.split()):
            return names.split()[0], what
    return "", ""


def script_file(path: str) -> tuple[str, str]:
    """Tell what a script is, by its name, and what to do with it; empty for any other file."""
    for endings, what, remedy in _SCRIPTS:
        if path.endswith(tuple(endings.split())):
            return what, remedy.format(shlex.quote(path))
    return "", ""


def our_value(name: str) -> str:
    """rsctl's name of another launcher's value; empty if the value is unknown."""
    ours = {theirs: ours for ours, names in _VALUES.items() for theirs in names.split()}
    ours |= {theirs: info.name for info in all_targets() for theirs in info.aliases}
    return ours.get(name.lower(), "")
