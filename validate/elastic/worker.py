"""``python -m validate.elastic.worker JOB FOLDER``: a rank, as torchrun starts it.

It continues from the last checkpoint in FOLDER, and writes a row at the end of each step and
checkpoint.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from validate.elastic.account import TOTAL, Job
from validate.ranks.launch import write_row

CHECKPOINT = "checkpoint.json"


def train(job: Job, folder: Path) -> None:
    """Run all remaining steps; the sum over ranks shows whether one was lost or done twice."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    done, total = _restore(folder / CHECKPOINT)

    def note(event: str) -> None:
        write_row({"event": event, "at": time.monotonic(), "step": done, "pid": os.getpid()})

    # A restart is over when all are here again.
    dist.barrier()
    note("begin")
    while done < job.steps:
        time.sleep(job.step_s)
        total += _sum(done + rank)
        done += 1
        note("step")
        if done % job.every == 0:
            _save(folder / CHECKPOINT, rank, job, done, total)
            note("saved")
    note("end")
    if rank == 0:
        (folder / TOTAL).write_text(json.dumps(total))
    dist.destroy_process_group()


def _sum(own: int) -> int:
    """Return the sum of every rank's number, over the network."""
    numbers = torch.tensor([own])
    dist.all_reduce(numbers)
    return int(numbers)


def _restore(path: Path) -> tuple[int, int]:
    """Return the number of finished steps, and their sum."""
    if not path.exists():
        return 0, 0
    done, total = json.loads(path.read_text())
    return int(done), int(total)


def _save(path: Path, rank: int, job: Job, done: int, total: int) -> None:
    """Write a checkpoint; all ranks wait for it."""
    if rank == 0:
        time.sleep(job.checkpoint_s)
        # Rename the file when it is complete, since a kill may come while it is written.
        part = path.with_suffix(".part")
        part.write_text(json.dumps([done, total]))
        part.replace(path)
    dist.barrier()


if __name__ == "__main__":
    train(Job.model_validate_json(sys.argv[1]), Path(sys.argv[2]))
