#!/usr/bin/env python3
"""PyTorch's side of the tests of autocast: makes tests/golden/autocast_lists.txt and autocast_gpt.txt.

    parity_autocast.py [--out tests/golden]

autocast_lists.txt: a row for each operation of autograd/ops.h that PyTorch has too: our name, PyTorch's, and its policies on
CUDA and on CPUs. That on CUDA is the list that names it in ATen/autocast_mode.h of the wheel: low (lower_precision_fp), f32
(fp32, or fp32_set_opt_dtype), widest (promote), or inputs for one in no list. That on CPUs is found by running it under
torch.autocast("cpu", bf16), see policy_on_cpu.
autocast_gpt.txt: how far the gradients of the GPT of gpt_parity.safetensors are from its f32 ones under
torch.autocast("cpu", bf16), with the losses in f32 as on CUDA: the relative L2 distance of each over 16 batches, of which
number i has i more in each token and target, modulo the vocabulary; and that of all ("all").
Run it with the Python that tools/setup_peers.sh makes.
"""
import argparse
import re
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT / "tools"))
import torch_gpt  # noqa: E402
from parity_torch import SHAPE  # noqa: E402

LISTS = {"LOWER_PRECISION_FP": "low", "FP32": "f32", "FP32_SET_OPT_DTYPE": "f32", "PROMOTE": "widest"}
PYTORCHS_NAME = {
    "attention": "scaled_dot_product_attention", "bce_with_logits": "binary_cross_entropy_with_logits",
    "concat": "cat", "cross_entropy": "nll_loss", "interpolate": "upsample_bilinear2d", "smooth_l1": "smooth_l1_loss",
    "square": "pow", "number / x": "reciprocal", "variance": "var", "equal": "eq", "not_equal": "ne", "less": "lt",
    "less_equal": "le", "greater": "gt", "greater_equal": "ge", "max": "amax", "min": "amin",
    "pad by reflection": "reflection_pad2d", "stddev": "std", "vector_norm": "linalg_vector_norm",
}
OURS = """add sub mul div maximum minimum where equal not_equal less less_equal greater greater_equal concat stack scatter_add
exp log sqrt rsqrt square reciprocal abs sin cos tanh sigmoid erf relu gelu silu neg clamp pow sum mean variance max min argmax
reshape transpose permute slice select expand unsqueeze squeeze clone gather matmul linear layer_norm rms_norm batch_norm
group_norm softmax log_softmax embedding conv2d conv_transpose2d max_pool2d avg_pool2d interpolate pad dropout attention
cross_entropy bce_with_logits smooth_l1 einsum expm1 log1p softplus nll_loss kl_div l1_loss huber_loss mse_loss logsumexp prod
cumsum index_put stddev vector_norm cosine_similarity remainder fmod floor ceil round trunc sign leaky_relu elu masked_fill tril
triu outer index_add scatter index_copy index_select take_along_dim sort topk flip roll repeat repeat_interleave diagonal flatten
movedim masked_select norm slice_scatter argmin logical_and isnan""".split() + ["number / x", "pad by reflection"]


def lists_of_the_header():
    header = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
    found = {}
    for name, body in re.findall(r"#define AT_FORALL_(\w+)\(_\)((?:.*\\\n)+.*)", header.read_text()):
        for op in re.findall(r"_\((\w+)[,)]", body):
            if name in LISTS:
                found.setdefault(op, LISTS[name])
    if "fp32_append_dtype" in header.read_text():  # a list of its own, of norms in two signatures
        found.setdefault("norm", "f32")
    return found


