"""Lost power: a run is logged, its disk rebuilt as of a random moment with what was not synced lost in part."""

import random
import shutil
import threading

from harness import Case
from journal import Disk, read_log
from training import Training, go_on, saved_step, whole_afterwards, write_text

RUN = Training(steps=8, save_every=2, keep=1, eval_every=4, sample_every=0)
REPLAYS = 500
lock = threading.Lock()
logs = {}


def logged_run(world):
    """The operations of a new run, and the folder they happened in: made once."""
    with lock:
        if "log" not in logs:
            folder = world.scratch / f"logged-{world.plant}"
            folder.mkdir()
            write_text(folder)
            outcome = world.run(RUN.words(world), folder, {"FAULT_LOG": folder.with_suffix(".log")})
            if outcome.code != 0:
                raise RuntimeError(outcome.problem("an undisturbed run fails"))
            logs["log"] = (folder, read_log(folder.with_suffix(".log")))
        return logs["log"]


def lose_power(operations, top, before, moments, model, to):
    """Rebuilds into `to` what is left of the disk, which held `before`, at one moment of `operations`: returns that
    moment and the step that was reported saved by then."""
    end = moments.randint(0, len(operations))
    disk, named, reported = Disk(top, before), None, None
    for operation in operations[:end]:
        name, _, _, path, target, data = operation
        disk.do(*operation)
        if name == "write" and "/LATEST" in path:  # or its temporary file
            writing = int(data.decode().split("-")[1])
        elif name == "rename" and target.endswith("/LATEST"):
            named = writing
        elif name == "write" and path.endswith("metrics.jsonl"):
            reported = named  # the next step's line is written once a save is over
    chance = moments.choice(["none", "all"] + 4 * [moments])
    disk.write_survivors(to, chance, model)
    return end, reported


def replay(world, model, number):
    """Power is lost once; in a third of the cases again while the run goes on."""
    def check(folder):
        moments = random.Random(f"{world.seed} {model} {number}")
        start, first, second = (folder / name for name in ("start", "first", "second"))
        for place in (start, first, second):
            place.mkdir()
        write_text(start)
        top, operations = logged_run(world)
        end, reported = lose_power(operations, top, start, moments, model, first)
        told = f"power lost after operation {end} of {len(operations)}, step {reported} saved, {model}"
        if reported is None or saved_step(first) in (None, RUN.steps) or moments.random() < 0.67:
            problem = whole_afterwards(world, first, RUN, reported)
            return problem and f"{told}: {problem}"
        copy = folder / "copy"
        shutil.copytree(first, copy)
        log = folder / "again.log"
        outcome = go_on(world, first, RUN, {"FAULT_LOG": log})
        if outcome.code != 0:
            return outcome.problem(f"{told}: it does not go on")
        end, again = lose_power(read_log(log), first, copy, moments, model, second)
        problem = whole_afterwards(world, second, RUN, max(reported, again or 0))
        return problem and f"{told}; lost again after operation {end} of going on, step {again} saved: {problem}"
    return Case(f"{model} {number}", check)


def cases(world):
    logs.clear()
    for number in range(REPLAYS):
        yield replay(world, "strict", number)
        yield replay(world, "ordered", number)
