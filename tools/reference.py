#!/usr/bin/env python3
"""The reference of all names in reprise.h and train/train.h, by Doxygen: reference.py SOURCE FOLDER

Writes FOLDER/html. Fails if a public name has no comment, or if Doxygen warns of one.
"""

import pathlib
import re
import shutil
import subprocess
import sys

SETTINGS = """
PROJECT_NAME = Reprise
PROJECT_BRIEF = "A deep-learning framework in C++20 and CUDA"
INPUT = {input}
STRIP_FROM_PATH = {source}
OUTPUT_DIRECTORY = {folder}
WARN_LOGFILE = {folder}/warnings.txt
QUIET = YES
EXTRACT_ALL = NO
EXCLUDE_SYMBOLS = *::detail::*
JAVADOC_AUTOBRIEF = YES
MARKDOWN_SUPPORT = YES
DISTRIBUTE_GROUP_DOC = YES
MACRO_EXPANSION = YES
WARN_IF_UNDOCUMENTED = YES
SHOW_INCLUDE_FILES = NO
VERBATIM_HEADERS = NO
HAVE_DOT = NO
CLASS_GRAPH = TEXT
GENERATE_LATEX = NO
GENERATE_TREEVIEW = YES
HTML_TIMESTAMP = NO
HTML_COLORSTYLE_SAT = 40
ENUM_VALUES_PER_LINE = 1
SORT_MEMBER_DOCS = NO
"""
# Copies, moves and ends of objects say by their form what they do.
SPECIAL = re.compile(r"Member (?:~\w+|operator=|(\w+)\((?:const )?\1(?:<[^>]*>)? ?&&?\w*\))")


def public_headers(source):
    entries = ["reprise.h", "train/train.h"]
    texts = [(source / entry).read_text(encoding="utf-8") for entry in entries]
    return entries + [name for text in texts for name in re.findall(r'#include "reprise/([\w/]+\.h)"', text)]


def warnings_of(source, folder):
    """What Doxygen says against the headers, a line each."""
    inputs = [str(source / name) for name in [*public_headers(source), "docs/reference.dox"]]
    settings = folder / "Doxyfile"
    settings.write_text(SETTINGS.format(input=" ".join(inputs), source=source, folder=folder), encoding="utf-8")
    subprocess.run(["doxygen", str(settings)], check=True)
    lines = (folder / "warnings.txt").read_text(encoding="utf-8").splitlines()
    return sorted({line.replace(f"{source}/", "") for line in lines if line.strip() and not SPECIAL.search(line)})


def main():
    source, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    if not shutil.which("doxygen"):
        print("reference: there is no doxygen here")
        return 77
    folder.mkdir(parents=True, exist_ok=True)
    wrong = warnings_of(source, folder)
    print("\n".join(wrong) or f"reference: {folder}/html/index.html")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