def calls():
    """{our name: a call of PyTorch's operation} on a and b, (4, 4) of some dtype each; those of one argument take a alone."""
    zeros = torch.zeros(4, 4, dtype=torch.long)
    image, head = (lambda x: x.reshape(1, 4, 2, 2)), (lambda x: x.reshape(1, 1, 4, 4))
    two = {
        "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
        "minimum": torch.minimum, "where": lambda a, b: torch.where(zeros == 0, a, b), "equal": torch.eq, "not_equal": torch.ne,
        "less": torch.lt, "less_equal": torch.le, "greater": torch.gt, "greater_equal": torch.ge,
        "concat": lambda a, b: torch.cat([a, b]), "stack": lambda a, b: torch.stack([a, b]), "matmul": torch.matmul,
        "scatter_add": lambda a, b: a.scatter_add(0, zeros, b), "linear": lambda a, b: F.linear(a, b, b[0]),
        "layer_norm": lambda a, b: F.layer_norm(a, (4,), b[0], b[1]), "rms_norm": lambda a, b: F.rms_norm(a, (4,), b[0]),
        "group_norm": lambda a, b: F.group_norm(image(a), 2, b[0], b[1]),
        "conv2d": lambda a, b: F.conv2d(image(a), b.reshape(4, 4, 1, 1), b[0]),
        "conv_transpose2d": lambda a, b: F.conv_transpose2d(image(a), b.reshape(4, 4, 1, 1), b[0]),
        "attention": lambda a, b: F.scaled_dot_product_attention(head(a), head(b), head(b)),
        "bce_with_logits": F.binary_cross_entropy_with_logits, "smooth_l1": F.smooth_l1_loss,
        "einsum": lambda a, b: torch.einsum("ij,jk->ik", a, b), "kl_div": lambda a, b: F.kl_div(a, b, reduction="batchmean"),
        "l1_loss": F.l1_loss, "huber_loss": F.huber_loss, "mse_loss": F.mse_loss,
        "remainder": torch.remainder, "fmod": torch.fmod, "outer": lambda a, b: torch.outer(a[0], b[0]),
        "index_add": lambda a, b: a.index_add(0, zeros[0], b), "scatter": lambda a, b: a.scatter(0, zeros, b),
        "index_copy": lambda a, b: a.index_copy(0, torch.arange(4), b), "logical_and": torch.logical_and,
        "slice_scatter": lambda a, b: a.slice_scatter(b[:2], 0, 0, 2),
        "index_put": lambda a, b: a.index_put((zeros[0],), b), "cosine_similarity": lambda a, b: F.cosine_similarity(a, b, 1),
    }
    one = {
        "square": torch.square, "neg": torch.neg, "clamp": lambda a: a.clamp(0, 1), "pow": lambda a: a.pow(3),
        "mean": torch.mean, "variance": torch.var, "max": torch.amax, "min": torch.amin, "argmax": torch.argmax,
        "sum": torch.sum, "number / x": lambda a: 1.0 / a, "reshape": lambda a: a.reshape(16),
        "transpose": lambda a: a.transpose(0, 1), "permute": lambda a: a.permute(1, 0), "slice": lambda a: a[:1],
        "select": lambda a: a.select(0, 0), "expand": lambda a: a.expand(2, 4, 4), "unsqueeze": lambda a: a.unsqueeze(0),
        "squeeze": lambda a: a[:1].squeeze(0), "gather": lambda a: a.gather(0, zeros), "softmax": lambda a: a.softmax(-1),
        "log_softmax": lambda a: a.log_softmax(-1), "embedding": lambda a: F.embedding(zeros, a),
        "batch_norm": lambda a: F.batch_norm(image(a), None, None, training=True), "gelu": F.gelu, "silu": F.silu,
        "max_pool2d": lambda a: F.max_pool2d(image(a), 2), "avg_pool2d": lambda a: F.avg_pool2d(image(a), 2),
        "interpolate": lambda a: F.interpolate(image(a), 4, mode="bilinear"), "pad": lambda a: F.pad(image(a), (0, 0, 1, 0)),
        "pad by reflection": lambda a: F.pad(image(a), (1, 1, 1, 1), mode="reflect"), "dropout": lambda a: F.dropout(a, 0.5),
        "cross_entropy": lambda a: F.cross_entropy(a, zeros[0]), "nll_loss": lambda a: F.nll_loss(a, zeros[0]),
        "softplus": F.softplus, "logsumexp": lambda a: a.logsumexp(-1), "prod": torch.prod, "cumsum": lambda a: a.cumsum(0),
        "stddev": torch.std, "vector_norm": torch.linalg.vector_norm, "norm": torch.norm, "leaky_relu": F.leaky_relu, "elu": F.elu,
        "masked_fill": lambda a: a.masked_fill(zeros == 0, 2), "index_select": lambda a: a.index_select(0, zeros[0]),
        "take_along_dim": lambda a: a.take_along_dim(zeros, 0), "sort": lambda a: a.sort().values, "flip": lambda a: a.flip(0),
        "topk": lambda a: a.topk(2).values, "roll": lambda a: a.roll(1, 0), "repeat": lambda a: a.repeat(2, 1),
        "repeat_interleave": lambda a: a.repeat_interleave(2, 0), "movedim": lambda a: a.movedim(0, 1),
        "masked_select": lambda a: a.masked_select(zeros == 0),
    }
    named = """exp expm1 log log1p sqrt rsqrt reciprocal abs sin cos tanh sigmoid erf relu clone floor ceil round trunc sign tril
        triu diagonal flatten argmin isnan"""
    one.update({name: getattr(torch, name) for name in named.split()})
    return {**two, **{name: (lambda call: lambda a, b: call(a))(call) for name, call in one.items()}}


