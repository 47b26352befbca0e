"""What the twins share: the numbers of example.h."""

import torch


def wave(shape, k, scale=1.0):
    count = torch.Size(shape).numel()
    return (torch.sin(torch.arange(count, dtype=torch.float64) * k) * scale).float().reshape(shape)


@torch.no_grad()
def fill(parameters):
    for i, p in enumerate(parameters):
        p.copy_(wave(p.shape, i + 1, p.shape[-1] ** -0.5))


def report(name, value):
    print(f"{name} {value.item() if torch.is_tensor(value) else value:.6f}")
