#!/usr/bin/env python3
"""One GPT training step in PyTorch, as the peer of benchmarks/gpt_bench.cpp: the same model, the same protocol.

    torch_gpt.py --model gpt_small

prints a line {"ready": ...} once it is warm; for every line "run" on standard input it trains a fixed number of steps on
random tokens and prints {"seconds_per_step", "tokens_per_second", "peak_rss_bytes"}; it ends with its input.
Works with PyTorch 1.13 and newer: what is faster on the version at hand is used (fused attention, fused AdamW).
"""
import argparse
import json
import math
import sys
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


@dataclass
class GptShape:
    vocab: int
    context: int
    layers: int
    heads: int
    width: int
    batch: int = 1
    tokens: int = 0  # tokens in a training sequence; 0 means context
    steps: int = 1  # timed steps a "run"
    gelu: str = "tanh"  # or "none", the exact one


MODELS = {
    "gpt_small": GptShape(vocab=65, context=64, layers=4, heads=4, width=128, batch=12, steps=20),
    "gpt_6x384": GptShape(vocab=65, context=256, layers=6, heads=6, width=384, batch=16, steps=1),
    "gpt2_124m": GptShape(vocab=50257, context=1024, layers=12, heads=12, width=768, batch=4, tokens=64, steps=2),
    "gpt2_124m_256": GptShape(vocab=50257, context=1024, layers=12, heads=12, width=768, batch=4, tokens=256),
    "gpt2_124m_gpu": GptShape(vocab=50304, context=1024, layers=12, heads=12, width=768, batch=64, steps=4),
}

HAS_FUSED_ATTENTION = hasattr(F, "scaled_dot_product_attention")


def gelu(x, kind):
    if HAS_FUSED_ATTENTION or kind == "none":
        return F.gelu(x, approximate=kind)
    return torch._C._nn.gelu(x, approximate=kind)  # 1.13 has the argument here, not in every build of F


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.c_attn = nn.Linear(shape.width, 3 * shape.width)
        self.c_proj = nn.Linear(shape.width, shape.width)
        if not HAS_FUSED_ATTENTION:
            mask = torch.full((shape.context, shape.context), float("-inf")).triu(1)
            self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):  # (B, T, C)
        batch, tokens, width = x.shape
        q, k, v = (
            t.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for t in self.c_attn(x).split(width, dim=2)
        )  # (B, H, T, D)
        if HAS_FUSED_ATTENTION:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = self.composed(q, k, v)
        return self.c_proj(y.transpose(1, 2).reshape(batch, tokens, width))

    def composed(self, q, k, v):
        batch, heads, tokens, head_dim = q.shape
        rows = batch * heads
        q, k, v = (t.reshape(rows, tokens, head_dim) for t in (q, k, v))
        mask = self.mask[:tokens, :tokens].expand(rows, tokens, tokens)
        # baddbmm scales, masks and multiplies in one call: faster here than matmul and masked_fill.
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=1 / math.sqrt(head_dim))
        return torch.bmm(F.softmax(scores, dim=-1), v).view(batch, heads, tokens, head_dim)


class Mlp(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gelu = shape.gelu
        self.c_fc = nn.Linear(shape.width, 4 * shape.width)
        self.c_proj = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x):
        return self.c_proj(gelu(self.c_fc(x), self.gelu))


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.ln_1 = nn.LayerNorm(shape.width)
        self.attn = Attention(shape)
        self.ln_2 = nn.LayerNorm(shape.width)
        self.mlp = Mlp(shape)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """GPT-2's shape: learned positions, pre-norm blocks, output head tied to the token embedding."""

    def __init__(self, shape):
        super().__init__()
        self.recompute = False  # of the blocks
        self.wte = nn.Embedding(shape.vocab, shape.width)
        self.wpe = nn.Embedding(shape.context, shape.width)
        self.h = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.ln_f = nn.LayerNorm(shape.width)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                deep = 1 / math.sqrt(2 * shape.layers) if name.endswith("c_proj.weight") else 1
                nn.init.normal_(parameter, std=0.02 * deep)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.h:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)  # (B, T, V)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def adamw(parameters, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=HAS_FUSED_ATTENTION):
    """AdamW that decays only parameters of rank 2 and up."""
    matrices = [p for p in parameters if p.dim() >= 2]
    vectors = [p for p in parameters if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=eps, **({"fused": True} if fused else {}))


