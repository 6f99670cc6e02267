"""Join the processes of a data-parallel training."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ulc.errors import InputError
from ulc.networks.processes import Processes, connected, of_all, together
from ulc.training.loop import Epoch, Observer


@dataclass(frozen=True)
class Place:
    """The place of this process among those that train together.

    rank: number of this process; count: number of all processes
    local_rank: number of this process on its machine, which is the number of its GPU
    port: of the store by which processes on one machine find each other; None: the environment
        says where the store is, as torchrun sets it
    """

    rank: int
    count: int
    local_rank: int
    port: int | None = None


TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def place_by_torchrun() -> Place | None:
    """The place that torchrun gives this process; None: it has not started several processes."""
    if any(name not in os.environ for name in TORCHRUN) or os.environ["WORLD_SIZE"] == "1":
        return None
    rank, local_rank, count = (int(os.environ[name]) for name in TORCHRUN[:3])
    return Place(rank, count, local_rank)


@contextmanager
def joined(place: Place | None, device: str) -> Iterator[str]:
    """Context manager: train together with the other processes; the device of this process.

    place: None: this process trains alone
    device: auto, cpu or cuda, for all processes
    """
    if place is None:
        yield device
        return
    device = own_device(device, place.local_rank)
    store = None if place.port is None else open_store(place.port)
    with connected():
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo",
            store=store,
            rank=place.rank if store is not None else -1,
            world_size=place.count if store is not None else -1,
        )
    try:
        with together(Processes(place.rank, place.count)):
            yield device
    finally:
        dist.destroy_process_group()


def open_store(port: int | None = None) -> Any:
    """The store on this machine by which processes find each other.

    port: of the store; None: this process starts it, and its `port` says where
    """
    if not dist.is_available():
        raise InputError("this build of torch has no torch.distributed; train in one process")
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    starts = port is None
    return TCPStore("127.0.0.1", port or 0, is_master=starts, wait_for_workers=False)


def own_device(name: str, local_rank: int) -> str:
    """The device of a process: the GPU of its number, or the CPU.

    local_rank: number of the process on its machine
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda:"):
        raise InputError(f"each process has a GPU of its own; give --device cuda, not {name}")
    if name != "cuda":
        return name
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if local_rank >= there:
        raise InputError(
            f"process {local_rank + 1} of this machine has no GPU of its own, there are {there}; "
            "start fewer processes, or use --device cpu"
        )
    torch.cuda.set_device(local_rank)
    return f"cuda:{local_rank}"


def check_same_data(content: str) -> None:
    """Raise an InputError unless the data of all processes have the same digest `content`."""
    digests = of_all(content)
    for rank, digest in enumerate(digests):
        if digest != digests[0]:
            raise InputError(
                f"process {rank} reads other data than process 0; give all machines the same files"
            )


class StateAgreement(Observer):
    """Raises an InputError after an epoch in which the processes have come to different states.

    This happens if a computation that all processes repeat has not the same bits in each.
    """

    def on_epoch(self, epoch: Epoch) -> None:
        """Compare the states of all processes."""
        digests = of_all(digest_state(epoch.algorithm.state_dict()))
        for rank, digest in enumerate(digests):
            if digest != digests[0]:
                raise InputError(
                    f"after epoch {epoch.record['epoch']} the state of process {rank} is another "
                    "than that of process 0; use machines of one kind, or a single process"
                )


def digest_state(state: Any) -> str:
    """Digest of all tensors and numbers in a state dict."""
    digest = hashlib.blake2b(digest_size=16)
    for value in leaves(state):
        if isinstance(value, Tensor):
            digest.update(
                value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
            )
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()


def leaves(content: Any) -> Iterator[Any]:
    """All values in nested mappings and lists."""
    if isinstance(content, Mapping):
        content = list(content.values())
    if isinstance(content, list | tuple):
        for each in content:
            yield from leaves(each)
    else:
        yield content
