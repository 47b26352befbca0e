"""The examples: each prints what its twin in PyTorch does, and is no longer than 1.5 times that, as the README says:
examples.py EXAMPLES BIN

examples/results.txt, which tools/parity_examples.py makes, has a line for each number that a twin prints: example, name, value.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

MOST_LINES = 1.5  # of the twin's
TOLERANCE = 2e-4  # of the value or of 1: both add in f32, each in its own order, for up to 200 updates


def code_lines(path):
    """Lines that are neither blank nor a comment nor a docstring."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith(("//", "# ")))


def written_lines(examples):
    """{example: "its lines, its twin's"} of the README."""
    rows = re.findall(r"^\| \[(\w+)\].*\| ([\d, ]+) \|$", (examples / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    return dict(rows)


def results_of(examples):
    """{example: [(name, value)]} of PyTorch."""
    results = {}
    for line in (examples / "results.txt").read_text(encoding="utf-8").splitlines():
        example, name, value = line.split()
        results.setdefault(example, []).append((name, float(value)))
    return results


def differences(example, program, want):
    """What is wrong with the output of an example."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([str(program)], cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    if ran.returncode != 0:
        yield f"{example}: exit code {ran.returncode}: {ran.stderr}"
        return
    got = [(name, float(value)) for name, value in (line.split() for line in ran.stdout.splitlines())]
    if [name for name, _ in got] != [name for name, _ in want]:
        yield f"{example}: prints {[name for name, _ in got]}, its twin {[name for name, _ in want]}"
        return
    for place, ((name, ours), (_, theirs)) in enumerate(zip(got, want)):
        if not abs(ours - theirs) <= TOLERANCE * max(1, abs(theirs)):
            yield f"{example}: number {place}, {name}: {ours}, in PyTorch {theirs}"


def main():
    examples, programs = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    results, written, wrong = results_of(examples), written_lines(examples), []
    sources = sorted(examples.glob("*.cpp"))
    if {source.stem for source in sources} != set(results):
        wrong.append(f"programs {[s.stem for s in sources]}, results of {sorted(results)}")
    for source in sources:
        ours, theirs = code_lines(source), code_lines(source.with_suffix(".py"))
        print(f"{source.stem}: {ours} lines, its twin {theirs}: {ours / theirs:.2f}")
        if ours > MOST_LINES * theirs:
            wrong.append(f"{source.name}: {ours} lines of code are more than {MOST_LINES} x {theirs}")
        if written.get(source.stem) != f"{ours}, {theirs}":
            wrong.append(f"README.md: {source.stem} has {ours}, {theirs} lines, not {written.get(source.stem)}")
        wrong += differences(source.stem, programs / f"example_{source.stem}", results.get(source.stem, []))
    print("\n".join(wrong))
    return 1 if wrong or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
