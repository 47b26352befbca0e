"""The critic of a WGAN with a gradient penalty (Gulrajani et al. 2017): the gradient of a gradient."""

import torch
from torch import nn

from example import fill, report, wave

real, fake = wave((64, 2), 0.37) + 2, wave((64, 2), 0.81) - 1
mix = (wave((64, 1), 1.3) + 1) / 2

critic = nn.Sequential(
    nn.Linear(2, 32),
    nn.SiLU(),
    nn.Linear(32, 1),
)
fill(critic.parameters())
optimizer = torch.optim.AdamW(critic.parameters(), lr=1e-2, betas=(0.5, 0.9), weight_decay=0)
for step in range(60):
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty = (slope.norm(dim=1) - 1).square().mean()
    loss = critic(fake).mean() - critic(real).mean() + penalty * 10
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 15 == 0:
        report("loss", loss)
        report("penalty", penalty)
