"""Low-rank adapters (Hu et al. 2021): a frozen layer learns a task by a product of two thin matrices beside it."""

import torch
from torch import nn
from torch.nn import functional as F

from example import fill, report, wave


class LoraLinear(nn.Module):
    def __init__(self, inputs, outputs, rank):
        super().__init__()
        self.base = nn.Linear(inputs, outputs).requires_grad_(False)
        self.down = nn.Parameter(wave((rank, inputs), 0.9, 0.1))
        self.up = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.down), self.up)


first, second = LoraLinear(8, 32, 2), LoraLinear(32, 4, 2)
fill([*first.base.parameters(), *second.base.parameters()])
frozen = first.base.weight.clone()
adapters = [p for m in (first, second) for p in m.parameters() if p.requires_grad]
x, y = wave((64, 8), 0.7), wave((64, 4), 0.31)
optimizer = torch.optim.AdamW(adapters, lr=1e-2, weight_decay=0)
for step in range(80):
    loss = F.mse_loss(second(F.relu(first(x))), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        report("loss", loss)
report("trained", sum(p.numel() for p in adapters))
report("moved", (first.base.weight - frozen).abs().sum())
