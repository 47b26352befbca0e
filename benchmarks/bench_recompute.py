#!/usr/bin/env python3
"""Compares recompute with PyTorch's torch.utils.checkpoint: ./run bench recompute.

For each model five programs train in turns, one at a time: Reprise and PyTorch, each without recompute and with every
block recomputed, and Reprise with every second one. Prints the step's time, by how much recompute slows the framework
down (on the clock, and in the CPU's seconds, which a busy machine disturbs less), and the bytes of tensors in a step
above those that are there between steps: the peak, and what is held between forward and backward. Times are medians,
slowdowns medians of the ratios in each round.
The bytes of both are counted by allocation: Reprise's by its allocator, PyTorch's by its profiler's memory events.
Writes build/bench/recompute.json.
"""
import json
import statistics
import sys

from bench_torch import Worker, interleaved, parse_options, peers

MODELS = ["gpt_6x384", "gpt2_124m_256"]
MIB = 2**20


def ratio(worker, none, field):
    """The median over the rounds: in one round the machine is as busy for both."""
    return statistics.median(a[field] / b[field] for a, b in zip(worker.records, none.records))


def summary(worker, none):
    """What a strategy takes, and how much slower it is than the same framework without one."""
    return {
        "seconds": worker.median("seconds_per_step"),
        "peak_bytes": worker.median("step_peak_bytes"),
        "held_bytes": worker.median("held_bytes"),
        "peak_rss_bytes": worker.peak_rss(),
        "slowdown": ratio(worker, none, "seconds_per_step"),
        "cpu_slowdown": ratio(worker, none, "cpu_seconds"),
    }


def bench(model, frameworks, rounds):
    """{framework: {strategy: summary}}"""
    workers = {}
    try:
        for name, command, environment, strategies in frameworks:
            workers[name] = {}
            for strategy in strategies:
                case = ["--model", model, "--recompute", strategy]
                workers[name][strategy] = Worker(f"{name}, {strategy}", [*command, *case], environment)
        interleaved([worker for each in workers.values() for worker in each.values()], rounds)
        return {name: {strategy: summary(worker, each["none"]) for strategy, worker in each.items()}
                for name, each in workers.items()}
    finally:
        for each in workers.values():
            for worker in each.values():
                worker.stop()


def print_rows(model, results):
    for name, strategies in results.items():
        for strategy, r in strategies.items():
            print(f"{model:<15}{name:<24}{strategy:<10}{r['seconds'] * 1e3:8.0f} ms"
                  f"{100 * (r['slowdown'] - 1):8.1f} %{100 * (r['cpu_slowdown'] - 1):7.1f} %"
                  f"{r['peak_bytes'] / MIB:10.1f}{r['held_bytes'] / MIB:10.1f} MiB", flush=True)


def main():
    options = parse_options(__doc__, MODELS, 3, "recompute.json")
    found = peers(options.threads)
    if not found:
        sys.exit("bench: no PyTorch here; tools/setup_peers.sh installs it")
    name, command, tuning = found[0]
    threads = str(options.threads)
    environment = {"OMP_NUM_THREADS": threads, "REPRISE_NUM_THREADS": threads}
    frameworks = [("Reprise", [str(options.binary.resolve())], environment, ["none", "full", "every:2"]),
                  (name, [*command, "--measure-memory"], {**environment, **tuning}, ["none", "full"])]

    print(f"{'':<39}{'blocks':<10}{'step':>11}{'slower':>10}{'(CPU)':>9}{'peak':>10}{'held':>10}")
    results = {}
    for model in options.models:
        results[model] = bench(model, frameworks, options.rounds)
        print_rows(model, results[model])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
