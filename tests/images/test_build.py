"""`rsctl build-image` with a real engine, on bases as others make them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import command_forks
from tests.kit.commands import Done
from tests.kit.docker import BASE, needs_docker

REPOSITORY = Path(__file__).parents[2]


pytestmark = needs_docker


class Build(Done):
    """A build that has ended."""

    @property
    def rebuilt(self) -> list[str]:
        """The instructions that were not taken from the cache, but for labels."""
        steps = re.findall(r"^build \d+/\d+ \| ([A-Z]+ .*)$", self.err, re.MULTILINE)
        unseen = ("FROM", "LABEL")
        return [s for s in steps if not s.endswith("(cached)") and not s.startswith(unseen)]


class Workshop:
    """Makes bases and builds jobs on them."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder = folder
        self._server = server
        self.name = f"rsctl-test-{uuid.uuid4().hex[:8]}"
        self.env = {**os.environ, "RSCTL_HOME": str(folder / "home"), "CI": ""}
        self.source = folder / "source"
        self.source.mkdir()
        (self.source / "train.py").write_text("print('hello')\n")

    def base(self, dockerfile: str, **files: Path) -> str:
        """A base of this Dockerfile, `{base}` in it being the test base."""
        context = self.folder / "base"
        context.mkdir(exist_ok=True)
        (context / "Dockerfile").write_text(dockerfile.format(base=BASE))
        for name, path in files.items():
            shutil.copy(path, context / name)
        reference = f"{self.name}-base:1"
        # Steps on a base that was built before would come from the cache, and say nothing.
        with (context / "Dockerfile").open("a") as file:
            file.write(f"LABEL name={self.name}\n")
        argv = ["docker", "build", "--quiet", "--tag", reference, str(context)]
        subprocess.run(argv, check=True, capture_output=True)
        return reference

    def build(self, *arguments: str, **keys: Any) -> Build:
        """`rsctl build-image` of a job whose `image:` has these keys."""
        launcher = keys.pop("launcher", "once")
        job = {
            "name": self.name[:40],
            "run": {"script": "train.py", "launcher": launcher},
            "image": {"base": BASE, "source": "source", **keys},
            "workers": {"count": 2, "accelerator": "a100-40gb:8"},
        }
        (self.folder / "job.yaml").write_text(json.dumps(job))
        return self.rsctl("build-image", "job.yaml", *("-t", "compose", *arguments))

    def rsctl(self, *arguments: str) -> Build:
        done = command_forks.run(self._server, *arguments, cwd=self.folder, env=self.env)
        return Build(done.code, done.out, done.err)

    def run(self, reference: str, *command: str, **options: str) -> str:
        """What a command in a container of an image prints."""
        argv = ["docker", "run", "--rm", "--network", "none"]
        argv += [f"--{name}={value}" for name, value in options.items()]
        return subprocess.run(
            [*argv, reference, *command], check=True, capture_output=True, text=True
        ).stdout

    def clear(self) -> None:
        listed = ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"]
        images = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
        own = [image for image in images if self.name in image]
        of_dockerfiles = [*listed, "--filter", f"label=name={self.name}", "rsctl/dockerfile"]
        own += subprocess.run(of_dockerfiles, capture_output=True, text=True).stdout.split()
        if own:
            subprocess.run(["docker", "rmi", "--force", *own], check=True, capture_output=True)


@pytest.fixture
def workshop(tmp_path: Path, command_server: Path) -> Iterator[Workshop]:
    made = Workshop(tmp_path, command_server)
    yield made
    made.clear()


def test_what_is_rebuilt(workshop: Workshop) -> None:
    """First all, then nothing, then one layer for the source, then from the requirements on.

    On a base of its own: the layers of a shared one are other tests' too, and go with them.
    """
    requirements = workshop.folder / "requirements.txt"
    requirements.write_text("numpy\n")
    keys: dict[str, Any] = {"python": "requirements.txt", "base": workshop.base("FROM {base}\n")}

    first = workshop.build("-o", "json", **keys)
    assert first.code == 0, first.err
    assert first.json["built"] is True
    assert first.json["changes"] is None
    assert first.json["size"] > 100_000_000
    assert first.json["layers"][-1]["instruction"]

    again = workshop.build("-o", "json", **keys)
    assert (again.json["built"], again.json["changes"], again.rebuilt) == (False, [], [])
    assert again.json["tag"] == first.json["tag"]

    (workshop.source / "train.py").write_text("print('changed')\n")
    changed = workshop.build("-o", "json", **keys)
    assert changed.rebuilt == ["COPY --chown=${BASE_USER} source/ /app/", "WORKDIR /app"]
    assert changed.json["changes"] == [{"path": "source/train.py", "change": "changed"}]
    assert changed.json["tag"] != first.json["tag"]

    requirements.write_text("numpy\nscipy\n")
    required = workshop.build("-o", "json", **keys)
    assert required.rebuilt[0] == "COPY requirements/ /opt/rsctl/requirements/"
    assert required.json["changes"] == [
        {"path": "requirements/requirements.txt", "change": "changed"}
    ]


