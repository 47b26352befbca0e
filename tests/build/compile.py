"""Compiles small sources in parallel, by the compiler cache where there is one, and remembers what has passed."""

import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys

HEADER_FOLDERS = ["core", "simt", "kernels", "autograd", "nn", "io", "data", "distributed"]


def for_device_code(path):
    """Whether a header is for .cu files: those need CUDA's headers, which a machine without CUDA lacks."""
    text = path.read_text()
    return "simt" in path.parts or "reprise/simt/" in text or "#include <cu" in text


def public_headers(source):
    """The headers that get installed and compile without CUDA, relative to the source folder, sorted."""
    headers = [path for folder in HEADER_FOLDERS for path in (source / folder).rglob("*.h")
               if not for_device_code(path)]
    return sorted(str(path.relative_to(source)) for path in headers) + ["reprise.h"]


def fingerprint(source, texts, command):
    """Changes with the public headers, the texts to compile and the command."""
    digest = hashlib.sha256(repr((command, sorted(texts.items()))).encode())
    for header in public_headers(source):
        digest.update(header.encode() + (source / header).read_bytes())
    return digest.hexdigest()


def compile_one(command, folder, name, text):
    source = folder / (re.sub(r"[^\w.]+", "_", name) + ".cpp")
    if not source.exists() or source.read_text() != text:
        source.write_text(text)
    result = subprocess.run([*command, "-O0", "-c", source, "-o", source.with_suffix(".o")], text=True,
                            capture_output=True)
    source.with_suffix(".o").unlink(missing_ok=True)
    return name, result.returncode == 0, result.stderr


def compile_all(source, work, texts, command):
    """Compiles {name: text} in the folder `work`; prints what the compiler says of each that fails. Returns the exit
    code."""
    print_key = fingerprint(source, texts, command)
    work.mkdir(exist_ok=True)
    stamp = work / "passed"
    if stamp.exists() and stamp.read_text() == print_key:
        print(f"{len(texts)} compiled before, nothing has changed")
        return 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda item: compile_one(command, work, *item), texts.items()))
    failed = [(name, words) for name, ok, words in results if not ok]
    for name, words in failed:
        print(f"{name} does not compile:\n{words}", file=sys.stderr)
    print(f"{len(texts) - len(failed)} of {len(texts)} compile")
    if failed:
        return 1
    stamp.write_text(print_key)
    return 0