class Casts(TorchDispatchMode):
    """Counts the casts that reach the kernels."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        self.count += function is torch.ops.aten._to_copy.default
        return function(*arguments, **(named or {}))


def policy_on_cpu(name, call):
    """low if f32 gives bf16; f32 if bf16 gives f32; widest if f32 and bf16 together give f32 where they are an error
    without autocast; else inputs, if each gives its own. A result that is no floating number may follow no cast."""
    exact, half = torch.float32, torch.bfloat16

    def run(a, b, enabled=True):
        x, y = torch.rand(4, 4).to(a) + 1, torch.rand(4, 4).to(b) + 1
        with torch.autocast("cpu", half, enabled=enabled), Casts() as casts:
            try:
                y = call(x, y)
            except RuntimeError:
                return "an error"
        return y.dtype if y.is_floating_point() else f"{casts.count} casts"

    found = run(exact, exact), run(half, half)
    if found == (half, half):
        return "low"
    if found == (exact, exact):
        return "f32"
    mixed = [run(exact, half), run(half, exact)]
    if mixed == [exact, exact] and "an error" in (run(exact, half, False), run(half, exact, False)):
        return "widest"
    assert found in ((exact, half), ("0 casts", "0 casts")), f"{name}: of f32 and bf16 {found}, mixed {mixed}"
    return "inputs"


def distances_of_gradients(start):
    """{parameter: relative L2 distance of its gradient under autocast from that in f32}."""
    in_its_dtype = F.cross_entropy
    torch_gpt.F.cross_entropy = lambda logits, *rest: in_its_dtype(logits.float(), *rest)

    def gradients(batch, enabled):
        model = torch_gpt.Gpt(SHAPE)
        model.load_state_dict({name: start[name] for name in model.state_dict()})
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = model(*((start[key] + batch) % SHAPE.vocab for key in ("tokens", "targets")))
        loss.backward()
        return {name: p.grad.double() for name, p in model.named_parameters()}

    off, squares = {}, {}
    for batch in range(16):
        want, got = gradients(batch, False), gradients(batch, True)
        for name in want:
            off[name] = off.get(name, 0) + (got[name] - want[name]).square().sum().item()
            squares[name] = squares.get(name, 0) + want[name].square().sum().item()
    off["all"], squares["all"] = sum(off.values()), sum(squares.values())
    return {name: (off[name] / squares[name]) ** 0.5 for name in sorted(off)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "tests/golden")
    options = parser.parse_args()
    listed, run = lists_of_the_header(), calls()
    text = ""
    for ours in OURS:
        theirs = PYTORCHS_NAME.get(ours, ours)
        text += f"{ours}\t{theirs}\t{listed.get(theirs, 'inputs')}\t{policy_on_cpu(ours, run[ours])}\n"
    (options.out / "autocast_lists.txt").write_text(f"# PyTorch {torch.__version__}: CUDA, CPU\n{text}")
    distances = distances_of_gradients(load_file(ROOT / "tests/golden/gpt_parity.safetensors"))
    rows = "".join(f"{name}\t{distance:.6f}\n" for name, distance in distances.items())
    (options.out / "autocast_gpt.txt").write_text(f"# PyTorch {torch.__version__}\n{rows}")


if __name__ == "__main__":
    main()
