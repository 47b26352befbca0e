#!/usr/bin/env python3
"""Plants bugs in the code, one at a time, and shows that the test named with each catches it.

    ./run plant-bugs [WORDS...]     only the bugs whose list, file or description holds one of the words
    ./run plant-bugs --list
    ./run plant-bugs --check        plants nothing: every bug still has its place in the code, and its test

The bugs are in tests/planted_bugs/. They are planted in a copy of the tree, build/bugs/tree; the tree itself is never
touched. Exit code: 0 if every bug was caught, 1 if one was missed, 2 if a bug cannot be planted.
"""

import argparse
import shutil
import sys
import time
import tomllib

from copied_tree import ON_BF16_MODELS, ON_CPU, ON_CUBLASLT, ON_CUDA, ON_CUDNN, SOURCE, CopiedTree, program_of, refuse

# How tests are run: as a list says by `runs`, else as is usual for its preset.
RUNS = {"cpu": ON_CPU, "emulated": ON_CUDA, "bf16 models": ON_BF16_MODELS, "cublaslt": ON_CUBLASLT, "cudnn": ON_CUDNN}
PRESETS = {"cpu", "emulated"}
TEST_SECONDS = 300


def read_bugs():
    """All bugs, each with the preset that its file names and how its test is run."""
    bugs = []
    for path in sorted((SOURCE / "tests" / "planted_bugs").glob("*.toml")):
        area = tomllib.loads(path.read_text())
        runs = area.get("runs", area["preset"])
        # The emulator's own tests choose their orders and streams, as in ctest.
        bugs += [{**bug, "preset": area["preset"], "runs": "cpu" if bug["test"].startswith("simt/") else runs,
                  "list": path.name} for bug in area["bug"]]
    return bugs


def places_of(bug):
    """What stands where, and what takes its place; lists where a bug takes several places of its file."""
    old, new = bug["old"], bug["new"]
    return list(zip(old, new, strict=True)) if isinstance(old, list) else [(old, new)]


def misfit(bug):
    """Why a bug cannot be planted; None if it can."""
    path = SOURCE / bug["file"]
    if not path.is_file():
        return "there is no such file"
    for old, _ in places_of(bug):
        times = path.read_text().count(old)
        if times != 1:
            return f"the file holds {times} times, not once: {old!r}"
    test = SOURCE / "tests" / (bug["test"] + "_test.cpp")
    if not test.is_file() and not test.with_suffix(".cu").is_file():
        return f"there is no test {bug['test']}"
    if bug["preset"] not in PRESETS:
        return f"'{bug['preset']}' is no preset for it: " + ", ".join(sorted(PRESETS))
    if bug["runs"] not in RUNS:
        return f"'{bug['runs']}' is no way to run tests: " + ", ".join(RUNS)
    return None


def refuse_misfits(bugs):
    found = [(bug, misfit(bug)) for bug in bugs]
    lines = [f"{bug['file']}: {bug['what']}: {why} (tests/planted_bugs/{bug['list']})" for bug, why in found if why]
    if lines:
        refuse("cannot be planted:\n" + "\n".join(lines))


def caught_by(tree, bug):
    program = program_of(bug["test"])
    suites = tree.suites(bug["preset"], program)
    if bug["test"] not in suites:
        refuse(f"{program} of the preset {bug['preset']} has no tests of {bug['test']}")
    return tree.caught_by(bug["preset"], program, suites[bug["test"]], RUNS[bug["runs"]], TEST_SECONDS)


def try_bug(tree, bug):
    """How the test notices the bug; None if it does not."""
    tree.build(bug["preset"], program_of(bug["test"]))  # what the bug before changed comes back from ccache
    text = (tree.tree / bug["file"]).read_text()
    for old, new in places_of(bug):
        text = text.replace(old, new)
    with tree.broken(bug["file"], text):
        error = tree.build(bug["preset"], program_of(bug["test"]), broken=True)
        if error:
            refuse(f"{bug['file']}: with '{bug['what']}' it does not compile:\n{error[-2000:]}")
        return caught_by(tree, bug)


def check_without_bugs(tree, bugs):
    for preset in sorted({bug["preset"] for bug in bugs}):
        tree.configure(preset)
    for preset, program in sorted({(bug["preset"], program_of(bug["test"])) for bug in bugs}):
        error = tree.build(preset, program)
        if error:
            refuse(f"the tree does not build:\n{error[-4000:]}")
    for bug in {(bug["runs"], bug["test"]): bug for bug in bugs}.values():
        how = caught_by(tree, bug)
        if how:
            refuse(f"{bug['test']} fails without a bug: {how}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    bugs = read_bugs()
    if arguments.words:
        bugs = [bug for bug in bugs if any(word in " ".join((bug["list"], bug["file"], bug["what"])) for word in arguments.words)]
    if not bugs:
        refuse("no bug matches")
    if arguments.list:
        for bug in bugs:
            print(f"{bug['file']}: {bug['what']}")
        return 0
    refuse_misfits(bugs)
    if arguments.check:
        print(f"{len(bugs)} bugs can be planted")
        return 0
    if not shutil.which("cmake"):
        refuse("cmake is missing; ./run setup installs it")

    tree = CopiedTree("bugs")
    check_without_bugs(tree, bugs)
    missed = 0
    for bug in bugs:
        begin = time.monotonic()
        how = try_bug(tree, bug)
        missed += how is None
        print(f"{time.monotonic() - begin:5.0f} s  {'caught' if how else 'MISSED'}  {bug['file']}: {bug['what']}\n"
              f"                 {how or ''}", flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} planted bugs were caught")
    return 1 if missed else 0


sys.exit(main())
