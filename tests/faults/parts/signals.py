"""Signals in every phase: at random moments, at chosen system calls, twice, and with the program stopped between."""

import random
import signal
import time

from counting import count
from harness import Case, finish, wait_until
from training import Training, latest, reference, same_end, saved_step, whole_afterwards, write_text

RUN = Training(steps=60, save_every=5, keep=2, eval_every=10, sample_every=15)
MOMENTS = 60
STOPPING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
CALLS = 40  # system calls at which each signal is tried


def stopped_well(world, folder, outcome):
    """Code 3 with all steps saved, or 0 at the end; then the same bits as of a run that was not stopped."""
    if outcome.code == 0 and saved_step(folder) != RUN.steps:
        return outcome.problem(f"says 0, and the newest checkpoint is {latest(folder)}")
    if outcome.code not in (0, 3):
        return outcome.problem("neither 0 nor 3")
    if outcome.code == 3 and saved_step(folder) is not None:
        steps = [line for line in (folder / "r" / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]
        if f'"step":{saved_step(folder)},' not in steps[-1]:
            return outcome.problem(f"stopped after {steps[-1][:20]}, and the newest checkpoint is {latest(folder)}")
    return whole_afterwards(world, folder, RUN)


def at_random(world, number, first, second=None):
    """A signal at a random moment after the program began, perhaps another one right after it."""
    def check(folder):
        moments = random.Random(f"{world.seed} {first} {number}")
        write_text(folder)
        reference(world, RUN)
        process, command = world.start(RUN.words(world), folder)
        time.sleep(0.03)  # the program exists, and has been given its processor
        time.sleep(moments.uniform(0, 0.15))
        process.send_signal(first)
        if second:
            time.sleep(moments.uniform(0, 0.005))
            process.send_signal(second)
        outcome = finish(process, command)
        if outcome.code == -first and not (folder / "r").exists():
            return None  # before main had said what it wants of signals
        if outcome.code == -first and saved_step(folder) == RUN.steps:
            return whole_afterwards(world, folder, RUN)  # after main
        return stopped_well(world, folder, outcome)
    both = signal.Signals(first).name + (f" and {signal.Signals(second).name}" if second else "")
    return Case(f"{both} {number}", check)


def at_call(world, number, call, operation):
    """A signal just before a system call."""
    def check(folder):
        write_text(folder)
        outcome = world.run(RUN.words(world), folder, {"FAULT_DO": f"signal:{int(number)}", "FAULT_AT": call})
        return stopped_well(world, folder, outcome)
    return Case(f"{number.name} at call {call} ({operation})", check)


def stopped_and_continued(world, number):
    """SIGSTOP and SIGCONT change nothing."""
    def check(folder):
        moments = random.Random(f"{world.seed} stop {number}")
        write_text(folder)
        process, command = world.start(RUN.words(world), folder)
        time.sleep(moments.uniform(0.01, 0.1))
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.02)
        process.send_signal(signal.SIGCONT)
        outcome = finish(process, command)
        return outcome.problem("it did not finish") if outcome.code != 0 else same_end(world, folder, RUN)
    return Case(f"SIGSTOP, SIGCONT {number}", check)


def while_sampling(world, number):
    """Long texts are left where a signal asks to stop."""
    def check(folder):
        write_text(folder)
        words = RUN.words(world)
        words[words.index("--sample-tokens") + 1] = 1_000_000
        process, command = world.start(words, folder)
        begun = wait_until(lambda: saved_step(folder) and saved_step(folder) >= RUN.sample_every - RUN.save_every)
        time.sleep(0.3)
        process.send_signal(number)
        outcome = finish(process, command, 8)
        if not begun or outcome.code != 3:
            return outcome.problem("asked to stop while it samples, it does not")
        return stopped_well(world, folder, outcome)
    return Case(f"{number.name} while sampling", check)


def cases(world):
    calls = count(world, RUN.words(world), write_text)
    for number in STOPPING:
        yield while_sampling(world, number)
        yield from (at_random(world, moment, number) for moment in range(MOMENTS // len(STOPPING)))
        chosen = sorted(random.Random(world.seed).sample(range(1, len(calls) + 1), CALLS)) + [1, len(calls)]
        yield from (at_call(world, number, call, calls[call - 1]) for call in sorted(set(chosen)))
    for moment in range(5):
        yield at_random(world, moment, signal.SIGTERM, signal.SIGTERM)
        yield at_random(world, moment, signal.SIGTERM, signal.SIGHUP)
        yield stopped_and_continued(world, moment)