class MasterWeights:
    """AdamW on copies of the parameters in f32, which the parameters are rounded from: what gpt_bench --bf16 does."""

    def __init__(self, model, fused):
        self.parameters = list(model.parameters())
        self.masters = [p.detach().float() for p in self.parameters]
        self.optimizer = adamw(self.masters, fused=fused)

    def step(self):
        for master, parameter in zip(self.masters, self.parameters):
            master.grad = parameter.grad.float()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.masters)

    def zero_grad(self, set_to_none):
        for parameter in self.parameters:
            parameter.grad = None


def memory_bytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field + ":"))


def profile(step):
    """Where one step's time goes, by operator."""
    with torch.autograd.profiler.profile() as recorded:
        step()
    print(recorded.key_averages().table(sort_by="self_cpu_time_total", row_limit=20), file=sys.stderr)


def step_bytes(forward, backward, device):
    """Bytes of tensors in a step above what is there between steps: at most, and between forward and backward.

    On the CPU from the profiler's memory events, which see every tensor (but not what libraries allocate inside)."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        loss = forward()
        held = torch.cuda.memory_allocated()
        backward(loss)
        return torch.cuda.max_memory_allocated() - before, held - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as recorded:
        loss = forward()
        with torch.profiler.record_function("between"):
            pass
        backward(loss)
    total = peak = held = 0
    events = recorded.profiler.kineto_results.events()
    for event in sorted(events, key=lambda e: e.start_ns() if hasattr(e, "start_ns") else e.start_us()):
        if event.name() == "between":
            held = total
        elif event.name() == "[memory]":
            total += event.nbytes()
            peak = max(peak, total)
    return peak, held


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--high", action="store_true", help="torch.set_float32_matmul_precision(\"high\")")
    parser.add_argument("--bf16", action="store_true", help="weights and activations in bf16, master weights in f32")
    parser.add_argument("--autocast", action="store_true", help="autocast to bf16 instead")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--recompute", default="none", choices=["none", "full"], help="torch.utils.checkpoint of each block")
    parser.add_argument("--no-fused-adamw", action="store_true")
    parser.add_argument("--measure-memory", action="store_true", help="count the bytes of tensors in a step")
    parser.add_argument("--profile", action="store_true", help="print operators of one step and leave")
    options = parser.parse_args()
    import_bytes = memory_bytes("VmRSS")

    torch.set_num_threads(options.threads)
    torch.manual_seed(1337)
    if options.high:
        torch.set_float32_matmul_precision("high")
    shape = MODELS[options.model]
    model = Gpt(shape).to(options.device)
    model.recompute = options.recompute == "full"
    if options.bf16:
        model.bfloat16()
    forward = torch.compile(model) if options.compile else model
    fused = HAS_FUSED_ATTENTION and not options.no_fused_adamw
    optimizer = MasterWeights(model, fused) if options.bf16 else adamw(list(model.parameters()), fused=fused)
    per_sequence = shape.tokens or shape.context

    tokens, targets = torch.randint(shape.vocab, (2, shape.batch, per_sequence), device=options.device)

    def loss_of():
        with torch.autocast(options.device, dtype=torch.bfloat16, enabled=options.autocast):
            return forward(tokens, targets)

    def step():
        loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    for _ in range(2 if shape.steps < 10 else 10):
        step()
    if options.profile:
        profile(step)
        return
    peak, held = step_bytes(loss_of, torch.Tensor.backward, options.device) if options.measure_memory else (0, 0)
    optimizer.zero_grad(set_to_none=True)
    print(json.dumps({"ready": f"PyTorch {torch.__version__}", "import_rss_bytes": import_bytes}), flush=True)
    for line in sys.stdin:
        if line.strip() != "run":
            sys.exit(f"torch_gpt: expected 'run', got {line!r}")
        started = time.perf_counter()
        for _ in range(shape.steps):
            step()
        seconds = (time.perf_counter() - started) / shape.steps
        record = {
            "seconds_per_step": seconds,
            "tokens_per_second": shape.batch * per_sequence / seconds,
            "peak_rss_bytes": memory_bytes("VmHWM"),
            "peak_device_bytes": torch.cuda.max_memory_reserved() if options.device == "cuda" else 0,
            "step_peak_bytes": peak,
            "held_bytes": held,
        }
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
