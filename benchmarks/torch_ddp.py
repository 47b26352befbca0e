#!/usr/bin/env python3
"""A GPT's training step by PyTorch's DistributedDataParallel over Gloo, or by FSDP2, as the peer of benchmarks/ranks_bench.cpp:
the same model, the same micro-batches, the same protocol. One process with WORLD_SIZE=1 trains without DDP.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 torch_ddp.py --model gpt_6x384 --threads 1
"""
import argparse
import contextlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch_gpt import MODELS, Gpt, adamw, memory_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--micro-batches", type=int, default=2)
    parser.add_argument("--fsdp", action="store_true", help="share weights, gradients and state: fully_shard per block")
    options = parser.parse_args()
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    torch.set_num_threads(options.threads)
    if ranks > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(1337)
    shape = MODELS[options.model]
    model = Gpt(shape)
    if options.fsdp:
        mesh = init_device_mesh("cpu", (ranks,))
        for block in model.h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = adamw(list(model.parameters()))
    forward = DistributedDataParallel(model) if ranks > 1 and not options.fsdp else model
    rows = shape.batch // options.micro_batches
    tokens, targets = torch.randint(shape.vocab, (2, rows, shape.tokens or shape.context))

    def step():
        mine = options.micro_batches // ranks
        for number in range(mine):
            waits = ranks > 1 and number + 1 < mine
            if options.fsdp:
                model.set_requires_gradient_sync(not waits)
            with forward.no_sync() if waits and not options.fsdp else contextlib.nullcontext():
                (forward(tokens, targets) / mine).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def goes_on(mine):
        word = torch.tensor([int(mine)])
        if ranks > 1:
            dist.broadcast(word, 0)
        return bool(word.item())

    for _ in range(2 if shape.steps < 10 else 10):
        step()
    while goes_on(rank == 0 and sys.stdin.readline() != ""):
        started = time.perf_counter()
        for _ in range(shape.steps):
            step()
        seconds = (time.perf_counter() - started) / shape.steps
        if rank == 0:
            print(json.dumps({"seconds_per_step": seconds,
                              "tokens_per_second": shape.batch * (shape.tokens or shape.context) / seconds,
                              "peak_rss_bytes": memory_bytes("VmHWM")}), flush=True)


if __name__ == "__main__":
    main()
