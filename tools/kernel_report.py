#!/usr/bin/env python3
"""Registers, stack, spills and static shared memory of every CUDA kernel, as ptxas tells them.

    tools/kernel_report.py [--arch sm_90a] [--json FILE] [FILES.cu...]     prints a Markdown table
    tools/kernel_report.py --check [--arch sm_80] [FILES.cu...]            no table: fails if a kernel spills, or if
                                                                           ptxas has a warning (wgmma serialised)

Compiles each .cu once for each architecture: needs nvcc, no GPU. docs/kernels.md has the hot ones. Dynamic shared
memory is the launch's business, which ptxas does not see.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
ENTRY = re.compile(r"Compiling entry function '(?P<name>\w+)' for '(?P<arch>\w+)'.*?"
                   r"Function properties for (?P=name)\s+(?P<stack>\d+) bytes stack frame, "
                   r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
                   r"Used (?P<registers>\d+) registers(?:[^\n]*?(?P<shared>\d+) bytes smem)?", re.DOTALL)
COMPLAINT = re.compile(r"^ptxas (?:warning|info)\s+: \(C7\d+\)[^\n]*|^ptxas warning[^\n]*", re.MULTILINE)


def nvcc_program():
    for candidate in [os.environ.get("NVCC"), shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"]:
        if candidate and pathlib.Path(candidate).exists():
            return candidate
    sys.exit("kernel_report: nvcc not found; put it on PATH or set NVCC")


def demangled(names):
    result = subprocess.run(["c++filt", "-p"], input="\n".join(names), text=True, capture_output=True)
    return result.stdout.splitlines() if result.returncode == 0 else names


def short(name):
    """The function and its template arguments, without our namespaces."""
    name = re.sub(r"\(anonymous namespace\)::", "", name)
    name = re.sub(r"reprise::(kernels::)?(device::|cuda::)?(attention_cuda::)?", "", name)
    return name.replace("__nv_bfloat16", "bf16").replace("__half", "f16").replace("float", "f32").replace("double", "f64")


def rows_of(text, file):
    """What ptxas -v has printed for one file: a row for each kernel."""
    blocks = re.split(r"(?=ptxas info\s+: Compiling entry function)", text)[1:]
    entries = [ENTRY.search(block) for block in blocks]
    if None in entries:
        sys.exit(f"kernel_report: {file}: not understood:\n{blocks[entries.index(None)][:1000]}")
    names = demangled([entry["name"] for entry in entries])
    return [{"file": file, "kernel": short(name), "arch": entry["arch"], "registers": int(entry["registers"]),
             "stack": int(entry["stack"]), "spills": int(entry["stores"]) + int(entry["loads"]),
             "shared": int(entry["shared"] or 0)} for name, entry in zip(names, entries)]


def report(nvcc, include, arch, path):
    """(rows, ptxas's complaints) of one file."""
    with tempfile.TemporaryDirectory() as folder:
        command = [nvcc, "-std=c++20", "-O3", "--expt-relaxed-constexpr", "-cubin", "-Xptxas", "-v",
                   f"-gencode=arch=compute_{arch[3:]},code={arch}", f"-I{include}", str(path), "-o", f"{folder}/x.cubin"]
        result = subprocess.run(command, text=True, capture_output=True)
    if result.returncode:
        sys.exit(f"kernel_report: {path}:\n{result.stderr[-3000:]}")
    file = str(path.relative_to(SOURCE) if path.is_relative_to(SOURCE) else path)
    complaints = [f"{file}: {complaint}" for complaint in COMPLAINT.findall(result.stderr)]
    return rows_of(result.stderr, file), complaints


def print_table(rows):
    print("| file | kernel | arch | registers | stack, B | spills, B | static shared, B |\n|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['file']} | `{row['kernel']}` | {row['arch']} | {row['registers']} | {row['stack']} | "
              f"{row['spills']} | {row['shared']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--arch", action="append", help="sm_80, sm_90a, ...; may be given several times")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    nvcc, archs = nvcc_program(), arguments.arch or ["sm_90a"]
    files = [path.resolve() for path in arguments.files] or sorted((SOURCE / "kernels").rglob("*.cu"))
    with tempfile.TemporaryDirectory() as include:
        (pathlib.Path(include) / "reprise").symlink_to(SOURCE)
        jobs = [(arch, path) for path in files for arch in archs if path.parent.name != "sm90" or arch == "sm_90a"]
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            reports = list(pool.map(lambda job: report(nvcc, include, *job), jobs))
    rows = [row for file_rows, _ in reports for row in file_rows]
    wrong = [complaint for _, complaints in reports for complaint in complaints]
    wrong += [f"{row['file']}: {row['kernel']} ({row['arch']}) spills {row['spills']} bytes"
              for row in rows if row["spills"]]
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    if not arguments.check:
        print_table(rows)
    print("\n".join(wrong) or f"{len(rows)} kernels, none spills", file=sys.stderr)
    return 1 if arguments.check and wrong else 0


sys.exit(main())
