#!/usr/bin/env python3
"""The reference of the parity test of I-JEPA, in PyTorch from the definitions of Assran et al. 2023: makes the golden file.

    parity_jepa.py [--out tests/golden]   writes jepa_parity.safetensors

A tiny encoder and predictor, random weights ("start/"), images and given masks; then two steps in f64: "STEP/loss",
"STEP/features" (the normed target features), "STEP/grad/NAME", and after AdamW and the average the weights of all three
networks, "STEP/after/NAME". Run it with the Python that tools/setup_peers.sh makes.
"""
import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parent.parent
PATCH, CHANNELS, SIDE, EPS = 2, 3, 4, 1e-6
ENCODER = {"width": 8, "layers": 2, "heads": 2}
PREDICTOR = {"width": 12, "layers": 2, "heads": 3}
STEPS, MOMENTUM = 2, (0.5, 1.0)
ADAMW = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8}
WEIGHT_DECAY = 0.1
CONTEXT = [[0, 1, 2, 4, 8, 12], [3, 6, 7, 10, 11, 15], [0, 3, 5, 9, 12, 15]]
TARGETS = [[[5, 6, 9, 10], [10, 11, 14, 15]], [[0, 1, 4, 5], [8, 9, 12, 13]], [[1, 2, 5, 6], [10, 11, 14, 15]]]


