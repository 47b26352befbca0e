"""The table of autocast, op by op, beside PyTorch's name and list for CUDA: precision_ops.py SOURCE

Ours is the column `autocast` of docs/ops.md, which a test compares with what each operation declares; PyTorch's is
tests/golden/autocast_lists.txt, made from its wheel by tools/parity_autocast.py.
"""

import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])

pytorch, version = {}, ""
for line in (source / "tests/golden/autocast_lists.txt").read_text().splitlines():
    if line.startswith("#"):
        version = line[1:].split(":")[0].strip()
    elif line:
        ours, name, policy, _ = line.split("\t")
        pytorch.setdefault(ours, []).append((name, policy))

signs = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
rows = []
for line in (source / "docs/ops.md").read_text().splitlines():
    if match := re.match(r"\| (`.*?) \| .* \| [\w ]+ \| ?(\w+) \|$", line):
        for op in re.findall(r"`([^`]+)`", match[1]):
            theirs = pytorch.get(signs.get(op, op), [("", "")])
            rows.append((match[2], op, *(", ".join(dict.fromkeys(column)) for column in zip(*theirs))))

order = ["low", "f32", "widest", "inputs"]
rows.sort(key=lambda row: order.index(row[0]))
table = [("policy", "op", version, "list"), *rows]
widths = [max(len(row[column]) for row in table) for column in range(4)]
for row in table:
    print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
