#!/usr/bin/env python3
"""Converts small models of timm, torchvision, transformers and Reprise there and back by reprise-convert, and compares what they answer.

    check_convert.py [--bin build/cpu/bin]

Run it with the Python that tools/setup_peers.sh makes, once the programs are built. Weights are random, far from their usual
start. Each line is one comparison with the largest difference of logits (of probabilities and losses where Reprise itself
answers, which it prints in 6 and 4 digits). Exit code 1 if one is above its limit.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy
import timm
import torch
import torchvision
import transformers
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, ViTConfig,
                          ViTForImageClassification)

transformers.utils.logging.disable_progress_bar()
ROOT = Path(__file__).resolve().parent.parent
SIDE, CLASSES = 32, 7
TIMM = {"img_size": SIDE, "patch_size": 8, "embed_dim": 24, "depth": 3, "num_heads": 4, "num_classes": CLASSES}
TIMM_OPTIONS = {
    "timm ViT, class token": {},
    "timm ViT, registers, mean": {"reg_tokens": 3, "global_pool": "avg", "qkv_bias": False},
    "timm ViT, DeiT III": {"no_embed_class": True, "init_values": 0.5},
}
failures = []


class Folder:
    """Names for results of conversions."""

    def __init__(self, bin_folder):
        self.path, self.bin, self.count = Path(tempfile.mkdtemp()), bin_folder, 0

    def new(self):
        self.count += 1
        return self.path / str(self.count)

    def run(self, program, *arguments):
        result = subprocess.run([self.bin / f"reprise-{program}", *map(str, arguments)], capture_output=True, text=True)
        if result.returncode:
            sys.exit(f"reprise-{program} {' '.join(map(str, arguments))}:\n{result.stderr}")
        return result.stdout

    def convert(self, source, to):
        out = self.new()
        self.run("convert", source, "--to", to, "--out", out)
        return out


def say(what, difference, limit):
    good = difference <= limit
    print(f"{'ok  ' if good else 'BAD '} {what}: {difference:.1e} (limit {limit:.0e})", flush=True)
    if not good:
        failures.append(what)


def randomize(model):
    for name, parameter in model.named_parameters():
        noise = 0.3 * torch.randn_like(parameter)
        is_scale = parameter.dim() == 1 and name.endswith(("weight", "gamma"))
        parameter.data = 1 + noise if is_scale else noise
    return model.eval()


def same_bytes(a, b):
    """Of every tensor of two safetensors files: 0 or 1."""
    with safe_open(a, "pt") as x, safe_open(b, "pt") as y:
        same = set(x.keys()) == set(y.keys()) and all(
            x.get_tensor(k).dtype == y.get_tensor(k).dtype
            and torch.equal(x.get_tensor(k).reshape(-1).view(torch.uint8), y.get_tensor(k).reshape(-1).view(torch.uint8))
            for k in x.keys())
    return 0.0 if same else 1.0


@torch.no_grad()
def timm_logits(model_or_folder, images):
    model = model_or_folder
    if isinstance(model, Path):
        model = timm.create_model(f"local-dir:{model}", pretrained=True)
    return model.eval()(images)


@torch.no_grad()
def hf_logits(model_or_folder, images):
    model = model_or_folder
    if isinstance(model, Path):
        model = ViTForImageClassification.from_pretrained(model)
    return model.eval()(images).logits


def distance(a, b):
    return (a - b).abs().max().item()


def predicted(folder, run, picture):
    """Probabilities by class number; Reprise prints the five largest."""
    answer = json.loads(folder.run("vit", "predict", picture, "--run", run, "--json", "--device", "cpu"))
    return {int(c["name"].removeprefix("LABEL_")): c["probability"] for c in answer["classes"]}


def against_prediction(what, folder, run, picture, logits):
    want = torch.softmax(logits[0], 0)
    say(what, max(abs(want[i].item() - p) for i, p in predicted(folder, run, picture).items()), 3e-6)


def picture_and_tensor(folder, mean=0.5, std=0.5, channels=3):
    pixels = numpy.random.default_rng(5).integers(0, 256, (SIDE, SIDE, channels), dtype=numpy.uint8)
    path = folder.path / f"noise{channels}.png"
    Image.fromarray(pixels if channels == 3 else pixels[:, :, 0]).save(path)
    return path, ((torch.tensor(pixels).permute(2, 0, 1)[None] / 255.0) - mean) / std


def check_timm(folder, images, picture):
    for what, options in TIMM_OPTIONS.items():
        model = randomize(timm.create_model("vit_tiny_patch16_224", **TIMM, **options))
        source = folder.new()
        source.mkdir()
        save_file(model.state_dict(), source / "model.safetensors", metadata={"format": "pt"})
        config = {"architecture": "vit_tiny_patch16_224", "model_args": TIMM | options,
                  "pretrained_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3, "crop_pct": 1.0, "num_classes": CLASSES}}
        (source / "config.json").write_text(json.dumps(config))
        ours = folder.convert(source / "model.safetensors", "reprise")
        back = folder.convert(ours, "timm")
        want = timm_logits(model, images)
        say(f"{what} -> reprise -> timm, bytes", same_bytes(source / "model.safetensors", back / "model.safetensors"), 0)
        say(f"{what} -> reprise -> timm, logits", distance(timm_logits(back, images), want), 0)
        against_prediction(f"{what} -> reprise, probabilities", folder, ours, picture, want)
        if not options:
            say(f"{what} -> hf, logits", distance(hf_logits(folder.convert(ours, "hf"), images), want), 1e-5)


def check_hf_vit(folder, images, picture):
    config = ViTConfig(hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96, image_size=SIDE,
                       patch_size=8, num_labels=CLASSES)
    for dtype in (torch.float32, torch.bfloat16):
        model = randomize(ViTForImageClassification(config))
        source = folder.new()
        model.to(dtype).save_pretrained(source)
        what = f"hf ViT, {str(dtype).removeprefix('torch.')}"
        ours = folder.convert(source, "reprise")
        back = folder.convert(ours, "hf")
        say(f"{what} -> reprise -> hf, bytes", same_bytes(source / "model.safetensors", back / "model.safetensors"), 0)
        want, x = hf_logits(model, images.to(dtype)), images.to(dtype)
        say(f"{what} -> reprise -> hf, logits", distance(hf_logits(back, x), want), 1e-6)  # PyTorch's own rounding
        if dtype == torch.bfloat16:
            continue
        against_prediction(f"{what} -> reprise, probabilities", folder, ours, picture, want)
        say(f"{what} -> timm (eps 1e-6 for 1e-12), logits", distance(timm_logits(folder.convert(source, "timm"), x), want), 1e-4)
        modules = folder.new()  # named as transformers 5 names modules
        modules.mkdir()
        save_file(dict(model.state_dict()), modules / "model.safetensors", metadata={"format": "pt"})
        shutil.copy(source / "config.json", modules)
        again = folder.convert(modules / "model.safetensors", "hf")
        say(f"{what}, names of modules -> hf, bytes", same_bytes(source / "model.safetensors", again / "model.safetensors"), 0)


def read_llm_c(path):
    """Of an llm.c checkpoint, by its own order: names of transformers to tensors, matrices (out, in)."""
    header = numpy.fromfile(path, numpy.int32, 256)
    magic, version, context, vocabulary, layers, _, width, padded = map(int, header[:8])
    assert magic == 20240326 and version in (3, 5), header[:8]
    values = torch.from_numpy(numpy.fromfile(path, numpy.int16 if version == 5 else numpy.int32, offset=1024))
    values, at, tensors = values.view(torch.bfloat16 if version == 5 else torch.float32), 0, {}

    def take(name, *shape):
        nonlocal at
        count = int(numpy.prod(shape))
        tensors[name] = values[at:at + count].reshape(shape)
        at += count

    take("wte.weight", padded, width)
    take("wpe.weight", context, width)
    for part, rows, columns in (("ln_1", 1, 0), ("attn.c_attn", 3, 1), ("attn.c_proj", 1, 1), ("ln_2", 1, 0),
                                ("mlp.c_fc", 4, 1), ("mlp.c_proj", 1, 4)):
        for leaf in ("weight", "bias"):
            shape = (rows * width, columns * width) if columns and leaf == "weight" else (rows * width,)
            for layer in range(layers):
                take(f"h.{layer}.{part}.{leaf}", *shape)
    take("ln_f.weight", width)
    take("ln_f.bias", width)
    assert at == len(values) and padded % 128 == 0 and not tensors["wte.weight"][vocabulary:].any()
    tensors["wte.weight"] = tensors["wte.weight"][:vocabulary]
    return tensors


def same_as_llm_c(tensors, model):
    state = {name.removeprefix("transformer."): t for name, t in model.state_dict().items() if name != "lm_head.weight"}
    same = state.keys() == tensors.keys() and all(
        torch.equal(tensors[name], t.T if t.dim() == 2 and name.startswith("h.") else t) for name, t in state.items())
    return 0.0 if same else 1.0


def against_loss(what, folder, run, model):
    """Two windows of 16 tokens."""
    tokens = torch.randint(131, (33,))
    path = folder.path / "tokens.bin"
    path.write_bytes(tokens.numpy().astype(numpy.uint16).tobytes())
    printed = folder.run("gpt", "eval", "--run", run, "--data", path, "--val-data", path, "--context", 16,
                         "--device", "cpu")
    logits = model(torch.stack([tokens[:16], tokens[16:32]])).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[1:])
    say(what, abs(loss.item() - float(printed.split()[2])), 6e-5)


@torch.no_grad()
def check_gpt(folder):
    config = GPT2Config(n_embd=24, n_layer=3, n_head=4, vocab_size=131, n_positions=16, bos_token_id=0, eos_token_id=0)
    tokens = torch.randint(131, (2, 16))
    for dtype in (torch.float32, torch.bfloat16):
        model = randomize(GPT2LMHeadModel(config)).to(dtype)
        source = folder.new()
        model.save_pretrained(source, max_shard_size="40kB")
        what, want = f"hf GPT-2, {str(dtype).removeprefix('torch.')}, shards", model(tokens).logits
        whole = folder.new()
        model.save_pretrained(whole)
        ours = folder.convert(source, "reprise")
        llm_c = folder.convert(ours, "llm.c")
        for way, back in (("reprise", folder.convert(ours, "hf")), ("llm.c", folder.convert(llm_c / "model.bin", "hf"))):
            say(f"{what} -> {way} -> hf, bytes", same_bytes(whole / "model.safetensors", back / "model.safetensors"), 0)
            answer = GPT2LMHeadModel.from_pretrained(back).eval()(tokens).logits
            say(f"{what} -> {way} -> hf, logits", distance(answer.float(), want.float()), 0)
        say(f"{what} -> llm.c, read by its order, bytes", same_as_llm_c(read_llm_c(llm_c / "model.bin"), model), 0)
        if dtype == torch.float32:
            against_loss(f"{what} -> reprise, loss", folder, ours, model)
        again = folder.convert(folder.convert(llm_c / "model.bin", "reprise"), "llm.c")
        same = (llm_c / "model.bin").read_bytes() == (again / "model.bin").read_bytes()
        say(f"{what}: llm.c -> reprise -> llm.c, bytes", 0.0 if same else 1.0, 0)


LLAMA = {"vocab_size": 131, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 4.0, "beta_slow": 0.5, "original_max_position_embeddings": 16,
        "mscale": 1.0, "mscale_all_dim": 0.7}
LLAMAS = {
    "hf Llama, scaled turns, shards": lambda: LlamaForCausalLM(LlamaConfig(**LLAMA, rope_scaling=dict(LLAMA3))),
    "hf Llama, tied": lambda: LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=True, rms_norm_eps=1e-3)),
    "hf Qwen 2, tied": lambda: Qwen2ForCausalLM(Qwen2Config(**LLAMA, tie_word_embeddings=True, rope_theta=1e6)),
    "hf Mistral, its window": lambda: MistralForCausalLM(MistralConfig(**LLAMA, sliding_window=5)),
    "hf Mistral, wide heads, yarn": lambda: MistralForCausalLM(MistralConfig(**LLAMA, head_dim=10, sliding_window=None,
                                                                             rope_scaling=dict(YARN))),
    "hf Qwen 2, its window": lambda: Qwen2ForCausalLM(Qwen2Config(**LLAMA, use_sliding_window=True, sliding_window=5,
                                                                  max_window_layers=0)),
    "hf Qwen 3, tied": lambda: Qwen3ForCausalLM(Qwen3Config(**LLAMA, head_dim=10, tie_word_embeddings=True)),
    "hf Qwen 3, its window": lambda: Qwen3ForCausalLM(Qwen3Config(**LLAMA, head_dim=6, use_sliding_window=True, sliding_window=5,
                                                                  max_window_layers=0)),
}


@torch.no_grad()
def check_llamas(folder):
    tokens = torch.randint(131, (2, 16))
    for what, make in LLAMAS.items():
        model = randomize(make())
        source = folder.new()
        model.save_pretrained(source, max_shard_size="20kB")
        ours = folder.convert(source, "reprise")
        back = folder.convert(ours, "hf")
        answer = AutoModelForCausalLM.from_pretrained(back).eval()(tokens).logits
        say(f"{what} -> reprise -> hf, logits", distance(answer, model(tokens).logits), 0)
        against_loss(f"{what}, loss", folder, source, model)
        against_loss(f"{what} -> reprise, loss", folder, ours, model)


def write_idx(folder):
    """Random gray images of 8 x 8 pixels."""
    rng = numpy.random.default_rng(3)
    for part, count in (("train", 40), ("t10k", 10)):
        for kind, magic, array in (("images-idx3", 0x803, rng.integers(0, 256, (count, 8, 8))),
                                   ("labels-idx1", 0x801, rng.integers(0, 3, count))):
            header = numpy.array([magic, *array.shape], ">i4").tobytes()
            (folder.path / f"{part}-{kind}-ubyte").write_bytes(header + array.astype(numpy.uint8).tobytes())
    return f"idx:{folder.path}/"


def check_trained(folder):
    out = folder.path / "run"
    folder.run("vit", "train", "--data", write_idx(folder), "--out", out, "--steps", 20, "--image", 8, "--patch", 2,
               "--width", 16, "--layers", 2, "--heads", 2, "--batch", 8, "--stem", "patch", "--pool", "token", "--lr",
               "0.01", "--threads", 1)
    pixels = numpy.random.default_rng(5).integers(0, 256, (8, 8), dtype=numpy.uint8)
    picture = folder.path / "gray.png"
    Image.fromarray(pixels).save(picture)
    to_timm, to_hf = folder.convert(out, "timm"), folder.convert(out, "hf")
    cfg = json.loads((to_timm / "config.json").read_text())["pretrained_cfg"]
    x = (torch.tensor(pixels)[None, None] / 255.0 - cfg["mean"][0]) / cfg["std"][0]
    against_prediction("a run of reprise -> timm, probabilities", folder, out, picture, timm_logits(to_timm, x))
    against_prediction("a run of reprise -> hf, probabilities", folder, out, picture, hf_logits(to_hf, x))
    source = to_timm / "model.safetensors"
    newest = out / "checkpoints" / (out / "checkpoints" / "LATEST").read_text().strip()
    say("a run of reprise -> timm, bytes", same_bytes(newest / "model.safetensors", source), 0)


def check_trained_resnet(folder):
    out = folder.path / "resnet"
    folder.run("vit", "train", "--data", f"idx:{folder.path}/", "--out", out, "--steps", 5, "--model", "resnet18", "--recipe",
               "resnet", "--image", SIDE, "--channels", 3, "--crop", 1, "--batch", 8, "--threads", 1)
    to_timm = folder.convert(out, "timm")
    config = json.loads((to_timm / "config.json").read_text())
    cfg = config["pretrained_cfg"]
    picture, x = picture_and_tensor(folder, *(torch.tensor(cfg[key])[:, None, None] for key in ("mean", "std")))
    model = torchvision.models.resnet18(num_classes=cfg["num_classes"])
    model.load_state_dict(load_file(to_timm / "model.safetensors"))
    with torch.no_grad():
        against_prediction("a ResNet-18 of reprise -> torchvision, probabilities", folder, out, picture, model.eval()(x))
    against_prediction("a ResNet-18 of reprise -> timm, probabilities", folder, out, picture, timm_logits(to_timm, x))
    ours = folder.convert(to_timm, "reprise")
    say("a ResNet-18 of reprise -> timm -> reprise, bytes",
        same_bytes(to_timm / "model.safetensors", ours / "model.safetensors"), 0)


@torch.no_grad()
def check_jepa(folder):
    """Both encoders of a run: timm loads them strictly, into a model made by hand and by config.json. What Reprise answers with
    the target encoder, in a classifier that starts from it and stands still, timm answers too."""
    out = folder.path / "jepa"
    folder.run("jepa", "train", "--data", write_idx(folder), "--out", out, "--steps", 20, "--image", 8, "--patch", 2, "--width",
               16, "--layers", 2, "--heads", 2, "--batch", 8, "--predictor-width", 8, "--predictor-layers", 1,
               "--predictor-heads", 2, "--lr", "0.01", "--ema", "0.9", "--threads", 1)
    x = torch.randn(3, 1, 8, 8)
    for part in ("target_encoder", "encoder"):
        to_timm, ours = folder.new(), folder.new()
        folder.run("convert", out, "--to", "timm", "--part", part, "--out", to_timm)
        model = timm.create_model("vit_tiny_patch16_224", img_size=8, patch_size=2, in_chans=1, embed_dim=16, depth=2, num_heads=2,
                                  num_classes=0, class_token=False, global_pool="avg", fc_norm=False).eval()
        state = {}
        with safe_open(to_timm / "model.safetensors", "pt") as file:
            state = {name: file.get_tensor(name) for name in file.keys()}
        model.load_state_dict(state)
        say(f"a run of reprise-jepa -> timm, {part}, by config.json and by hand, features", distance(timm_logits(to_timm, x), model(x)), 0)
        folder.run("convert", out, "--to", "reprise", "--part", part, "--out", ours)
        say(f"a run of reprise-jepa -> reprise, {part}, bytes", same_bytes(ours / "model.safetensors", to_timm / "model.safetensors"), 0)
    run = folder.path / "from_jepa"
    folder.run("vit", "train", "--data", f"idx:{folder.path}/", "--out", run, "--init-from", out, "--steps", 1, "--image", 8,
               "--patch", 2, "--width", 16, "--layers", 2, "--heads", 2, "--batch", 8, "--stem", "patch", "--pool", "avg", "--lr",
               0, "--min-lr", 0, "--threads", 1)
    pixels = numpy.random.default_rng(5).integers(0, 256, (8, 8), dtype=numpy.uint8)
    to_timm = folder.convert(run, "timm")
    cfg = json.loads((to_timm / "config.json").read_text())["pretrained_cfg"]
    x = (torch.tensor(pixels)[None, None] / 255.0 - cfg["mean"][0]) / cfg["std"][0]
    against_prediction("a ViT from a target encoder -> timm, probabilities", folder, run, folder.path / "gray.png",
                       timm_logits(to_timm, x))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/cpu/bin", metavar="FOLDER")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    folder = Folder(parser.parse_args().bin)
    print(f"timm {timm.__version__}, transformers {transformers.__version__}, PyTorch {torch.__version__}")
    picture, images = picture_and_tensor(folder)
    check_timm(folder, images, picture)
    check_hf_vit(folder, images, picture)
    check_gpt(folder)
    check_llamas(folder)
    check_trained(folder)
    check_trained_resnet(folder)
    check_jepa(folder)
    shutil.rmtree(folder.path)
    sys.exit(f"{len(failures)} comparisons failed" if failures else 0)


if __name__ == "__main__":
    main()
