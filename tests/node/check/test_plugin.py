"""`rsctl-launch --check`: NCCL's network plugin by the rules of NCCL and of the loader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CRASH = "__attribute__((constructor)) static void start(void) { *(volatile int *)0 = 1; }\n"
LEAVE = """
#include <stdlib.h>
__attribute__((constructor)) static void start(void) { exit(0); }
"""
PRINT = """
#include <stdio.h>
__attribute__((constructor)) static void start(void) { puts("{}"); fflush(stdout); }
"""
USE = "int used(void); int use(void) { return used(); }\n"


def problem(code: str, message: str, remedy: str, severity: str = "error") -> dict[str, Any]:
    return {"severity": severity, "code": code, "message": message, "remedy": remedy}


EFA_REMEDY = "Install AWS's EFA software, or set image.transport: none."
LACKS = (
    "Install the missing libraries, or add their folder to the loader's path (ld.so.conf and "
    "ldconfig)."
)
OTHER_PLUGIN = "Use a version of the plugin that is built for this image's system and CUDA."
OTHER_NCCL = "Use a version of the plugin that is built for this NCCL, or an older or newer torch."
ONE_OF_THEM = "Remove all but one, or set NCCL_NET_PLUGIN to the path of the one to use."


def test_a_plugin_that_nccl_takes(image: Any) -> None:
    image.cuda_torch(6, 7, 8, 9, 10)
    plugin = image.plugin(9, 10, 11)
    assert image.check() == (
        0,
        [],
        [
            f"rsctl: transport efa: {plugin} has ncclNetPlugin_v10, "
            "NCCL 2.27.3 of torch 2.8.0+cu128 takes v6 to v10"
        ],
    )


def test_no_plugin(image: Any) -> None:
    image.cuda_torch(8)
    missing = "NCCL would not find aws-ofi-nccl: no file has the name libnccl-net.so"
    assert image.check() == (3, [problem("plugin-missing", missing, EFA_REMEDY)], [])


def test_a_version_that_nccl_does_not_take(image: Any) -> None:
    image.cuda_torch(6, 7, 9)
    plugin = image.plugin(3)
    both = (
        f"{plugin} has v3 of ncclNetPlugin, and NCCL 2.27.3 of torch 2.8.0+cu128 takes v6, v7, v9"
    )
    assert image.check() == (3, [problem("plugin-abi", both, OTHER_NCCL)], [])


def test_a_library_that_is_no_plugin(image: Any) -> None:
    image.cuda_torch(7, 8)
    plugin = image.plugin()
    both = f"{plugin} has no version of ncclNetPlugin, and "
    both += "NCCL 2.27.3 of torch 2.8.0+cu128 takes v7, v8"
    assert image.check() == (3, [problem("plugin-abi", both, OTHER_NCCL)], [])


@pytest.mark.parametrize(
    ("source", "how"),
    [
        (CRASH, "was killed by signal 11 (Segmentation fault)"),
        (LEAVE, "ended with exit code 0"),
    ],
)
def test_a_plugin_that_dies_while_it_loads(image: Any, source: str, how: str) -> None:
    plugin = image.plugin(8, source=source)
    message = f"{plugin} does not load: a process that tried {how}"
    assert image.check().findings == [problem("plugin-load", message, OTHER_PLUGIN)]


def test_a_plugin_that_hangs_is_ended(image: Any, hang: str, gone: Callable[[int], None]) -> None:
    plugin = image.plugin(8, source=hang)
    message = f"{plugin} does not load: a process that tried did not end in time"
    checked = image.check(RSCTL_CHECK_SECONDS="5")
    assert (checked.code, checked.findings) == (3, [problem("plugin-hang", message, OTHER_PLUGIN)])
    gone(int((image.folder / "pid").read_text()))


def test_what_a_plugin_prints_is_not_our_answer(image: Any) -> None:
    image.cuda_torch(8)
    image.plugin(8, source=PRINT)
    checked = image.check()
    assert (checked.code, checked.findings, len(checked.said)) == (0, [], 1)


def test_a_library_that_the_plugin_needs_is_missing(image: Any) -> None:
    fabric = image.library("libefa-of-nobody.so.1", "int used(void) { return 0; }")
    plugin = image.plugin(8, source=USE, flags=[str(fabric), "-Wl,-soname,libnccl-net.so"])
    (image.lib / "libefa-of-nobody.so.1").unlink()
    checked = image.check()
    (finding,) = checked.findings
    assert (checked.code, finding["code"], finding["remedy"]) == (3, "plugin-load", LACKS)
    assert finding["message"].startswith(f"{plugin} does not load: ")
    assert "libefa-of-nobody.so.1: cannot open shared object file" in finding["message"]


def needs_driver(image: Any, *others: str) -> Path:
    """A plugin that is linked with the GPU driver's library, which is not there."""
    names = ["libcuda.so.1", *others]
    libraries = [
        image.library(name, f"int f{n}(void) {{ return 0; }}", f"-Wl,-soname,{name}")
        for n, name in enumerate(names)
    ]
    calls = "".join(
        f"int f{n}(void); int g{n}(void) {{ return f{n}(); }}" for n in range(len(names))
    )
    plugin = image.plugin(8, source=calls, flags=list(map(str, libraries)))
    for library in libraries:
        library.unlink()
    return Path(plugin)


