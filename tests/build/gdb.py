"""gdb prints tensors and modules by tools/gdb/reprise.py: gdb.py PRINTERS PROGRAM

PROGRAM is printed.cpp. Skipped without a gdb that knows Python, or where it may run no program.
"""

import shutil
import subprocess
import sys

SKIPPED = 77
EXPECTED = {
    "x": "Tensor f32 (2, 3) cpu [1, 2, 3, 4, 5, 6]",
    "turned": "Tensor f32 (3, 2) cpu [1, 4, 2, 5, 3, 6]",
    "none": "Tensor undefined",
    "leaf": "Tensor f64 (12,) cpu requires_grad [1, 1, 1, 1, 1, 1, 1, 1, ...]",
    "result": "Tensor f64 (12,) cpu grad_fn [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, ...]",
    "half": "Tensor bf16 (2, 3) cpu [1, 2, 3, 4, 5, 6]",
    "small": "Tensor f16 (2, 3) cpu [1, 2, 3, 4, 5, 6]",
    "counts": "Tensor i64 (3,) cpu [0, 1, 2]",
    "mask": "Tensor boolean (2, 3) cpu [false, false, false, true, true, true]",
    "shape": "(2, 3)",
    "dtype": "bf16",
    "device": "cuda:1",
    "net.hidden": "reprise::nn::Linear = {weight = Tensor f32 (3, 2) cpu requires_grad "
                  "[0.25, 0.25, 0.25, 0.25, 0.25, 0.25], bias = Tensor f32 (3,) cpu requires_grad [",
    "net": "Net = {hidden = reprise::nn::Linear = {weight = Tensor",
    "module": "Net = {hidden = reprise::nn::Linear = {weight = Tensor",
}


def run(*commands, program=()):
    options = [word for command in commands for word in ("-ex", command)]
    return subprocess.run([gdb, "-nx", "-batch", *options, *program], capture_output=True, text=True, timeout=300, check=False)


printers, program = sys.argv[1:]
gdb = shutil.which("gdb")
if not gdb or "ok" not in run("python print('ok')").stdout:
    print("there is no gdb that knows Python")
    sys.exit(SKIPPED)
prints = [command for name in EXPECTED for command in (f"echo @{name}@", f"output {name}", "echo \\n")]
ran = run(f"source {printers}", "break stop", "run", "up", *prints, program=[program])
if "ptrace" in ran.stderr or "Could not trace" in ran.stderr:
    print("this machine lets gdb run no program")
    sys.exit(SKIPPED)
got = dict(line[1:].split("@", 1) for line in ran.stdout.splitlines() if line.startswith("@"))
wrong = [f"{name}: {got.get(name)}, expected {want}" for name, want in EXPECTED.items() if not got.get(name, "").startswith(want)]
print("\n".join(wrong + ([ran.stdout, ran.stderr] if wrong else [])))
sys.exit(bool(wrong))
