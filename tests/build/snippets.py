"""Every ```cpp block of README.md and docs/ compiles: snippets.py SOURCE WORK_FOLDER COMPILER FLAGS...
(But those of docs/tutorial, which are parts of programs: tutorial.py.)

A block with an #include, a main, or that starts with a declaration of a namespace, struct, class or template is
compiled as it stands, after `#include <reprise/reprise.h>` and `namespace rp = reprise;`. Any other block is the body
of a function. What it takes for granted is declared above it in a comment that readers do not see:

    <!-- given: rp::Tensor x; rp::nn::Linear layer(3, 4); -->
"""

import pathlib
import re
import sys

import compile

BLOCK = re.compile(r"(?:<!-- given:(?P<given>.*?)-->\s*)?^[ ]*```cpp\n(?P<code>.*?)^[ ]*```", re.DOTALL | re.MULTILINE)
WHOLE = re.compile(r"^(#include|(int|auto) main\(|namespace \w+[\w:]* \{|struct |class |template ?<)", re.MULTILINE)
HEAD = "#include <reprise/reprise.h>\n"


def program(document, text, block):
    """The source to compile for a block, with the compiler's messages placed in the document."""
    code, given = block["code"], block["given"] or ""
    line = text.count("\n", 0, block.start("code")) + 1
    place = f'#line {line} "{document}"\n'
    if WHOLE.search(code):
        alias = "" if "namespace rp =" in code else "namespace rp = reprise;\n"
        return f"{HEAD}{alias}{given}\n{place}{code}"
    return f"{HEAD}namespace rp = reprise;\nvoid snippet();\nvoid snippet() {{\n{given}\n{place}{code}}}\n"


source, work, command = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
texts = {}
for path in [source / "README.md", *sorted((source / "docs").rglob("*.md"))]:
    if not path.exists() or path.parent.name == "tutorial":
        continue
    text = path.read_text()
    document = path.relative_to(source)
    blocks = list(BLOCK.finditer(text))
    if len(blocks) != len(re.findall(r"^ *```cpp", text, re.MULTILINE)):
        sys.exit(f"{document}: a ```cpp block has no end")
    for number, block in enumerate(blocks, 1):
        texts[f"{document}, block {number}"] = program(document, text, block)
sys.exit(compile.compile_all(source, work / "snippets", texts, command, "reprise/reprise.h"))
