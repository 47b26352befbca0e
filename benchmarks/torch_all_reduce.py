#!/usr/bin/env python3
"""torch.distributed.all_reduce of 25 MiB of f32 over Gloo, or over NCCL with --device cuda, as the peer of
benchmarks/communication_bench.cpp, by the same protocol.

    RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 torch_all_reduce.py
"""
import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch_gpt import memory_bytes

CALLS = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    device = parser.parse_args().device
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    x = torch.zeros(25 * 2**20 // 4, device=device)
    while True:
        word = torch.tensor([int(dist.get_rank() == 0 and sys.stdin.readline() != "")], device=device)
        dist.broadcast(word, 0)
        if not word.item():
            break
        started = time.perf_counter()
        for _ in range(CALLS):
            dist.all_reduce(x)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = (time.perf_counter() - started) / CALLS
        if dist.get_rank() == 0:
            print(json.dumps({"seconds_per_step": seconds, "peak_rss_bytes": memory_bytes("VmHWM")}), flush=True)


if __name__ == "__main__":
    main()
