"""Optimizers of one's own: Lion (Chen et al. 2023) for vectors, Muon (Jordan et al. 2024) for matrices."""

import torch
from torch import nn
from torch.nn import functional as F

from example import fill, report, wave


def orthogonal(x):
    """About the nearest matrix with orthonormal rows, by a polynomial of Newton and Schulz."""
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if tall else x


class LionAndMuon:
    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.momenta = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self, lr):
        for p, m in zip(self.parameters, self.momenta):
            g = p.grad
            if p.ndim == 2:
                m.mul_(0.95).add_(g)
                p.sub_(lr * orthogonal(g + m * 0.95))
            else:
                p.sub_(lr * 0.1 * torch.sign(m * 0.9 + g * 0.1))
                m.mul_(0.99).add_(g * 0.01)
            p.grad = None


first, second = nn.Linear(8, 32), nn.Linear(32, 4)
optimizer = LionAndMuon([*first.parameters(), *second.parameters()])
fill(optimizer.parameters)
x, y = wave((64, 8), 0.7), wave((64, 4), 0.31)
for step in range(60):
    loss = F.mse_loss(second(F.relu(first(x))), y)
    loss.backward()
    optimizer.step(0.01)
    if step % 15 == 0:
        report("loss", loss)
