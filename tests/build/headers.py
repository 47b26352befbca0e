"""Every public header compiles alone: headers.py SOURCE WORK_FOLDER COMPILER FLAGS..."""

import pathlib
import sys

import compile

source, work, command = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
# Twice: the second inclusion must add nothing.
texts = {header: f'#include "reprise/{header}"\n#include "reprise/{header}"\n'
         for header in compile.public_headers(source)}
sys.exit(compile.compile_all(source, work / "headers", texts, command))
