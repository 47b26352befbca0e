"""Every system call on the files of a run, failing once and from there on, with each errno it may have."""

import errno
import pathlib

from counting import count
from harness import Case
from training import Training, latest, prepared, saved_step, whole_afterwards, write_text

RUN = Training(steps=6, save_every=2, keep=1, eval_every=4, sample_every=5)
SMALL = ["--layers", "1", "--heads", "1", "--width", "8", "--context", "8", "--batch", "2", "--threads", "1"]

FAILURES = {
    "open": [errno.EMFILE, errno.EACCES, errno.EIO, errno.EINTR],
    "opendir": [errno.EMFILE, errno.EACCES, errno.EIO],
    "read": [errno.EIO, errno.EINTR, "short"],
    "write": [errno.ENOSPC, errno.EIO, errno.EINTR, "short"],
    "fsync": [errno.EIO, errno.ENOSPC, errno.EINTR],
    "close": [errno.EIO, errno.EINTR],
    "rename": [errno.EIO, errno.ENOSPC, errno.EACCES],
    "unlink": [errno.EIO, errno.EPERM],
    "rmdir": [errno.EIO, errno.EPERM],
    "mkdir": [errno.ENOSPC, errno.EACCES],
    "stat": [errno.EIO, errno.EACCES],
    "flock": [errno.EINTR, errno.ENOLCK],
    "ftruncate": [errno.EIO, errno.EINTR],
}
HARMLESS = {errno.EINTR, "short"}  # a program takes these as no failure at all


def names_path(error, report, folder):
    """True if the message names the file that failed, or what the user calls it."""
    for line in report.read_text().splitlines():
        path = pathlib.Path(line.split(" ", 2)[2])
        inside = path.relative_to(folder)
        names = {path.name.split(".tmp.")[0], *(str(parent) for parent in inside.parents if str(parent) != ".")}
        if inside == pathlib.Path(".") or any(name in error for name in names if name):
            return True
    return False


class Program:
    """A command line under attack, what it needs in its folder, and what must be true afterwards."""

    def __init__(self, name, words, prepare, afterwards):
        self.name, self.words, self.prepare, self.afterwards = name, words, prepare, afterwards


def case(world, program, operation, call, failure, always):
    name = failure if failure == "short" else errno.errorcode[failure]

    def check(folder):
        program.prepare(folder)
        report = folder.parent / f"{folder.name}.report"
        faults = {"FAULT_ONLY": f",{operation},", "FAULT_AT": call, "FAULT_REPORT": report,
                  "FAULT_DO": "short" if failure == "short" else f"errno:{failure}"}
        outcome = world.run(program.words, folder, faults | ({"FAULT_ALWAYS": 1} if always else {}))
        if outcome.code not in (0, 2):
            return outcome.problem("neither 0 nor 2")
        if outcome.code != 0 and failure in HARMLESS and not always:
            return outcome.problem("gives up over a call that was only interrupted, or did half of its work")
        if outcome.code == 2 and not names_path(outcome.err, report, folder):
            return outcome.problem(f"the message does not name {report.read_text().split(' ', 2)[2].strip()}")
        return program.afterwards(folder, outcome)
    return Case(f"{program.name}: {operation} {call} {name}{' from there on' if always else ''}", check)


def after_training(world, least):
    def check(folder, outcome):
        if outcome.code == 0 and saved_step(folder) != RUN.steps:
            return outcome.problem(f"says 0, and the newest checkpoint is {latest(folder)}")
        return whole_afterwards(world, folder, RUN, least)
    return check


def same_output(world, words, prepare):
    """A program that writes nothing but what it prints: the same, or an error."""
    folder = world.scratch / f"undisturbed {words[1]}"
    folder.mkdir(exist_ok=True)
    prepare(folder)
    wanted = world.run(words, folder).out
    return lambda _, outcome: None if outcome.code == 2 or outcome.out == wanted else outcome.problem("another result")


def programs(world):
    halfway = lambda folder: prepared(world, RUN, 4, folder)
    yield Program("train", RUN.words(world), write_text, after_training(world, None))
    yield Program("resume", RUN.words(world, "--resume"), halfway, after_training(world, 4))
    sample, evaluate = [world.gpt, "sample", "--run", "r", "--sample-tokens", 8], [world.gpt, "eval", "--run", "r"]
    yield Program("sample", sample, halfway, same_output(world, sample, halfway))
    yield Program("eval", evaluate, halfway, same_output(world, evaluate, halfway))
    for command in ("profile", "plan"):
        yield Program(f"recompute {command}", [world.recompute, command, *SMALL, "--data", "t.txt", "--out", "page"],
                      write_text, lambda *_: None)


def cases(world):
    for program in programs(world):
        calls = count(world, program.words, program.prepare)
        for operation in sorted(set(calls)):
            for call in range(1, calls.count(operation) + 1):
                for failure in FAILURES.get(operation, [errno.EIO]):
                    yield case(world, program, operation, call, failure, False)
                    if failure not in HARMLESS:
                        yield case(world, program, operation, call, failure, True)
