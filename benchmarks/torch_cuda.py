#!/usr/bin/env python3
"""The kernels of benchmarks/cuda_bench.cpp in PyTorch, on the same GPU: the same names, sizes and JSON lines.

    torch_cuda.py [--tiny] [WORDS...]     --tiny takes small sizes on the CPU, for a rehearsal without a GPU
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

BF16 = torch.bfloat16


def seconds_of(call, device, rounds):
    """Median seconds of a call, by events on a GPU."""
    taken = []
    for i in range(rounds + 3):
        if device == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            end.synchronize()
            seconds = begin.elapsed_time(end) / 1e3
        else:
            started = time.perf_counter()
            call()
            seconds = time.perf_counter() - started
        if i >= 3:
            taken.append(seconds)
    return statistics.median(taken)


def bytes_of(*tensors):
    return sum(x.numel() * x.element_size() for x in tensors)


class Cases:
    def __init__(self, tiny, device):
        self.device = device
        self.rows, self.width, self.vocab = (8, 64, 96) if tiny else (65536, 768, 50304)
        self.classes_rows, self.parameters = (4, 1000) if tiny else (8192, 124_000_000)
        self.batch, self.heads, self.length = (1, 2, 32) if tiny else (16, 12, 1024)
        self.square, self.tiny = (64 if tiny else 8192), tiny

    def random(self, *shape, dtype=BF16):
        return torch.randn(*shape, device=self.device, dtype=dtype)

    def rows_cases(self):
        x, dy = self.random(self.rows, self.width), self.random(self.rows, self.width)
        gamma, beta = self.random(self.width), self.random(self.width)
        y = torch.empty_like(x)
        yield "copy", bytes_of(x, y), 0, lambda: y.copy_(x)
        shape = (self.width,)
        yield "layer_norm forward", bytes_of(x, x), 0, lambda: F.layer_norm(x, shape, gamma, beta)
        out, mean, rstd = torch.ops.aten.native_layer_norm(x, shape, gamma, beta, 1e-5)
        yield "layer_norm backward", bytes_of(x, x, x), 0, lambda: torch.ops.aten.native_layer_norm_backward(
            dy, x, shape, mean, rstd, gamma, beta, [True, True, True])
        if hasattr(F, "rms_norm"):
            yield "rms_norm forward", bytes_of(x, x), 0, lambda: F.rms_norm(x, shape, gamma)
        yield "softmax forward", bytes_of(x, x), 0, lambda: F.softmax(x, dim=-1)
        yield "gelu_tanh forward", bytes_of(x, x), 0, lambda: F.gelu(x, approximate="tanh")
        yield "dropout forward", bytes_of(x, x), 0, lambda: F.dropout(x, 0.1)

    def model_ends(self):
        table, y = self.random(self.vocab, self.width), self.random(self.rows, self.width)
        tokens = torch.randint(self.vocab, (self.rows,), device=self.device)
        yield "embedding forward", bytes_of(y, y), 0, lambda: F.embedding(tokens, table)
        yield "embedding backward", bytes_of(y, table, table), 0, lambda: torch.ops.aten.embedding_dense_backward(
            y, tokens, self.vocab, -1, False)
        logits = self.random(self.classes_rows, self.vocab).requires_grad_()
        targets = torch.randint(self.vocab, (self.classes_rows,), device=self.device)

        def cross_entropy():
            logits.grad = None
            F.cross_entropy(logits, targets).backward()

        yield "cross_entropy in place", bytes_of(logits, logits), 0, cross_entropy
        p = self.random(self.parameters, dtype=torch.float32).requires_grad_()
        p.grad = self.random(self.parameters, dtype=torch.float32)
        optimizer = torch.optim.AdamW([p], lr=1e-4, weight_decay=0.1, fused=True)
        yield "adamw", 7 * bytes_of(p), 0, optimizer.step
        yield "global_norm", bytes_of(p), 0, lambda: torch.linalg.vector_norm(p.grad)

    def attention(self, head_dim, batch, length, causal):
        q, k, v, dout = (self.random(batch, self.heads, length, head_dim) for _ in range(4))
        for x in (q, k, v):
            x.requires_grad_()
        pairs = batch * self.heads * length * length / (2 if causal else 1) * head_dim
        name = f"attention D{head_dim} T{length} {'causal' if causal else 'full'} "
        run = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        yield name + "forward", bytes_of(q, k, v, q), 4 * pairs, lambda: run().detach()
        out = run()
        yield name + "backward", 2 * bytes_of(q, k, v, q), 10 * pairs, lambda: torch.autograd.grad(
            out, (q, k, v), dout, retain_graph=True)

    def gemm(self, name, m, n, k, gelu):
        a, b, bias = self.random(m, k), self.random(n, k), self.random(n)
        call = (lambda: F.gelu(F.linear(a, b, bias), approximate="tanh")) if gelu else (lambda: a @ b.T)
        yield name, bytes_of(a, b) + 2 * m * n, 2 * m * n * k, call

    def all(self):
        yield from self.rows_cases()
        yield from self.model_ends()
        yield from self.attention(64, self.batch, self.length, True)
        yield from self.attention(64, self.batch, self.length, False)
        if not self.tiny:
            yield from self.attention(128, 2, 8192, True)
        yield from self.gemm("gemm square", self.square, self.square, self.square, False)
        yield from self.gemm("gemm 4C bias gelu", self.rows, 4 * self.width, self.width, True)
        yield from self.gemm("gemm C from 4C", self.rows, self.width, 4 * self.width, False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.tiny:
        sys.exit("torch_cuda: PyTorch sees no GPU")
    for name, size, operations, call in Cases(options.tiny, device).all():
        if options.words and not any(word in name for word in options.words):
            continue
        seconds = seconds_of(call, device, 1 if options.tiny else 25)
        print(json.dumps({"name": name, "microseconds": round(seconds * 1e6, 2),
                          "gigabytes_per_second": round(size / seconds / 1e9, 1),
                          "teraflops": round(operations / seconds / 1e12, 2)}), flush=True)


if __name__ == "__main__":
    main()
