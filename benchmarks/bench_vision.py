#!/usr/bin/env python3
"""Compares training of vision models with PyTorch: ./run bench vision.

Starts benchmarks/vision_bench.cpp's program and the newest PyTorch (tools/setup_peers.sh) with timm's and torchvision's
models of the same shapes, convolutions also channels-last, lets them train in turns, one at a time, and compares medians with
the faster one. Writes build/bench/vision.json, rows as bench_torch.py's. On a machine that others use at the same time,
`chrt -r 1 python3 benchmarks/bench_vision.py` keeps them away.
"""
import json
import statistics
import sys
from pathlib import Path

from bench_torch import ROOT, Worker, interleaved, parse_options, peers

MODELS = ["vit_192", "vit_384", "vit_s16", "resnet18_cifar"]


def cpu_model():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")


def bench(model, options, peer):
    threads = str(options.threads)
    environment = {"OMP_NUM_THREADS": threads, "REPRISE_NUM_THREADS": threads}
    name, command, tuning = peer
    command = [command[0], str(ROOT / "benchmarks/torch_vision.py"), *command[2:]]
    layouts = [[], ["--channels-last"]] if model.startswith("resnet") else [[]]
    workers = []
    try:
        case = ["--model", model]
        workers.append(Worker("Reprise", [str(options.binary.resolve()), *case], environment))
        for layout in layouts:
            workers.append(Worker(" ".join([name, *layout]), [*command, *case, *layout], {**environment, **tuning}))
        interleaved(workers, options.rounds)
    finally:
        for worker in workers:
            worker.stop()
    for worker in workers:
        times = [record["seconds_per_step"] * 1e3 for record in worker.records]
        print(f"{model:<16}{worker.name:<42}{statistics.median(times):9.1f} ms/step ({min(times):.1f} to {max(times):.1f})"
              f"{worker.median('images_per_second'):9.1f} images/s{worker.peak_rss() / 2**20:8.0f} MiB", flush=True)
    ours, *others = workers
    rival = max(others, key=lambda worker: worker.median("images_per_second"))
    slim = min(others, key=Worker.peak_rss)
    speeds = [worker.median("images_per_second") for worker in (ours, rival)]
    return [
        {"name": model, "peer": rival.name, "ratio": speeds[0] / speeds[1], "ours": speeds[0], "theirs": speeds[1],
         "unit": "images/s"},
        {"name": model + "_peak_rss", "peer": slim.name, "ratio": ours.peak_rss() / slim.peak_rss(),
         "ours": ours.peak_rss(), "theirs": slim.peak_rss(), "unit": "bytes"},
    ]


def main():
    options = parse_options(__doc__, [*MODELS, "resnet50"], 5, "vision.json", ROOT / "build/cpu/bin/vision_bench", MODELS)
    found = peers(options.threads)
    if not found:
        sys.exit("bench: no PyTorch here; tools/setup_peers.sh installs it")
    print(f"{cpu_model()}, {options.threads} threads")
    rows = [row for model in options.models for row in bench(model, options, found[0])]
    for row in rows:
        print(f"{row['name']:<26}{row['ratio']:6.2f}  {row['unit']}, against {row['peer']}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"cpu": cpu_model(), "rows": rows}, indent=2) + "\n")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
