"""A parameter server: holds a part of the model and applies gradients to it as they come."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from exchange import LAST, build_model, join, load_checkpoint

from rsctl.node import log_metrics

LOG_SECONDS = 2.0


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args()


def serve(part: torch.nn.Parameter, lr: float, ranks: int) -> None:
    """Answer each gradient with the parameters that it makes, until all ranks have sent their last.

    Staleness is how many other gradients were applied since a rank got its parameters.
    """
    optimizer = torch.optim.AdamW([part], lr=lr)
    message = torch.empty(len(part) + 1)
    updates, logged_updates, behind, logged = 0, 0, 0, time.perf_counter()
    given: dict[int, int] = {}
    ended: list[int] = []
    while len(ended) < ranks:
        sender = dist.recv(message)  # of whoever comes first
        if message[-1] == LAST:
            ended.append(sender)
            continue
        part.grad = message[:-1].clone()
        optimizer.step()
        behind += updates - given.get(sender, updates)
        updates += 1
        given[sender] = updates
        dist.send(part.detach(), sender)
        seconds = time.perf_counter() - logged
        if seconds > LOG_SECONDS:
            done = updates - logged_updates
            log_metrics(step=updates, updates_per_second=done / seconds, staleness=behind / done)
            logged_updates, behind, logged = updates, 0, time.perf_counter()
    done, seconds = max(1, updates - logged_updates), time.perf_counter() - logged
    log_metrics(step=updates, updates_per_second=done / seconds, staleness=behind / done)
    for rank in ended:  # the parameters after all gradients
        dist.send(part.detach(), rank)


def main() -> None:
    args = parse_args()
    model = build_model()
    load_checkpoint(model)
    servers, ranks = join()
    parameters = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    part = parameters.tensor_split(servers)[int(os.environ["RSCTL_ROLE_INDEX"])]
    serve(torch.nn.Parameter(part.clone()), args.lr, ranks)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
