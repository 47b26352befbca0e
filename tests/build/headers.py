"""Every public header compiles alone: headers.py SOURCE WORK_FOLDER COMPILER FLAGS...

The build has compiled those alone that are what a source of their name includes first: the others are compiled here.
"""

import pathlib
import re
import sys

import compile

source, work, command = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]


def is_first_in_its_source(header):
    """Whether x.cpp begins with an include of x.h."""
    own = (source / header).with_suffix(".cpp")
    first = re.search(r'^#\s*include\s*[<"]([^>"]+)[>"]', own.read_text(), re.MULTILINE) if own.is_file() else None
    return first is not None and first[1] == f"reprise/{header}"


# Twice: the second inclusion must add nothing, which `#pragma once` sees to in all others.
headers = compile.public_headers(source)
open_headers = [header for header in headers if "\n#pragma once\n" not in (source / header).read_text()]
texts = {header: f'#include "reprise/{header}"\n#include "reprise/{header}"\n'
         for header in headers if not is_first_in_its_source(header)}
if open_headers:
    sys.exit("no #pragma once: " + ", ".join(open_headers))
print(f"{len(headers) - len(texts)} of {len(headers)} headers are the first of their source")
sys.exit(compile.compile_all(source, work / "headers", texts, command))