OWN = """\
# escape=`
ARG FROM={base}
FROM ${{FROM}} AS first
LABEL name={name}
COPY train.py `
     /copied/
FROM first
RUN useradd -m jo
USER jo
"""


def test_a_dockerfile_of_the_users_with_commands_and_variables(workshop: Workshop) -> None:
    """Built on as its user left it; built once, and again when what it copies has changed."""
    (workshop.source / "own.Dockerfile").write_text(OWN.format(base=BASE, name=workshop.name))
    keys: dict[str, Any] = {
        "base": None,
        "dockerfile": "source/own.Dockerfile",
        "env": {"GREETING": 'it\'s "$HOME" \\ `id`'},
        "run": ['echo "$GREETING" > /greeting && chmod a+r /greeting', "id -un >> /greeting"],
    }
    first = workshop.build("-o", "json", **keys)
    assert first.code == 0, first.err
    seen = ("sh", "-c", 'cat /greeting; echo "$GREETING"; id -un; ls /copied')
    greeting = 'it\'s "$HOME" \\ `id`'
    said = workshop.run(first.json["tag"], *seen, entrypoint="").splitlines()
    assert said == [greeting, "root", greeting, "jo", "train.py"]

    again = workshop.build("-o", "json", **keys)
    assert (again.json["built"], again.json["tag"]) == (False, first.json["tag"])

    (workshop.source / "train.py").write_text("print('changed')\n")
    changed = workshop.build("-o", "json", **keys)
    assert changed.json["tag"] != first.json["tag"]
    assert "COPY train.py /copied/" in changed.rebuilt

    (workshop.source / "own.Dockerfile").write_text("FROM scratch\nCOPY gone /\n")
    failed = workshop.build("-o", "json", **keys)
    assert failed.code == 2
    message = "the build copies a file that it does not have: gone"
    assert failed.json["findings"][0]["message"] == message
    assert {finding["path"] for finding in failed.json["findings"]} == {"image.dockerfile"}


WHO = ("sh", "-c", "id -un; pwd; touch made; stat -c %U train.py; rsctl-python -c 'print(1)'")


def test_the_labels_and_the_entrypoint(workshop: Workshop) -> None:
    done = workshop.build()
    assert done.code == 0, done.err
    argv = ["docker", "image", "inspect", "--format", "{{json .Config}}", done.out.strip()]
    config = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    said = workshop.run(done.out.strip(), *WHO[1:], entrypoint=WHO[0])
    assert said.split() == ["root", "/app", "root", "1"]
    assert config["Entrypoint"] == ["rsctl-launch"]
    assert config["WorkingDir"] == "/app"
    assert config["Labels"]["org.opencontainers.image.base.name"] == BASE


BASES = {
    "a user, and an active environment": (
        "FROM {base}\nRUN useradd -m jo\nUSER jo\nWORKDIR /home/jo\n"
        "ENV PATH=/usr/bin:/bin:/usr/local/bin VIRTUAL_ENV=/opt/venv\n",
        "jo",
    ),
    "a user by number, and python3 only": (
        "FROM {base}\nRUN useradd -u 1234 jo\nUSER 1234:1234\n"
        "ENV PATH=/usr/bin:/bin:/usr/local/bin\nRUN test ! -e /usr/bin/python\n",
        "jo",
    ),
    "an entrypoint, a command and folders that have our names": (
        "FROM {base}\nWORKDIR /app\nRUN mkdir torch rsctl && useradd jo\nUSER jo\n"
        'ENTRYPOINT ["/bin/false"]\nCMD ["x"]\n',
        "jo",
    ),
}


