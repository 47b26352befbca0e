"""Damaged and hostile copies of every file of a run, given to resume, sample and eval: refused by a line that names the
file, in bounded memory and time, or taken where nothing was lost by it."""

import json
import os
import random
import struct

from checksum import crc32c
from harness import Case
from training import Training, final_state, prepared, reference

RUN = Training(steps=6, save_every=2, keep=1, eval_every=2, sample_every=3)
CHECKPOINT = "r/checkpoints/step-00000004"
LOGS = ["r/metrics.jsonl", "r/samples.txt", "r/loss.svg"]
TEXTS = ["r/checkpoints/LATEST", f"{CHECKPOINT}/manifest.json", "r/config.toml", "r/tokenizer/vocab.json"]
TENSORS = [f"{CHECKPOINT}/model.safetensors", f"{CHECKPOINT}/optimizer.safetensors"]
FREE = ["r/config.toml", "r/tokenizer/vocab.json"]  # a user may write another one: taking it is no fault
MEMORY = 1 << 30
SECONDS = 10


def damages(data, chance, count):
    """(name, bytes): cuts, flips, additions and replacements of a file that holds `data`."""
    size = len(data)
    points = sorted({0, 1, size // 2, size - 1, *(chance.randrange(size) for _ in range(count))})
    yield from ((f"cut at {at}", data[:at]) for at in points if at < size)
    for _ in range(3 * count):
        at, bit = chance.randrange(size), chance.randrange(8)
        yield f"bit {bit} of byte {at} flipped", data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1:]
    for at in points:
        yield f"64 NULs at {at}", data[:at] + bytes(64) + data[at + 64:]
        yield f"bytes put in at {at}", data[:at] + b"\xff\xfe\x00{[\"" + data[at:]
    yield "itself twice", data + data
    yield "NULs", bytes(size)
    yield "garbage", chance.randbytes(size)
    yield "deep nesting", b"[" * 200_000
    yield "deep objects", b'{"a":' * 200_000
    yield "a long line", b"9" * 3_000_000
    yield "a long string", b'"' + b"a" * 3_000_000
    yield "spaces", b" " * 3_000_000


def odd_places(path):
    """(name, what a shell does to the file)."""
    yield "missing", f"rm {path}"
    yield "a folder", f"rm {path}; mkdir {path}"
    yield "a pipe", f"rm {path}; mkfifo {path}"
    yield "a link to itself", f"rm {path}; ln -s {os.path.basename(path)} {path}"
    yield "a link to /dev/zero", f"rm {path}; ln -s /dev/zero {path}"
    yield "3 GB of nothing", f"truncate -s 3G {path}"


def numbers(text):
    """(name, text): each number of a JSON or TOML text replaced by hostile ones."""
    at = 0
    while at < len(text):
        end = at
        while end < len(text) and text[end:end + 1].isdigit():
            end += 1
        if end > at:
            for value in (b"-1", b"0", b"9223372036854775808", b"99999999999999999999999", b"1e400", b"null", b"[]"):
                yield f"{value.decode()} at {at}", text[:at] + value + text[end:]
        at = end + 1


def headers(data):
    """(name, bytes): safetensors files with hostile headers."""
    length = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    first = next(name for name in header if name != "__metadata__")

    def with_header(text):
        return struct.pack("<Q", len(text)) + text + body

    def changed(name, **fields):
        new = {key: dict(value) for key, value in header.items()}
        new[name].update(fields)
        return with_header(json.dumps(new).encode())

    for size in (0, 1, length - 1, length + 1, len(data), 2**31, 2**63 - 1, 2**63, 2**64 - 1):
        yield f"header of {size} bytes", struct.pack("<Q", size) + data[8:]
    for shape in ([], [0], [-1], [2**32, 2**32], [2**63 - 1, 2], [1] * 1000, ["x"], [1.5], [2**70]):
        yield f"shape {str(shape)[:40]}", changed(first, shape=shape)
    for offsets in ([0, 0], [-4, 0], [0, 2**63 - 1], [8, 4], [0, 2**64], [2**63 - 4, 2**63 - 1], [0], [0, 4, 8], []):
        yield f"offsets {offsets}", changed(first, data_offsets=offsets)
    for dtype in ("F99", "", "f32", "F16", "I64", 7, None, "F64" * 1000):
        yield f"dtype {str(dtype)[:20]}", changed(first, dtype=dtype)
    for key in ("step", "random_offset", "model.layers", "model.width", "model.context", "model.heads",
                "model.vocab_size", "model.dropout"):
        for value in ("", "x", "-1", "0", "999999999", "50000000", "9223372036854775807", "1e9", "nan"):
            if key in header.get("__metadata__", {}):
                yield f"{key} {value}", changed("__metadata__", **{key: value})
    text = json.dumps(header).encode()
    yield "every tensor twice", with_header(text[:-1] + b", " + text[1:])
    yield "a tensor more", with_header(text[:-1] + b', "extra": {"dtype":"F32","shape":[0],"data_offsets":[0,0]}}')
    yield "a tensor less", with_header(json.dumps({k: v for k, v in header.items() if k != first}).encode())
    yield "a thousand tensors more", with_header(
        text[:-1] + b"".join(b', "x%d": {"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(1000)) + b"}")
    yield "terminal codes in a name", with_header(text.replace(first.encode(), b"\\u001b[31m" + first.encode()))


def write_manifest(folder):
    """Puts sizes and checksums right: what reads the tensors has to find the damage itself."""
    files = {path.name: [path.stat().st_size, crc32c(path.read_bytes())]
             for path in sorted((folder / CHECKPOINT).glob("*.safetensors"))}
    (folder / CHECKPOINT / "manifest.json").write_text(json.dumps(files))


def judge(world, folder, path, name, outcome):
    """What is wrong with how a program took the damaged file, or None."""
    if outcome.code not in (0, 2) or "internal error" in outcome.err:
        return outcome.problem("neither 0 nor 2, or an internal error")
    if outcome.code == 0:
        return None
    if path in LOGS and (folder / path).is_file():
        return outcome.problem("a mere log keeps the run from going on")
    lines = [line for line in outcome.err.strip().splitlines() if not line.startswith("warning")]
    most = 30 if "load_state_dict" in outcome.err else 1  # that one lists all that does not fit
    if not 1 <= len(lines) <= most or len(outcome.err) > 4000 or "\x1b" in outcome.err:
        return outcome.problem("not one readable line")
    if path in FREE and ("--" in outcome.err or "train: after step" in outcome.err):
        return None  # what is written there is an option like any other, and told by its name, or by what it led to
    names = [os.path.basename(path), path]
    if path.endswith(".safetensors") or path.endswith("manifest.json"):
        names.append("r/checkpoints")  # it may name the checkpoint
    if path.endswith("LATEST"):
        names.append("--resume")
    return None if any(name in outcome.err for name in names) else outcome.problem(f"does not name {names[0]}")


def hostile(world, path, name, damage, mend_manifest=False):
    """The three programs on one damaged file: `damage(folder)` does it."""
    def check(folder):
        prepared(world, RUN, 4, folder)
        damage(folder)
        if mend_manifest:
            write_manifest(folder)
        for words in ([world.gpt, "sample", "--run", "r", "--sample-tokens", 2],
                      [world.gpt, "eval", "--run", "r", "--data", "t.txt"], RUN.words(world, "--resume")):
            outcome = world.run(words, folder, seconds=SECONDS, memory=MEMORY)
            problem = judge(world, folder, path, name, outcome)
            if problem:
                return problem
        unharmed = path not in FREE and not mend_manifest
        if outcome.code == 0 and unharmed and final_state(folder) != reference(world, RUN):
            return outcome.problem("it went on, to other weights")
        return None
    return Case(f"{os.path.basename(path)}: {name}", check)


def replaced_by(path, data):
    return lambda folder: (folder / path).write_bytes(data)


def by_shell(world, command):
    return lambda folder: world.run(["bash", "-c", command], folder)


def cases(world):
    folder = world.scratch / f"hostile-{world.plant}"
    folder.mkdir()
    prepared(world, RUN, 4, folder)
    chance = random.Random(world.seed)
    for path in LOGS + TEXTS + TENSORS:
        data = (folder / path).read_bytes()
        for name, damaged in damages(data, chance, 12 if world.full else 4):
            yield hostile(world, path, name, replaced_by(path, damaged))
        for name, command in odd_places(path):
            yield hostile(world, path, name, by_shell(world, command))
        if path in TEXTS:
            for name, damaged in numbers(data):
                yield hostile(world, path, name, replaced_by(path, damaged))
        if path in TENSORS:
            for name, damaged in headers(data):
                yield hostile(world, path, name, replaced_by(path, damaged), True)
    for text in ("", "\n", "..", "../..", "/", "/etc", "step-", "step-00000004/../step-00000004", "step-99999999",
                 "step-4", "step-00000004\nstep-00000002", "step-00000004\0", ".unfinished-step-00000004", "a" * 10000):
        yield hostile(world, "r/checkpoints/LATEST", f"holds {text[:40]!r}",
                      replaced_by("r/checkpoints/LATEST", text.encode()))
    for names in ({"../../../t.txt": [1, 1]}, {"/etc/passwd": [1, 1]}, {"model.safetensors": [1, 1]}, {},
                  {"x" * 300: [1, 1]}, {"model.safetensors": []}, {"model.safetensors": {}}, [], None):
        yield hostile(world, f"{CHECKPOINT}/manifest.json", f"holds {str(names)[:40]}",
                      replaced_by(f"{CHECKPOINT}/manifest.json", json.dumps(names).encode()))
