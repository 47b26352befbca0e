#!/usr/bin/env python3
"""What calls between ranks cost on one machine: ./run bench communication.

The sum of 25 MiB over 2 and 4 ranks in the order of the tree, and by the ring of `--reduce fast`, beside PyTorch's all_reduce
over the same library, Gloo, in turns; what a call costs that moves nothing; the time in which 4 and 64 ranks join; and the time
for which the backward of GPT-2 124M waits at its end for gradients on a link of 200 MB/s that takes no CPU, beside the time
that a link which is never idle would take. Writes it to build/bench/communication.json. On a machine that others use at the same
time, `chrt -r 1 ./run bench communication` keeps them away. With --device cuda the build in build/cuda is timed: sums over
as many GPUs as --ranks says, beside PyTorch's over NCCL, and the call that moves nothing; of this nothing has been measured yet.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_ranks import RanksWorker, rank_environments, threads
from bench_torch import ROOT, interleaved, peers


def sums(ours, peer, ranks, rounds, device):
    """Seconds per sum, of each way."""
    name, command, tuning = peer
    workers = []
    try:
        for call in ["tree", "ring"]:
            workers.append(RanksWorker(call, [*ours, "--call", call, "--device", device], threads(1), ranks))
        workers.append(RanksWorker(name, [command[0], str(ROOT / "benchmarks/torch_all_reduce.py"), "--device", device],
                                   {**threads(1), **tuning}, ranks))
        interleaved(workers, rounds)
        tree, ring, theirs = (worker.median("seconds_per_step") for worker in workers)
    finally:
        for worker in workers:
            worker.stop()
    print(f"25 MiB, {ranks} ranks: tree {tree * 1e3:.1f} ms, ring {ring * 1e3:.1f} ms, {name} {theirs * 1e3:.1f} ms; "
          f"speed of the tree beside it {theirs / tree:.2f}, of the ring {theirs / ring:.2f}", flush=True)
    return {"name": f"sum_{ranks}_ranks", "peer": name, "tree": tree, "ring": ring, "theirs": theirs}


def empty_call(ours, rounds, device):
    """Seconds per call that moves nothing."""
    worker = RanksWorker("empty call", [*ours, "--call", "none", "--device", device], threads(1))
    try:
        interleaved([worker], rounds)
    finally:
        worker.stop()
    seconds = worker.median("seconds_per_step")
    print(f"a call that moves nothing, 2 ranks: {seconds * 1e6:.0f} us", flush=True)
    return {"name": "empty_call", "seconds": seconds}


def join(ours, ranks, rounds):
    """Seconds from the start of the first process until all have come."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        first, *others = [subprocess.Popen([*ours, "--call", "join"], stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                                           env={**os.environ, **threads(1), **environment}, text=True)
                          for rank, environment in enumerate(rank_environments(ranks))]
        said = first.stdout.readline()
        times.append(time.perf_counter() - started)
        for process in [first, *others]:
            process.wait()
        if said != "joined\n":
            sys.exit(f"bench: {ranks} ranks did not join")
    print(f"join of {ranks}: {statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})", flush=True)
    return {"name": f"join_{ranks}", "seconds": statistics.median(times)}


def busy_link(calls, bytes_per_second):
    """When the last of these sums is done, if the link works whenever there is one to send."""
    end = 0.0
    for call in calls:
        # On two ranks each sends half of the elements, and then half of the sums.
        end = max(end, call["issued"]) + math.prod(call["shape"]) * 4 / bytes_per_second
    return end


def exposed(ours, rounds):
    """Seconds that a step waits for the last gradients, and those of a link that is never idle: in the median of the ratios."""
    steps = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            said = subprocess.run([*ours, "--call", "step", "--record", folder], env={**os.environ, **threads(os.cpu_count())},
                                  check=True, capture_output=True, text=True).stdout
            step = json.loads(said)
            lines = Path(step["record"]).read_text(encoding="utf-8").splitlines()[1:]
        calls = [call for call in map(json.loads, lines) if call["issued"] >= step["begin"] and call.get("dtype") == "f32"]
        computed = step["begin"] + step["seconds"] - step["exposed_seconds"]
        least = busy_link(calls, step["bytes_per_second"]) - computed
        steps.append({"exposed": step["exposed_seconds"], "least": least, "calls": len(calls), "seconds": step["seconds"]})
    steps.sort(key=lambda step: step["exposed"] / step["least"])
    step = steps[len(steps) // 2]
    print(f"GPT-2 124M on a link of 200 MB/s: backward of {step['seconds']:.2f} s waits {step['exposed']:.3f} s for the last of "
          f"{step['calls']} calls, {step['exposed'] / step['least']:.3f} of the {step['least']:.3f} s of a link that is never idle",
          flush=True)
    return {"name": "exposed_124m", **step}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench/communication.json")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4], help="of which 25 MiB are summed")
    options = parser.parse_args()
    ours = [str(ROOT / f"build/{options.device}/bin/communication_bench")]
    found = peers(1)
    if not found:
        sys.exit("bench: no PyTorch here; tools/setup_peers.sh installs it")
    rows = [sums(ours, found[0], ranks, options.rounds, options.device) for ranks in options.ranks]
    rows += [empty_call(ours, options.rounds, options.device)]
    if options.device == "cpu":
        rows += [*[join(ours, ranks, options.rounds) for ranks in (4, 64)], exposed(ours, options.rounds)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=2) + "\n")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
