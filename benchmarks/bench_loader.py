#!/usr/bin/env python3
"""Compares reading of photographs with torchvision's on one core: ./run bench loader.

Makes JPEGs of 500 x 375 pixels (quality 90, shapes over noise that has been smoothed), then lets benchmarks/loader_bench.cpp's
program, torchvision's tensors and Pillow's path take turns: decode, random crop to 224 by bicubic resampling, flip,
normalise. The kernel is told to keep all on one core. Also photographs of 4000 x 3000 pixels, exactly and by --decode fast, and
Fashion-MNIST through our loader by one worker. Writes build/bench/loader.json.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_torch import ROOT, peers
from bench_vision import cpu_model

MAKE = """
import sys
import numpy
from PIL import Image, ImageDraw, ImageFilter
draw = numpy.random.default_rng(1)
width, height, count = (int(number) for number in sys.argv[2:])
for i in range(count):
    noise = draw.integers(0, 256, (height // 4 + 1, width // 4, 3), dtype=numpy.uint8)
    noise = Image.fromarray(noise).resize((width, height), Image.BICUBIC)
    image = noise.filter(ImageFilter.GaussianBlur(2))
    pen = ImageDraw.Draw(image)
    for _ in range(12):
        x, y, w, h = draw.integers(0, height, 4)
        pen.ellipse([int(x), int(y), int(x + w // 3 + 1), int(y + h // 3 + 1)], fill=tuple(int(v) for v in draw.integers(0, 256, 3)))
    image.save(f"{sys.argv[1]}/class{i % 2}/{i:03}.jpg", quality=90)
"""


class Reader:
    def __init__(self, name, command, core, against=None):
        self.name, self.rates, self.against = name, [], against
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=lambda: os.sched_setaffinity(0, core))

    def run(self):
        print("run", file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench: {self.name} ended without a result (exit code {self.process.wait()})")
        self.rates.append(json.loads(line)["images_per_second"])

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    found = peers(1)
    if not found:
        sys.exit("bench: no PyTorch here; tools/setup_peers.sh installs it")
    python, binary = found[0][1][0], str(ROOT / "build/cpu/bin/loader_bench")
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as large:
        for root, sizes in ((folder, ("500", "375", "64")), (large, ("4000", "3000", "8"))):
            for name in ("class0", "class1"):
                (Path(root) / name).mkdir()
            subprocess.run([python, "-c", MAKE, root, *sizes], check=True)
        worker = str(ROOT / "benchmarks/torch_loader.py")
        one = {cores[0]}
        ours = Reader("Reprise", [binary, "--data", folder], one)
        exact = Reader("Reprise, 4000 x 3000", [binary, "--data", large, "--images", "32"], one)
        fast = [binary, "--data", large, "--images", "32", "--fast"]
        readers = [ours,
                   Reader("torchvision, tensors", [python, worker, "--data", folder, "--path", "tensors"], one, ours),
                   Reader("torchvision, Pillow", [python, worker, "--data", folder, "--path", "pillow"], one, ours),
                   exact, Reader("... by --decode fast", fast, one, exact),
                   Reader("Reprise, Fashion-MNIST", [binary, "--fashion"], set(cores[:2]))]
        try:
            for turn in range(rounds):
                for reader in readers[turn % len(readers):] + readers[:turn % len(readers)]:
                    reader.run()
        finally:
            for reader in readers:
                reader.stop()
    print(f"{cpu_model()}, one core, medians of {rounds}")
    rows = []
    for reader in readers:
        rate = statistics.median(reader.rates)
        ratio = f"{statistics.median(reader.against.rates) / rate:8.2f}" if reader.against else ""
        print(f"{reader.name:<26}{rate:10.0f} images/s{ratio}")
        rows.append({"name": reader.name, "images_per_second": rate})
    out = ROOT / "build/bench/loader.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"cpu": cpu_model(), "rows": rows}, indent=2) + "\n")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
