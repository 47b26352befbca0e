#!/usr/bin/env python3
"""Compares recompute with PyTorch's torch.utils.checkpoint: ./run bench recompute.

For each model four programs train in turns, one at a time: Reprise and PyTorch, each without recompute and with every
block recomputed. Prints medians of the step's time, by how much recompute slows each framework down (on the clock, and
in the CPU's seconds, which a busy machine disturbs less), and the bytes of tensors in a step above those that are there
between steps: the peak, and what is held between forward and backward.
The bytes of both are counted by allocation: Reprise's by its allocator, PyTorch's by its profiler's memory events.
Writes build/bench/recompute.json.
"""
import json
import sys

from bench_torch import Worker, interleaved, parse_options, peers

MODELS = ["gpt_6x384", "gpt2_124m_256"]
MIB = 2**20


def start(name, command, model, recompute, environment):
    return Worker(f"{name}, {recompute}", [*command, "--recompute", recompute], model, environment)


def summary(none, full):
    """What recompute saves and costs in one framework."""
    return {
        "seconds_none": none.median("seconds_per_step"),
        "seconds_full": full.median("seconds_per_step"),
        "peak_bytes_none": none.median("step_peak_bytes"),
        "peak_bytes_full": full.median("step_peak_bytes"),
        "held_bytes_none": none.median("held_bytes"),
        "held_bytes_full": full.median("held_bytes"),
        "peak_rss_bytes_none": none.peak_rss(),
        "peak_rss_bytes_full": full.peak_rss(),
        "slowdown": full.median("seconds_per_step") / none.median("seconds_per_step"),
        "cpu_slowdown": full.median("cpu_seconds") / none.median("cpu_seconds"),
    }


def bench(model, frameworks, rounds):
    workers = []
    try:
        for name, command, environment in frameworks:
            for recompute in ["none", "full"]:
                workers.append(start(name, command, model, recompute, environment))
        interleaved(workers, rounds)
        return {name: summary(*workers[2 * i:2 * i + 2]) for i, (name, _, _) in enumerate(frameworks)}
    finally:
        for worker in workers:
            worker.stop()


def print_rows(model, results):
    for name, r in results.items():
        print(f"{model:<15}{name:<24}"
              f"{r['seconds_none'] * 1e3:9.0f}{r['seconds_full'] * 1e3:9.0f} ms{100 * (r['slowdown'] - 1):7.1f} %{100 * (r['cpu_slowdown'] - 1):7.1f} %"
              f"{r['peak_bytes_none'] / MIB:10.1f}{r['peak_bytes_full'] / MIB:9.1f}"
              f"{r['held_bytes_none'] / MIB:10.1f}{r['held_bytes_full'] / MIB:9.1f} MiB", flush=True)


def main():
    options = parse_options(__doc__, MODELS, 3, "recompute.json")
    found = peers(options.threads)
    if not found:
        sys.exit("bench: no PyTorch here; tools/setup_peers.sh installs it")
    name, command, tuning = found[0]
    threads = str(options.threads)
    environment = {"OMP_NUM_THREADS": threads, "REPRISE_NUM_THREADS": threads}
    frameworks = [("Reprise", [str(options.binary.resolve())], environment),
                  (name, [*command, "--measure-memory"], {**environment, **tuning})]

    print(f"{'':<39}{'step: none':>9}{'full':>8}{'slower':>12}{'(CPU)':>9}{'peak: none':>11}{'full':>9}{'held: none':>11}{'full':>8}")
    results = {}
    for model in options.models:
        results[model] = bench(model, frameworks, options.rounds)
        print_rows(model, results[model])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