def sincos(width):
    """(SIDE^2, width): the column's sines and cosines, then the row's."""
    rows = []
    for row in range(SIDE):
        for column in range(SIDE):
            numbers = []
            for place in (column, row):
                angles = [place / 10000 ** (i / (width / 4)) for i in range(width // 4)]
                numbers += [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
            rows.append(numbers)
    return torch.tensor(rows, dtype=torch.float64)


def weight(*shape):
    return 0.3 * torch.randn(shape, dtype=torch.float64)


def norm_weights(name, width):
    return {f"{name}.weight": 1 + weight(width), f"{name}.bias": weight(width)}


def linear_weights(name, inputs, outputs):
    return {f"{name}.weight": weight(outputs, inputs), f"{name}.bias": weight(outputs)}


def block_weights(prefix, width, layers, **_):
    weights = {}
    for i in range(layers):
        at = f"{prefix}.{i}."
        weights |= norm_weights(at + "norm1", width) | norm_weights(at + "norm2", width)
        weights |= linear_weights(at + "attn.qkv", width, 3 * width) | linear_weights(at + "attn.proj", width, width)
        weights |= linear_weights(at + "mlp.fc1", width, 4 * width) | linear_weights(at + "mlp.fc2", 4 * width, width)
    return weights


def encoder_weights(prefix):
    width = ENCODER["width"]
    weights = {"patch_embed.proj.weight": weight(width, CHANNELS, PATCH, PATCH), "patch_embed.proj.bias": weight(width)}
    weights |= block_weights("blocks", **ENCODER) | norm_weights("norm", width)
    return {prefix + name: w for name, w in weights.items()}


def predictor_weights():
    inner, outer = PREDICTOR["width"], ENCODER["width"]
    weights = linear_weights("predictor_embed", outer, inner) | {"mask_token": weight(1, 1, inner)}
    weights |= block_weights("predictor_blocks", **PREDICTOR) | norm_weights("predictor_norm", inner)
    weights |= linear_weights("predictor_proj", inner, outer)
    return {"predictor." + name: w for name, w in weights.items()}


def linear(w, name, x):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def norm(w, name, x):
    return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], EPS)


def blocks(w, prefix, x, layers, heads, **_):
    for i in range(layers):
        at = f"{prefix}.{i}."
        n, tokens, width = x.shape
        q, k, v = linear(w, at + "attn.qkv", norm(w, at + "norm1", x)).reshape(n, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(width // heads)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, tokens, width)
        x = x + linear(w, at + "attn.proj", mixed)
        x = x + linear(w, at + "mlp.fc2", F.gelu(linear(w, at + "mlp.fc1", norm(w, at + "norm2", x))))
    return x


def encode(w, prefix, images, patches=None):
    """Tokens of all patches, or of those that `patches` (N, K) names."""
    x = F.conv2d(images, w[prefix + "patch_embed.proj.weight"], w[prefix + "patch_embed.proj.bias"], stride=PATCH)
    x = x.flatten(2).transpose(1, 2) + sincos(ENCODER["width"])
    if patches is not None:
        x = torch.stack([tokens[kept] for tokens, kept in zip(x, patches)])
    return norm(w, prefix + "norm", blocks(w, prefix + "blocks", x, **ENCODER))


def predict(w, tokens, context, target):
    """Tokens (N, K, width) of the patches `context` -> those of the patches `target` (N, M)."""
    positions = sincos(PREDICTOR["width"])
    seen = linear(w, "predictor.predictor_embed", tokens) + positions[context]
    asked = w["predictor.mask_token"] + positions[target]
    x = blocks(w, "predictor.predictor_blocks", torch.cat([seen, asked], 1), **PREDICTOR)
    return linear(w, "predictor.predictor_proj", norm(w, "predictor.predictor_norm", x[:, -target.shape[1]:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "tests/golden", metavar="FOLDER")
    options = parser.parse_args()
    torch.manual_seed(7)
    torch.set_num_threads(1)
    context, targets = torch.tensor(CONTEXT), torch.tensor(TARGETS)
    images = torch.randn(STEPS, len(CONTEXT), CHANNELS, SIDE * PATCH, SIDE * PATCH, dtype=torch.float64)
    trained = encoder_weights("encoder.") | predictor_weights()
    target = encoder_weights("target_encoder.")
    golden = {"images": images, "context": context, "targets": targets}
    golden |= {f"start/{name}": w.clone() for name, w in (trained | target).items()}
    for w in trained.values():
        w.requires_grad_()
    groups = [{"params": [w for w in trained.values() if (w.dim() > 1) == decays], "weight_decay": WEIGHT_DECAY * decays}
              for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, **ADAMW)
    for step in range(STEPS):
        with torch.no_grad():
            features = encode(target, "target_encoder.", images[step])
            features = F.layer_norm(features, features.shape[-1:])
        tokens = encode(trained, "encoder.", images[step], context)
        wanted = torch.stack([torch.stack([tokens_of[block] for block in of]) for tokens_of, of in zip(features, targets)], 1)
        predicted = torch.stack([predict(trained, tokens, context, targets[:, i]) for i in range(targets.shape[1])])
        loss = F.smooth_l1_loss(predicted, wanted)
        optimizer.zero_grad()
        loss.backward()
        golden |= {f"{step}/loss": loss.detach(), f"{step}/features": features}
        golden |= {f"{step}/grad/{name}": w.grad.clone() for name, w in trained.items()}
        optimizer.step()
        momentum = MOMENTUM[0] + (MOMENTUM[1] - MOMENTUM[0]) * step / STEPS
        for name, w in target.items():
            w.mul_(momentum).add_((1 - momentum) * trained[name.removeprefix("target_")].detach())
        golden |= {f"{step}/after/{name}": w.detach().clone() for name, w in (trained | target).items()}
    golden = {name: (w.float() if w.is_floating_point() else w).contiguous() for name, w in golden.items()}
    facts = {"made_by": f"tools/parity_jepa.py with PyTorch {torch.__version__.split('+')[0]}", "encoder": str(ENCODER),
             "predictor": str(PREDICTOR), "adamw": str(ADAMW | {"weight_decay": WEIGHT_DECAY}), "momentum": str(MOMENTUM)}
    options.out.mkdir(parents=True, exist_ok=True)
    save_file(golden, options.out / "jepa_parity.safetensors", metadata=facts)


if __name__ == "__main__":
    main()
