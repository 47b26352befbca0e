#!/usr/bin/env python3
"""Two ranks of one thread beside one process of two, here and by PyTorch's DDP: ./run bench ranks.

Four workers train one GPT in turns, one at a time, and medians are compared: benchmarks/ranks_bench.cpp's program and
benchmarks/torch_ddp.py, each as one process with two threads and as two processes with one thread each, over Gloo on
loopback. With --shared ranks share weights, gradients and the optimizer's state, here by ZeRO's stage 3 and there by FSDP2
(fully_shard of each block). A step has the same rows everywhere, as two micro-batches. Writes a list of {name, peer,
cost_of_ranks, their_cost_of_ranks, ratio_alone, ratio_on_ranks} to build/bench/ranks.json: costs are times 2 x 1 / 1 x 2,
ratios above 1 mean that Reprise is faster. On a machine that others use at the same time, `chrt -r 1 ./run bench ranks` keeps
them away.
"""
import json
import os
import socket
import subprocess
import sys

from bench_torch import ROOT, Worker, interleaved, parse_options, peers, print_workers

MODELS = ["gpt_6x384", "gpt_small", "gpt2_124m"]
RANKS = 2


def rank_environments(ranks):
    """What tells `ranks` processes on this machine of each other, one after the other."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = min(probe.getsockname()[1], 65000)
    return [{"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
             "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


class RanksWorker(Worker):
    """`ranks` processes, of which rank 0 is asked."""

    def __init__(self, name, command, environment, ranks=RANKS):
        first, *others = rank_environments(ranks)
        self.others = [subprocess.Popen(command, env={**os.environ, **environment, **other},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for other in others]
        super().__init__(name, command, {**environment, **first})

    def stop(self):
        super().stop()
        for other in self.others:
            other.wait()


def threads(count):
    return {"OMP_NUM_THREADS": str(count), "REPRISE_NUM_THREADS": str(count)}


def bench(model, options):
    name, command, tuning = options.peer
    script = [command[0], str(ROOT / "benchmarks/torch_ddp.py"), "--model", model, "--threads"]
    sharing, their_sharing = (["--zero", "3"], ["--fsdp"]) if options.shared else ([], [])
    workers = []
    try:
        ours = [str(options.binary.resolve()), "--model", model]
        workers.append(Worker("Reprise 1 x 2", ours, threads(RANKS)))
        workers.append(RanksWorker("Reprise 2 x 1", [*ours, *sharing], threads(1)))
        workers.append(Worker(f"{name} 1 x 2", [*script, str(RANKS)], {**threads(RANKS), **tuning}))
        workers.append(RanksWorker(f"{name} {'FSDP2' if options.shared else 'DDP'} 2 x 1", [*script, "1", *their_sharing],
                                   {**threads(1), **tuning}))
        interleaved(workers, options.rounds)
        print_workers(model, workers)
        one, two, theirs, ddp = (worker.median("seconds_per_step") for worker in workers)
        print(f"{model}: 2 x 1 takes {two / one:.2f} of the time of 1 x 2 (PyTorch: {ddp / theirs:.2f}); "
              f"speed beside PyTorch: {theirs / one:.2f} in one process, {ddp / two:.2f} on two ranks")
        return {"name": model, "peer": name, "cost_of_ranks": two / one, "their_cost_of_ranks": ddp / theirs,
                "ratio_alone": theirs / one, "ratio_on_ranks": ddp / two}
    finally:
        for worker in workers:
            worker.stop()


def main():
    options = parse_options(__doc__, MODELS, 5, "ranks.json", binary=ROOT / "build/cpu/bin/ranks_bench",
                            default=MODELS[:1], flags=[("--shared", "ZeRO's stage 3 beside FSDP2")])
    found = peers(RANKS)
    if not found:
        sys.exit("bench: no PyTorch here; tools/setup_peers.sh installs it")
    options.peer = found[0]
    rows = [bench(model, options) for model in options.models]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=2) + "\n")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
