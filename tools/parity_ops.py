"""Golden values of single ops, computed by PyTorch in f64 on inputs that f32 holds exactly, stored in f32.

Keys are "<op>.<case>.<tensor>"; the numbers that define a case are metadata under "<op>.<case>.<option>". Gradients
"dx" belong to the output's gradient "dy" of the same case.
"""
import torch
import torch.nn.functional as F
from torch.optim import lr_scheduler
from torchvision.transforms import v2


class Goldens:
    def __init__(self):
        self.tensors, self.facts = {}, {}
        self.random = torch.Generator().manual_seed(11)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.random).double()

    def add(self, case, options=None, **tensors):
        for name, value in tensors.items():
            kept = value.detach()
            self.tensors[f"{case}.{name}"] = (kept if kept.dtype == torch.int64 else kept.float()).clone().contiguous()
        for name, value in (options or {}).items():
            self.facts[f"{case}.{name}"] = str(value)

    def differentiate(self, case, fn, options=None, output="y", extra=None, **inputs):
        """Records the inputs, fn's output, a random gradient of it and the gradients of the inputs."""
        leaves = {name: value.clone().requires_grad_() for name, value in inputs.items()}
        y = fn(*leaves.values())
        dy = self.normal(*y.shape).float().double() if y.dim() else torch.ones_like(y)
        grads = torch.autograd.grad(y, list(leaves.values()), dy)
        self.add(case, options, **inputs, **(extra or {}), **{output: y, "d" + output: dy})
        self.add(case, **{"d" + name: grad for name, grad in zip(leaves, grads)})


def norms(golden):
    x, weight, bias = golden.normal(3, 7) * 2 + 1, golden.normal(7), golden.normal(7)
    x = x.float().double()
    golden.differentiate("layer_norm.affine", lambda x, w, b: F.layer_norm(x, (7,), w, b, 1e-5), {"eps": 1e-5},
                         x=x, weight=weight, bias=bias)
    golden.differentiate("rms_norm.affine", lambda x, w: F.rms_norm(x, (7,), w, 1e-6), {"eps": 1e-6},
                         x=x, weight=weight)


def activations(golden):
    x = torch.cat([torch.tensor([-20.0, -6.0, -1.0, 0.0, 1.0, 6.0, 20.0]), golden.normal(28).float() * 2]).double()
    golden.differentiate("gelu.exact", F.gelu, x=x)
    golden.differentiate("gelu.tanh", lambda x: F.gelu(x, approximate="tanh"), x=x)
    golden.differentiate("silu.plain", F.silu, x=x)
    rows = (golden.normal(2, 3, 7) * 3).float().double()
    golden.differentiate("softmax.last_axis", lambda x: F.softmax(x, -1), x=rows)
    golden.differentiate("log_softmax.last_axis", lambda x: F.log_softmax(x, -1), x=rows)


def cross_entropies(golden):
    logits = (golden.normal(7, 11) * 2).float().double()
    targets = torch.tensor([0, 10, 3, -100, 5, -100, 7])
    whole = torch.tensor([0, 10, 3, 2, 5, 1, 7])
    for name, labels, smoothing in [("plain", whole, 0.0), ("ignore_index", targets, 0.0),
                                    ("label_smoothing", whole, 0.1), ("ignore_and_smoothing", targets, 0.1)]:
        golden.differentiate(
            f"cross_entropy.{name}",
            lambda x, labels=labels, smoothing=smoothing: F.cross_entropy(x, labels, label_smoothing=smoothing),
            {"ignore_index": -100, "label_smoothing": smoothing, "reduction": "mean"},
            output="loss", extra={"targets": labels}, logits=logits)


def losses(golden):
    logits, dark = (golden.normal(5, 7) * 2).float().double(), torch.softmax(golden.normal(5, 7), -1).float()
    for name, smoothing in [("probabilities", 0.0), ("probabilities_and_smoothing", 0.1)]:
        golden.differentiate(
            f"cross_entropy.{name}",
            lambda x, smoothing=smoothing: F.cross_entropy(x, dark.double(), label_smoothing=smoothing),
            {"label_smoothing": smoothing, "reduction": "mean"}, output="loss", extra={"targets": dark}, logits=logits)
    x, targets = (golden.normal(3, 5) * 4).float().double(), torch.rand(3, 5, generator=golden.random).double()
    golden.differentiate("bce_with_logits.mean", F.binary_cross_entropy_with_logits, output="loss", x=x, targets=targets)
    y = golden.normal(3, 5).float().double()
    for name, beta in [("plain", 1.0), ("beta", 0.25)]:
        golden.differentiate(f"smooth_l1.{name}", lambda x, y, beta=beta: F.smooth_l1_loss(x, y, beta=beta),
                             {"beta": beta}, output="loss", x=x, y=y)


