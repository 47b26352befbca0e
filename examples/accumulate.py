"""Gradients of several micro-batches, averages of the weights, and a run that goes on from its files."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from example import fill, report, wave


class Run:
    def __init__(self):
        self.net = nn.Linear(8, 4)
        fill(self.net.parameters())
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-2, weight_decay=0.01)
        self.ema = AveragedModel(self.net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        self.ema.n_averaged += 1  # the first update is one of the average too

    def train(self, begin, end):
        for step in range(begin, end):
            total = 0
            for micro in range(4):
                x = wave((16, 8), 0.1 + step + micro * 0.2)
                y = torch.sin(x[:, :4] * 2)
                loss = F.mse_loss(self.net(x), y) / 4
                loss.backward()
                total += loss.item()
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.ema.update_parameters(self.net)
        return total


whole = Run()
report("loss", whole.train(0, 20))
states = {"net": whole.net, "optimizer": whole.optimizer, "ema": whole.ema}
for name, state in states.items():
    torch.save(state.state_dict(), f"accumulate.{name}.pt")
resumed = Run()
for name in states:
    getattr(resumed, name).load_state_dict(torch.load(f"accumulate.{name}.pt"))
report("loss", whole.train(20, 40))
report("resumed", resumed.train(20, 40))
report("average", resumed.ema.module.weight.sum())
