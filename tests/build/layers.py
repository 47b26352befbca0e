"""Folders include downward only, as the table in docs/architecture.md says: layers.py SOURCE"""

import pathlib
import re
import sys

MAY_INCLUDE = {
    "core": set(),
    "kernels": {"core"},
    "io": {"core"},
    "autograd": {"kernels", "core"},
    "nn": {"autograd", "kernels", "core"},
    "distributed": {"autograd", "kernels", "core"},
    "apps": {"distributed", "nn", "autograd", "kernels", "io", "core"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def violations(folder, path, text):
    """What is wrong with the includes of one file."""
    for mark, name in INCLUDE.findall(text):
        if not name.startswith("reprise/"):
            if mark == '"':
                yield f'{path}: "{name}": write "reprise/FOLDER/FILE"'
            continue
        target = name.split("/")[1]
        if target == "reprise.h" and folder != "apps":
            yield f"{path}: {name}: the library does not include its own front door"
        elif target in MAY_INCLUDE and target != folder and target not in MAY_INCLUDE[folder]:
            yield f"{path}: {name}: {folder} may include {', '.join(sorted(MAY_INCLUDE[folder])) or 'nothing'}"
        elif target not in MAY_INCLUDE and target != "reprise.h":
            yield f"{path}: {name}: {target} is no folder of the library"


def documented_table(document):
    """The table of docs/architecture.md, as {folder: the words in its right column}."""
    rows = re.findall(r"^\| ([\w, ]+?) \| (.+?) \|$", document, re.MULTILINE)
    return {folder: set(re.findall(r"\b(?:" + "|".join(MAY_INCLUDE) + r")\b", allowed.split("(")[0]))
            for folders, allowed in rows for folder in folders.split(", ") if folder in MAY_INCLUDE}


source = pathlib.Path(sys.argv[1])
wrong, files = [], 0
for folder in MAY_INCLUDE:
    for path in sorted((source / folder).rglob("*")):
        if path.suffix in {".h", ".cpp", ".cu", ".cuh"}:
            files += 1
            wrong += violations(folder, path.relative_to(source), path.read_text())

architecture = source / "docs" / "architecture.md"
if architecture.exists():
    for folder, allowed in documented_table(architecture.read_text()).items():
        if folder != "apps" and allowed != MAY_INCLUDE[folder]:
            wrong.append(f"docs/architecture.md: {folder} may include {allowed}, but this test has {MAY_INCLUDE[folder]}")

print("\n".join(wrong) or f"{files} files include downward only")
sys.exit(bool(wrong))
