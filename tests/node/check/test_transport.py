"""`rsctl-launch --check`: what each transport expects beyond a plugin that NCCL takes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rsctl.node import launch
from rsctl.node.check.proof import prove
from rsctl.node.check.transports import TRANSPORTS, TransportRequirements

FAST, SERVER = "google-fast-socket", "google-reduction-server"
ROOT = Path(__file__).parents[3]
TWO_NAMED = f"{FAST} and {SERVER} are both installed, with plugins of the same name"


def brief(checked: Any) -> tuple[int, list[tuple[str, str, str]]]:
    """The exit code, and each finding without its remedy."""
    rows = [(row["severity"], row["code"], row["message"]) for row in checked.findings]
    return checked.code, rows


@pytest.fixture
def gpu_image(image: Any) -> Any:
    """An image with a torch for CUDA."""
    image.cuda_torch(5, 6, 7, 8)
    return image


def test_fast_socket(gpu_image: Any) -> None:
    gpu_image.dpkg(FAST)
    gpu_image.plugin(7, texts=["NET/FastSocket plugin initialized"])
    checked = gpu_image.check("fast-socket")
    assert (checked.code, checked.findings, len(checked.said)) == (0, [], 1)


def test_reduction_server(gpu_image: Any) -> None:
    gpu_image.dpkg(SERVER)
    gpu_image.plugin(7, texts=[])
    checked = gpu_image.check("reduction-server")
    assert (checked.code, checked.findings, len(checked.said)) == (0, [], 1)


def test_reduction_server_without_its_package(gpu_image: Any) -> None:
    gpu_image.dpkg(SERVER, status="deinstall ok config-files")
    plugin = gpu_image.plugin(7)
    message = f"{plugin} is not Google's Reduction Server plugin: "
    message += f"the package {SERVER} is not installed"
    assert brief(gpu_image.check("reduction-server")) == (3, [("error", "plugin-foreign", message)])


@pytest.mark.parametrize(
    ("transport", "title", "package"),
    [
        ("reduction-server", "Google's Reduction Server plugin", FAST),
        ("fast-socket", "Google's Fast Socket", SERVER),
    ],
)
def test_the_package_of_the_other(gpu_image: Any, transport: str, title: str, package: str) -> None:
    gpu_image.dpkg(package)
    plugin = gpu_image.plugin(7, texts=["FastSocket"])
    message = f"{plugin} is not {title}: the package {package} installs a plugin of the same name"
    assert brief(gpu_image.check(transport)) == (3, [("error", "plugin-foreign", message)])


def test_both_packages(gpu_image: Any) -> None:
    gpu_image.dpkg(FAST, SERVER)
    gpu_image.plugin(7, texts=["FastSocket"])
    assert gpu_image.check("reduction-server").findings == [
        {
            "severity": "error",
            "code": "plugin-doubled",
            "message": TWO_NAMED,
            "remedy": "Remove one of the two packages.",
        }
    ]


def test_another_plugin_than_that_of_efa(gpu_image: Any) -> None:
    plugin = gpu_image.plugin(7, texts=["FastSocket"])
    message = f"{plugin} is not aws-ofi-nccl: the file does not contain NET/OFI"
    assert gpu_image.check("efa").findings == [
        {
            "severity": "error",
            "code": "plugin-foreign",
            "message": message,
            "remedy": "Install AWS's EFA software, or set image.transport: none.",
        }
    ]


def test_the_plugin_opens_a_library_that_is_not_there(gpu_image: Any) -> None:
    plugin = gpu_image.plugin(7, texts=["NET/OFI", "libcudart.so"])
    checked = gpu_image.check("efa")
    assert checked.code == 0
    assert checked.findings == [
        {
            "severity": "warning",
            "code": "library-missing",
            "message": f"{plugin} opens libcudart.so when it starts, and no file has that name",
            "remedy": "Link libcudart.so to one of its existing versions, on the loader's path.",
        }
    ]
    gpu_image.library("libcudart.so")
    assert gpu_image.check("efa").findings == []


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("RDMAV_FORK_SAFE=1", "do not use it: it can break things on newer kernels"),
        ("RDMAV_HUGEPAGES_SAFE=1", "do not use it: it can break things on newer kernels"),
        ("NCCL_PROTO=simple", "it is for versions up to 1.5"),
        ("NCCL_PROTO=Simple", "it is for versions up to 1.5"),
        ("FI_PROVIDER=efa", "it is for versions up to 1.5"),
    ],
)
def test_settings_of_the_past(gpu_image: Any, setting: str, reason: str) -> None:
    gpu_image.plugin(7)
    name, _, value = setting.partition("=")
    checked = gpu_image.check("efa", **{name: value})
    assert checked.code == 0
    assert checked.findings == [
        {
            "severity": "warning",
            "code": "environment-outdated",
            "message": f"{setting} is set for aws-ofi-nccl: {reason}",
            "remedy": f"Remove {name} from run.env, or from the base image's environment.",
        }
    ]


@pytest.mark.parametrize(
    "setting",
    ["FI_EFA_USE_DEVICE_RDMA=1", "NCCL_PROTO=LL", "FI_PROVIDER=tcp", "FI_EFA_FORK_SAFE=1"],
)
def test_settings_that_do_no_harm(gpu_image: Any, setting: str) -> None:
    gpu_image.plugin(7)
    name, _, value = setting.partition("=")
    assert gpu_image.check("efa", **{name: value}).findings == []


def test_an_old_plugin_needs_the_settings_of_its_time(gpu_image: Any) -> None:
    gpu_image.plugin(5, 6)
    assert gpu_image.check("efa", NCCL_PROTO="simple", FI_PROVIDER="efa").findings == []


def test_a_plugin_of_the_base_is_kept(gpu_image: Any) -> None:
    plugin = gpu_image.plugin(7)
    message = f"the base image contains a network plugin for NCCL, {plugin}, which rsctl keeps"
    kept = {"severity": "note", "code": "plugin-kept", "message": message, "remedy": None}
    said = f"{plugin} has ncclNetPlugin_v7, NCCL 2.27.3 of torch 2.8.0+cu128 takes v5 to v8"
    assert gpu_image.check("none") == (0, [kept], [f"rsctl: transport none: {said}"])


def test_two_plugins_of_the_base(gpu_image: Any) -> None:
    gpu_image.dpkg(FAST, SERVER)
    first, second = (gpu_image.plugin(9, folder=name) for name in ("one", "two"))
    checked = gpu_image.check("none", LD_LIBRARY_PATH=f"{first.parent}:{second.parent}")
    code, findings = brief(checked)
    assert (code, [row[:2] for row in findings]) == (
        0,
        [
            ("warning", "plugin-doubled"),
            ("warning", "plugin-doubled"),
            ("warning", "plugin-abi"),
            ("note", "plugin-kept"),
        ],
    )


def test_rsctls_own_transport(image: Any) -> None:
    """It is looked for in the very rsctl that runs, and one of its engines must work."""
    ready = ["rsctl: transport rsctl: rsctl's own transport can run here"]
    assert image.check("rsctl") == (0, [], ready)
    root = image.without_transport()
    code, findings = brief(image.check("rsctl", root=root, PYTHONPATH=str(root)))
    missing = "Python cannot import rsctl.transport.import_check: "
    missing += "ModuleNotFoundError: No module named 'rsctl.transport'"
    assert (code, findings) == (3, [("error", "transport-missing", missing)])
    (root / "rsctl" / "transport").mkdir()
    (root / "rsctl" / "transport" / "ready.py").mkdir()
    code, findings = brief(image.check("rsctl", root=root, PYTHONPATH=str(root)))
    assert (code, findings[0][:2]) == (3, ("error", "transport-missing"))


def test_the_transport_without_core_needs_numpy(image: Any) -> None:
    root = image.without_transport()
    shutil.copytree(ROOT / "rsctl" / "transport", root / "rsctl" / "transport")
    (root / "rsctl" / "transport" / "librsctl_core.so").unlink(missing_ok=True)
    (root / "numpy.py").write_text("raise ImportError('no numpy here')")
    code, findings = brief(image.check("rsctl", root=root, PYTHONPATH=str(root)))
    message = "Python cannot import rsctl.transport.import_check: ImportError: no numpy here"
    assert (code, findings) == (3, [("error", "transport-missing", message)])


def test_a_plugin_that_the_installer_has_put_where_nobody_looks(image: Any) -> None:
    plugin = image.plugin(8, name="libnccl-net-ofi.so", folder="opt")
    transport = TransportRequirements(plugin="it", folders=(str(plugin.parent),))
    (finding,) = prove(transport, {"PATH": image.environ["PATH"]}).findings
    assert finding._asdict() == {
        "severity": "error",
        "code": "plugin-missing",
        "message": f"NCCL would not find it: no file has the name libnccl-net.so; {plugin} "
        "exists, but not on the loader's path under that name",
        "remedy": f"Add {plugin.parent} to the loader's path (ld.so.conf and ldconfig), with "
        "such a name in it.",
    }


def test_the_command_line_knows_all_transports(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        launch.main(["--help"])
    assert f"--transport {{{','.join(TRANSPORTS)}}}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--check", "--", "true"], "--check does not run a COMMAND"),
        (["--transport", "efa", "--", "true"], "--transport requires --check"),
        (["--check", "--transport", "pigeon"], "invalid choice: 'pigeon'"),
    ],
)
def test_usage(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        launch.main(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err
