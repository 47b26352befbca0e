#!/usr/bin/env python3
"""Compiles files of the tree each alone, without writing anything: compile_alone.py [--since REV]

What is built with REPRISE_JOIN_FOLDERS hides an include that a file lacks and its neighbour has; a user's build, which compiles each file
alone, ends there (docs/decisions/0020-a-folder-is-compiled-as-one.md). With --since: the .cpp files that have changed since a commit.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "alone"


def commands():
    """Path and command of each .cpp file, of the preset that has most of them."""
    configure = ["cmake", "--preset", "emulated", "-B", BUILD, "-DREPRISE_JOIN_FOLDERS=OFF",
                 "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    subprocess.run(configure, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = os.path.relpath(entry["file"], ROOT)
        if path.endswith(".cpp") and not path.startswith((".", "build")):
            yield path, entry["command"]


def syntax_only(command):
    """Without a cache, outputs, and headers that are parsed in a build."""
    command = re.sub(r"^\S*ccache ", "", command)
    command = re.sub(r" (-o|-MT|-MF) \S+| -MD| -O\d| -Winvalid-pch -include \S+", "", command)
    return command + " -O0 -fsyntax-only"


def fails(job):
    path, command = job
    done = subprocess.run(syntax_only(command), shell=True, cwd=BUILD, capture_output=True, text=True)
    if done.returncode:
        print(f"{path}:\n{done.stderr}", file=sys.stderr)
    return done.returncode != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", metavar="REV")
    options = parser.parse_args()
    jobs = dict(commands())
    if options.since:
        changed = subprocess.run(["git", "diff", "--name-only", options.since], cwd=ROOT, check=True,
                                 capture_output=True, text=True).stdout.split()
        jobs = {path: jobs[path] for path in changed if path in jobs}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = sum(pool.map(fails, jobs.items()))
    print(f"{len(jobs)} files, {failed} of them do not compile alone")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
