"""Kill -9: at each system call of a run that saves and rotates, with a torn write too, and at random moments."""

import random
import shutil
import signal
import time

from counting import count
from harness import Case, finish
from training import ImageTraining, Training, newest_loads, saved_step, whole_afterwards, write_text

LONG = Training(steps=40, save_every=1, keep=1)
SHORT = Training(steps=6, save_every=2, keep=1, eval_every=4, sample_every=0)
RUNS, KILLS_A_RUN = 50, 4
IMAGES = ImageTraining(steps=900, save_every=1, keep=1, eval_every=50)
KILLS_OF_IMAGES = 20


def random_kills(world, name, training, kills, seconds):
    """One run, killed and resumed some times, each after a random part of `seconds`, then finished."""
    def check(folder):
        moments = random.Random(f"{world.seed} {name}")
        training.prepare(folder)
        for _ in range(kills):
            before = saved_step(folder)
            if before is None:
                shutil.rmtree(folder / "r", ignore_errors=True)
            process, command = world.start(training.words(world, *([] if before is None else ["--resume"])), folder)
            time.sleep(moments.uniform(0, seconds))
            process.send_signal(signal.SIGKILL)
            outcome = finish(process, command)
            if outcome.code not in (0, -signal.SIGKILL):
                return outcome.problem("neither killed nor finished")
            if saved_step(folder) is not None:
                problem = newest_loads(world, folder, training)
                if problem:
                    return problem
            if saved_step(folder) == training.steps:
                break
        return whole_afterwards(world, folder, training, before)
    return Case(name, check, kills)


def kill_at(world, name, faults):
    """A new run killed at one call, then resumed and killed at the same call again, then finished."""
    def check(folder):
        write_text(folder)
        outcome = world.run(SHORT.words(world), folder, faults)
        if outcome.code not in (0, -signal.SIGKILL):
            return outcome.problem("neither killed nor finished")
        before = saved_step(folder)
        if before not in (None, SHORT.steps):
            outcome = world.run(SHORT.words(world, "--resume"), folder, faults)
            if outcome.code not in (0, -signal.SIGKILL):
                return outcome.problem("after a kill it does not go on")
        return whole_afterwards(world, folder, SHORT, before)
    return Case(name, check)


def cases(world):
    calls = count(world, SHORT.words(world), write_text)
    for call, operation in enumerate(calls, 1):
        yield kill_at(world, f"kill at call {call} ({operation})", {"FAULT_DO": "kill", "FAULT_AT": call})
    for call in range(1, calls.count("write") + 1):
        yield kill_at(world, f"tear write {call}", {"FAULT_DO": "tear", "FAULT_AT": call, "FAULT_ONLY": ",write,"})
    for number in range(RUNS):
        yield random_kills(world, f"random kills {number}", LONG, KILLS_A_RUN, 0.15)
    yield random_kills(world, "random kills of training on images", IMAGES, KILLS_OF_IMAGES, 0.4)
