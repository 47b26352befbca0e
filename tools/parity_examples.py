#!/usr/bin/env python3
"""PyTorch's side of the test of the examples: runs the twins and makes examples/results.txt.

Run it with the Python that tools/setup_peers.sh makes.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def main():
    lines = []
    for twin in sorted(EXAMPLES.glob("*.py")):
        if twin.stem == "example":
            continue
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run([sys.executable, str(twin)], cwd=folder, capture_output=True, text=True, check=True,
                                 env={**os.environ, "OMP_NUM_THREADS": "1"})
        lines += [f"{twin.stem} {line}" for line in ran.stdout.splitlines()]
    (EXAMPLES / "results.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