def images(golden):
    x = golden.normal(2, 2, 7, 6).float().double()
    for name, rounded_up in [("padded", False), ("ceil", True)]:
        golden.differentiate(f"max_pool2d.{name}", lambda x, up=rounded_up: F.max_pool2d(x, 3, 2, 1, ceil_mode=up), x=x)
        for counts in (False, True):
            golden.differentiate(
                f"avg_pool2d.{name}" + ("_counted" if counts else ""),
                lambda x, up=rounded_up, counts=counts: F.avg_pool2d(x, 3, 2, 1, up, counts), x=x)
    for mode in ("nearest", "bilinear", "bicubic"):
        corners = [None] if mode == "nearest" else [False, True]
        cases = [(corner, antialias) for corner in corners for antialias in ([False] if corner is None else [False, True])]
        for corner, antialias in cases:
            for size in ((11, 4), (3, 13)):
                name = f"interpolate.{mode}_{size[0]}_{size[1]}" + "_corners" * bool(corner) + "_antialias" * antialias
                golden.differentiate(
                    name, lambda x, options=(size, None, mode, corner, None, antialias): F.interpolate(x, *options), x=x)
    golden.differentiate("pad.reflect", lambda x: F.pad(x, (1, 3, 2, 4), mode="reflect"), x=x)
    weight, bias = golden.normal(2, 3, 3, 2).float().double(), golden.normal(3).float().double()
    golden.differentiate(
        "conv_transpose2d.strided",
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=(2, 3), padding=1, output_padding=(1, 2), dilation=(1, 2)),
        x=x, weight=weight, bias=bias)
    # A table of torchvision's ToDtype(scale=True) and Normalize: what each byte of three channels becomes in f32.
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    bytes_of = v2.functional.to_dtype(torch.arange(256, dtype=torch.uint8).expand(3, 1, 256), torch.float32, scale=True)
    golden.add("image_table.imagenet", table=v2.functional.normalize(bytes_of, mean.tolist(), deviation.tolist())[:, 0])


def attentions(golden):
    for name, queries, keys, causal in [("causal", 5, 5, True), ("full", 5, 5, False), ("full_cross", 3, 7, False)]:
        golden.differentiate(
            f"scaled_dot_product_attention.{name}",
            lambda q, k, v, causal=causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal), {"causal": causal},
            q=golden.normal(2, 3, queries, 8), k=golden.normal(2, 3, keys, 8), v=golden.normal(2, 3, keys, 8))


def optimizers(golden):
    """Five steps from `start` with the gradients in the rows of `grads`; row i of `after` is the weight then."""
    cases = {
        "adamw.decay": (torch.optim.AdamW, {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}),
        "adamw.no_decay": (torch.optim.AdamW, {"lr": 1e-2, "betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 0.0}),
        "sgd.plain": (torch.optim.SGD, {"lr": 0.1}),
        "sgd.momentum_decay": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
        "sgd.nesterov": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    }
    for case, (kind, options) in cases.items():
        weight = golden.normal(7).requires_grad_()
        start, grads, after = weight.detach().clone(), golden.normal(5, 7), []
        optimizer = kind([weight], **options)
        for grad in grads:
            weight.grad = grad.clone()
            optimizer.step()
            after.append(weight.detach().clone())
        golden.add(case, options, start=start, grads=grads, after=torch.stack(after))


def clipping(golden):
    for case, limit in [("clip_grad_norm.clips", 1.0), ("clip_grad_norm.leaves", 100.0)]:
        weights = [torch.zeros(3, 5, dtype=torch.float64), torch.zeros(7, dtype=torch.float64)]
        for weight in weights:
            weight.grad = golden.normal(*weight.shape)
        before = [weight.grad.clone() for weight in weights]
        norm = torch.nn.utils.clip_grad_norm_(weights, limit)
        golden.add(case, {"max_norm": limit}, a=before[0], b=before[1], norm=norm,
                   a_clipped=weights[0].grad, b_clipped=weights[1].grad)


def schedules(golden):
    """Learning rates of steps 0 .. 24, base rate 0.1."""
    def rates(make):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        schedule, found = make(optimizer), []
        for _ in range(25):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        return torch.tensor(found, dtype=torch.float64)

    golden.add("lr.cosine", {"base": 0.1, "min": 0.01, "steps": 20}, rates=rates(
        lambda o: lr_scheduler.LambdaLR(o, lambda i: cosine_factor(i, 20))))
    golden.add("lr.linear", {"base": 0.1, "end_factor": 0.1, "steps": 20}, rates=rates(
        lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, 20)))
    golden.add("lr.constant", {"base": 0.1}, rates=rates(lambda o: lr_scheduler.ConstantLR(o, 1.0)))


def cosine_factor(step, steps):
    """CosineAnnealingLR from 1 to 0.1 that stays there; PyTorch's own turns back up after its last step."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule = lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=0.1)
    for _ in range(min(step, steps)):
        optimizer.step()
        schedule.step()
    return optimizer.param_groups[0]["lr"]


def op_goldens():
    """(tensors, metadata)"""
    golden = Goldens()
    for part in (norms, activations, cross_entropies, attentions, optimizers, clipping, schedules, losses, images):
        part(golden)
    return golden.tensors, golden.facts
