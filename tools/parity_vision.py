#!/usr/bin/env python3
"""PyTorch's side of the parity tests of vision models, timm's and torchvision's: makes the golden files.

    parity_vision.py [--out tests/golden]   writes vision_parity.safetensors, resnet_parity.safetensors,
                                            unet_parity.safetensors, feature_pyramid_parity.safetensors,
                                            positions.safetensors, timm_names.txt, unet_names.txt

vision_parity.safetensors: timm's VisionTransformer of depth 2 with several options ("vit5" has the attention of its
models with rotary positions), under "OPTIONS/": weights by their names in timm, "logits", the gradient of the cross entropy for each weight ("grad/"), the weights after 10 AdamW steps on
the same batch ("after/"), and logits and gradients once more in f64 ("f64/"); "images" and "targets" are shared.
resnet_parity.safetensors: torchvision's ResNet with one block a stage and 2 channels in the first, the same; running
statistics after the first batch are in "after/". Its images' i-th number is sin(0.37 i) + what 2654435761 i^2 / 2^32
has behind the point.
unet_parity.safetensors: the UNet below with 4 features and two halvings, on the same numbers as 2 x 3 x 33 x 37 images;
the class of pixel i is i / 5 mod 2. Weights in f32, "logits" and "grad/" in f64, and in "own/" how far PyTorch's f32 is
from these; "group_logits" are those of group norm, from the same weights.
feature_pyramid_parity.safetensors: torchvision's FeaturePyramidNetwork in f64: its maps "in/0", ..., its results "out/0", ...
and the gradients of the sum of their squares, in weights and maps.
positions.safetensors: what timm's checkpoint_filter_fn makes of the pos_embed of another image size, "CASE/before" and
"CASE/after".
timm_names.txt: names and shapes in the state dicts of timm's own models, a block's once. unet_names.txt: those of a UNet of
four halvings and 8 features.
Run it with the Python that tools/setup_peers.sh makes. The order of a file's metadata changes from run to run.
"""
import argparse
from collections import OrderedDict
from pathlib import Path

import timm
import torch
import torchvision
from safetensors.torch import save_file
from timm.layers import AttentionRope, RmsNorm, RotaryEmbeddingCat
from timm.models.vision_transformer import VisionTransformer, checkpoint_filter_fn
from torch import nn
from torch.nn import functional as F
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
from torchvision.ops import FeaturePyramidNetwork

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"img_size": 8, "patch_size": 4, "num_classes": 5, "embed_dim": 8, "depth": 2, "num_heads": 2}
OPTIONS = {
    "token": {},
    "avg": {"global_pool": "avg", "class_token": False},
    "registers": {"global_pool": "avg", "reg_tokens": 3, "qkv_bias": False},
    "deit3": {"no_embed_class": True, "init_values": 0.5},
    "vit5": {"no_embed_class": True, "init_values": 0.5, "reg_tokens": 3, "qkv_bias": False, "qk_norm": True,
             "norm_layer": RmsNorm},
}
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8}
WEIGHT_DECAY = 0.1
STEPS = 10
# Sides of the images whose positions are resampled.
RESAMPLED = {"token": (8, 20), "avg": (28, 12), "registers": (16, 12), "deit3": (12, 28)}
NAMED = {
    "tiny": ("vit_tiny_patch16_224", {}),
    "small": ("vit_small_patch16_224", {}),
    "base": ("vit_base_patch16_224", {}),
    "large": ("vit_large_patch16_224", {}),
    "deit3_small": ("deit3_small_patch16_224", {}),
    "registers": ("vit_small_patch16_224", {"reg_tokens": 4, "global_pool": "avg"}),
}


def randomize(model):
    """Weights far from their usual start, so that biases, norms and tokens matter."""
    for name, parameter in model.named_parameters():
        noise = 0.3 * torch.randn_like(parameter)
        is_scale = name.endswith(("weight", "gamma")) and parameter.dim() == 1
        parameter.data = 1 + noise if is_scale else noise


def gradients(model, images, targets):
    model.zero_grad(set_to_none=True)
    logits = model(images)
    torch.nn.functional.cross_entropy(logits, targets).backward()
    return {"logits": logits.detach()} | {f"grad/{n}": p.grad.clone() for n, p in model.named_parameters()}


