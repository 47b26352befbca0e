"""Closed, full and broken standard streams: the run's files hold nothing of what was printed, and no loss is silent."""

import itertools
import json
import os
import shlex

from harness import Case
from training import Training, prepared, saved_step, whole_afterwards, write_text

RUN = Training(steps=12, save_every=4, keep=2, eval_every=4, sample_every=6)


def shell(world, folder, words, redirections):
    line = " ".join(shlex.quote(str(word)) for word in words)
    return world.run(["bash", "-c", f"set -o pipefail; {line} {redirections}"], folder)


def clean(world, folder):
    """The logs hold lines of their own kind only, and the run is whole."""
    for line in (folder / "r" / "metrics.jsonl").read_text(errors="replace").splitlines():
        try:
            json.loads(line)
        except ValueError:
            return f"metrics.jsonl holds {line[:80]!r}"
    for path in (folder / "r").glob("events.out*"):
        if b"GPT:" in path.read_bytes():
            return f"{path.name} holds what was printed"
    return whole_afterwards(world, folder, RUN)


def closed(world, descriptors):
    def check(folder):
        write_text(folder)
        outcome = shell(world, folder, RUN.words(world), " ".join(f"{d}>&-" for d in descriptors))
        if outcome.code not in (0, 2) or (outcome.code == 0 and saved_step(folder) != RUN.steps):
            return outcome.problem("neither finished nor refused")
        return clean(world, folder) if (folder / "r").exists() else None
    return Case(f"closed {','.join(map(str, descriptors)) or 'none'}", check)


def training_into(world, redirection, codes):
    def check(folder):
        write_text(folder)
        outcome = shell(world, folder, RUN.words(world), redirection)
        if outcome.code not in codes:
            return outcome.problem(f"not one of {codes}")
        return clean(world, folder)
    return Case(f"train {redirection}", check)


def lost_output(world, words, redirection):
    """What a user asked to see cannot be written: not 0, and a line that says so."""
    def check(folder):
        prepared(world, RUN, 12, folder)
        outcome = shell(world, folder, words, redirection)
        silent = outcome.code in (0, None) or not outcome.err.strip()
        return outcome.problem("its output is lost, and it does not say so") if silent else None
    return Case(f"{os.path.basename(words[0])} {' '.join(map(str, words[1:3]))} {redirection}", check)


def cases(world):
    for count in range(4):
        for descriptors in itertools.combinations((0, 1, 2), count):
            yield closed(world, descriptors)
    yield training_into(world, "> /dev/full", (0, 2))
    yield training_into(world, "2> /dev/full", (0,))
    yield training_into(world, "| head -1", (0, 2, 3))
    yield training_into(world, "2>&1 | head -c 1", (0, 2, 3))
    yield training_into(world, "| true", (0, 2, 3))
    small = ["--layers", "1", "--heads", "1", "--width", "8", "--context", "8", "--batch", "2"]
    for words in ([world.gpt, "sample", "--run", "r"], [world.gpt, "eval", "--run", "r"], [world.gpt, "--help"],
                  [world.gpt, "train", "--help"], [world.recompute, "verify", *small], [world.recompute, "plan", *small]):
        yield lost_output(world, words, "> /dev/full")
