#!/usr/bin/env python3
"""Compares GPT training with PyTorch: ./run bench torch.

Starts benchmarks/gpt_bench.cpp's program and each PyTorch that is there (the newest, of tools/setup_peers.sh, and
Debian's python3-torch with OpenBLAS's OpenMP build), lets them train in turns, one at a time, and compares medians:
speed with the faster PyTorch, memory with the one that needs less. Writes a list of {name, peer, ratio, ours, theirs,
unit} to build/bench/torch.json: ratio above 1 means Reprise is faster, and for "_peak_rss" it is ours / theirs.
On a machine that others use at the same time, `chrt -r 1 python3 benchmarks/bench_torch.py` keeps them away.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ["gpt_small", "gpt_6x384", "gpt2_124m"]
OURS = "Reprise"
TICKS = os.sysconf("SC_CLK_TCK")


class Worker:
    """A process that runs a few steps for each request, and sleeps between."""

    def __init__(self, name, command, environment):
        self.name = name
        self.records = []
        self.idle_seconds = 0.0
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.run()  # warm-up: its record is dropped
        self.records.clear()

    def run(self):
        try:
            before = self.cpu_seconds()
            print("run", file=self.process.stdin, flush=True)
            for line in self.process.stdout:
                record = json.loads(line)
                if "seconds_per_step" in record:
                    self.records.append({**record, "cpu_seconds": self.cpu_seconds() - before})
                    return
        except (BrokenPipeError, json.JSONDecodeError) as error:
            sys.exit(f"bench: {self.name}: {error}")
        sys.exit(f"bench: {self.name} ended without a result (exit code {self.process.wait()})")

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def median(self, field):
        return statistics.median(record[field] for record in self.records)

    def peak_rss(self):
        return max(record["peak_rss_bytes"] for record in self.records)

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def peers(threads):
    """(name, command, environment) of each PyTorch that works here."""
    worker = str(ROOT / "benchmarks/torch_gpt.py")
    home = Path(os.environ.get("REPRISE_PEERS", Path.home() / ".cache/reprise-peers"))
    openblas = Path("/usr/lib/x86_64-linux-gnu/openblas-openmp")
    # Debian's build chooses AVX2 and a BLAS whose threads compete with OpenMP's unless it is told better.
    tuned = {"ATEN_CPU_CAPABILITY": "avx512"} if "avx512f" in Path("/proc/cpuinfo").read_text() else {}
    if openblas.is_dir():
        tuned["LD_LIBRARY_PATH"] = str(openblas)
    found = []
    for label, python, environment in [("PyPI", home / "bin/python", {}), ("Debian", Path("/usr/bin/python3"), tuned)]:
        if not python.exists():
            continue
        version = subprocess.run([python, "-c", "import torch; print(torch.__version__.split('+')[0])"],
                                 capture_output=True, text=True, env={**os.environ, **environment})
        if version.returncode == 0:
            command = [str(python), worker, "--threads", str(threads)]
            found.append((f"PyTorch {version.stdout.strip()} ({label})", command, environment))
    return found


def interleaved(workers, rounds):
    """`rounds` turns of each worker, another one first each time."""
    for turn in range(rounds):
        first = turn % len(workers)
        for active in workers[first:] + workers[:first]:
            before = {id(worker): worker.cpu_seconds() for worker in workers}
            active.run()
            for worker in workers:
                if worker is not active:
                    worker.idle_seconds += worker.cpu_seconds() - before[id(worker)]


def compare(model, workers):
    """The two rows of a model."""
    ours, *others = workers
    rival = min(others, key=lambda worker: worker.median("seconds_per_step"))
    slim = min(others, key=Worker.peak_rss)
    speeds = [worker.median("tokens_per_second") for worker in (ours, rival)]
    return [
        {"name": model, "peer": rival.name, "ratio": speeds[0] / speeds[1], "ours": speeds[0], "theirs": speeds[1],
         "unit": "tokens/s"},
        {"name": model + "_peak_rss", "peer": slim.name, "ratio": ours.peak_rss() / slim.peak_rss(),
         "ours": ours.peak_rss(), "theirs": slim.peak_rss(), "unit": "bytes"},
    ]


def print_workers(model, workers):
    for worker in workers:
        times = [record["seconds_per_step"] * 1e3 for record in worker.records]
        print(f"{model:<11}{worker.name:<26}{statistics.median(times):9.1f} ms/step ({min(times):.1f} to {max(times):.1f})"
              f"{worker.median('tokens_per_second'):11.0f} tokens/s{worker.peak_rss() / 2**20:8.0f} MiB"
              f"   {worker.idle_seconds:.2f} s of CPU while idle", flush=True)


def bench(model, binary, options):
    threads = str(options.threads)
    environment = {"OMP_NUM_THREADS": threads, "REPRISE_NUM_THREADS": threads}
    workers = []
    try:
        case = ["--model", model, *(["--autocast"] if options.autocast else [])]
        workers.append(Worker(OURS, [binary, *case], environment))
        for name, command, tuning in options.peers:
            workers.append(Worker(name, [*command, *case], {**environment, **tuning}))
        interleaved(workers, options.rounds)
        print_workers(model, workers)
        return compare(model, workers)
    finally:
        for worker in workers:
            worker.stop()


def parse_options(description, models, rounds, out, binary=ROOT / "build/cpu/bin/gpt_bench", default=None, flags=()):
    """The command line of a comparison with PyTorch; `default` models are fewer than all, `flags` (name, help)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", type=Path, default=binary)
    parser.add_argument("--models", nargs="+", choices=models, default=default or models)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench" / out)
    for name, what in flags:
        parser.add_argument(name, action="store_true", help=what)
    options = parser.parse_args()
    if not options.binary.exists():
        sys.exit(f"bench: no program {options.binary}; build it with ./run build")
    return options


def main():
    options = parse_options(__doc__, MODELS, 5, "torch.json", flags=[("--autocast", "all of them under autocast to bf16")])
    options.peers = peers(options.threads)
    if not options.peers:
        sys.exit("bench: no PyTorch here; tools/setup_peers.sh installs it")

    rows = []
    for model in options.models:
        rows += bench(model, str(options.binary.resolve()), options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=2) + "\n")
    print(f"\n{'':<21}{'Reprise':>12}{'PyTorch':>12}{'ratio':>8}")
    for row in rows:
        scale = 2**20 if row["unit"] == "bytes" else 1
        unit = "MiB" if row["unit"] == "bytes" else row["unit"]
        print(f"{row['name']:<21}{row['ours'] / scale:12.0f}{row['theirs'] / scale:12.0f}{row['ratio']:8.2f}"
              f"  {unit}, {row['peer']}")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
