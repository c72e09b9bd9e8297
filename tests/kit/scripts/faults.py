"""Trains by DistributedDataParallel on four ranks, of which rank 2 does what the argument says."""

import ctypes
import itertools
import os
import re
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

FAULTY = 2
STEPS = 4


class Samples(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.randn(8)


class Deadlocked(Samples):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index > 12:
            time.sleep(600)
        return torch.randn(8)


def spin() -> None:
    number = 0
    while True:
        number += 1


def sleep() -> None:
    time.sleep(600)


def hold_lock() -> None:
    """Native code that never gives the interpreter's lock back."""
    re.match(r"(a+)+$", "a" * 60 + "b")


def hold_lock_asleep() -> None:
    """The same without the use of a processor: `PyDLL` keeps the lock during a call, and no signal
    ends the wait for a mutex.
    """
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)


def misbehave(kind: str, model: DistributedDataParallel) -> None:
    if kind == "loop":
        spin()
    elif kind == "sleep":
        sleep()
    elif kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "lock":
        hold_lock()
    elif kind == "asleep":
        hold_lock_asleep()
    elif kind == "operation":
        dist.broadcast(torch.ones(5), 0)
    elif kind == "shape":
        dist.all_reduce(torch.ones(7))
    elif kind == "large":
        dist.all_reduce(torch.ones(700_000))
    elif kind == "skip":
        with model.no_sync():
            model(torch.randn(4, 8)).sum().backward()
        dist.barrier()
    elif kind == "exit":
        threading.Thread(target=sleep).start()


def main() -> None:
    kind, rank = sys.argv[1], int(os.environ["RANK"])
    print(f"rank {rank} starts", flush=True)
    if kind == "absent" and rank == FAULTY:
        time.sleep(600)  # absent
    dist.init_process_group("gloo")
    layers = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Linear(64, 1))
    model = DistributedDataParallel(layers)
    if kind == "slow":
        model._set_ddp_runtime_logging_sample_rate(5)
    samples = Deadlocked() if kind == "data" and rank == FAULTY else Samples()
    workers = 1 if kind == "data" else 0
    batches = DataLoader(samples, batch_size=4, num_workers=workers)
    for step, batch in enumerate(itertools.chain.from_iterable(itertools.repeat(batches))):
        if rank == FAULTY and kind == "slow":
            time.sleep(0.05)
        if rank == FAULTY and step == STEPS:
            misbehave(kind, model)
        if kind == "exit" and step == STEPS:
            break
        model(batch).sum().backward()
        if kind in ("operation", "shape", "large"):
            dist.all_reduce(torch.ones(5))
        if rank == 0:
            print(f"step {step}", flush=True)
        time.sleep(0.01)


main()
