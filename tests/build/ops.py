"""Every op is complete: a row in docs/ops.md whose cost and autocast policy are those its Function declares, and an
OpCase if it is differentiable; every kernel is called by a test: ops.py SOURCE"""

import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
wrong = []


def texts(folder, pattern):
    return {path: path.read_text() for path in sorted((source / folder).rglob(pattern))}


# {op: the cost its row says}, {op: the policy}
rows, policies = {}, {}
for line in (source / "docs/ops.md").read_text().splitlines():
    if match := re.match(r"\| (`.*?) \| .* \| ([\w ]+) \| ?(\w*) \|$", line):
        for op in re.findall(r"`([^`]+)`", match[1]):
            if op in rows:
                wrong.append(f"docs/ops.md: two rows for {op}")
            rows[op], policies[op] = match[2], match[3]

HEADERS = ["autograd/ops.h", "autograd/ops/attention/masked_attention.h", "autograd/ops/attention/rotary.h",
           "autograd/ops/elementwise/bounds.h", "autograd/ops/elementwise/conditions.h", "autograd/ops/elementwise/losses.h",
           "autograd/ops/elementwise/numbers.h",
           "autograd/ops/elementwise/pointwise.h",
           "autograd/ops/elementwise/powers.h", "autograd/ops/elementwise/remainder.h", "autograd/ops/gemm/einsum.h", "autograd/ops/index/along_dim.h",
           "autograd/ops/index/indexing.h", "autograd/ops/image/constant_pad.h", "autograd/ops/reduce/similarity.h", "autograd/ops/reduce/var.h", "autograd/ops/reduce/vector_norm.h",
           "autograd/ops/tensor/arrangements.h", "autograd/ops/tensor/factories.h",
           "autograd/ops/tensor/from_memory.h", "autograd/ops/tensor/random.h"]
header = "\n".join((source / path).read_text().split("namespace composite")[0] for path in HEADERS)
header = re.sub(r"namespace detail \{.*?\}  // namespace detail", "", header, flags=re.DOTALL)
header = re.sub(r"//.*", "", header)
declared = set(re.findall(r"^(?:Tensor|TensorList|SumAndNorm|ValuesAndIndices) (?:operator)?(\w+|[-+*/%])\(", header, re.MULTILINE))
wrong += [f"docs/ops.md: no row for {op}" for op in sorted(declared - rows.keys())]
wrong += [f"docs/ops.md: {op} is in none of {', '.join(HEADERS)}" for op in sorted(rows.keys() - declared)]

# {op: the cost its Function declares}: by its name, or for a template by its public functions' calls of apply
kinds = {"unknown", "moves", "pointwise", "reduction", "product", "attention"}
for path, text in texts("autograd/ops", "*.cpp").items():
    functions = re.findall(r"^struct (\w+) : (?:autograd::)?Function<", text, re.MULTILINE)
    for function in functions:
        body = text[text.index(f"struct {function} :"):]
        cost = re.search(r"OpCost cost(?:_of)?\b.*?(?:OpCost::Kind::|OpCost::)(\w+)", body.split("\n};")[0], re.DOTALL)
        if not cost or cost[1] not in kinds - {"unknown"}:
            wrong.append(f"{path.relative_to(source)}: {function} declares no cost")
            continue
        policy = re.search(r"static constexpr auto autocast =.*?;", body.split("\n};")[0], re.DOTALL)
        if not policy:
            wrong.append(f"{path.relative_to(source)}: {function} declares no policy of autocast")
            continue
        named = re.search(r'name = "(\w+)"', body.split("\n};")[0])
        if named and named[1] in rows and rows[named[1]] not in (cost[1], "not differentiable"):
            wrong.append(f"docs/ops.md: {named[1]} is {rows[named[1]]}, its Function says {cost[1]}")
        if named and named[1] in rows and f"Policy::{policies[named[1]]};" not in policy[0]:
            wrong.append(f"docs/ops.md: {named[1]} is {policies[named[1]]} under autocast, its Function says {policy[0]}")

cases = "\n".join(text for text in texts("tests/ops", "*_test.cpp").values() if "check_op" in text)
for op in sorted(declared):
    called = rf"\b{op}\b" if op.isidentifier() else rf"\] {re.escape(op)} |\b(a|x) {re.escape(op)} "
    if rows.get(op) != "not differentiable" and not re.search(called, cases):
        wrong.append(f"tests/ops: no OpCase calls {op}")

kernel_tests = "\n".join(texts("tests/kernels", "*.*").values())
for path, text in texts("kernels", "*.h").items():
    for kernel in re.findall(r"^extern Kernel<.*?>\s+(\w+);", text, re.MULTILINE | re.DOTALL):
        if not re.search(rf"\b{kernel}\b", kernel_tests):
            wrong.append(f"tests/kernels: no test calls {kernel} of {path.relative_to(source)}")

print("\n".join(wrong) or f"{len(declared)} operations are complete")
sys.exit(bool(wrong))
