"""Low-rank adapters (Hu et al. 2021): frozen layers of a model learn a task by a product of two thin matrices beside each."""

import torch
from torch import nn
from torch.nn import functional as F

from example import fill, report, wave


class Lora(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(wave((rank, base.in_features), 0.9, 0.1))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.down), self.up)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 32)
        self.second = nn.Linear(32, 4)

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


net = Net()
fill(list(net.parameters()))
frozen = net.first.weight.clone()
for name in ["first", "second"]:
    setattr(net, name, Lora(net.get_submodule(name), 2))
adapters = [p for p in net.parameters() if p.requires_grad]
x, y = wave((64, 8), 0.7), wave((64, 4), 0.31)
optimizer = torch.optim.AdamW(adapters, lr=1e-2, weight_decay=0)
for step in range(80):
    loss = F.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        report("loss", loss)
report("trained", sum(p.numel() for p in adapters))
report("moved", (net.first.base.weight - frozen).abs().sum())
