#!/usr/bin/env python3
"""Makes small random edits in the code, one at a time, and shows whether the tests notice: mutation testing.

    ./run mutate --count 200 --seed 7          50 mutants each of CUDA kernels, CPU kernels, autograd and recompute
    ./run mutate kernels/norm --count 20       of these files and folders alone
    ./run mutate kernels/norm --list           what can be edited there

The edits are those of tools/mutations.py, the nine GPU operators of Zhu and Zaidman (ICST 2020) among them. Operators are
drawn alike often, places evenly; the same seed gives the same mutants, but for those that an edit of the tree touches, and
a larger count goes on with the same ones. Each is built and tested in a copy of the tree, build/mutants/tree: first with
the tests of its own file or family, then with the rest of that program; a race in a kernel that these do not show, with
ThreadSanitizer. No end in time is caught; what does not compile is drawn again and not counted. An equivalent mutant does
not count either: one that compiles to the same machine code, or one that tests/equivalent_mutants.toml holds with the
reason why no test can tell.

Results are kept in build/mutants/results.jsonl: a run that was interrupted goes on, and --again tries survivors once more.
Exit code: 0 if no mutant survived, 1 if one did, 2 if the tree does not build or its tests fail without a mutant.
"""

import argparse
import collections
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import time
import tomllib

from copied_tree import LATE_STREAMS, ON_CPU, ON_CUDA, SOURCE, CopiedTree, refuse
from mutations import GPU_OPERATORS, mutants_of

EQUIVALENT = SOURCE / "tests" / "equivalent_mutants.toml"
# What needs cuDNN or OpenBLAS is in no build of a machine without them; products by cuBLASLt are not what these runs take.
NOT_BUILT = ("cudnn", "cublaslt", "_openblas", "kernels/cuda/")
PRESET = "emulated"  # holds both devices
BOTH_DEVICES = {**ON_CPU, **LATE_STREAMS, "reverse": ON_CUDA["reverse"]}
RACES = ("atom_removal", "sync_removal")  # the emulator's orders of threads may hide them, ThreadSanitizer does not
WITH_TSAN = {"ThreadSanitizer": ON_CUDA["random"]}
RUNS = {"CUDA kernels": ON_CUDA, "CPU kernels": ON_CPU, "autograd": BOTH_DEVICES, "recompute": BOTH_DEVICES}


def group_of(file):
    """Which of the four groups a file belongs to; None for one that is not mutated."""
    if file.endswith((".cu", ".cuh")) and file.startswith("kernels/"):
        return "CUDA kernels"
    if not file.endswith((".cpp", ".h")):
        return None
    if file.startswith("kernels/") and not any(part in file for part in NOT_BUILT) and not file.endswith("/cuda.h"):
        return "CPU kernels"
    if file.startswith("autograd/"):
        return "recompute" if file.startswith("autograd/recompute/") else "autograd"
    return None


def programs_for(file):
    """A room's tests are a program. An operation's are tests/ops first, then those of the rest of its room."""
    of_room = file.split("/")[0] + "_tests"
    return ["ops_tests", of_room] if file.startswith("autograd/ops/") else [of_room]


def nearest_tests(file, names):
    """The tests of the file's stem; without any, those of its family."""
    place = file.rpartition(".")[0].replace("autograd/ops/", "ops/")
    family, stem = place.rpartition("/")[0], place.rpartition("/")[2]
    of_stem = [name for name in names if name.rpartition("/")[2].startswith(stem)]
    in_family = [name for name in names if name.rpartition("/")[0] == family]
    return of_stem or in_family or [name for name in names if name.startswith(family + "/")]


class Equivalents:
    """The mutants that no test can tell from the code, by file, line and what the line becomes."""

    def __init__(self):
        entries = tomllib.loads(EQUIVALENT.read_text()).get("mutant", []) if EQUIVALENT.exists() else []
        self.reasons = {(entry["file"], entry["old"], entry["new"]): entry["reason"] for entry in entries}

    def reason(self, mutant, text):
        _, old, new = mutant.line(text)
        return self.reasons.get((mutant.file, old, new))


