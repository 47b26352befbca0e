"""The plan of docs/architecture.md holds: includes run downward between rooms and between the folders of a room, and
no folder or file outgrows its limit, and no name has two meanings in a folder: structure.py SOURCE"""

import pathlib
import re
import sys

MAY_INCLUDE = {
    "core": set(),
    "simt": {"core"},
    "io": {"core"},
    "kernels": {"simt", "core"},
    "data": {"io", "kernels", "core"},
    "plot": {"io", "core"},
    "autograd": {"kernels", "core"},
    "nn": {"autograd", "kernels", "core"},
    "distributed": {"nn", "io", "autograd", "kernels", "core"},
    "train": {"distributed", "nn", "plot", "io", "autograd", "kernels", "core"},
    "apps": {"train", "distributed", "data", "nn", "plot", "autograd", "kernels", "io", "core"},
}
TOP_FLOORS = {"autograd/recompute"}  # folders above the rest of their room, its sources too
MOST_FILES = 40   # in a folder
MOST_LINES = 500  # in a file
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def room_violations(room, path, text):
    """What is wrong with the includes of one file, by the table of rooms."""
    for mark, name in INCLUDE.findall(text):
        if not name.startswith("reprise/"):
            if mark == '"':
                yield f'{path}: "{name}": write "reprise/FOLDER/FILE"'
            continue
        target = name.split("/")[1]
        if target == "reprise.h" and room != "apps":
            yield f"{path}: {name}: the library does not include its own front door"
        elif target in MAY_INCLUDE and target != room and target not in MAY_INCLUDE[room]:
            yield f"{path}: {name}: {room} may include {', '.join(sorted(MAY_INCLUDE[room])) or 'nothing'}"
        elif target not in MAY_INCLUDE and target != "reprise.h":
            yield f"{path}: {name}: {target} is no folder of the library"


def floor_violations(path, text):
    """Includes of a top floor by a file of its room below it."""
    for floor in TOP_FLOORS:
        if path.parts[0] != floor.split("/")[0] or path.is_relative_to(floor):
            continue
        for _, name in INCLUDE.findall(text):
            if name.startswith(f"reprise/{floor}/"):
                yield f"{path}: {name}: {floor} lies above the rest of {path.parts[0]}"


def folder_edges(sources):
    """{(folder, folder it includes): an include that does}. The sources of a folder that has folders of its own stand
    above those, its headers below: they are a folder "X/*.cpp" here."""
    parents = {str(parent) for path in sources for parent in path.parent.parents}
    edges = {}
    for path, text in sources.items():
        folder = str(path.parent)
        if folder in parents and path.suffix in {".cpp", ".cu"}:
            folder += "/*.cpp"
        for _, name in INCLUDE.findall(text):
            target = str(pathlib.PurePath(name).parent).removeprefix("reprise/")
            if name.startswith("reprise/") and target != folder:
                edges.setdefault((folder, target), f"{path} includes {name}")
    return edges


def cycle_of(edges):
    """The includes of one cycle of folders, in order; empty if there is none."""
    below = {}
    for folder, target in edges:
        below.setdefault(folder, []).append(target)
    done = set()

    def walk(folder, way):
        if folder in way:
            way = way[way.index(folder):] + [folder]
            return [edges[pair] for pair in zip(way, way[1:])]
        if folder in done:
            return []
        for target in below.get(folder, []):
            if cycle := walk(target, way + [folder]):
                return cycle
        done.add(folder)
        return []

    return next((cycle for folder in sorted(below) if (cycle := walk(folder, []))), [])


def documented_table(document):
    """The table of docs/architecture.md, as {room: the words in its right column}."""
    rows = re.findall(r"^\| ([\w, ]+?) \| (.+?) \|$", document, re.MULTILINE)
    return {room: set(re.findall(r"\b(?:" + "|".join(MAY_INCLUDE) + r")\b", allowed.split("(")[0]))
            for rooms, allowed in rows for room in rooms.split(", ") if room in MAY_INCLUDE}


