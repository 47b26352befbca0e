"""A GPT trained here, written and read back."""

import torch
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel

from example import fill, report

config = GPT2Config(
    vocab_size=11,
    n_positions=8,
    n_layer=2,
    n_head=2,
    n_embd=16,
    resid_pdrop=0,
    embd_pdrop=0,
    attn_pdrop=0,
)
model = GPT2LMHeadModel(config)
# Its matrices are those of a linear layer, transposed.
fill([p.T if name.endswith("weight") and ".c_" in name else p for name, p in model.named_parameters()])
tokens = (torch.arange(36) ** 2).reshape(4, 9) % 11


def loss_of(gpt):
    return F.cross_entropy(gpt(tokens[:, :8]).logits.flatten(0, 1), tokens[:, 1:].flatten())


optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
for step in range(20):
    optimizer.zero_grad()
    loss_of(model).backward()
    optimizer.step()
report("loss", loss_of(model))
model.save_pretrained("gpt2")
back = GPT2LMHeadModel.from_pretrained("gpt2")
report("row", back.state_dict()["transformer.h.1.mlp.c_fc.weight"][3].sum())
report("loss", loss_of(back))
