"""How GPUs are linked inside a node, and to its memory.

Bandwidths are from NCCL's topology model (NVIDIA/nccl, src/graph/topo.h), in bytes a second and
direction: a lane of NVLink times the number of lanes in the vendor's data sheet, and PCIe of 16
lanes, 12 GB/s for its third generation and twice as much for each later one.
"""

from __future__ import annotations

import msgspec

_PCIE3 = 12e9
_PASCAL, _VOLTA, _TURING, _AMPERE = 60, 70, 75, 80
_AMPERE_SMALL, _ADA, _HOPPER, _BLACKWELL, _BLACKWELL_SMALL = 86, 89, 90, 100, 120


class Interconnect(msgspec.Struct, frozen=True, kw_only=True):
    """Links of one kind of GPU. `nvlink` is None if GPUs meet over PCIe."""

    capability: int
    pcie: float
    nvlink: float | None = None

    @property
    def bandwidth(self) -> float:
        """Between GPUs of a node."""
        return self.nvlink or self.pcie


_V100 = Interconnect(capability=_VOLTA, pcie=_PCIE3, nvlink=6 * 20e9)
_A100 = Interconnect(capability=_AMPERE, pcie=2 * _PCIE3, nvlink=12 * 20e9)
_H100 = Interconnect(capability=_HOPPER, pcie=4 * _PCIE3, nvlink=18 * 20.6e9)
_B200 = Interconnect(capability=_BLACKWELL, pcie=4 * _PCIE3, nvlink=18 * 40.1e9)
_RTX_PRO = Interconnect(capability=_BLACKWELL_SMALL, pcie=4 * _PCIE3)
_ADA_PCIE = Interconnect(capability=_ADA, pcie=2 * _PCIE3)

INTERCONNECTS = {
    "k80": Interconnect(capability=37, pcie=_PCIE3),
    "p4": Interconnect(capability=61, pcie=_PCIE3),
    "p100": Interconnect(capability=_PASCAL, pcie=_PCIE3),
    "t4": Interconnect(capability=_TURING, pcie=_PCIE3),
    "v100": _V100,
    "v100-32gb": _V100,
    "a10g": Interconnect(capability=_AMPERE_SMALL, pcie=2 * _PCIE3),
    "l4": _ADA_PCIE,
    "l40s": _ADA_PCIE,
    "a100-40gb": _A100,
    "a100-80gb": _A100,
    "h100": _H100,
    "h200": _H100,
    "b200": _B200,
    "b300": _B200,
    "gb200": _B200,
    "rtx-pro-4500": _RTX_PRO,
    "rtx-pro-6000": _RTX_PRO,
}
"""By the catalogue's names."""

OTHER = Interconnect(capability=_VOLTA, pcie=_PCIE3)
"""An accelerator that is not known here: the slowest that is in use."""
