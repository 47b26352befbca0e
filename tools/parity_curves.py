#!/usr/bin/env python3
"""How far 16-bit training moves the loss from f32 training, here and in PyTorch: the same model, text and options.

    ~/.cache/reprise-peers/bin/python tools/parity_curves.py [--data build/data/king_james_bible.txt] [--seeds 5]

For each seed a GPT (4 layers, width 128, 12 x 64 characters) trains 200 steps in f32 and in 16 bits, in both frameworks
from the same weights on the same rows: how far rounding moves a run depends on its start by more than on who rounds. d is the
16-bit loss less the f32 one of the same step, within one framework; printed are the root of the mean of d^2, the
largest |d| and |mean of d| with its standard error over the seeds. "last bits" is two f32 runs here whose sums have
another order (REPRISE_ISA=portable): what training alone makes of a difference in the last bit; "frameworks" is how far the
f32 losses of both are from each other. Exit code 1 if ours is beyond 1.2 x PyTorch's root, 1.5 x its largest, or if
|mean| is above both PyTorch's and two standard errors. Where a CPU has no instruction for 16 bits PyTorch takes minutes
per run.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from torch_gpt import Gpt, GptShape, adamw  # noqa: E402

BATCH, TOKENS = 12, 64


class Text:
    """The characters that both frameworks train on, and which rows of them a step takes."""

    def __init__(self, path):
        text = Path(path).read_text()
        self.letters = {letter: number for number, letter in enumerate(sorted(set(text)))}
        self.ids = torch.tensor([self.letters[letter] for letter in text[: len(text) * 9 // 10]])

    def rows(self, seed, step):
        """(BATCH, TOKENS + 1): the rows of io/text/token_batches.h, RandomCrops."""
        data_order = 0x6461746120637570
        begins = []
        for row in range(BATCH):
            low, high, _, _ = philox(seed ^ data_order, step, row)
            begins.append((high << 32 | low) * (len(self.ids) - TOKENS) >> 64)
        return torch.stack([self.ids[begin : begin + TOKENS + 1] for begin in begins])


def philox(seed, offset, block):
    """Four 32-bit numbers (Salmon et al. 2011, Philox4x32-10)."""
    mask = 0xFFFFFFFF
    a, b, c, d = block & mask, block >> 32, offset & mask, offset >> 32
    key = [seed & mask, seed >> 32]
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = right >> 32 ^ b ^ key[0], right & mask, left >> 32 ^ d ^ key[1], left & mask
        key = [key[0] + 0x9E3779B9 & mask, key[1] + 0xBB67AE85 & mask]
    return a, b, c, d


def fresh_model(text, seed):
    torch.manual_seed(seed)
    return Gpt(GptShape(vocab=len(text.letters), context=TOKENS, layers=4, heads=4, width=128))


def ours(options, text, seed, precision, environment=None):
    """The loss of each step."""
    with tempfile.TemporaryDirectory() as folder:
        weights = f"{folder}/start.safetensors"
        save_file(fresh_model(text, seed).state_dict(), weights)
        command = [options.program, "train", "--data", options.data, "--out", f"{folder}/run", "--steps", options.steps,
                   "--seed", seed, "--precision", precision, "--init-from", weights, "--decay", "constant", "--warmup", 0,
                   "--lr", 1e-3, "--beta2", 0.95, "--weight-decay", 0.1, "--clip", 1, "--dropout", 0, "--eval-every", 0,
                   "--eval-batches", 1, "--save-every", 0, "--sample-tokens", 1]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, **(environment or {})})
        records = [json.loads(line) for line in Path(folder, "run/metrics.jsonl").read_text().splitlines()]
        return [record["loss"] for record in records if "loss" in record]


def theirs(options, text, seed, precision):
    model = fresh_model(text, seed)
    optimizer = adamw(list(model.parameters()))
    dtype = {"f32": None, "bf16": torch.bfloat16, "f16": torch.float16}[precision]
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "f16")
    losses = []
    for step in range(options.steps):
        rows = text.rows(seed, step)
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = model(rows[:, :-1], rows[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def distance(pairs):
    """Of (f32 losses, other losses) of each seed: root of the mean square, largest, |mean| and its standard error."""
    differences = [[b - a for a, b in zip(*pair)] for pair in pairs]
    flat = [d for one in differences for d in one]
    means = [statistics.fmean(one) for one in differences]
    error = statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else math.inf
    return math.sqrt(statistics.fmean(d * d for d in flat)), max(map(abs, flat)), abs(statistics.fmean(flat)), error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build/cpu/bin/reprise-gpt")
    parser.add_argument("--data", type=Path, default=ROOT / "build/data/king_james_bible.txt")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--precision", nargs="+", choices=["bf16", "f16"], default=["bf16", "f16"])
    options = parser.parse_args()
    torch.set_num_threads(os.cpu_count())
    seeds = range(1, options.seeds + 1)
    text = Text(options.data)
    exact = {"Reprise": [ours(options, text, s, "f32") for s in seeds],
             "PyTorch": [theirs(options, text, s, "f32") for s in seeds]}
    print(f"{'':<24}{'root':>10}{'largest':>10}{'|mean|':>10}{'error':>10}")

    def row(name, precision, pairs):
        found = distance(pairs)
        print(f"{name:<12}{precision:<12}" + "".join(f"{number:10.1e}" for number in found), flush=True)
        return found

    row("both", "frameworks", zip(exact["PyTorch"], exact["Reprise"]))
    other_sums = [ours(options, text, s, "f32", {"REPRISE_ISA": "portable"}) for s in seeds]
    row("Reprise", "last bits", zip(exact["Reprise"], other_sums))
    good = True
    for precision in options.precision:
        root, largest, mean, error = row("Reprise", precision,
                                         zip(exact["Reprise"], [ours(options, text, s, precision) for s in seeds]))
        peer_root, peer_largest, peer_mean, _ = row("PyTorch", precision,
                                                    zip(exact["PyTorch"], [theirs(options, text, s, precision) for s in seeds]))
        good = good and root <= 1.2 * peer_root and largest <= 1.5 * peer_largest and mean <= max(peer_mean, 2 * error)
    print("within the bounds" if good else "beyond the bounds")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
