#!/usr/bin/env python3
"""Attacks the programs from outside: kills, lost power, failing calls, hostile files, signals, bad options.

    ./run attack                      all parts, ten minutes in all
    ./run attack kills --seconds 30   one part, or some
    ./run attack --quick              all parts, a minute in all
    ./run attack --full               every case there is, however long it takes
    ./run attack --self-test          plants a bug for each part that has one; the part must find it
    ./run attack ranks --count N      kills, stops and starves ranks: a part of its own, which takes minutes
    ./run attack machines --count N   ranks on two machines, and a cable that is cut N times; as root

Each part is a module in tests/faults/parts; docs/attacks.md says what it tries. Exit code: 0 if all cases passed, 1 if
one failed, 2 if an option is wrong.
"""

import argparse
import concurrent.futures
import importlib
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness import World  # noqa: E402: the path comes first

PARTS = ["kills", "power_loss", "failing_calls", "hostile_files", "signals", "cli", "streams", "sharing", "allocations",
         "locale", "fork", "fuzz", "programs"]
LONG = ["ranks", "machines"]  # only where they are named; all their cases are tried
# A bug that the shim plants, and the part that must find it.
PLANTED = [("late_rename", "kills"), ("no_fsync", "power_loss"), ("silent", "failing_calls"), ("silent", "hostile_files"),
           ("default_signals", "signals"), ("silent", "cli"), ("silent", "streams"),
           ("no_lock", "sharing")]
SHOWN = 5  # failures of a part that are told in full


def try_case(case, folder):
    """What is wrong, or None. The folder stays if something is."""
    folder.mkdir()
    try:
        problem = case.check(folder)
    except Exception:
        problem = traceback.format_exc()
    if problem is None:
        shutil.rmtree(folder, ignore_errors=True)
    return problem


def run_part(name, world, seconds, chosen):
    """Tries the cases of a part until its time is over; returns how many passed and failed, and what it left out."""
    world.share = seconds
    cases = list(importlib.import_module(f"parts.{name}").cases(world))
    random.Random(world.seed).shuffle(cases)
    if chosen:
        cases = [case for case in cases if chosen == case.name] or [case for case in cases if chosen in case.name]
    end = time.monotonic() + seconds
    passed, failed, skipped = 0, 0, 0
    base = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=world.scratch))

    def work(number):
        if time.monotonic() > end and not world.full and name not in LONG:
            return "skipped"
        return try_case(cases[number], base / str(number))

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        for case, problem in zip(cases, workers.map(work, range(len(cases)))):
            if problem == "skipped":
                skipped += case.weight
            elif problem is None:
                passed += case.weight
            else:
                failed += 1
                if failed <= SHOWN:
                    print(f"FAILED {name}: {case.name}: {problem}\n"
                          f"      again: ./run attack {name} --seed {world.seed} --case '{case.name}'", flush=True)
    return passed, failed, skipped


def attack(parts, world, seconds, chosen):
    """Runs the parts, a row each; returns how many cases failed."""
    end = time.monotonic() + seconds
    rows, all_passed, all_failed = [], 0, 0
    for number, name in enumerate(parts):
        begin = time.monotonic()
        share = max(1, (end - begin) / (len(parts) - number))
        passed, failed, skipped = run_part(name, world, share, chosen)
        rest = f"   {skipped} not reached" if skipped else ""
        print(f"{name:<14} {passed:6} passed {failed:4} failed {time.monotonic() - begin:6.0f} s{rest}", flush=True)
        if name in LONG:
            print(importlib.import_module(f"parts.{name}").report(), flush=True)
        all_passed += passed
        all_failed += failed
    print(f"{all_passed} passed, {all_failed} failed", flush=True)
    return all_failed


def self_test(parts, world, seconds):
    """Plants bugs: the number that no part found."""
    found, missed = 0, 0
    for bug, part in [pair for pair in PLANTED if pair[1] in parts]:
        world.plant = bug
        failed = run_part(part, world, seconds, None)[1]
        print(f"{part}: planted {bug}: {f'found {failed} times' if failed else 'MISSED'}", flush=True)
        found, missed = found + (failed > 0), missed + (failed == 0)
    print(f"{found} passed, {missed} failed", flush=True)
    return missed


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./run attack", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="NAME", help=", ".join(PARTS + LONG))
    parser.add_argument("--seconds", type=float, default=600, help="over all parts")
    parser.add_argument("--quick", action="store_true", help="the same as --seconds 60")
    parser.add_argument("--full", action="store_true", help="all cases, however long it takes")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--count", type=int, default=0, help="of ranks: how many kills, and half as many of the rest; of machines: how many cuts")
    parser.add_argument("--case", help="only the case of this name, or those that hold it")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build" / "cpu")
    given = parser.parse_args()
    unknown = [name for name in given.parts if name not in PARTS + LONG]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; there are {', '.join(PARTS + LONG)}")
    return given


def main():
    given = parse_arguments()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup the programs would inherit that they ignore it
    memory = pathlib.Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30 else None
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="reprise-attack-", dir=place))
    world = World(given.build.resolve(), given.seed, given.full, scratch, given.count)
    parts = given.parts or PARTS
    seconds = 60 if given.quick else given.seconds
    print(f"seed {given.seed}", flush=True)
    failed = self_test(parts, world, 10) if given.self_test else attack(parts, world, seconds, given.case)
    if not failed:
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
