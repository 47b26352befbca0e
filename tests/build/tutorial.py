"""The tutorial says what its programs do: tutorial.py DOCS_TUTORIAL EXAMPLES_TUTORIAL BIN

Each page N_name.md has a program N_name.cpp. Every ```cpp block of the page is in the program, line by line; the program runs and
ends well, which it does only if what the page promises held; and the lines of the page's ```output block are those that it
prints, numbers aside, which differ in their last digits from machine to machine. The last program prints the same bits as
one process and as two ranks.
"""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(cpp|output)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def lines_of(text):
    """Without indentation and blank lines: a page shows parts of a program on their own."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def holds(program, block):
    return any(program[i:i + len(block)] == block for i in range(len(program)))


def without_numbers(text):
    return [re.sub(r"-?[0-9][0-9.]*", "#", line) for line in lines_of(text)]


def start(program, folder, **variables):
    return subprocess.Popen([str(program)], cwd=folder, env={**os.environ, **variables}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def faults_of(page, source, program):
    code = lines_of(source.read_text(encoding="utf-8"))
    shown = {"cpp": [], "output": []}
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        shown[kind].append(block)
    if not shown["cpp"] or len(shown["output"]) != 1:
        yield f"{page.name}: needs blocks of cpp and one of output"
        return
    for block in shown["cpp"]:
        if not holds(code, lines_of(block)):
            yield f"{page.name}: not in {source.name}:\n{block}"
    with tempfile.TemporaryDirectory() as folder:
        status, out, err = end(start(program, folder))
    if status != 0:
        yield f"{source.name}: exit code {status}: {out}{err}"
    if without_numbers(out) != without_numbers(shown["output"][0]):
        yield f"{page.name}: the program prints\n{out}"


def faults_of_ranks(program):
    with tempfile.TemporaryDirectory() as folder:
        _, alone, _ = end(start(program, folder))
        port = str(free_port())
        ranks = [start(program, folder, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
                 for rank in range(2)]
        ended = [end(rank) for rank in ranks]
    if any(status != 0 for status, _, _ in ended):
        yield f"{program.name}: two ranks: {ended}"
    elif "".join(out for _, out, _ in ended) != alone:
        yield f"{program.name}: one process prints {alone}, two ranks {[out for _, out, _ in ended]}"


def main():
    pages, sources, programs = (pathlib.Path(folder).resolve() for folder in sys.argv[1:4])
    names = sorted(source.stem for source in sources.glob("*.cpp"))
    wrong = []
    if sorted(page.stem for page in pages.glob("[0-9]*.md")) != names:
        wrong.append(f"{pages}: its pages are not those of the programs {names}")
    for name in names:
        if (pages / f"{name}.md").is_file():
            wrong += faults_of(pages / f"{name}.md", sources / f"{name}.cpp", programs / f"tutorial_{name}")
    wrong += faults_of_ranks(programs / f"tutorial_{names[-1]}")
    print("\n".join(wrong) or f"{len(names)} chapters are as they say")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
