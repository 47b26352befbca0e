"""Memory that is not there: the k-th allocation of each program fails, or all from there on."""

import random

from harness import Case
from journal import read_log
from test_programs import chosen_tests
from training import Training, prepared, saved_step, whole_afterwards, write_text

RUN = Training(steps=4, save_every=2, keep=1, eval_every=2, sample_every=3)
POINTS = 400
# What libraries make of no memory: toml++ takes a number that libstdc++ has no memory to read for a wrong one, and glibc
# ends a program for which it cannot note a thread's destructor.
OTHERS = ("Error while parsing floating-point", "failed to register TLS destructor")
TESTS = [(program, "*OutOfMemory*:*BadAlloc*:*Allocation*:*NoMemory*")
         for program in ("core_tests", "autograd_tests", "nn_tests", "io_tests", "no_memory_tests")]


def allocations(world, words, prepare, name):
    """How many allocations a program makes from main on."""
    folder = world.scratch / f"allocations-{name}-{world.plant}"
    folder.mkdir()
    prepare(folder)
    log = folder.with_suffix(".log")
    outcome = world.run(words, folder, {"FAULT_ALLOC": 10**9, "FAULT_LOG": log})
    if outcome.code != 0:
        raise RuntimeError(outcome.problem("an undisturbed run fails"))
    return next(number for operation, _, number, *_ in read_log(log) if operation == "allocations")


def starve(world, name, words, prepare, at, always, least):
    def check(folder):
        prepare(folder)
        outcome = world.run(words, folder, {"FAULT_ALLOC": at} | ({"FAULT_ALWAYS": 1} if always else {}))
        if any(text in outcome.err for text in OTHERS):
            return whole_afterwards(world, folder, RUN, least)
        if outcome.code not in (0, 2) or "internal error" in outcome.err:
            return outcome.problem("neither 0 nor 2, or an internal error")
        if outcome.code == 2 and "memory" not in outcome.err and not always:
            return outcome.problem("does not say that memory is lacking")
        if words[1] == "train" and outcome.code == 0 and saved_step(folder) != RUN.steps:
            return outcome.problem("says 0 without having saved its last step")
        return whole_afterwards(world, folder, RUN, least)
    return Case(f"{name} {at}{' and all after it' if always else ''}", check)


def cases(world):
    yield from chosen_tests(world, TESTS)
    halfway = lambda folder: prepared(world, RUN, 2, folder)
    for name, words, prepare, least in [
            ("train", RUN.words(world), write_text, None), ("resume", RUN.words(world, "--resume"), halfway, 2),
            ("sample", [world.gpt, "sample", "--run", "r", "--sample-tokens", 4], halfway, 2),
            ("eval", [world.gpt, "eval", "--run", "r"], halfway, 2)]:
        total = allocations(world, words, prepare, name)
        chosen = range(1, total + 1) if world.full else random.Random(world.seed).sample(range(1, total + 1),
                                                                                      min(total, POINTS))
        for at in chosen:
            yield starve(world, name, words, prepare, at, False, least)
            if at % 4 == 0:
                yield starve(world, name, words, prepare, at, True, least)
