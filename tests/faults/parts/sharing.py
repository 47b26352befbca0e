"""Two programs in one run folder: one of them goes on, the other says that the folder is taken, and no bit is lost."""

import shutil
import time

from harness import Case, finish, wait_until
from training import Training, latest, newest_loads, saved_step, whole_afterwards, write_text

RUN = Training(steps=600, save_every=1, keep=2, eval_every=0, sample_every=0)


def begin(world, folder):
    write_text(folder)
    first, command = world.start(RUN.words(world), folder)
    wait_until(lambda: saved_step(folder) is not None)
    return first, command


def refused(outcome):
    if outcome.code != 2 or "Traceback" in outcome.err:
        return outcome.problem("a second program in one folder is not refused")
    if len(outcome.err.strip().splitlines()) != 1:
        return outcome.problem("not one line")
    return None


def second_while_first_runs(world, more):
    def check(folder):
        first, command = begin(world, folder)
        problem = refused(world.run(RUN.words(world, *more), folder))
        outcome = finish(first, command, 60)
        if problem:
            return problem
        if outcome.code != 0 or "warning" in outcome.err:
            return outcome.problem("the first one is disturbed")
        return whole_afterwards(world, folder, RUN)
    return Case(f"train {' '.join(more) or 'anew'} while another trains", check)


def read_while_it_runs(world):
    """eval and sample of a folder whose checkpoints are being rotated: they read one that is whole."""
    def check(folder):
        first, command = begin(world, folder)
        problems = []
        while first.poll() is None and not problems:
            outcome = world.run([world.gpt, "sample", "--run", "r", "--sample-tokens", 1], folder)
            if outcome.code != 0:
                problems.append(outcome.problem("reading beside a training run"))
        finish(first, command, 60)
        return problems[0] if problems else whole_afterwards(world, folder, RUN)
    return Case("sample while another trains", check)


def many_at_once(world, number):
    """Six new runs at once in one folder: exactly one trains."""
    short = Training(steps=40, save_every=5, keep=1)

    def check(folder):
        write_text(folder)
        started = [world.start(short.words(world), folder) for _ in range(6)]
        ended = [finish(process, command, 60) for process, command in started]
        if sorted(outcome.code for outcome in ended) != [0] + 5 * [2]:
            return "codes of six programs: " + "; ".join(outcome.told() for outcome in ended)
        return whole_afterwards(world, folder, short)
    return Case(f"six new runs at once {number}", check)


def lock_left_by_a_kill(world):
    """A killed program leaves nothing that keeps the next from going on."""
    def check(folder):
        first, command = begin(world, folder)
        first.kill()
        finish(first, command)
        return newest_loads(world, folder) or whole_afterwards(world, folder, RUN)
    return Case("going on after a kill", check)


def user_keeps_a_copy(world):
    """What the user put beside the checkpoints stays there."""
    def check(folder):
        short = Training(steps=6, save_every=2, keep=1, eval_every=0, sample_every=0)
        write_text(folder)
        outcome = world.run(short.words(world, "--stop-after", 2), folder)
        checkpoints = folder / "r" / "checkpoints"
        copies = [f"{latest(folder)}-best", "step-best", "best", "step-1", "step-00000001.old"]
        for name in copies:
            shutil.copytree(checkpoints / latest(folder), checkpoints / name)
        outcome = world.run(short.words(world, "--resume"), folder)
        gone = [name for name in copies if not (checkpoints / name / "model.safetensors").exists()]
        if outcome.code != 0 or gone:
            return outcome.problem(f"rotation deleted {gone}")
        return whole_afterwards(world, folder, short)
    return Case("a user's copies beside the checkpoints", check)


def cases(world):
    yield second_while_first_runs(world, ["--resume"])
    yield second_while_first_runs(world, [])
    yield read_while_it_runs(world)
    yield lock_left_by_a_kill(world)
    yield user_keeps_a_copy(world)
    yield from (many_at_once(world, number) for number in range(10))