def test_only_the_gpu_driver_is_missing(image: Any) -> None:
    image.cuda_torch(7, 8)
    plugin = needs_driver(image)
    message = (
        f"{plugin} needs libcuda.so.1, part of the GPU driver, which this machine does not have"
    )
    remedy = "No action is needed: on a node with a GPU it is loaded before the job begins."
    assert image.check() == (
        0,
        [problem("driver-missing", message, remedy, severity="note")],
        [
            f"rsctl: transport efa: {plugin} has ncclNetPlugin_v8, "
            "NCCL 2.27.3 of torch 2.8.0+cu128 takes v7, v8"
        ],
    )


def test_a_missing_driver_hides_no_other_missing_library(image: Any) -> None:
    plugin = needs_driver(image, "libefa-of-nobody.so.1")
    message = f"{plugin} does not load: it needs libefa-of-nobody.so.1, which no file provides"
    assert image.check().findings == [problem("plugin-load", message, LACKS)]


def test_two_plugins(image: Any) -> None:
    image.cuda_torch(8)
    first, second, third = (image.plugin(8, folder=name) for name in ("one", "two", "three"))
    image.ldconfig([third])
    path = f"{first.parent}:{second.parent}"
    order = f"libnccl-net.so is more than one file, in the loader's order: {first}, {second}, "
    message = f"{order}{third}; NCCL takes {first}"
    checked = image.check(LD_LIBRARY_PATH=path)
    assert checked == (3, [problem("plugin-doubled", message, ONE_OF_THEM)], [])
    assert image.check(LD_LIBRARY_PATH=path, NCCL_NET_PLUGIN=str(second)).findings == []


def test_two_names_of_one_plugin(image: Any) -> None:
    image.cuda_torch(8)
    plugin = image.plugin(8, name="libnccl-net-ofi.so", folder="ofi")
    for folder in (image.lib, image.folder / "ofi"):
        (folder / "libnccl-net.so").symlink_to(plugin)
    image.ldconfig([image.folder / "ofi" / "libnccl-net.so"])
    assert image.check().findings == []


def test_a_plugin_for_another_processor_does_not_count(image: Any) -> None:
    image.cuda_torch(8)
    plugin = image.plugin(8, folder="one")
    other = image.plugin(8, folder="other")
    content = bytearray(other.read_bytes())
    content[18:20] = b"\xb7\x00" if content[18:20] == b"\x3e\x00" else b"\x3e\x00"
    other.write_bytes(content)
    checked = image.check(LD_LIBRARY_PATH=f"{other.parent}:{plugin.parent}")
    assert (checked.code, checked.findings) == (0, [])


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("libnccl-net-ofi.so", "ofi"),
        ("libnccl-net-ofi.so", "libnccl-net-ofi.so"),
        ("plain", "plain"),
        ("libnccl-net-b.so", "a,b"),
    ],
)
def test_nccl_net_plugin_names_it(image: Any, name: str, setting: str) -> None:
    image.cuda_torch(8)
    plugin = image.plugin(8, name=name)
    checked = image.check(NCCL_NET_PLUGIN=setting)
    assert (checked.code, checked.findings) == (0, [])
    assert checked.said[0].startswith(f"rsctl: transport efa: {plugin} has ")


def test_nccl_net_plugin_names_nothing_that_is_there(image: Any) -> None:
    image.plugin(8)
    missing = "NCCL would not find aws-ofi-nccl: no file has the name x or libnccl-net-x.so"
    checked = image.check(NCCL_NET_PLUGIN="x")
    assert checked == (3, [problem("plugin-missing", missing, EFA_REMEDY)], [])


@pytest.mark.parametrize("setting", ["none", "NONE", ""])
def test_nccl_net_plugin_keeps_it_away(image: Any, setting: str) -> None:
    image.plugin(8)
    message = f"NCCL_NET_PLUGIN={setting} keeps NCCL from loading aws-ofi-nccl"
    remedy = "Do not set NCCL_NET_PLUGIN."
    checked = image.check(NCCL_NET_PLUGIN=setting)
    assert checked == (3, [problem("plugin-missing", message, remedy)], [])


def test_a_plugin_off_the_loaders_path_does_not_count(image: Any) -> None:
    image.plugin(8, folder="off")
    assert [finding["code"] for finding in image.check().findings] == ["plugin-missing"]
