"""The tests that docs/compatibility.md names are there: named_tests.py SOURCE"""

import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
there = set()
for path in (source / "tests").rglob("*_test.cpp"):
    there |= {".".join(name) for name in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", path.read_text(encoding="utf-8"), re.MULTILINE)}
named = set(re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", (source / "docs/compatibility.md").read_text(encoding="utf-8")))
missing = sorted(named - there)
print("\n".join(f"docs/compatibility.md: there is no test {name}" for name in missing) or f"{len(named)} tests are there")
sys.exit(bool(missing) or not named)