class Results:
    """What became of mutants, one JSON line each. A mutant is known by its file and line."""

    def __init__(self, path):
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.known = {tuple(entry["key"]): entry for entry in map(json.loads, lines)}

    @staticmethod
    def key(mutant, text):
        return (mutant.file, mutant.operator, *mutant.line(text)[1:], text[:mutant.begin].count(mutant.line(text)[1]))

    def add(self, mutant, text, entry):
        self.known[self.key(mutant, text)] = entry
        with self.path.open("a") as file:
            file.write(json.dumps(dict(entry, key=self.key(mutant, text))) + "\n")


class Trial:
    """Builds and tests mutants in the copy."""

    def __init__(self):
        self.tree = CopiedTree("mutants")
        self.results = Results(self.tree.work / "results.jsonl")
        self.ready = {}
        self.limits_file = self.tree.work / "limits.json"
        self.limits = json.loads(self.limits_file.read_text()) if self.limits_file.exists() else {}

    def prepare(self, program, runs):
        """Builds the program without a mutant and runs its tests, once: returns a time limit for those of a mutant."""
        if program not in self.ready:
            print(f"building {program} without a mutant", flush=True)
            self.tree.configure(PRESET)
            error = self.tree.build(PRESET, program)
            if error:
                refuse(f"the tree does not build:\n{error[-4000:]}")
            self.ready[program] = self.tree.binaries(PRESET, program)
        code = self.ready[program]
        key = f"{code} {' '.join(runs)}"
        if key not in self.limits:
            print(f"running {program} without a mutant", flush=True)
            begin = time.monotonic()
            how = self.tree.caught_by(PRESET, program, "*", runs, 3600)
            if how:
                refuse(f"{program} fails without a mutant: {how}")
            self.limits[key] = 60 + 3 * (time.monotonic() - begin) / len(runs)
            self.limits_file.write_text(json.dumps(self.limits))
        return self.limits[key]

    def verdict(self, group, mutant, text):
        """What became of the mutant, and how."""
        for program in programs_for(mutant.file):
            verdict, how = self.verdict_of(program, RUNS[group], mutant, text)
            if verdict != "survived":
                break
        return verdict, how

    def verdict_of(self, program, runs, mutant, text):
        limit = self.prepare(program, runs)
        self.tree.build(PRESET, program)  # what the mutant before changed comes back from ccache
        with self.tree.broken(mutant.file, mutant.applied(text)):
            error = self.tree.build(PRESET, program, broken=True)
            if error and "error: " in error:
                return "does not compile", ""
            if error:
                return "caught", "the program does not list its tests"
            how = self.caught_by(program, mutant.file, runs, limit)
            code = self.tree.binaries(PRESET, program)
        if not how and mutant.operator in RACES:
            how = self.race(program, mutant, text)
        if how:
            return "caught", how
        self.tree.build(PRESET, program, broken=True)
        if self.tree.binaries(PRESET, program) == code:
            return "equivalent", "the same machine code"
        return "survived", ""

    def race(self, program, mutant, text):
        """What the nearest tests show in the preset tsan."""
        self.tree.configure("tsan")
        error = self.tree.build("tsan", program)
        if error:
            refuse(f"the tree does not build with ThreadSanitizer:\n{error[-4000:]}")
        with self.tree.broken(mutant.file, mutant.applied(text)):
            if self.tree.build("tsan", program, broken=True):
                return None
            return self.tree.caught_by("tsan", program, self.near("tsan", program, mutant.file), WITH_TSAN, 900)

    def near(self, preset, program, file):
        suites = self.tree.suites(preset, program)
        return ":".join(suites[name] for name in nearest_tests(file, suites))

    def caught_by(self, program, file, runs, limit):
        near = self.near(PRESET, program, file)
        for tests in [near, f"*-{near}"] if near else ["*"]:
            how = self.tree.caught_by(PRESET, program, tests, runs, limit)
            if how:
                return how
        return None


def draw(group, files, seed):
    """Mutants of the files without end: an operator, then the next of its places. Their order is that of a hash of what
    they change, so that an edit elsewhere leaves most of them as they are."""
    places = collections.defaultdict(list)
    for file in files:
        text = (SOURCE / file).read_text()
        for mutant in mutants_of(file, text):
            rank = hashlib.sha256(f"{seed} {Results.key(mutant, text)}".encode()).digest()
            places[mutant.operator].append((rank, mutant, text))
    for of_operator in places.values():
        of_operator.sort(key=lambda place: place[0])
    generator = random.Random(f"{seed} {group}")
    while places:
        operator = generator.choice(sorted(places))
        yield places[operator].pop()[1:]
        if not places[operator]:
            del places[operator]