@pytest.mark.parametrize("name", BASES)
def test_bases_as_others_make_them(workshop: Workshop, name: str) -> None:
    dockerfile, user = BASES[name]
    done = workshop.build(base=workshop.base(dockerfile), python=["packaging"])
    assert done.code == 0, done.err
    said = workshop.run(done.out.strip(), *WHO[1:], entrypoint=WHO[0])
    assert said.split() == [user, "/app", user, "1"]


REFUSED = {
    "no python": (
        "FROM {base}\nENV PATH=/bin:/usr/local/bin:/usr/bin\n"
        "RUN rm -rf /opt/venv /usr/bin/python3*\n",
        "the base has no python and no python3",
    ),
    "no torch": ("FROM {base}\nRUN rm -rf /opt/venv/lib/python3*/site-packages/torch\n", "torch"),
    "a base that does not exist": ("", "image.base"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_base_that_cannot_do_it_is_refused_with_the_reason(workshop: Workshop, name: str) -> None:
    dockerfile, reason = REFUSED[name]
    base = workshop.base(dockerfile) if dockerfile else "localhost:1/no/such:base"
    done = workshop.build(base=base, launcher="torchrun")
    assert done.code in (2, 3)
    assert done.out == ""
    errors = done.err[done.err.index("error: ") :]
    assert reason in errors
    assert "    -> " in errors
    assert "Traceback" not in done.err


NCCL = """const char *texts[] = {"NCCL version 2.27.3", "ncclNetPlugin_v9", "ncclNetPlugin_v10"};
int ncclGetVersion(int *version) { *version = 22703; return 0; }
"""
TORCH = """int ncclGetVersion(int *);
int torch_nccl_version(int *version) { return ncclGetVersion(version); }
"""
AWS = """FROM {base}
RUN mkdir -p /opt/amazon/ofi-nccl/lib /opt/amazon/efa/lib /opt/extra
COPY plugin.so /opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so
COPY other.so /opt/amazon/efa/lib/libfabric.so.1
COPY nccl.so /opt/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2
COPY torch.so /opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so
"""


def library(folder: Path, name: str, source: str, *flags: str) -> Path:
    """Compile a small library that looks like NCCL, a plugin of it, or a part of torch."""
    path = folder / f"{name}.so"
    argv = ["gcc", "-x", "c", "-shared", "-fPIC", "-o", str(path), "-", "-x", "none", *flags]
    subprocess.run(argv, input=source, text=True, check=True)
    return path


def aws_base(workshop: Workshop, symbol: str, more: str = "") -> str:
    """A base with CUDA's torch and the EFA software, as far as the proof looks at them."""
    folder = workshop.folder
    nccl = library(folder, "nccl", NCCL, "-Wl,-soname,libnccl.so.2")
    rpath = "-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib"
    files = {
        "plugin": library(folder, "plugin", f'int {symbol}; const char *name = "NET/OFI";'),
        "other": library(folder, "other", "int other;"),
        "nccl": nccl,
        "torch": library(folder, "torch", TORCH, str(nccl), rpath),
    }
    return workshop.base(AWS + more, **{f"{name}.so": path for name, path in files.items()})


EFA = {"transport": "efa", "launcher": "once"}


def test_a_plugin_that_the_base_brings_is_kept_and_proven(workshop: Workshop) -> None:
    base = aws_base(workshop, "ncclNetPlugin_v10")
    done = workshop.build("-t", "sagemaker", base=base, **EFA)
    assert done.code == 0, done.err
    assert "rsctl: kept the EFA software that the base brings" in done.err
    proven = (
        "rsctl: transport efa: /opt/amazon/ofi-nccl/lib/libnccl-net.so has ncclNetPlugin_v10, "
        "NCCL 2.27.3 of torch 2.13.0+cpu takes v9, v10"
    )
    assert proven in done.err


def test_a_transport_that_cannot_work_fails_the_build(workshop: Workshop) -> None:
    """Variables of the base decide. tests/node/check has each fault of a plugin."""
    name, own = "libnccl-net-ofi.so", "/opt/amazon/ofi-nccl/lib"
    more = (
        f"COPY plugin.so /opt/extra/{name}\nRUN echo >> /opt/extra/{name}\n"
        "ENV LD_LIBRARY_PATH=/opt/extra NCCL_NET_PLUGIN=ofi\n"
    )
    base = aws_base(workshop, "ncclNetPlugin_v10", more)
    done = workshop.build("-t", "sagemaker", base=base, **EFA)
    assert (done.code, done.out) == (2, "")
    errors = done.err[done.err.index("error: ") :]
    assert errors.startswith("error: image.transport: ")
    assert (
        f"{name} is more than one file, in the loader's order: /opt/extra/{name}, {own}/{name}; "
        f"NCCL takes /opt/extra/{name}"
    ) in errors
    assert "    -> " in errors


SECRET = "s3cr3t-Value-9876"


def test_a_secret_of_the_builder_is_in_no_layer_no_history_and_no_log(workshop: Workshop) -> None:
    source = workshop.source
    (source / ".env").write_text(f"TOKEN={SECRET}\n")
    (source / ".aws").mkdir()
    (source / ".aws" / "credentials").write_text(f"aws_secret_access_key={SECRET}\n")
    (source / "key.json").write_text(f'{{"type": "service_account", "private_key": "{SECRET}"}}')
    home = workshop.folder / "user"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "credentials").write_text(f"aws_secret_access_key={SECRET}\n")
    workshop.env |= {"HOME": str(home), "MY_TOKEN": SECRET, "PIP_INDEX_URL_TOKEN": SECRET}
    done = workshop.build()
    assert done.code == 0, done.err
    assert SECRET not in done.out + done.err
    image = done.out.strip()
    for argv in (["history", "--no-trunc", image], ["image", "inspect", image]):
        told = subprocess.run(["docker", *argv], capture_output=True, text=True, check=True)
        assert SECRET not in told.stdout
    # The layers of the base are not of this build, and are a gigabyte.
    own = workshop.run(
        image, "-c", f"! grep -rlF {SECRET} /app /opt/rsctl /usr/local /root /tmp", entrypoint="sh"
    )
    assert own == ""
    assert ".env" in done.err
    for path in (workshop.folder / "home").rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


SMALL = "rsctl-test-debian:python"
"""What the test base is made of: all its layers can be searched."""
OF_SECRETS = f"""\
FROM {SMALL}
COPY wheels/ /opt/wheels/
RUN --mount=type=secret,id=PIP_INDEX_URL echo "it is $(cat /run/secrets/PIP_INDEX_URL)"
"""


def test_a_build_with_secrets_leaves_them_in_no_layer(workshop: Workshop) -> None:
    """pip finds the package where only a secret says; the index is a port on which no server is."""
    # Debian's own docker has BuildKit where a newer one needs a plugin.
    workshop.env |= {
        "PATH": f"/usr/bin{os.pathsep}{os.environ['PATH']}",
        "PIP_INDEX_URL": f"http://me:{SECRET}@127.0.0.1:9/simple",
        "PIP_FIND_LINKS": "/opt/wheels",
    }
    wheel = workshop.source / "wheels" / "private_package-1-py3-none-any.whl"
    wheel.parent.mkdir()
    about = "private_package-1.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("private_package.py", "")
        file.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: private-package\nVersion: 1\n"
        )
        file.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{about}/RECORD", "")
    (workshop.source / "Dockerfile").write_text(f"{OF_SECRETS}LABEL name={workshop.name}\n")
    keys: dict[str, Any] = {"base": None, "dockerfile": "source/Dockerfile"}
    keys |= {"python": ["private-package"], "secrets": ["PIP_INDEX_URL", "PIP_FIND_LINKS"]}
    keys |= {"env": {"PIP_RETRIES": "0"}}
    done = workshop.build("-o", "json", **keys)
    assert done.code == 0, done.err
    assert "it is ***" in done.err
    assert SECRET not in done.out + done.err
    reference = done.json["tag"]
    workshop.run(reference, "-c", "import private_package", entrypoint="python3")
    for argv in (["history", "--no-trunc", reference], ["image", "inspect", reference]):
        told = subprocess.run(["docker", *argv], capture_output=True, text=True, check=True)
        assert SECRET not in told.stdout
    with subprocess.Popen(["docker", "save", reference], stdout=subprocess.PIPE) as saving:
        assert saving.stdout is not None
        saved = saving.stdout.read()
    assert b"private_package.py" in saved
    assert SECRET.encode() not in saved
    for path in (workshop.folder / "home").rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path

    for name in ("PIP_INDEX_URL", "PIP_FIND_LINKS"):
        del workshop.env[name]
    again = workshop.build("-o", "json", **keys)
    assert again.json["built"] is False, "an image that exists needs no value"
    keys["python"] = ["private-package==1"]
    unset = workshop.build(**keys)
    assert unset.code == 2
    assert "not set in the environment of this build: PIP_FIND_LINKS, PIP_INDEX_URL" in unset.err
