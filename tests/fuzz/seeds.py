"""Writes the first inputs of the fuzzers: seeds.py FOLDER makes FOLDER/NAME/* for each tests/fuzz/NAME.cpp"""

import gzip
import io
import json
import pathlib
import struct
import sys
import tarfile

FOLDER = pathlib.Path(sys.argv[1])


def seed(name, *contents):
    """One file for each of `contents`, bytes or text."""
    (FOLDER / name).mkdir(parents=True, exist_ok=True)
    for i, content in enumerate(contents):
        (FOLDER / name / f"seed_{i}").write_bytes(content if isinstance(content, bytes) else content.encode())


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def alphabet():
    """GPT-2's printable character for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


dtypes = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1}
everything, at = {"__metadata__": {"step": "7", "k\n": "v"}}, 0
for dtype, size in dtypes.items():
    everything["t." + dtype] = tensor(dtype, [2, 1], at, at + 2 * size)
    at += 2 * size
everything["empty"] = tensor("F32", [0, 3], at, at)
everything["scalar"] = tensor("U8", [], at, at + 1)
seed("safetensors", safetensors({}), safetensors(everything, bytes(at + 1)),
     safetensors({"a": tensor("U8", [1, 1, 1, 1, 1, 1, 1, 1], 0, 1)}, b"x"),
     safetensors(b'{"\\u0061\\ud83d\\ude00":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}  ', b"abc"))

words, body = [20240326, 3, 2, 3, 1, 1, 1, 128] + [0] * 248, bytes(4 * (128 + 2 + 25 + 2))
seed("weights", struct.pack("<256i", *words) + body, struct.pack("<256i", 20240326, 5, *words[2:]) + body[::2],
     b'{"metadata": {}, "weight_map": {"a": "x.safetensors"}}')

seed("json", '{"a": [1, -2.5e3, true, false, null], "b\\u00e4\\n": {"c": "d"}}', "[]", '"\\ud83d\\ude00"', "0.1e-7",
     "[" * 70)

seed("char_tokenizer", '["\\n", " ", "a", "b", "\u00e4", "\U0001f600"]\n', '["a"]')

vocabulary = {character: i for i, character in enumerate(alphabet())}
vocabulary |= {"ab": 256, "abc": 257, "\u0120a": 258, "<|endoftext|>": 259}
merges = "#version: 0.2\na b\nab c\n\u0120 a\n"
seed("gpt2_bpe", json.dumps(vocabulary, ensure_ascii=False) + "\0" + merges, '+"th":256,"the":257}\0t h\nth e\n',
     '+"aa":256,"aaaa":257,"<|endoftext|>":258}\0a a\naa aa\n')

shard = [20240520, 1, 3] + [0] * 253
seed("tokens", b"\xff" + struct.pack("<4H", 1, 2, 3, 65535), b"\x00" + struct.pack("<256i3H", *shard, 1, 2, 255))

seed("run_log", '{"step":1,"loss":2.5}\n{"step":2,"loss":null,"val_loss":1}\n{"step":5}\n{"step":6,"lo',
     b"\0" * 64 + b"\n" + b'{"step":1}\n\xff\n{"step":x}\n', "{" * 17000 + '\n{"step":3}\n')

seed("config", 'steps = 10\nlr = 1e-3\ndata = "a\\u00e4.txt"\n[model]\nlayers = 2\nbias = true\n', "a = [1, [2, {b = 3}]]\n",
     'a."b c".d = 1979-05-27T07:32:00Z\n[[t]]\nx = 0xff\ny = """\nz"""\n')

seed("manifest", '{\n "model.safetensors": [3, 909783072],\n "optimizer.safetensors": [0, 0]\n}\n', "{}",
     '{"../model.safetensors": [3, 1]}')

def frame(kind, *fields):
    """Of the hub: bytes behind the kind, the kind, and each field behind its own number of bytes."""
    body = b"".join(struct.pack("<I", len(field)) + field for field in fields)
    return struct.pack("<I", len(body)) + kind + body


hello = [b"1", b"4", b"4711", b"a", b"n" * 16, b"p" * 32]
seed("hub_frames", b"\xff" + frame(b"H", *hello) + frame(b"T") + frame(b"F", b"0", b"2", b"rank 2 died", b"200"),
     b"\0" + frame(b"H", *hello[:4], b"", b"") + frame(b"P", b"x", b"y") + frame(b"B"),
     b"\7" + frame(b"G", b"reprise", b"job", b"n" * 16) + frame(b"W", b"", b"127.0.0.1", b"") + frame(b"C")[:3])

def golden(name):
    """{key: bytes} of tests/golden/NAME.safetensors."""
    file = (pathlib.Path(__file__).parent.parent / f"golden/{name}.safetensors").read_bytes()
    start = 8 + struct.unpack("<Q", file[:8])[0]
    entries = json.loads(file[8:start])
    return {key: file[start + entry["data_offsets"][0]:start + entry["data_offsets"][1]]
            for key, entry in entries.items() if key != "__metadata__"}


images = {key: file for key, file in golden("images").items() if key.endswith(".file")}
for kind, magic in [("jpeg", b"\xff\xd8"), ("png", b"\x89PNG")]:
    files = [file for file in images.values() if file.startswith(magic)]
    seed(kind, *[bytes([37 * i % 256 | 2]) + file for i, file in enumerate(files)])
seed("exif", *[b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x0112, 3, 1, n, 0, 0) for n in range(9)],
     b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x0112, 3, 1, 6, 0, 0))
seed("gzip", gzip.compress(b"trousers, trousers", mtime=0), gzip.compress(b"", mtime=0) + gzip.compress(bytes(9999), mtime=0))
idx = struct.pack(">4I", 0x0803, 2, 1, 3) + b"abcdef"
seed("idx", b"\1" + idx, b"\1" + gzip.compress(idx, mtime=0), b"\0" + struct.pack(">2I", 0x0801, 3) + b"abc")
shard = io.BytesIO()
with tarfile.open(fileobj=shard, mode="w", format=tarfile.PAX_FORMAT) as tar:
    for name, contents in [("1.jpg", b"x"), ("1.cls", b"3"), ("\u00e4" * 60 + ".png", b"y"),
                           ("\u00e4" * 60 + ".json", b'{"label": 4}')]:
        member = tarfile.TarInfo(name)
        member.size = len(contents)
        tar.addfile(member, io.BytesIO(contents))
seed("tar", shard.getvalue(), *[file for key, file in golden("archives").items() if key.endswith(".file")])
seed("shard_index", '{"format": "reprise shard index 1", "bytes": BYTES, "time": TIME, "json_key": "label", "samples": [\n'
     '["a", 512, 9, "3"],\n["b", 4000, 96, "7"]\n]}\n')

seed("text", "It's 2 o'clock,  don't\n\n panic\u3000\u00e9\U0001f600", "\x1b[31mred\x07 \u202e", b"\xff\xc3(\xed\xa0\x80",
     "\uef80")

seed("options", "none", "selective:save_attention", "every:3", "keep:3", "segments:4", "sqrt", "layers:2,5,8", "offload:recompute_cheap",
     "auto:2GiB", "auto:12.5%", "2GiB", "512kB", "1e3", "nan", "inf")
