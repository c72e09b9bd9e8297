"""Ends while a thread of gloo releases a tensor, for which it needs the interpreter's lock."""

import hashlib
import sys
import threading

import torch
import torch.distributed as dist

backend, how = sys.argv[1:]
releasing = threading.Event()


class Slow:
    """An attribute of a tensor: its deletion takes a while, and delays the thread that releases the
    tensor.
    """

    def __del__(self):
        releasing.set()
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 400_000)  # without the lock


dist.init_process_group(backend)
group = dist.group.WORLD
store = dist.distributed_c10d._get_default_store()
tensor = torch.ones(1)
if dist.get_rank() == 0:
    tensor.slow = Slow()
    work = dist.broadcast(tensor, src=1, async_op=True)
    del work, tensor  # the thread has the last references to them
    store.set("released", "")
    releasing.wait()
else:
    store.wait(["released"])
    dist.broadcast(tensor, src=1)
if how == "destroyed":
    del group
    dist.destroy_process_group()
elif how == "kept":
    dist.destroy_process_group()
    del group
