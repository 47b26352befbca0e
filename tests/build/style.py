"""Formatting and size of the sources, and paragraphs of the documents: style.py SOURCE

clang-format 14 (Debian 12's) must have nothing to change; other versions format differently, so without that version
the formatting is skipped, but not the rest.
"""

import pathlib
import re
import shutil
import subprocess
import sys

FOLDERS = ["core", "simt", "kernels", "autograd", "nn", "io", "data", "plot", "train", "distributed", "apps", "tests",
           "benchmarks"]
LONGEST_FILE = 500
LONGEST_PARAGRAPH = 100  # words; docs/style.md asks for 80
SKIPPED = 77


def clang_format():
    """A clang-format 14, or None."""
    for name in ["clang-format-14", "clang-format"]:
        program = shutil.which(name)
        if program:
            words = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
            if re.search(r"version 14\.", words):
                return program
    return None


def paragraphs(document):
    """(line, words) of each paragraph and each item of a list, without tables, code and comments."""
    hidden = re.compile(r"^```.*?^```|<!--.*?-->", re.DOTALL | re.MULTILINE)
    text = hidden.sub(lambda part: "\n" * part[0].count("\n"), document)  # lines keep their numbers
    first, words = 0, []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if not line.strip() or line.startswith(("|", "#")) or re.match(r"\s*([-*]|\d+\.) ", line):
            if words:
                yield first, words
            words = []
        if line.strip() and not line.startswith(("|", "#")):
            first = first if words else number
            words = words + line.split()


source = pathlib.Path(sys.argv[1])
files = [path for folder in FOLDERS for path in sorted((source / folder).rglob("*"))
         if path.suffix in {".h", ".cpp", ".cu", ".cuh"}] + [source / "reprise.h"]

wrong = []
for path in files:
    lines = path.read_text().splitlines()
    name = path.relative_to(source)
    if len(lines) > LONGEST_FILE:
        wrong.append(f"{name}: {len(lines)} lines, more than {LONGEST_FILE}")
    says_what = lines and lines[0].startswith("//") or path.with_suffix(".h").is_file() and path.suffix != ".h"
    if not says_what:  # a source may leave that to its header
        wrong.append(f"{name}: its first line does not say what it is for")
    if path.suffix in {".h", ".cuh"} and "#pragma once" not in lines:
        wrong.append(f"{name}: no #pragma once")

for path in [source / "README.md", *sorted((source / "docs").rglob("*.md"))]:
    name = str(path.relative_to(source))
    for line, words in paragraphs(path.read_text()):
        if len(words) > LONGEST_PARAGRAPH:
            wrong.append(f"{name}:{line}: a paragraph of {len(words)} words, more than {LONGEST_PARAGRAPH}: "
                         "a list, a table or two paragraphs")

program = clang_format()
if program:
    names = [str(path.relative_to(source)) for path in files]
    result = subprocess.run([program, "--dry-run", "-Werror", *names], cwd=source, capture_output=True, text=True)
    if result.returncode:
        unformatted = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error: code should be clang-formatted", result.stderr,
                                            re.MULTILINE)))
        wrong += [f"{path}: not formatted: clang-format -i {path}" for path in unformatted] or [result.stderr]

print("\n".join(wrong) or f"{len(files)} files are in style")
if wrong:
    sys.exit(1)
if not program:
    print("clang-format 14 not found: formatting not checked")
    sys.exit(SKIPPED)
