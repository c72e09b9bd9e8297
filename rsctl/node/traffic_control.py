"""Limits the bandwidth and delay of this node's network by the kernel's traffic control (tc).

A network card is limited in both directions, each by itself. The kernel shapes only what leaves an
interface, so what arrives is sent through a second one, an ifb, and shaped as it leaves that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rsctl.node.errors import CONFIGURATION, LaunchError
from rsctl.node.settings import number

_INGRESS_DEVICE = "rsctl-ifb"

# A bucket this large passes the largest packet that segmentation offload makes, with its headers,
# undivided; and at high rates it covers a millisecond in which the kernel's timer is late. Every
# byte more is a byte that comes faster than the wire after each pause.
_SMALLEST_BURST_BYTES = 72 * 1024
_BURST_SECONDS = 0.001

# With half of it, eight senders to one receiver at 200 Mbit/s lose packets until a third of the
# bandwidth stays unused; with this they fill it.
_QUEUE_SECONDS = 0.1

# netem drops beyond its limit, by default 1000 packets: less than a fast link holds in its delay.
_DELAYED_PACKETS = 100_000


class NetworkLimits(NamedTuple):
    """The limits of a node's network: bit/s in each direction, seconds of delay on sending.

    0 means no limit.
    """

    bandwidth: int
    delay: float

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> NetworkLimits:
        """Read RSCTL_NET_BANDWIDTH and RSCTL_NET_DELAY. Raises LaunchError."""
        return cls(
            bandwidth=int(number(environ, "RSCTL_NET_BANDWIDTH", 0)),
            delay=number(environ, "RSCTL_NET_DELAY", 0),
        )


def limit_network(limits: NetworkLimits, interface: str | None) -> None:
    """Apply the limits to the interface. Raises LaunchError where that fails."""
    if not limits.bandwidth and not limits.delay:
        return
    if interface is None:
        raise _cannot_limit(
            "there is no known interface to limit", "Remove targets.compose.network."
        )
    for command in tc_commands(limits, interface):
        _run(command)


def tc_commands(limits: NetworkLimits, interface: str) -> list[list[str]]:
    """The commands that limit the interface, in order."""
    return [
        *_sending(limits, interface),
        *(_receiving(limits.bandwidth, interface) if limits.bandwidth else []),
    ]


def _sending(limits: NetworkLimits, interface: str) -> list[list[str]]:
    qdisc = ["tc", "qdisc", "add", "dev", interface]
    if not limits.delay:
        return [[*qdisc, "root", *_tbf(limits.bandwidth)]]
    delay = f"{round(limits.delay * 1_000_000)}us"
    netem = ["netem", "delay", delay, "limit", str(_DELAYED_PACKETS)]
    delayed = [*qdisc, "root", "handle", "1:", *netem]
    limited = [*qdisc, "parent", "1:1", *_tbf(limits.bandwidth)]
    return [delayed, limited] if limits.bandwidth else [delayed]


def _receiving(bandwidth: int, interface: str) -> list[list[str]]:
    everything = ["protocol", "all", "u32", "match", "u32", "0", "0"]
    redirect = ["action", "mirred", "egress", "redirect", "dev", _INGRESS_DEVICE]
    return [
        ["ip", "link", "add", _INGRESS_DEVICE, "type", "ifb"],
        ["ip", "link", "set", _INGRESS_DEVICE, "up"],
        ["tc", "qdisc", "add", "dev", _INGRESS_DEVICE, "root", *_tbf(bandwidth)],
        ["tc", "qdisc", "add", "dev", interface, "handle", "ffff:", "ingress"],
        ["tc", "filter", "add", "dev", interface, "parent", "ffff:", *everything, *redirect],
    ]


def _tbf(bandwidth: int) -> list[str]:
    """A token bucket filter of this rate, in bit/s."""
    bytes_per_second = bandwidth / 8
    burst = max(_SMALLEST_BURST_BYTES, round(bytes_per_second * _BURST_SECONDS))
    limit = burst + round(bytes_per_second * _QUEUE_SECONDS)
    return ["tbf", "rate", f"{bandwidth}bit", "burst", str(burst), "limit", str(limit)]


def _run(command: list[str]) -> None:
    import subprocess  # Most jobs leave the network as it is and need not wait for this.

    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise _cannot_limit(
            f"this image does not have `{command[0]}`", "Add iproute2 to image.apt."
        ) from None
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
        raise _cannot_limit(f"`{' '.join(command)}`: {reason}", _remedy(command, reason))


def _remedy(command: list[str], reason: str) -> str:
    if "not permitted" in reason:
        return "Give the container the capability NET_ADMIN, which rsctl requests from Docker."
    if "Cannot find device" in reason:
        return "This node has no such interface; check `ip link` in the container."
    if "netem" in command and ("unknown" in reason or "not found" in reason):
        return "This host's kernel has no netem: remove targets.compose.network.delay."
    return "If this host's kernel does not support this, remove targets.compose.network."


def _cannot_limit(reason: str, remedy: str) -> LaunchError:
    message = f"cannot apply targets.compose.network here: {reason}"
    return LaunchError(CONFIGURATION, "network-shaping", message, remedy)
