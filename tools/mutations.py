"""What a mutant is: a small edit at one place of one source file.

The operators are the usual ones, and the nine for GPU programs of Zhu and Zaidman (Massively Parallel, Highly Efficient,
but What About the Test Suite Quality?, ICST 2020), named in GPU_OPERATORS. They read the code as clang-format leaves it:
a binary operator stands between spaces, an angle bracket does not.
"""

import dataclasses
import itertools
import re

GPU_OPERATORS = ["alloc_swap", "alloc_increment", "alloc_decrement", "share_removal", "gpu_index_replacement",
                 "gpu_index_increment", "gpu_index_decrement", "sync_removal", "atom_removal"]

SWAPPED = {
    "boundary": {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > "},
    "equality": {" == ": " != ", " != ": " == "},
    "arithmetic": {" + ": " - ", " - ": " + ", " * ": " + ", " / ": " * ", " % ": " / ", " += ": " -= ", " -= ": " += ",
                   " *= ": " += ", " >> ": " << ", " << ": " >> "},
    "logical": {" && ": " || ", " || ": " && "},
}
OTHER_EXTREME = {"min": "max", "max": "min"}
OTHER_INDEX = {"threadIdx": "blockIdx", "blockIdx": "threadIdx", "blockDim": "gridDim", "gridDim": "blockDim"}
CALL = r"[A-Za-z_][\w:.>\[\]-]*(?:\([^()]*\)(?:\.|->)[\w]+)*"  # of a function, or of a method of what a call returns
NO_EFFECT = r"\.reserve\(|\bprefetch_\w+\(|__builtin_prefetch\("  # calls that change speed alone
NUMBER = r"(?<![\w.'\"])(\d[\d']*)(\.\d*)?(?:e[+-]?\d+)?([fuUlL]*)(?![\w.'])"


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str
    operator: str
    begin: int  # where in the file's text
    old: str
    new: str

    def applied(self, text):
        assert text[self.begin:].startswith(self.old)
        return text[:self.begin] + self.new + text[self.begin + len(self.old):]

    def line(self, text):
        """The number of its line, what that held and what it holds now."""
        start = text.rfind("\n", 0, self.begin) + 1
        end = text.find("\n", self.begin + len(self.old))
        after = self.applied(text)
        return (text.count("\n", 0, start) + 1, text[start:end].strip(),
                after[start:end + len(self.new) - len(self.old)].strip())


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def code_of(text):
    """The text with comments, strings, preprocessor lines and what only the compiler evaluates as spaces."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", _blank, text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", _blank, text, flags=re.M)
    text = re.sub(r"\bstatic_assert\([^;]*;|\brequires\b[^\n]*|\b__launch_bounds__\([^\n]*|\btemplate <[^\n]*", _blank, text)
    return text


def _closing(code, opening):
    """The index after the bracket that closes the one at `opening`; None if there is none."""
    depth = 0
    for i in range(opening, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i + 1
    return None


def _argument_end(code, begin):
    """Where the expression that begins at `begin` ends: at a comma, a semicolon or a bracket of what is around it."""
    i = begin
    while i < len(code) and code[i] not in ",;)]}":
        i = _closing(code, i) if code[i] in "([{" else i + 1
        if i is None:
            return None
    return i


def _swaps(code):
    for operator, table in SWAPPED.items():
        for old, new in table.items():
            for match in re.finditer(re.escape(old), code):
                if code[:match.start()].rstrip().endswith("operator"):
                    continue
                yield operator, match.start(), old, new
    for match in re.finditer(r"\b(min|max)(?=[(<])", code):
        yield "min_max", match.start(), match.group(), OTHER_EXTREME[match.group()]
    for match in re.finditer(r"\b(true|false)\b", code):
        yield "constant", match.start(), match.group(), "false" if match.group() == "true" else "true"


def _numbers(code):
    for match in re.finditer(NUMBER, code):
        whole = match.group(1).replace("'", "")
        if match.group(2) is None and whole == "1":
            new = "0"
        else:
            new = str(int(whole) + 1)
        yield "constant", match.start(1), match.group(1), new
    for match in re.finditer(r"\[(\w+)\]", code):
        if not code[:match.start()].endswith(("(", " ", "delete")) and not match.group(1).isdigit():
            yield "off_by_one", match.start(), match.group(), f"[{match.group(1)} + 1]"
    for match in re.finditer(r" <=? ([\w.]+(?:\(\))?);", code):
        yield "off_by_one", match.start(1), match.group(1), match.group(1) + " - 1"


def _nothing(statement):
    return ";" + "\n" * statement.count("\n")  # lines keep their numbers


def _statements(code):
    for match in re.finditer(r"\bif (constexpr )?\(", code):
        opening = match.end() - 1
        end = _closing(code, opening)
        inside = code[opening + 1:end - 1] if end else ""
        if ";" not in inside and "=" not in re.sub("[=!<>]=", "", inside) and end:  # no declaration in it
            yield "condition", opening, code[opening:end], None
    for match in re.finditer(r"^[ \t]*(\*?[A-Za-z_][\w.\[\]()>-]* (?:[-+*/|&^]|<<|>>)?= [^;{}]*;)", code, flags=re.M):
        if not match.group(1).startswith("return"):
            yield "assignment_removal", match.start(1), match.group(1), _nothing(match.group(1))
    for match in re.finditer(rf"^[ \t]*({CALL}\((?:[^;{{}}]*)\);)$", code, flags=re.M):
        is_call = not match.group(1).startswith(("return", "__sync", "if", "for", "while", "throw", "REPRISE"))
        if is_call and not re.search(NO_EFFECT, match.group(1)):
            yield "call_removal", match.start(1), match.group(1), _nothing(match.group(1))
    for match in re.finditer(r"\breturn ([^;{}]+);", code):
        yield "return_value", match.start(1), match.group(1), "{}"


def _gpu(code, text):
    for match in re.finditer(r"\.grid = ", code):
        end = _argument_end(code, match.end())
        block = code.find(".block = ", match.end())
        yield "alloc_increment", match.end(), text[match.end():end], "1 + " + text[match.end():end]
        yield "alloc_decrement", match.end(), text[match.end():end], text[match.end():end] + " - 1"
        if 0 <= block < end + 40:
            block_end = _argument_end(code, block + 9)
            grid, threads = text[match.end():end], text[block + 9:block_end]
            yield ("alloc_swap", match.end(), text[match.end():block_end],
                   threads + text[end:block + 9] + grid)
    for match in re.finditer(r"\.block = ", code):
        end = _argument_end(code, match.end())
        yield "alloc_increment", match.end(), text[match.end():end], "1 + " + text[match.end():end]
        yield "alloc_decrement", match.end(), text[match.end():end], text[match.end():end] + " - 1"
    for match in re.finditer(r"REPRISE_SHARED\(([^;]*?), (\w+), (\[[^;]*\])\);", code):
        yield "share_removal", match.start(), match.group(), f"{match.group(1)} {match.group(2)}{match.group(3)};"
    for match in re.finditer(r"\b(threadIdx|blockIdx|blockDim|gridDim)\.([xyz])", code):
        name, axis = match.groups()
        yield "gpu_index_replacement", match.start(), match.group(), f"{OTHER_INDEX[name]}.{axis}"
        yield "gpu_index_replacement", match.start(), match.group(), f"{name}.{'y' if axis == 'x' else 'x'}"
        yield "gpu_index_increment", match.start(), match.group(), f"({match.group()} + 1)"
        yield "gpu_index_decrement", match.start(), match.group(), f"({match.group()} - 1)"
    for match in re.finditer(r"\b__sync(threads|warp)\([^;]*;", code):
        yield "sync_removal", match.start(), match.group(), ";"
    for match in re.finditer(r"\batomic(Add|Exch)\(", code):
        end, comma = _closing(code, match.end() - 1), _argument_end(code, match.end())
        sign = "+=" if match.group(1) == "Add" else "="
        yield ("atom_removal", match.start(), code[match.start():end],
               f"(*({code[match.end():comma]}) {sign} {code[comma + 2:end - 1]})")


def mutants_of(file, text):
    """Every mutant of a file, in the order of its places."""
    code = code_of(text)
    found = []
    for operator, begin, old, new in itertools.chain(_swaps(code), _numbers(code), _statements(code), _gpu(code, text)):
        old = text[begin:begin + len(old)]
        if operator == "condition":
            new = f"(!{old})"
        if old != new:
            found.append(Mutant(file, operator, begin, old, new))
    return sorted(set(found), key=lambda m: (m.begin, m.operator, m.new))