def adamw(model):
    """No decay for vectors and what timm's model names."""
    kept = model.no_weight_decay()
    decays = {n: p.dim() >= 2 and n not in kept for n, p in model.named_parameters()}
    groups = [{"params": [p for n, p in model.named_parameters() if decays[n] == d],
               "weight_decay": WEIGHT_DECAY if d else 0.0} for d in (True, False)]
    return torch.optim.AdamW(groups, **ADAMW)


def distance(got, want):
    """The largest relative L2 distance of two sets of tensors, and where."""
    return max((((got[n].double() - w).norm() / w.norm()).item(), n) for n, w in want.items())


def with_rope(model):
    """timm's attention with rotary positions in the place of the blocks' own."""
    head_dim, side = SIZES["embed_dim"] // SIZES["num_heads"], SIZES["img_size"] // SIZES["patch_size"]
    table = RotaryEmbeddingCat(head_dim, in_pixels=False, feat_shape=[side, side]).get_embed()

    class Attention(AttentionRope):
        def forward(self, x, **options):
            return super().forward(x, rope=table.to(x.dtype), **options)

    for block in model.blocks:
        block.attn = Attention(SIZES["embed_dim"], SIZES["num_heads"], qkv_bias=False, qk_norm=True, norm_layer=RmsNorm,
                               num_prefix_tokens=model.num_prefix_tokens)
    return model


def vit_golden(options, images, targets):
    model = VisionTransformer(**SIZES, **options).train()
    if options.get("qk_norm"):
        model = with_rope(model)
    randomize(model)
    golden = {name: p.detach().clone() for name, p in model.named_parameters()}
    exact = gradients(model.double(), images.double(), targets)
    for parameter in model.parameters():
        parameter.grad = None
    model.float().load_state_dict(golden)
    golden |= gradients(model, images, targets)
    optimizer = adamw(model)
    for _ in range(STEPS):
        gradients(model, images, targets)
        optimizer.step()
    golden |= {f"after/{n}": p.detach().clone() for n, p in model.named_parameters()}
    return golden | {f"f64/{n}": t for n, t in exact.items()}, distance(golden, exact)


def write_parity(path):
    torch.manual_seed(7)
    images, targets = torch.randn(3, 3, 8, 8), torch.tensor([4, 0, 2])
    tensors = {"images": images, "targets": targets}
    for name, options in OPTIONS.items():
        golden, (rounding, where) = vit_golden(options, images, targets)
        tensors |= {f"{name}/{key}": tensor.contiguous() for key, tensor in golden.items()}
        print(f"{name}: f32 differs from f64 by {rounding:.1e} ({where})")
    facts = {"made_by": f"tools/parity_vision.py with timm {timm.__version__}, PyTorch {torch.__version__.split('+')[0]}",
             "sizes": str(SIZES), "adamw": str(ADAMW | {"weight_decay": WEIGHT_DECAY}), "steps": str(STEPS)}
    save_file(tensors, path, metadata=facts | {name: str(options) for name, options in OPTIONS.items()})