def chosen_files(words):
    names = subprocess.run(["git", "ls-files"], cwd=SOURCE, check=True, text=True, capture_output=True).stdout.split()
    groups = collections.defaultdict(list)
    for name in names:
        if group_of(name) and (not words or any(f"{name}/".startswith(word.rstrip("/") + "/") for word in words)):
            groups[group_of(name)].append(name)
    if not groups:
        refuse("no file to mutate matches")
    return {group: groups[group] for group in RUNS if group in groups}


def report(entry):
    line = f"{entry['file']}:{entry['line']}: {entry['operator']}"
    return f"{line}\n      - {entry['old']}\n      + {entry['new']}"


def score_line(name, entries):
    verdicts = collections.Counter(entry["verdict"] for entry in entries)
    counted = verdicts["caught"] + verdicts["survived"]
    rate = f"{100 * verdicts['caught'] / counted:.1f} %" if counted else "-"
    return (f"{name:22} {len(entries):4} drawn  {verdicts['caught']:4} caught  {verdicts['survived']:4} survived  "
            f"{verdicts['equivalent']:4} equivalent   score {rate}")


def summary(entries):
    for operator in sorted({entry["operator"] for entry in entries}):
        print(score_line(operator, [entry for entry in entries if entry["operator"] == operator]))
    print()
    for group in RUNS:
        of_group = [entry for entry in entries if entry["group"] == group]
        if of_group:
            print(score_line(group, of_group))
    gpu = [entry for entry in entries if entry["operator"] in GPU_OPERATORS]
    if gpu:
        print(score_line("nine GPU operators", gpu))
    print(score_line("all", entries))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="files and folders; without any, all four groups")
    parser.add_argument("--count", type=int, default=40, help="mutants in all, shared evenly by the groups (40)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--again", action="store_true", help="try mutants that survived once more")
    parser.add_argument("--list", action="store_true", help="print the mutants that would be tried first, and try none")
    arguments = parser.parse_args()
    groups = chosen_files(arguments.files)
    share = -(-arguments.count // len(groups))
    if arguments.list:
        for group, files in groups.items():
            for _, (mutant, text) in zip(range(share), draw(group, files, arguments.seed)):
                number, old, new = mutant.line(text)
                print(f"{mutant.file}:{number}: {mutant.operator}\n      - {old}\n      + {new}")
        return 0

    trial, equivalents, entries = Trial(), Equivalents(), []
    for group, files in groups.items():
        done = 0
        mutants = draw(group, files, arguments.seed)
        while done < share and (drawn := next(mutants, None)):
            entry = try_mutant(trial, equivalents, group, *drawn, arguments.again)
            if entry["verdict"] != "does not compile":
                done += 1
                entries.append(entry)
    survivors = [entry for entry in entries if entry["verdict"] == "survived"]
    print("\nsurvivors:" if survivors else "\nno mutant survived")
    for entry in survivors:
        print(report(entry))
    print()
    summary(entries)
    return 1 if survivors else 0


def try_mutant(trial, equivalents, group, mutant, text, again):
    number, old, new = mutant.line(text)
    reason = equivalents.reason(mutant, text)
    known = trial.results.known.get(Results.key(mutant, text))
    fresh = not reason and (not known or again and known["verdict"] == "survived")
    begin = time.monotonic()
    if reason:
        verdict, how = "equivalent", reason
    else:
        verdict, how = trial.verdict(group, mutant, text) if fresh else (known["verdict"], known["how"])
    entry = {"group": group, "file": mutant.file, "line": number, "operator": mutant.operator, "old": old, "new": new,
             "verdict": verdict, "how": how}
    if fresh:
        trial.results.add(mutant, text, entry)
    if verdict != "does not compile":
        print(f"{time.monotonic() - begin:5.0f} s  {verdict:10} {report(entry)}\n      {how}", flush=True)
    return entry


if __name__ == "__main__":
    sys.exit(main())
