#!/usr/bin/env python3
"""One training step of a vision model in PyTorch, as the peer of benchmarks/vision_bench.cpp: timm's and torchvision's
models of the same shapes, the same protocol.

    torch_vision.py --model vit_192 [--channels-last] [--device cuda] [--autocast] [--compile]
"""
import argparse
import contextlib
import json
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch_gpt import memory_bytes


def vit(**sizes):
    with contextlib.redirect_stdout(sys.stderr):  # timm says there which of its parts it does without
        from timm.models.vision_transformer import VisionTransformer
    return VisionTransformer(**sizes)


def resnet18_cifar():
    from torchvision.models import resnet18
    model = resnet18(num_classes=10)
    model.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    model.maxpool = nn.Identity()
    return model


def resnet50():
    from torchvision.models import resnet50
    return resnet50()


SMALL = dict(img_size=32, patch_size=4, num_classes=10, depth=6)
# name: (model, images per step, pixels of a side, classes, steps per "run")
MODELS = {
    "vit_192": (lambda: vit(**SMALL, embed_dim=192, num_heads=3), 64, 32, 10, 4),
    "vit_384": (lambda: vit(**SMALL, embed_dim=384, num_heads=6), 64, 32, 10, 1),
    "vit_s16": (lambda: vit(embed_dim=384, num_heads=6), 8, 224, 1000, 1),
    "vit_b16_gpu": (vit, 256, 224, 1000, 4),
    "resnet18_cifar": (resnet18_cifar, 128, 32, 10, 1),
    "resnet50": (resnet50, 8, 224, 1000, 1),
    "resnet50_gpu": (resnet50, 128, 224, 1000, 4),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--autocast", action="store_true", help="to bf16")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--profile", action="store_true", help="print operators of one step and leave")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    make, batch, image, classes, steps = MODELS[options.model]
    model = make().train().to(options.device)
    images = torch.randn(batch, 3, image, image, device=options.device)
    targets = torch.randint(classes, (batch,), device=options.device)
    if options.channels_last:
        model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
    if options.model.startswith("vit"):
        matrices = [p for p in model.parameters() if p.dim() >= 2]
        vectors = [p for p in model.parameters() if p.dim() < 2]
        optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}],
                                      lr=1e-3, fused=True)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, fused=True)

    forward = torch.compile(model) if options.compile else model

    def step():
        with torch.autocast(options.device, dtype=torch.bfloat16, enabled=options.autocast):
            loss = F.cross_entropy(forward(images), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    for _ in range(2):
        step()
    if options.profile:
        with torch.autograd.profiler.profile() as recorded:
            step()
        print(recorded.key_averages().table(sort_by="self_cpu_time_total", row_limit=20))
        return
    for _ in sys.stdin:
        begin = time.perf_counter()
        for _ in range(steps):
            loss = step()
        seconds = (time.perf_counter() - begin) / steps
        print(json.dumps({"seconds_per_step": seconds, "images_per_second": batch / seconds,
                          "peak_rss_bytes": memory_bytes("VmHWM"), "loss": loss,
                          "peak_device_bytes": torch.cuda.max_memory_reserved() if options.device == "cuda" else 0}),
              flush=True)


if __name__ == "__main__":
    main()
