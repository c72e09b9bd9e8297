"""Makes this node's network as slow as the job asks, by the kernel's traffic control.

A network card is limited in both directions, each by itself. The kernel shapes only what leaves an
interface, so what arrives is sent through a second one, an ifb, and shaped as it leaves that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rsctl.runtime.refusal import CONFIGURATION, Refusal
from rsctl.runtime.settings import number

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


@dataclass(frozen=True)
class Network:
    """What a node's network is limited to: bit/s in each direction, seconds of delay on sending.

    0 means no limit.
    """

    bandwidth: int
    delay: float

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Network:
        """Read RSCTL_NET_BANDWIDTH and RSCTL_NET_DELAY; raises Refusal if they are no numbers."""
        return cls(
            bandwidth=int(number(environ, "RSCTL_NET_BANDWIDTH", 0)),
            delay=number(environ, "RSCTL_NET_DELAY", 0),
        )


def shape(network: Network, interface: str | None) -> None:
    """Limit the interface to this network; raises Refusal, naming the remedy, where that fails."""
    if not network.bandwidth and not network.delay:
        return
    if interface is None:
        raise _refusal("no interface is known to limit", "Remove targets.compose.network.")
    for command in commands(network, interface):
        _run(command)


def commands(network: Network, interface: str) -> list[list[str]]:
    """The commands that limit the interface, in order."""
    return [
        *_sending(network, interface),
        *(_receiving(network.bandwidth, interface) if network.bandwidth else []),
    ]


def _sending(network: Network, interface: str) -> list[list[str]]:
    qdisc = ["tc", "qdisc", "add", "dev", interface]
    if not network.delay:
        return [[*qdisc, "root", *_tbf(network.bandwidth)]]
    delay = f"{round(network.delay * 1_000_000)}us"
    netem = ["netem", "delay", delay, "limit", str(_DELAYED_PACKETS)]
    delayed = [*qdisc, "root", "handle", "1:", *netem]
    limited = [*qdisc, "parent", "1:1", *_tbf(network.bandwidth)]
    return [delayed, limited] if network.bandwidth else [delayed]


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
        raise _refusal(f"this image has no `{command[0]}`", "Add iproute2 to image.apt.") from None
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
        raise _refusal(f"`{' '.join(command)}`: {reason}", _remedy(command, reason))


def _remedy(command: list[str], reason: str) -> str:
    if "not permitted" in reason:
        return "Let the container have the capability NET_ADMIN, as rsctl asks of Docker."
    if "Cannot find device" in reason:
        return "This node has no such interface; see `ip link` in the container."
    if "netem" in command and ("unknown" in reason or "not found" in reason):
        return "This host's kernel has no netem: remove targets.compose.network.delay."
    return "If this host's kernel cannot do this, remove targets.compose.network."


def _refusal(reason: str, remedy: str) -> Refusal:
    message = f"targets.compose.network cannot be honoured here: {reason}"
    return Refusal(CONFIGURATION, "network-shaping", message, remedy)
