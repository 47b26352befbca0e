#!/usr/bin/env python3
"""What ./run scale says of a slow network, beside our own runs on one: ./run bench scale.

Ranks of one thread train a GPT (6 layers, width 384, 4 x 256 tokens per rank), each in a network namespace whose cable tbf limits; what
a rank computes is measured with as many processes side by side that send nothing, because on few cores ranks share them, which a
simulation cannot know: their step, how far they are apart, and the layers' shares as `./run scale --device cpu` measures
them. From these and the rate alone ./run scale then predicts the step. Prints both, and how far they are apart, and writes them to
build/bench/scale.json. Needs root and iproute2.

On a machine that others use at the same time, `echo -20 > /proc/self/autogroup` in the shell before keeps them away. (`chrt -r 1`
does so too, but lets a thread that computes keep its core for 100 ms from one that sends, which is not how ranks are run.)
"""
import argparse
import concurrent.futures
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from bench_ranks import threads
from bench_torch import ROOT, Worker

sys.path.insert(0, str(ROOT / "tests/faults"))
import namespaces  # noqa: E402: the path comes first

MODEL, ROWS, LENGTH = "gpt_6x384", 4, 256
RANKS, MEGABITS = [2, 4], [100, 200, 400]
TOKEN = "4f1c2b8a9d3e5f60718293a4b5c6d7e8"
# A frame on a line takes 24 bytes more than tbf counts: preamble, checksum and gap.
LINE_BYTES = namespaces.FRAME + 24


class RanksOnMachines(Worker):
    """A rank on each machine, of which rank 0 is asked."""

    def __init__(self, command, machines):
        def begin(rank):
            return ["ip", "netns", "exec", machines[rank], *command]

        world = {**threads(1), "WORLD_SIZE": str(len(machines)), "MASTER_ADDR": namespaces.address(0), "MASTER_PORT": "29500",
                 "TORCHELASTIC_RUN_ID": "scale", "REPRISE_JOB_TOKEN": TOKEN}
        self.others = [subprocess.Popen(begin(rank), env={**os.environ, **world, "RANK": str(rank)},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                       for rank in range(1, len(machines))]
        super().__init__(f"{len(machines)} ranks", begin(0), {**world, "RANK": "0"})

    def stop(self):
        super().stop()
        for other in self.others:
            other.wait()


def side_by_side(workers):
    """All run at once: the seconds of each one's step."""
    with concurrent.futures.ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(Worker.run, workers))
    return [worker.records[-1]["seconds_per_step"] for worker in workers]


def spread_of(rounds):
    """The deviation of ranks from the mean of their round, in percent of it."""
    return 100 * math.sqrt(statistics.mean(statistics.variance(times) / statistics.mean(times) ** 2 for times in rounds))


def measured_layers(programs, others, file):
    """The profile of one process beside others that compute."""
    is_done = threading.Event()

    def compute(worker):
        while not is_done.is_set():
            worker.run()

    with concurrent.futures.ThreadPoolExecutor(len(others)) as pool:
        waits = [pool.submit(compute, worker) for worker in others]
        try:
            subprocess.run([programs / "reprise-scale", "--device", "cpu", "--model", MODEL, "--batch", str(ROWS), "--length",
                            str(LENGTH), "--precision", "f32", "--ranks", "1", "--write-layers", file],
                           check=True, stdout=subprocess.DEVNULL, env={**os.environ, **threads(1)})
        finally:
            is_done.set()
        for wait in waits:
            wait.result()
    return json.loads(file.read_text())


def of_length(profile, seconds):
    """The profile, its shares kept, of a step that takes so long; and what it took before."""
    before = profile["update_seconds"] + sum(layer["forward_seconds"] + layer["backward_seconds"] for layer in profile["layers"])
    scaled = json.loads(json.dumps(profile))
    scaled["update_seconds"] *= seconds / before
    for layer in scaled["layers"]:
        layer["forward_seconds"] *= seconds / before
        layer["backward_seconds"] *= seconds / before
    return scaled, before


def predicted(programs, file, ranks, megabits, spread):
    """Seconds of a step, and of its waits, by ./run scale."""
    gigabits = megabits / 1000 * LINE_BYTES / namespaces.FRAME
    said = subprocess.run([programs / "reprise-scale", "--layers", file, "--links", "gloo", "--precision", "f32", "--ranks",
                           str(ranks), "--per-node", "1", "--network", str(gigabits), "--spread", str(spread), "--json"],
                          check=True, capture_output=True, text=True).stdout
    row = json.loads(said)["rows"][0]
    return row["step_seconds"], row["exposed_comm_seconds"]


def measure(programs, ranks, rounds, file):
    """Profile of a rank; seconds of ranks' steps side by side; seconds and waits at each rate: in turns, medians."""
    command = [str(programs / "ranks_bench"), "--model", MODEL, "--rows", str(ROWS), "--micro-batches"]
    alone, at_rate, workers = [], {rate: [] for rate in MEGABITS}, []
    with namespaces.machines(ranks) as machines:
        try:
            for _ in range(ranks):
                workers.append(Worker("alone", [*command, "1"], threads(1)))
            profile = measured_layers(programs, workers[1:], file)
            joined = RanksOnMachines([*command, str(ranks)], machines)
            workers.append(joined)
            for _ in range(rounds):
                alone.append(side_by_side(workers[:ranks]))
                for rate in MEGABITS:
                    namespaces.limit(machines, rate)
                    joined.run()
                    at_rate[rate].append(joined.records[-1])
        finally:
            for worker in workers:
                worker.stop()
    return profile, alone, at_rate


def compare(programs, ranks, rounds):
    """A row for each rate."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "layers.json"
        profile, alone, at_rate = measure(programs, ranks, rounds, file)
        seconds, spread = statistics.median(itertools.chain(*alone)), spread_of(alone)
        scaled, before = of_length(profile, seconds)
        file.write_text(json.dumps(scaled))
        print(f"{ranks} ranks side by side that send nothing: a step of {seconds:.3f} s, spread {spread:.1f} %; the "
              f"layers' profile adds up to {before:.3f} s", flush=True)
        rows = []
        for rate, records in at_rate.items():
            step, waits = predicted(programs, file, ranks, rate, spread)
            taken = [record["seconds_per_step"] for record in records]
            own, share = statistics.median(taken), statistics.median(r["exposed_seconds"] / r["seconds_per_step"] for r in records)
            rows.append({"ranks": ranks, "megabits": rate, "alone": seconds, "spread": spread, "predicted": step, "measured": own,
                         "error": step / own - 1, "predicted_exposed": waits / step, "measured_exposed": share})
            print(f"{ranks} ranks, {rate:4} Mbit/s: predicted {step:.3f} s, exposed {100 * waits / step:.1f} %; measured {own:.3f} s "
                  f"({min(taken):.3f} to {max(taken):.3f}), exposed {100 * share:.1f} %; error {100 * (step / own - 1):+.1f} %",
                  flush=True)
        return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench/scale.json")
    options = parser.parse_args()
    if reason := namespaces.missing():
        print(f"bench: skipped: {reason}")
        return
    rows = [row for ranks in RANKS for row in compare(ROOT / "build/cpu/bin", ranks, options.rounds)]
    print(f"largest error: {100 * max(abs(row['error']) for row in rows):.1f} %")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=2) + "\n")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
