#!/usr/bin/env python3
"""Registers, stack, spills and shared memory of every CUDA kernel, as ptxas tells them.

    tools/kernel_report.py [--arch sm_90a] [--json FILE] [FILES.cu...]     prints a Markdown table
    tools/kernel_report.py --check                                         fails if a kernel spills

Compiles each .cu once for one architecture: needs nvcc, no GPU. docs/kernels.md holds the table.
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
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'.*?"
                   r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
                   r"Used (\d+) registers(?:.*?(\d+) bytes smem)?", re.DOTALL)


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


def report(nvcc, include, arch, path):
    """Rows of one file: {file, kernel, arch, registers, stack, spills, shared}."""
    with tempfile.TemporaryDirectory() as folder:
        command = [nvcc, "-std=c++20", "-O3", "--expt-relaxed-constexpr", "-cubin", "-Xptxas", "-v",
                   f"-gencode=arch=compute_{arch[3:]},code={arch}", f"-I{include}", str(path), "-o", f"{folder}/x.cubin"]
        result = subprocess.run(command, text=True, capture_output=True)
    if result.returncode:
        sys.exit(f"kernel_report: {path}:\n{result.stderr[-3000:]}")
    entries = []
    for block in re.split(r"(?=ptxas info\s+: Compiling entry function)", result.stderr):
        found = ENTRY.search(block)
        if found:
            entries.append(found.groups())
    names = demangled([entry[0] for entry in entries])
    return [{"file": str(path.relative_to(SOURCE)), "kernel": short(name), "arch": entry[1], "registers": int(entry[5]),
             "stack": int(entry[2]), "spills": int(entry[3]) + int(entry[4]), "shared": int(entry[6] or 0)}
            for name, entry in zip(names, entries)]


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
        jobs = [(arch, path) for path in files for arch in archs if "sm90" not in str(path) or arch == "sm_90a"]
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            rows = sum(pool.map(lambda job: report(nvcc, include, *job), jobs), [])
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    print("| file | kernel | arch | registers | stack, B | spills, B | static shared, B |\n|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['file']} | `{row['kernel']}` | {row['arch']} | {row['registers']} | {row['stack']} | "
              f"{row['spills']} | {row['shared']} |")
    spilling = [row for row in rows if row["spills"]]
    for row in spilling if arguments.check else []:
        print(f"spills: {row['file']}: {row['kernel']} ({row['arch']}): {row['spills']} bytes", file=sys.stderr)
    return 1 if arguments.check and spilling else 0


sys.exit(main())
