"""A vision transformer that tells waves apart."""

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn
from torch.nn import functional as F

from example import fill, report, wave

model = VisionTransformer(
    img_size=8,
    patch_size=4,
    in_chans=1,
    num_classes=4,
    embed_dim=32,
    depth=2,
    num_heads=4,
)
fill(model.parameters())
x = torch.stack([wave((1, 8, 8), 0.2 + 0.4 * (i % 4) + 0.001 * i) for i in range(32)])
labels = torch.arange(32) % 4

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
for step in range(60):
    loss = F.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 15 == 0:
        report("loss", loss)
with torch.no_grad():
    report("accuracy", (model(x).argmax(-1) == labels).float().mean())
