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

    ~/.cache/reprise-peers/bin/python tools/parity_curves.py --golden tests/golden/autocast_curves.txt

writes PyTorch's losses for the tests GptAutocastParity: of each precision and seed a line, the loss of each step. Text and
first weights are made by the generator that those tests have too (GeneratedText), so that a test needs neither; the
learning rate grows over 20 steps, as single seeds decide over all where the first steps are steep. A seed in which PyTorch's
scaler leaves a step out (the fifth) has no line for f16, as that moves a loss by more than all rounding does; the next has.
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

import numpy
import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from torch_gpt import Gpt, GptShape, adamw  # noqa: E402

BATCH, TOKENS = 12, 64
GOLDEN_BATCH, WARMUP = 4, 20


class Text:
    """The characters that both frameworks train on, and which rows of them a step takes."""

    def __init__(self, path):
        text = Path(path).read_text()
        self.letters = {letter: number for number, letter in enumerate(sorted(set(text)))}
        self.ids = torch.tensor([self.letters[letter] for letter in text[: len(text) * 9 // 10]])

    def model(self, seed):
        torch.manual_seed(seed)
        return Gpt(shape_for(len(self.letters)))

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


def shape_for(vocab):
    return GptShape(vocab=vocab, context=TOKENS, layers=4, heads=4, width=128)


def mixed(number):
    """SplitMix64's output function (Steele et al. 2014) of 64-bit numbers."""
    number = (number ^ number >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ number >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
    return number ^ number >> numpy.uint64(31)


def words_of(key, count):
    """The first `count` 64-bit numbers of a stream."""
    counts = numpy.arange(1, count + 1, dtype=numpy.uint64)
    return mixed(mixed(numpy.array([key], numpy.uint64)) + counts * numpy.uint64(0x9E3779B97F4A7C15))


def fnv1a(name):
    found = 0xCBF29CE484222325
    for byte in name.encode():
        found = (found ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return found


class GeneratedText:
    """As Text, of made-up words; and first weights made of integers. tests/nn/autocast/generated_text.h makes the same bits."""

    LETTERS, SUCCESSORS, WORDS, LENGTH = 60, 4, 100, 20000

    def __init__(self):
        numbers = iter(int(word) >> 32 for word in words_of(1, 200000))

        def least(times, below):
            return min(next(numbers) * below >> 32 for _ in range(times))

        after = [[least(1, self.LETTERS) for _ in range(self.SUCCESSORS)] for _ in range(self.LETTERS)]
        words = []
        for _ in range(self.WORDS):
            letter, word = least(2, self.LETTERS), []
            for _ in range(2 + least(1, 7)):
                word.append(3 + letter)
                letter = after[letter][least(1, self.SUCCESSORS)]
            words.append(word)
        ids = []
        for _ in range(self.LENGTH):
            ids += words[least(3, self.WORDS)]
            ids += [1, 2] if least(1, 10) == 0 else [0]
        self.ids = torch.tensor(ids)

    def model(self, seed):
        model = Gpt(shape_for(3 + self.LETTERS))
        with torch.no_grad():
            for name, p in model.named_parameters():
                if p.dim() < 2:
                    continue
                deep = math.sqrt(8.0) if name.endswith("c_proj.weight") else 1.0
                words = words_of(seed ^ fnv1a(name), p.numel())
                four = sum((words >> numpy.uint64(shift) & numpy.uint64(0xFFFF)).astype(numpy.float64) for shift in (0, 16, 32, 48))
                numbers = (four - 131070.0) * (0.02 / deep / 37837.2)  # the deviation of a sum of four
                p.copy_(torch.from_numpy(numbers.astype(numpy.float32)).view(p.shape))
        return model

    def rows(self, seed, step):
        begins = [(int(word) >> 32) * (len(self.ids) - TOKENS) >> 32 for word in words_of(seed << 32 | step, GOLDEN_BATCH)]
        return torch.stack([self.ids[begin : begin + TOKENS + 1] for begin in begins])


def ours(options, text, seed, precision, environment=None):
    """The loss of each step."""
    with tempfile.TemporaryDirectory() as folder:
        weights = f"{folder}/start.safetensors"
        save_file(text.model(seed).state_dict(), weights)
        command = [options.program, "train", "--data", options.data, "--out", f"{folder}/run", "--steps", options.steps,
                   "--seed", seed, "--precision", precision, "--init-from", weights, "--decay", "constant", "--warmup", 0,
                   "--lr", 1e-3, "--beta2", 0.95, "--weight-decay", 0.1, "--clip", 1, "--dropout", 0, "--eval-every", 0,
                   "--eval-batches", 1, "--save-every", 0, "--sample-tokens", 1]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, **(environment or {})})
        records = [json.loads(line) for line in Path(folder, "run/metrics.jsonl").read_text().splitlines()]
        return [record["loss"] for record in records if "loss" in record]


def theirs(options, text, seed, precision, warmup=0):
    model = text.model(seed)
    optimizer = adamw(list(model.parameters()))
    dtype = {"f32": None, "bf16": torch.bfloat16, "f16": torch.float16}[precision]
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "f16")
    losses, first_scale = [], scaler.get_scale()
    for step in range(options.steps):
        rows = text.rows(seed, step)
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, (step + 1) / warmup) if warmup else 1e-3
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = model(rows[:, :-1], rows[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses if scaler.get_scale() >= first_scale else []


def distance(pairs):
    """Of (f32 losses, other losses) of each seed: root of the mean square, largest, |mean| and its standard error."""
    differences = [[b - a for a, b in zip(*pair)] for pair in pairs]
    flat = [d for one in differences for d in one]
    means = [statistics.fmean(one) for one in differences]
    error = statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else math.inf
    return math.sqrt(statistics.fmean(d * d for d in flat)), max(map(abs, flat)), abs(statistics.fmean(flat)), error


def write_golden(options):
    text, exact = GeneratedText(), []
    with open(options.golden, "w") as file:

        def write(precision, seed):
            losses = theirs(options, text, seed, precision, WARMUP)
            if losses:
                file.write(f"{precision}\t{seed}\t" + " ".join(f"{loss:.7g}" for loss in losses) + "\n")
                file.flush()
            return bool(losses)

        file.write(f"# PyTorch {torch.__version__}\n")
        for precision in options.precision:
            seed, left = 0, options.seeds
            while left:
                seed += 1
                left -= write(precision, seed)
                exact += [seed] if seed not in exact else []
        for seed in exact:
            write("f32", seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build/cpu/bin/reprise-gpt")
    parser.add_argument("--data", type=Path, default=ROOT / "build/data/king_james_bible.txt")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--precision", nargs="+", choices=["bf16", "f16"], default=["bf16", "f16"])
    parser.add_argument("--golden", type=Path, help="write PyTorch's losses on generated text to this file, and no more")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="PyTorch's")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.golden:
        return write_golden(options)
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
