"""An operation of one's own with its gradient by hand: the square of ReLU (So et al. 2021)."""

import torch
from torch import nn
from torch.nn import functional as F

from example import fill, report, wave


class SquaredRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        positive = F.relu(x)
        ctx.save_for_backward(positive)
        return positive.square()

    @staticmethod
    def backward(ctx, dy):
        (positive,) = ctx.saved_tensors
        return dy * positive * 2


torch.autograd.gradcheck(SquaredRelu.apply, (wave((3, 4), 0.7) + 0.1).double().requires_grad_())

x = torch.linspace(-2, 2, 64).reshape(64, 1)
y = torch.sin(x * 2)
first, second = nn.Linear(1, 16), nn.Linear(16, 1)
parameters = [*first.parameters(), *second.parameters()]
fill(parameters)
optimizer = torch.optim.SGD(parameters, lr=0.05)
for step in range(100):
    loss = F.mse_loss(second(SquaredRelu.apply(first(x))), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        report("loss", loss)
