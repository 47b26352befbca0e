#!/usr/bin/env python3
"""The reference of all names that reprise.h and train/train.h give a program, by Doxygen: reference.py SOURCE FOLDER

Writes FOLDER/html. Fails if a public name has no comment, or if Doxygen warns of one: also of a header that another public
one includes, unless INTERNAL says why it is not for programs.
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
ENTRIES = ["reprise.h", "train/train.h"]
# Every header that these two reach is public, and each of its names has a comment, but for these: no signature, option or
# result of a public name needs theirs.
INTERNAL = {
    "autograd/cast_seam.h": "what Function::apply asks of autocast",
    "autograd/graph_task.h": "the engine's pass behind backward and grad",
    "autograd/meta.h": "what autograd keeps with a tensor; Tensor's methods show it",
    "autograd/ops/norm/batch_statistics.h": "passes from batch norms to DataParallel",
    "autograd/pass_local.h": "a value per backward pass, for Offload",
    "autograd/recompute/offload/offloaded_storage.h": "where an OffloadedTensor's bytes are",
    "autograd/shadow.h": "weights in 16 bits, which autocast keeps",
    "core/data_observer.h": "what tells OpObserver::data_asked",
    "core/fork.h": "the lock of what a process shares",
    "io/json.h": "reads the files of tokenizers and weights",
    "io/text/bpe_files.h": "reads the files of Gpt2Bpe and SentencePieceBpe",
    "io/text/merge_table.h": "their merges",
    "io/text/token_table.h": "their vocabulary",
    "io/text/tokenizer_json.h": "reads tokenizer.json for them",
    "kernels/for_each_view.h": "finds the views in the arguments of a Kernel",
    "kernels/gemm/gemm.h": "the kernel behind matmul and linear",
}
# Copies, moves and ends of objects say by their form what they do.
SPECIAL = re.compile(r"Member (?:~\w+|operator=|(\w+)\((?:const )?\1(?:<[^>]*>)? ?&&?\w*\))")


def reached_headers(source):
    """The headers that a program gets by the two entries, directly or not."""
    reached, waiting = set(), list(ENTRIES)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += re.findall(r'#include "reprise/([\w/]+\.h)"', (source / name).read_text(encoding="utf-8"))
    return reached


def namespaces_of(text):
    """The namespaces that a header puts names into."""
    for name in re.findall(r"^(?:inline )?namespace ([\w:]+) \{(?!.*\})", text, re.MULTILINE):
        if not name.endswith("detail"):
            yield name if name.startswith("reprise") else f"reprise::{name}"


def wrong_lists(source, reached):
    """What is wrong with the list of internal headers, and with the pages of namespaces: Doxygen is silent about the
    functions, enums and types of a namespace that has none."""
    pages = set(re.findall(r"\\namespace ([\w:]+)", (source / "docs/reference.dox").read_text(encoding="utf-8")))
    for name in sorted(INTERNAL.keys() - reached):
        yield f"tools/reference.py: {name} is listed as internal, but no public header includes it"
    for name in sorted(reached - INTERNAL.keys()):
        for space in namespaces_of((source / name).read_text(encoding="utf-8")):
            if space not in pages:
                yield f"{name}: docs/reference.dox has no page for the namespace {space}"


def warnings_of(source, headers, folder):
    """What Doxygen says against the headers, a line each."""
    inputs = [str(source / name) for name in [*headers, "docs/reference.dox"]]
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
    reached = reached_headers(source)
    wrong = [*wrong_lists(source, reached), *warnings_of(source, sorted(reached - INTERNAL.keys()), folder)]
    print("\n".join(wrong) or f"reference: {folder}/html/index.html")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
