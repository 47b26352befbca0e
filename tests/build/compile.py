"""Compiles small sources in parallel, syntax only, and remembers what has passed."""

import concurrent.futures
import hashlib
import os
import pathlib
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


def compile_one(command, name, text):
    result = subprocess.run([*command, "-fsyntax-only", "-x", "c++", "-"], input=text, text=True, capture_output=True)
    return name, result.returncode == 0, result.stderr


def compile_all(source, stamp, texts, command):
    """Compiles {name: text}; prints the compiler's words for each that fails. Returns the exit code."""
    print_key = fingerprint(source, texts, command)
    stamp = pathlib.Path(stamp)
    if stamp.exists() and stamp.read_text() == print_key:
        print(f"{len(texts)} compiled before, nothing has changed")
        return 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda item: compile_one(command, *item), texts.items()))
    failed = [(name, words) for name, ok, words in results if not ok]
    for name, words in failed:
        print(f"{name} does not compile:\n{words}", file=sys.stderr)
    print(f"{len(texts) - len(failed)} of {len(texts)} compile")
    if failed:
        return 1
    stamp.write_text(print_key)
    return 0