class NarrowResNet(ResNet):
    """torchvision's with 2 channels in the first stage in place of 64."""
    WIDTH = 2

    def __init__(self, block, stem):
        super().__init__(block, [1, 1, 1, 1], num_classes=5)
        self.conv1 = torch.nn.Conv2d(3, self.WIDTH, 7, 2, 3, bias=False)
        if stem == "cifar":
            self.conv1 = torch.nn.Conv2d(3, self.WIDTH, 3, 1, 1, bias=False)
            self.maxpool = torch.nn.Identity()
        self.bn1 = torch.nn.BatchNorm2d(self.WIDTH)
        self.fc = torch.nn.Linear(8 * self.WIDTH * block.expansion, 5)

    def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
        if planes == 64:
            self.inplanes = self.WIDTH
        return super()._make_layer(block, planes * self.WIDTH // 64, blocks, stride, dilate)


def formula_images(*shape):
    place = torch.arange(torch.Size(shape).numel())
    noise = (place * place * 2654435761 % 2**32).double() / 2**32
    return (noise + torch.sin(0.37 * place.double())).reshape(shape)


def write_resnets(path):
    torch.manual_seed(7)
    images = formula_images(4, 3, 35, 35)
    targets, tensors = torch.tensor([4, 0, 2, 1]), {}
    for name, block, stem in (("basic", BasicBlock, "cifar"), ("bottleneck", Bottleneck, "imagenet")):
        model = NarrowResNet(block, stem).train()
        randomize(model)
        golden = {key: value.detach().clone() for key, value in model.named_parameters()}
        inputs = images[:, :, :11, :11] if stem == "cifar" else images
        exact = gradients(model.double(), inputs, targets)
        model = NarrowResNet(block, stem).train()
        model.load_state_dict(golden, strict=False)
        golden |= gradients(model, inputs.float(), targets)
        rounding, where = distance(golden, exact)
        golden |= {f"after/{key}": value for key, value in model.named_buffers()}
        print(f"{name}: f32 differs from f64 by {rounding:.1e} ({where})")
        tensors |= {f"{name}/{key}": value.contiguous() for key, value in golden.items()}
        tensors |= {f"{name}/f64/{key}": value.contiguous() for key, value in exact.items()}
    made_by = f"tools/parity_vision.py with torchvision {torchvision.__version__}, PyTorch {torch.__version__}"
    save_file(tensors, path, metadata={"made_by": made_by})


def double_conv(channels, out, middle=None, norm=nn.BatchNorm2d):
    """Under the name that it has in Pytorch-UNet's state dict."""
    layers = []
    for a, b in ((channels, middle or out), (middle or out, out)):
        layers += [nn.Conv2d(a, b, 3, padding=1, bias=False), norm(b), nn.ReLU()]
    return nn.ModuleDict({"double_conv": nn.Sequential(*layers)})


class UNet(nn.Module):
    """Ronneberger et al. 2015 with padding and norms; layers and names are those of milesial's Pytorch-UNet."""

    def __init__(self, channels, classes, features, depth, bilinear, norm=nn.BatchNorm2d):
        super().__init__()
        self.depth, self.bilinear = depth, bilinear
        self.inc = double_conv(channels, features, norm=norm)
        width = features
        for i in range(1, depth + 1):
            out = width if bilinear and i == depth else 2 * width
            self.add_module(f"down{i}", nn.ModuleDict({"maxpool_conv": nn.ModuleList(
                [nn.MaxPool2d(2), double_conv(width, out, norm=norm)])}))
            width *= 2
        for i in range(1, depth + 1):
            last = i == depth
            up = {} if bilinear else {"up": nn.ConvTranspose2d(width, width // 2, 2, stride=2)}
            out = width // 4 if bilinear and not last else width // 2
            up["conv"] = double_conv(width, out, width // 2, norm=norm)
            self.add_module(f"up{i}", nn.ModuleDict(up))
            width //= 2
        self.outc = nn.ModuleDict({"conv": nn.Conv2d(features, classes, 1)})

    def forward(self, x):
        skips = [self.inc["double_conv"](x)]
        for i in range(1, self.depth + 1):
            pool, convolutions = self.get_submodule(f"down{i}")["maxpool_conv"]
            skips.append(convolutions["double_conv"](pool(skips[-1])))
        x = skips.pop()
        for i in range(1, self.depth + 1):
            stage, skip = self.get_submodule(f"up{i}"), skips.pop()
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True) if self.bilinear else stage["up"](x)
            rows, columns = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
            x = F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
            x = stage["conv"]["double_conv"](torch.cat([skip, x], 1))
        return self.outc["conv"](x)


def write_unets(path):
    torch.manual_seed(7)
    images = formula_images(2, 3, 33, 37)
    targets, tensors = (torch.arange(2 * 33 * 37) // 5 % 2).reshape(2, 33, 37), {}
    for name in ("transposed", "bilinear"):
        sizes = {"channels": 3, "classes": 2, "features": 4, "depth": 2, "bilinear": name == "bilinear"}
        model = UNet(**sizes).train()
        randomize(model)
        golden = {key: value.detach().clone() for key, value in model.named_parameters()}
        exact = gradients(model.double(), images, targets)
        model = UNet(**sizes).train()
        model.load_state_dict(golden, strict=False)
        rounded = gradients(model, images.float(), targets)
        own = {key: distance(rounded, {key: value})[0] for key, value in exact.items()}
        print(f"unet {name}: f32 differs from f64 by {max(own.values()):.1e}")
        golden |= exact | {f"own/{key}": torch.tensor(value) for key, value in own.items()}
        golden |= {f"after/{key}": value for key, value in model.named_buffers()}
        if name == "transposed":
            grouped = UNet(**sizes, norm=lambda channels: nn.GroupNorm(2, channels))
            grouped.load_state_dict({key: golden[key] for key in grouped.state_dict()})
            golden["group_logits"] = grouped.double()(images).detach()
        tensors |= {f"{name}/{key}": value.contiguous() for key, value in golden.items()}
    save_file(tensors, path, metadata={"made_by": f"tools/parity_vision.py with PyTorch {torch.__version__}"})


def write_feature_pyramid(path):
    torch.manual_seed(7)
    model = FeaturePyramidNetwork([2, 3, 4], 5)
    randomize(model)
    golden = {key: value.detach().clone() for key, value in model.named_parameters()}
    maps = [torch.randn(2, 2, 13, 11), torch.randn(2, 3, 7, 6), torch.randn(2, 4, 4, 3)]
    golden |= {f"in/{i}": value for i, value in enumerate(maps)}
    maps = [value.double().requires_grad_() for value in maps]
    out = list(model.double()(OrderedDict((str(i), value) for i, value in enumerate(maps))).values())
    sum(value.square().sum() for value in out).backward()
    golden |= {f"out/{i}": value.detach() for i, value in enumerate(out)}
    golden |= {f"grad/{key}": value.grad for key, value in model.named_parameters()}
    golden |= {f"grad/in/{i}": value.grad for i, value in enumerate(maps)}
    made_by = f"tools/parity_vision.py with torchvision {torchvision.__version__}, PyTorch {torch.__version__}"
    save_file({key: value.contiguous() for key, value in golden.items()}, path, metadata={"made_by": made_by})


def write_unet_names(path):
    lines = ["# Names and shapes in a UNet's state dict, by tools/parity_vision.py."]
    for name, parameters in (("transposed", 31_037_698), ("bilinear", 17_263_042)):  # as Pytorch-UNet's
        with torch.device("meta"):
            full, small = (UNet(3, 2, features, 4, name == "bilinear") for features in (64, 8))
        assert sum(p.numel() for p in full.parameters()) == parameters
        lines.append(f"model {name} {parameters}")
        lines += [" ".join([key, *map(str, value.shape)]) for key, value in small.state_dict().items()]
    path.write_text("\n".join(lines) + "\n")


def write_positions(path):
    torch.manual_seed(11)
    tensors = {}
    for name, (before, after) in RESAMPLED.items():
        source = VisionTransformer(**SIZES | {"img_size": before}, **OPTIONS[name])
        model = VisionTransformer(**SIZES | {"img_size": after}, **OPTIONS[name])
        randomize(source)
        state = source.state_dict()
        tensors[f"{name}/before"] = state["pos_embed"].clone()
        tensors[f"{name}/after"] = checkpoint_filter_fn(state, model)["pos_embed"].detach().contiguous()
    save_file(tensors, path, metadata={"made_by": f"tools/parity_vision.py with timm {timm.__version__}"})


def write_names(path):
    lines = [f"# Names and shapes in timm {timm.__version__}'s state dicts, by tools/parity_vision.py: a model, its layers,"
             " its parameters; then what it has, of its blocks the first."]
    for ours, (name, options) in NAMED.items():
        with torch.device("meta"):
            model = timm.create_model(name, **options)
        state = {key: tuple(tensor.shape) for key, tensor in model.state_dict().items()}
        layers = len(model.blocks)
        for key, shape in state.items():  # all blocks are alike
            if key.startswith("blocks."):
                place, rest = key.split(".", 2)[1:]
                assert int(place) < layers and state[f"blocks.0.{rest}"] == shape, key
        lines.append(f"model {ours} {layers} {sum(p.numel() for p in model.parameters())}")
        lines += [f"{key} {' '.join(map(str, shape))}" for key, shape in state.items()
                  if not key.startswith("blocks.") or key.startswith("blocks.0.")]
    path.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "tests/golden", metavar="FOLDER")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    write_parity(options.out / "vision_parity.safetensors")
    write_resnets(options.out / "resnet_parity.safetensors")
    write_unets(options.out / "unet_parity.safetensors")
    write_feature_pyramid(options.out / "feature_pyramid_parity.safetensors")
    write_positions(options.out / "positions.safetensors")
    write_names(options.out / "timm_names.txt")
    write_unet_names(options.out / "unet_names.txt")


if __name__ == "__main__":
    main()