def walk_violations(document, sources):
    """What is untrue of the walk of docs/architecture.md: it is of ten files at most, and none includes one above it."""
    walk = [pathlib.Path(name) for name in re.findall(r"^\| \d+ \| `([\w/.]+)` \|", document, re.MULTILINE)]
    if not 0 < len(walk) <= 10:
        yield f"docs/architecture.md: its walk has {len(walk)} files"
    for place, path in enumerate(walk):
        above = {f"reprise/{file.with_suffix('.h')}" for file in walk[:place]} - {f"reprise/{path.with_suffix('.h')}"}
        if path not in sources:
            yield f"docs/architecture.md: its walk names {path}, which is not there"
        for _, name in INCLUDE.findall(sources.get(path, "")):
            if name in above:
                yield f"{path}: {name}: it lies above in the walk of docs/architecture.md"


def size_violations(files, lines_of):
    """Folders with too many files, and files with too many lines."""
    count = {}
    for path in files:
        count[path.parent] = count.get(path.parent, 0) + 1
    for folder, files_in_it in sorted(count.items()):
        if files_in_it > MOST_FILES:
            yield f"{folder}: {files_in_it} files, at most {MOST_FILES}: a family is a folder"
    for path in files:
        if (lines := lines_of(path)) > MOST_LINES:
            yield f"{path}: {lines} lines, at most {MOST_LINES}"


UNNAMED = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"^(?:(?:struct|class|enum class|union) (\w+)(?: final)?(?: :.*)? \{|"  # a type, or a variable
                   r"(?:(?:inline|static|const|constexpr|constinit|thread_local|std::atomic<.*?>) )[^()]*?\b(\w+) ?(?:=|\{|;|\[))", re.MULTILINE)


def name_violations(sources):
    """Types and variables that unnamed namespaces of two files of a folder both have: the files are compiled as one."""
    owners = {}
    for path, text in sources.items():
        if path.suffix != ".cpp" or path.parts[0] in {"kernels", "simt"} or path.stem.endswith(("_gpu", "_none")):
            continue
        for part in UNNAMED.findall(text):
            for type_, variable in NAMED.findall(part):
                name = type_ or variable
                other = owners.setdefault((path.parent, name), path)
                if other != path:
                    yield f"{path}: {name} is a name of {other}'s too: the files of a folder are compiled as one"


def main():
    source = pathlib.Path(sys.argv[1])
    sources = {path.relative_to(source): path.read_text() for room in MAY_INCLUDE
               for path in sorted((source / room).rglob("*")) if path.suffix in {".h", ".cpp", ".cu", ".cuh"}}
    wrong = [words for path, text in sources.items() for words in room_violations(path.parts[0], path, text)]
    wrong += [words for path, text in sources.items() for words in floor_violations(path, text)]
    wrong += name_violations(sources)
    if cycle := cycle_of(folder_edges(sources)):
        wrong.append("folders include each other in a circle:\n  " + "\n  ".join(cycle))

    tests = [path.relative_to(source) for path in sorted((source / "tests").rglob("*"))
             if path.suffix in {".h", ".cpp", ".cu", ".py"}]
    wrong += size_violations([*sources, *tests],
                             lambda path: (source / path).read_text().count("\n"))

    architecture = source / "docs" / "architecture.md"
    if architecture.exists():
        wrong += walk_violations(architecture.read_text(), sources)
        for room, allowed in documented_table(architecture.read_text()).items():
            if room != "apps" and allowed != MAY_INCLUDE[room]:
                wrong.append(f"docs/architecture.md: {room} may include {allowed}, this test has {MAY_INCLUDE[room]}")

    print("\n".join(wrong) or f"{len(sources)} files keep to the plan")
    return bool(wrong)


sys.exit(main())
