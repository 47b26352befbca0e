#!/usr/bin/env python3
"""Photographs through torchvision on one core, as the peer of benchmarks/loader_bench.cpp: decode, random crop to 224 by
bicubic resampling, flip, normalise.

    torch_loader.py --data FOLDER --path tensors|pillow
"""
import argparse
import json
import sys
import time
from pathlib import Path

import torch
from PIL import Image
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import InterpolationMode, v2

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--path", choices=["tensors", "pillow"], required=True)
    parser.add_argument("--images", type=int, default=400)
    options = parser.parse_args()
    torch.set_num_threads(1)
    files = [str(path) for path in sorted(options.data.rglob("*.jpg"))]
    crop = [v2.RandomResizedCrop(224, interpolation=InterpolationMode.BICUBIC, antialias=True), v2.RandomHorizontalFlip()]
    to_float = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)]
    if options.path == "tensors":
        transform = v2.Compose(crop + to_float)

        def load(path):
            return transform(decode_jpeg(read_file(path), mode=ImageReadMode.RGB))
    else:
        transform = v2.Compose(crop + [v2.ToImage()] + to_float)

        def load(path):
            with Image.open(path) as image:
                return transform(image.convert("RGB"))

    at = 0

    def read(count):
        nonlocal at
        for _ in range(0, count, 16):
            torch.stack([load(files[(at + i) % len(files)]) for i in range(16)])
            at += 16

    read(options.images // 4)
    for _ in sys.stdin:
        begin = time.perf_counter()
        read(options.images)
        rows = -(-options.images // 16) * 16
        print(json.dumps({"images_per_second": rows / (time.perf_counter() - begin)}), flush=True)


if __name__ == "__main__":
    main()
