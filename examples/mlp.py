"""A classifier of two spirals: layers, a loss, an optimizer."""

import torch
from torch import nn
from torch.nn import functional as F

from example import fill, report

t = torch.linspace(0.5, 3, 100).reshape(100, 1)
arm = torch.cat([t * torch.cos(t * 3), t * torch.sin(t * 3)], 1)
x, label = torch.cat([arm, -arm]), (torch.arange(200) >= 100).long()

net = nn.Sequential(
    nn.Linear(2, 32),
    nn.SiLU(),
    nn.Linear(32, 32),
    nn.SiLU(),
    nn.Linear(32, 2),
)
fill(net.parameters())
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0)
for step in range(200):
    loss = F.cross_entropy(net(x), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        report("loss", loss)
with torch.no_grad():
    report("accuracy", (net(x).argmax(-1) == label).float().mean())
