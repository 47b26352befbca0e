"""The code in the right-hand cells of the tables of docs/coming_from_pytorch.md compiles: cells.py SOURCE WORK_FOLDER COMPILER FLAGS...

Each cell is the body of a function, after `#include <reprise/reprise.h>` and `namespace rp = reprise;`, and each code in it is a
statement there: what a cell declares, the rest of the cell may use. What cells take for granted is declared in comments that
readers do not see, for all of them above the tables, and for one of them in its row:

    <!-- given in cells: extern rp::Tensor x, y; -->
    | `f(x)` | `rp::f(x)` <!-- given: auto f = [](const rp::Tensor& x) { return x; }; --> |

Of a name, such as `rp::pad`, a using-declaration is compiled; `{ ... }` stands for `{}`. No C++ are: words without a bracket,
operator or `::`; commands; options that stand without what they belong to (`.window = 256`); the namespace `rp::nn`.
"""

import pathlib
import re
import sys

import compile

DOCUMENT = "docs/coming_from_pytorch.md"
HEAD = "#include <reprise/reprise.h>\nnamespace rp = reprise;\n"
GIVEN = re.compile(r"<!-- given:(.*?)-->")
GIVEN_IN_ALL = re.compile(r"<!-- given in cells:(.*?)-->", re.DOTALL)
NO_CODE = re.compile(r"\./|--|[.{\"]|[\w.]+$|\W+$|rp::nn$")
NAME = re.compile(r"rp(::\w+)+$")


def cells(text):
    """(line, cells right of the first) of each row of the tables whose left column is PyTorch."""
    in_table = False
    for i, line in enumerate(text.split("\n"), 1):
        if line.startswith("| PyTorch | Reprise"):
            in_table = True
        elif not line.startswith("|"):
            in_table = False
        elif in_table and not line.startswith("|---"):
            yield i, re.split(r"(?<!\\) \| ", line.strip("| "), maxsplit=1)[1].replace("\\|", "|")


def statement(code):
    if NAME.match(code):
        return f"using {code};"
    code = code.replace("{ ... }", "{}")
    return code if code.endswith(";") else code + ";"


def function(line, cell):
    given = " ".join(GIVEN.findall(cell))
    codes = [code for code in re.findall(r"`([^`]+)`", GIVEN.sub("", cell)) if not NO_CODE.match(code)]
    place = f'#line {line} "{DOCUMENT}"\n'
    body = "".join(place + statement(code) + "\n" for code in codes)
    return f"void cell_{line}();\nvoid cell_{line}() {{ {given}\n{{\n{body}}}\n}}\n", len(codes)


source, work, command = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
text = (source / DOCUMENT).read_text()
functions = [function(line, cell) for line, cell in cells(text)]
count = sum(codes for _, codes in functions)
if count < 100:
    sys.exit(f"{DOCUMENT}: {count} codes are found; where are the cells?")
everything = f"{HEAD}{GIVEN_IN_ALL.search(text)[1]}\n" + "".join(code for code, _ in functions)
print(f"{count} codes in {len(functions)} cells")
sys.exit(compile.compile_all(source, work / "cells", {DOCUMENT: everything}, command))
