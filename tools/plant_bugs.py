#!/usr/bin/env python3
"""Plants bugs in the CUDA kernels, one at a time, and shows that the tests on the emulated device catch each.

    ./run plant-bugs [WORDS...]     only the bugs whose file or description holds one of the words
    ./run plant-bugs --list

The bugs are in tests/planted_bugs.toml. They are planted in a copy of the tree, build/bugs/tree; the tree itself is
never touched. Exit code: 0 if every bug was caught, 1 if one was missed, 2 if a bug cannot be planted.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time
import tomllib

SOURCE = pathlib.Path(__file__).resolve().parent.parent
WORK = SOURCE / "build" / "bugs"
ORDERS = ["forward", "reverse", "random"]
TEST_SECONDS = 300


def refuse(message):
    print(f"plant-bugs: {message}", file=sys.stderr)
    sys.exit(2)


def run(command, **options):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def copy_tree():
    """Brings build/bugs/tree up to date: files that did not change keep their time, so that little is rebuilt."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=SOURCE, check=True, text=True,
                           capture_output=True).stdout.split("\n")
    wanted = {name for name in names if name and (SOURCE / name).is_file()}
    tree = WORK / "tree"
    for name in sorted(wanted):
        to, content = tree / name, (SOURCE / name).read_bytes()
        if not to.exists() or to.read_bytes() != content:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(content)
    for path in [path for path in tree.rglob("*") if path.is_file()]:
        if str(path.relative_to(tree)) not in wanted:
            path.unlink()
    return tree


def configure(tree):
    """The copy's build folder: the preset emulated."""
    folder = WORK / "emulated"
    result = run(["cmake", "--preset", "emulated", "-B", str(folder), "-DREPRISE_BUILD_APPS=OFF",
                  "-DREPRISE_BUILD_BENCHMARKS=OFF", "-DCMAKE_CXX_FLAGS=-w"], cwd=tree)  # a bug may leave things unused
    if result.returncode:
        refuse(f"cannot configure:\n{result.stdout}")
    return folder


def program_of(test):
    return test.split("/")[0] + "_tests"


def build(folder, test):
    """None if it builds, else what the compiler says."""
    result = run(["cmake", "--build", str(folder), "--target", program_of(test)])
    return None if result.returncode == 0 else result.stdout


def filter_of(test):
    """The suites of a test file, as GoogleTest's filter."""
    text = (WORK / "tree" / "tests" / (test + "_test.cpp")).read_text()
    suites = {line.split("(")[1].split(",")[0].strip() for line in text.splitlines()
              if line.startswith(("TEST(", "TEST_F(", "TEST_P("))}
    return ":".join(f"{suite}.*:*/{suite}.*" for suite in sorted(suites))


def caught_by(folder, test):
    """How the tests notice: the order of threads and the first complaint; None if they pass."""
    for order in ORDERS:
        environment = dict(os.environ, REPRISE_TEST_DEVICE="cuda", REPRISE_EMULATOR_ORDER=order)
        command = [str(folder / "bin" / program_of(test)), "--gtest_brief=1", "--gtest_fail_fast",
                   f"--gtest_filter={filter_of(test)}"]
        try:
            result = run(command, env=environment, timeout=TEST_SECONDS)
        except subprocess.TimeoutExpired:
            return f"{order}: no end after {TEST_SECONDS} s"
        if result.returncode:
            lines = [line.strip() for line in result.stdout.splitlines()]
            failures = [i for i, line in enumerate(lines) if line.endswith("Failure") or "ERROR:" in line]
            complaint = " ".join(lines[failures[0]:failures[0] + 3]) if failures else f"ended by {result.returncode}"
            return f"{order}: {complaint.replace(str(WORK), '')[:160]}"
    return None


def plant(tree, bug):
    """Writes the bug into the copy; returns the file and what it held."""
    path = tree / bug["file"]
    text = path.read_text()
    if text.count(bug["old"]) != 1:
        refuse(f"{bug['file']} holds {text.count(bug['old'])} times, not once: {bug['old']!r}")
    path.write_text(text.replace(bug["old"], bug["new"]))
    return path, text


def try_bug(tree, folder, bug):
    path, text = plant(tree, bug)
    begin = time.monotonic()
    try:
        error = build(folder, bug["test"])
        if error:
            refuse(f"{bug['file']}: with '{bug['what']}' it does not compile:\n{error[-2000:]}")
        how = caught_by(folder, bug["test"])
        return ("caught", how) if how else ("MISSED", "")
    finally:
        path.write_text(text)
        print(f"  {time.monotonic() - begin:5.0f} s  ", end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    bugs = tomllib.loads((SOURCE / "tests" / "planted_bugs.toml").read_text())["bug"]
    if arguments.words:
        bugs = [bug for bug in bugs if any(word in bug["file"] + " " + bug["what"] for word in arguments.words)]
    if arguments.list:
        for bug in bugs:
            print(f"{bug['file']}: {bug['what']}")
        return 0
    if not bugs:
        refuse("no bug matches")
    if not shutil.which("cmake"):
        refuse("cmake is missing; ./run setup installs it")

    tree = copy_tree()
    folder = configure(tree)
    for test in sorted({bug["test"] for bug in bugs}):
        error = build(folder, test)
        if error:
            refuse(f"the tree does not build:\n{error[-4000:]}")
        how = caught_by(folder, test)
        if how:
            refuse(f"{test} fails without a bug: {how}")

    missed = 0
    for bug in bugs:
        verdict, how = try_bug(tree, folder, bug)
        missed += verdict != "caught"
        print(f"{verdict:8} {bug['file']}: {bug['what']}\n             {how}", flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} planted bugs were caught")
    return 1 if missed else 0


sys.exit(main())
