#!/usr/bin/env python3
"""Compares generation with transformers: ./run bench generate.

GPT-2 of 124M parameters continues prompts of 16, 128, 512 and 960 tokens by 32, one sequence at a time, by its cache of keys
and values, in f32 and in bf16. Both take turns, one at a time; times are medians: tokens per second behind the prompt, and
the seconds that the prompt takes. Writes build/bench/generate.json. The peer calls the model itself, without the loop of
`generate` of transformers, which is slower.
"""
import json
import os
import sys
from pathlib import Path

from bench_torch import OURS, ROOT, Worker, interleaved, parse_options

PROMPTS = ["16", "128", "512", "960"]


def bench(prompt, options, python, flags):
    threads = str(options.threads)
    environment = {"OMP_NUM_THREADS": threads, "REPRISE_NUM_THREADS": threads}
    peer = [str(python), str(ROOT / "benchmarks/transformers_generate.py"), "--threads", threads]
    workers = []
    try:
        case = ["--model", prompt, *flags]
        workers.append(Worker(OURS, [str(options.binary.resolve()), *case], environment))
        workers.append(Worker("transformers", [*peer, *case], environment))
        interleaved(workers, options.rounds)
        ours, theirs = ({field: worker.median(field) for field in ("tokens_per_second", "prompt_seconds")} for worker in workers)
        return {"prompt": int(prompt), "dtype": "bf16" if flags else "f32", "ours": ours, "theirs": theirs,
                "ratio": ours["tokens_per_second"] / theirs["tokens_per_second"]}
    finally:
        for worker in workers:
            worker.stop()


def main():
    options = parse_options(__doc__, PROMPTS, 5, "generate.json", binary=ROOT / "build/cpu/bin/generate_bench")
    python = Path(os.environ.get("REPRISE_PEERS", Path.home() / ".cache/reprise-peers")) / "bin/python"
    if not python.exists():
        sys.exit("bench: no transformers here; tools/setup_peers.sh installs it")
    print(f"{'prompt':<8}{'dtype':<7}{'tokens/s':>10}{'transformers':>14}{'ratio':>7}{'prompt ms':>12}{'transformers':>14}")
    rows = []
    for flags in ([], ["--bf16"]):
        for prompt in options.models:
            row = bench(prompt, options, python, flags)
            rows.append(row)
            print(f"{row['prompt']:<8}{row['dtype']:<7}{row['ours']['tokens_per_second']:10.1f}"
                  f"{row['theirs']['tokens_per_second']:14.1f}{row['ratio']:7.2f}"
                  f"{row['ours']['prompt_seconds'] * 1e3:12.0f}{row['theirs']['prompt_seconds'] * 1e3:14.0f}", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=2) + "\n")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
