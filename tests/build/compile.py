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


def compile_one(command, environment, folder, name, text):
    source = folder / (re.sub(r"[^\w.]+", "_", name) + ".cpp")
    if not source.exists() or source.read_text() != text:
        source.write_text(text)
    result = subprocess.run([*command, "-O0", "-c", source, "-o", source.with_suffix(".o")], text=True,
                            capture_output=True, env=environment)
    source.with_suffix(".o").unlink(missing_ok=True)
    return name, result.returncode == 0, result.stderr


def precompile(work, command, header):
    """The command that reads <header>, where a source includes it first, from a compiled copy."""
    folder = work / "precompiled"
    compiled = folder / (header + ".gch")
    compiled.parent.mkdir(parents=True, exist_ok=True)
    (work / "precompiled.h").write_text(f"#include <{header}>\n")
    (folder / header).write_text(f"#include_next <{header}>\n")  # for what includes it once more
    subprocess.run([*command, "-O0", "-x", "c++-header", work / "precompiled.h", "-o", compiled], check=True)
    flags = next(place for place, word in enumerate(command) if word.startswith("-"))
    return [*command[:flags], "-I", str(folder), *command[flags:]]


def compile_all(source, work, texts, command, first_header=None):
    """Compiles {name: text} in the folder `work`, where all texts include `first_header` first, if there is one; prints what
    the compiler says of each that fails. Returns the exit code."""
    print_key = fingerprint(source, texts, command)
    work.mkdir(exist_ok=True)
    stamp = work / "passed"
    if stamp.exists() and stamp.read_text() == print_key:
        print(f"{len(texts)} compiled before, nothing has changed")
        return 0
    environment = dict(os.environ)
    if first_header:
        command = precompile(work, command, first_header)
        environment["CCACHE_DISABLE"] = "1"  # it reads headers itself, and slower
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda item: compile_one(command, environment, work, *item), texts.items()))
    failed = [(name, words) for name, ok, words in results if not ok]
    for name, words in failed:
        print(f"{name} does not compile:\n{words}", file=sys.stderr)
    print(f"{len(texts) - len(failed)} of {len(texts)} compile")
    if failed:
        return 1
    stamp.write_text(print_key)
    return 0
