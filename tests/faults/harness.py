"""What all parts of the attack share: starting programs under a plan of faults, and cases that pass or fail."""

import dataclasses
import os
import pathlib
import resource
import shlex
import signal
import subprocess
import time
from typing import Callable, Optional


@dataclasses.dataclass
class Case:
    """One thing that is tried: `check` works in a fresh folder and returns what is wrong, or None."""
    name: str
    check: Callable[[pathlib.Path], Optional[str]]
    weight: int = 1  # how many tests it stands for: a test program counts its own


@dataclasses.dataclass
class Outcome:
    """How a program ended; `code` is negative for a signal, None for a hang."""
    command: str
    code: Optional[int]
    out: str
    err: str
    peak_kib: int = 0

    def told(self):
        """The end of what it said, for a report."""
        return f"code {'none: it hangs' if self.code is None else self.code}; {self.err.strip()[-300:] or 'nothing on stderr'}"

    def problem(self, what):
        return f"{what}: {self.told()}\n      {self.command}"


class World:
    """The programs under attack and how much of it is asked for."""

    def __init__(self, build, seed, full, scratch, count=0, plant=None):
        self.build, self.seed, self.full, self.scratch, self.plant = build, seed, full, scratch, plant
        self.count = count  # of cases, in parts that ask for it
        self.programs = build / "bin"
        self.gpt, self.recompute = self.programs / "reprise-gpt", self.programs / "reprise-recompute"
        self.vit = self.programs / "reprise-vit"
        self.shim = build / "lib" / "libreprise_faults.so"

    def environment(self, folder, faults):
        """The environment of a program that runs in `folder` under the FAULT_ variables in `faults`."""
        faults = dict(faults or {})
        if self.plant:
            faults["FAULT_PLANT"] = self.plant
        if not faults:
            return {}
        return {"FAULT_FOLDER": str(folder), **{key: str(value) for key, value in faults.items()},
                "LD_PRELOAD": str(self.shim)}

    def start(self, words, folder, faults=None, **options):
        """Starts a program in `folder` and returns it with the command a reader can repeat."""
        added = self.environment(folder, faults) | options.pop("environment", {})
        words = [str(word) if not isinstance(word, bytes) else word for word in words]
        shown = " ".join([f"{key}={shlex.quote(value)}" for key, value in added.items()] +
                         [shlex.quote(os.fsdecode(word)) for word in words])
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        process = subprocess.Popen(words, cwd=folder, env=os.environ | added, restore_signals=True, **options)
        return process, f"cd {shlex.quote(str(folder))} && {shown}"

    def run(self, words, folder, faults=None, seconds=20, memory=None, **options):
        """Runs a program to its end, at most `seconds`, with at most `memory` bytes of address space."""
        if memory:
            options["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        process, command = self.start(words, folder, faults, **options)
        return finish(process, command, seconds)


def finish(process, command, seconds=20):
    """Waits for a started program; kills it when its time is over."""
    try:
        out, err = process.communicate(timeout=seconds)
        code = process.returncode
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate()
        code = None
    text = lambda data: (data or b"").decode(errors="replace")
    return Outcome(command, code, text(out), text(err))


def wait_until(condition, seconds=10):
    """True as soon as `condition()` is, False after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True
