"""A training script with a DataLoader, as its author wrote it: nothing in it knows of rsctl."""

import argparse
import os
import pathlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

options = argparse.ArgumentParser()
options.add_argument("--samples", type=int, default=1000)
options.add_argument("--no-ddp", action="store_true")
options.add_argument("--accumulate", type=int, default=1)
args = options.parse_args()


class Samples(Dataset):
    def __len__(self):
        return args.samples

    def __getitem__(self, index):
        return torch.ones(8)


dist.init_process_group("gloo")
torch.set_num_threads(1)
plain = torch.nn.Linear(8, 8)
model = plain if args.no_ddp else DistributedDataParallel(plain)
try:
    for number, batch in enumerate(DataLoader(Samples(), batch_size=1)):
        if (number + 1) % args.accumulate and not args.no_ddp:
            with model.no_sync():
                model(batch).sum().backward()
            continue
        model(batch).sum().backward()
    print("trained to its end", flush=True)
finally:
    if "FINALLY" in os.environ:
        pathlib.Path(os.environ["FINALLY"]).touch()
    dist.destroy_process_group()
