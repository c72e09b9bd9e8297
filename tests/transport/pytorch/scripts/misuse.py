"""Ranks that do not do the same: what each call of a case gives, errors included.

    misuse.py CASE BACKEND [SECONDS]

SECONDS is the process group's timeout.
"""

import json
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

case, backend, *more = sys.argv[1:]
limit = timedelta(seconds=float(more[0]) if more else 20)
dist.init_process_group(backend, timeout=limit)
rank, world = dist.get_rank(), dist.get_world_size()
peers = dist.distributed_c10d._get_default_store()
found = []


def ones(size, **kwargs):
    return torch.ones(size, **kwargs) * (rank + 1)


def note(action):
    """What a call gives: the first value that it returns, or the kind of its error."""
    begin = time.monotonic()
    try:
        value = action()
        found.append("returned" if value is None else value.reshape(-1)[0].item())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is noted
        sys.stderr.write(f"rank {rank}: {type(error).__name__}: {error}\n")
        found.append("raised" if isinstance(error, RuntimeError) else type(error).__name__)
    sys.stderr.write(f"rank {rank}: {time.monotonic() - begin:.1f} s\n")


def reduced(tensor, op=dist.ReduceOp.SUM, group=None):
    dist.all_reduce(tensor, op, group=group)
    return tensor


def waited(tensor, *timeout):
    work = dist.all_reduce(tensor, async_op=True)
    work.wait(*timeout)
    return tensor


def state(work):
    """Whether a work that has ended did so well, as all its methods say it."""
    while not work.is_completed():
        time.sleep(0.01)
    assert work.is_success() == (work.exception() is None)
    return torch.tensor(float(work.is_success()))


def chained(tensor, wait):
    """An all-reduce awaited in the callback of another's future."""

    def then(future):
        again = future.value()[0] + 0
        work = dist.all_reduce(again, async_op=True)
        wait(work)
        return again

    return dist.all_reduce(tensor, async_op=True).get_future().then(then).wait()


def later():
    """Three all-reduces that are right in themselves, and other collectives."""
    for _ in range(3):
        note(lambda: reduced(ones(10)))


def case_sizes():
    note(lambda: reduced(ones(1000 * (rank + 1))))
    later()


def case_dtypes():
    note(lambda: reduced(ones(1000, dtype=[torch.float32, torch.bfloat16][rank % 2])))
    later()


def case_ops():
    note(lambda: reduced(ones(1000), [dist.ReduceOp.SUM, dist.ReduceOp.AVG][rank % 2]))
    later()


def case_waited():
    note(lambda: waited(ones(1000 * (rank + 1))))
    later()


def case_future():
    def awaited():
        tensor = ones(1000 * (rank + 1))
        dist.all_reduce(tensor, async_op=True).get_future().wait()
        return tensor

    note(awaited)
    later()


def case_state():
    note(lambda: state(dist.all_reduce(ones(1000 * (rank + 1)), async_op=True)))
    note(lambda: state(dist.all_reduce(ones(10), async_op=True)))


def case_others():
    note(lambda: reduced(ones(1000 * (rank + 1))))
    note(lambda: dist.broadcast(ones(4), src=0))
    note(lambda: dist.barrier())
    note(lambda: dist.all_gather([ones(4) for _ in range(world)], ones(4)))


def case_swallowed():
    note(lambda: reduced(ones(1000 * (rank + 1))))


def case_unwaited():
    global kept
    kept = dist.all_reduce(ones(1000 * (rank + 1)), async_op=True)
    found.append("begun")


def case_missing():
    if rank == world - 1:
        peers.wait(["over"], timedelta(seconds=60))
        return
    note(lambda: reduced(ones(1000)))
    peers.set("over", "")
    time.sleep(0.5)


def case_missing_later():
    note(lambda: reduced(ones(1000)))
    case_missing()


def case_missing_beside():
    """Until the rank before it has given up, by itself: the other end stays open."""
    note(lambda: reduced(ones(1000)))
    if rank == world - 1:
        peers.wait(["over"], timedelta(seconds=60))
        return
    note(lambda: reduced(ones(1000)))
    if rank == world - 2:
        peers.set("over", "")


def case_missing_async():
    note(lambda: reduced(ones(1000)))
    if rank == world - 1:
        peers.wait(["over"], timedelta(seconds=60))
        return
    note(lambda: waited(ones(1000), timedelta(seconds=0.3)))
    peers.set("over", "")
    time.sleep(0.5)


def case_left():
    note(lambda: reduced(ones(10)))
    if rank:
        note(lambda: reduced(ones(10)))


def case_timely():
    note(lambda: waited(ones(10), timedelta(seconds=10)))
    note(lambda: state(dist.all_reduce(ones(10), async_op=True)))
    work = dist.all_reduce(ones(10), async_op=True)
    work.wait()
    note(lambda: work.result()[0])


def case_order():
    if rank % 2:
        note(lambda: dist.broadcast(ones(4), src=0))
        note(lambda: reduced(ones(10)))
    else:
        note(lambda: reduced(ones(10)))
        note(lambda: dist.broadcast(ones(4), src=0))


def case_callback():
    note(lambda: chained(ones(4), lambda work: work.wait()))
    note(lambda: chained(ones(4), lambda work: work.get_future().wait()))
    note(lambda: reduced(ones(4)))


def case_callback_sync():
    def then(future):
        again = future.value()[0] + 0
        dist.all_reduce(again)
        dist.broadcast(again, src=0)
        dist.barrier()
        return again

    note(lambda: dist.all_reduce(ones(4), async_op=True).get_future().then(then).wait())
    later()


def case_callbacks_in_callbacks():
    def deeper(depth):
        def then(future):
            again = future.value()[0] + 0
            if not depth:
                return again
            work = dist.all_reduce(again, async_op=True)
            return work.get_future().then(deeper(depth - 1)).wait()

        return then

    note(lambda: dist.all_reduce(ones(4), async_op=True).get_future().then(deeper(5)).wait())
    later()


def case_noncontiguous():
    strided = (ones((4, 6)).t(), ones((6, 4)))[rank % 2]
    note(lambda: reduced(strided))
    later()


def case_subgroup():
    halves = [dist.new_group([r]) for r in range(world)]
    note(lambda: reduced(ones(4), group=halves[rank]))
    everyone = dist.new_group()
    note(lambda: reduced(ones(4), group=everyone))
    later()


globals()[f"case_{case}"]()
sys.stdout.write(json.dumps({"rank": rank, "found": found}) + "\n")
sys.stdout.flush()
if os.environ.get("LEAVE"):
    if os.fork() == 0:
        os._exit(0)
    found_child = os.waitstatus_to_exitcode(os.wait()[1])
    sys.stdout.write(json.dumps({"child": found_child}) + "\n")
    sys.stdout.flush()
    os._exit(0)
if os.environ.get("DESTROY"):
    dist.destroy_process_group()
