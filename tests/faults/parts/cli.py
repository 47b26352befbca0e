"""Every option of both programs, as --help lists them, with values that it cannot take; and other bad command lines."""

import os
import re
import subprocess

from harness import Case
from training import TINY, Training, prepared

SMALL = ["--layers", "1", "--heads", "1", "--width", "8", "--context", "8", "--batch", "2", "--threads", "1"]
MEMORY = 3 << 30
LONG = "9" * 5000

# Values that no option of the type takes; and such as it may take or refuse.
REFUSED = {
    "INT": ["", "x", "nan", "inf", "1.5", "1e3x", "--", "9223372036854775808", "18446744073709551616",
            "-9223372036854775809", "99999999999999999999", b"\xff\xfe", LONG, "1,2", "1\n2"],
    "UINT": ["", "x", "-1", "1.5", "18446744073709551616", b"\xff\xfe", LONG],
    "FLOAT": ["", "x", "nan", "-nan", "1e", "--", b"\xff\xfe", "1,5", "0.1.2"],
    "TEXT": [],
}
STRANGE = {
    "INT": ["0", "-1", "-9223372036854775808", "9223372036854775807", "4294967297", "1000000000000", "1000000", "0x10"],
    "UINT": ["0", "18446744073709551615"],
    "FLOAT": ["0", "-0", "-1", "inf", "-inf", "1e999", "1e308", "1e-320", LONG, "2"],
    "TEXT": ["", "x", b"\xff\xfe", "a" * 300, "a" * 5000, "/", "/dev/null", "/dev/full", "/nowhere/at/all", ".", "..",
             "t.txt/x", "\x1b[31mred", "a\nb", "9" * 400, "-1", "nan"],
}
ENDLESS = {"--steps", "--samples", "--sample-tokens", "--accumulate", "--batch", "--eval-batches", "--rounds"}  # large ones are just long
OPTION = re.compile(r"^\s+(?:-\w,)?(--[a-z0-9-]+)(?:,!--\S+)? +(TEXT|INT|UINT|FLOAT)", re.MULTILINE)


def commands(world):
    """(name, program, words that make the command quick and good)."""
    run = ["--run", "r", "--sample-tokens", "2"]
    yield "gpt train", world.gpt, ["train", *TINY, "--steps", "2", "--out", "new"]
    yield "gpt sample", world.gpt, ["sample", *run]
    yield "gpt eval", world.gpt, ["eval", "--run", "r"]
    yield "recompute verify", world.recompute, ["verify", *SMALL, "--steps", "1"]
    yield "recompute profile", world.recompute, ["profile", *SMALL, "--out", "new"]
    yield "recompute plan", world.recompute, ["plan", *SMALL, "--out", "new"]
    yield "recompute compare", world.recompute, ["compare", *SMALL, "--out", "new"]
    yield "recompute max-batch", world.recompute, ["max-batch", *SMALL[:-4], "--memory-limit", "1MiB"]


def replaced(words, option, value):
    """The command with this value for the option."""
    words = list(words)
    while option in words:
        del words[words.index(option):words.index(option) + 2]
    if value == "":  # an empty word after = is none at all
        return [*words, option, ""]
    return [words[0], option + "=" + value if isinstance(value, str) else os.fsencode(option + "=") + value, *words[1:]]


def prepare(world, folder):
    """A finished run, r, and its text."""
    prepared(world, Training(steps=2, eval_every=0, sample_every=0), 2, folder)


def complaint(outcome, named, folder):
    """What is wrong with a refusal, or None."""
    lines = [line for line in outcome.err.strip().splitlines() if not line.startswith("warning: ")]
    if len(lines) != 1:
        return outcome.problem(f"{len(lines)} lines instead of one")
    if "\x1b" in outcome.err:
        return outcome.problem("control characters of the input go to the terminal")
    if not any(name in outcome.err for name in named):
        return outcome.problem(f"does not name {' or '.join(named)}")
    if (folder / "new").exists():
        return outcome.problem("leaves its folder behind")
    return None


def names_of(option, value):
    """What a message may call an option: by its name or by its value, with control characters written out. Where sizes
    are too large for the machine, memory is all that can be named."""
    text = os.fsdecode(value)
    words = [word for word in re.findall(r"[\w./-]+", text, re.ASCII) if len(word) > 3]
    return [option[2:], f"'{text}'", f" {text}:", "out of memory", *words, *(["\\xff"] if isinstance(value, bytes) else [])]


def option_case(world, name, program, words, option, value, refused):
    def check(folder):
        prepare(world, folder)
        everything = option == "--data" and value == "/"  # all texts of the machine
        endless = everything or option in ENDLESS and not refused
        outcome = world.run([program, *replaced(words, option, value)], folder, seconds=2 if endless else 20, memory=MEMORY)
        if outcome.code is None and endless:
            return None
        if outcome.code not in ((2,) if refused else (0, 1, 2) if "verify" in words else (0, 2)):
            return outcome.problem("not refused" if refused else "neither 0 nor 2")
        if "internal error" in outcome.err or "terminate" in outcome.err:
            return outcome.problem("an error of the program, not of its input")
        return complaint(outcome, names_of(option, value), folder) if outcome.code == 2 else None
    shown = os.fsdecode(value).encode("unicode_escape", "surrogateescape").decode()
    return Case(f"{name} {option}={shown if len(shown) < 40 else shown[:8] + f'... ({len(shown)})'}", check)


def line_case(world, name, words, named, setup=None, seconds=20, memory=MEMORY, codes=(2,), environment=None):
    """A command line that must be refused."""
    def check(folder):
        prepare(world, folder)
        if setup:
            subprocess.run(["bash", "-c", setup], cwd=folder, check=True)
        outcome = world.run(words, folder, seconds=seconds, memory=memory, environment=environment or {})
        if outcome.code not in codes or "internal error" in outcome.err:
            return outcome.problem(f"not one of {codes}, or an internal error")
        return complaint(outcome, named, folder) if outcome.code == 2 else None
    return Case(name, check)


def bad_lines(world):
    train = [world.gpt, "train", *TINY, "--steps", "2", "--out", "new"]
    line = lambda *words, **options: line_case(world, *words, **options)
    yield line("no command", [world.gpt], ["command"])
    yield line("unknown command", [world.gpt, "tain"], ["tain"])
    yield line("unknown option", [*train, "--layer", "2"], ["--layer"])
    yield line("value missing", [world.gpt, "train", "--layers"], ["--layers"])
    yield line("option twice", [*train, "--layers", "2"], ["--layers"])
    yield line("a stray word", [*train, "word"], ["word"])
    for setup, named in [("true > t.txt", "t.txt"), ("printf a > t.txt", "t.txt"), ("rm t.txt", "t.txt"),
                         ("rm t.txt; mkdir t.txt", "t.txt"), ("rm t.txt; ln -s t.txt t.txt", "t.txt"),
                         ("rm t.txt; mkfifo t.txt", "t.txt"), ("rm t.txt; ln -s /dev/zero t.txt", "t.txt"),
                         ("printf '\\xff\\xfe%.0s' {1..999} > t.txt", "t.txt"), ("truncate -s 20G t.txt", "t.txt")]:
        yield line(f"data: {setup}", train, [named], setup=setup, memory=1500 << 20)
    for text, named in [("layers = [1, 2]", "c.toml"), ("layers = 'x'", "c.toml"), ("nothing = 1", "c.toml"),
                        ("layers = 1\nlayers = 2", "c.toml"), ("[a]\nseed = 1\n[b]\nseed = 2", "c.toml"),
                        ("[" * 5000, "c.toml"), ("layers = ", "c.toml"), ("decay = ''", "c.toml"),
                        ("steps = 99999999999999999999", "c.toml"), ("lr = nan", "c.toml")]:
        words = [world.gpt, "train", "--data", "t.txt", "--out", "new", "--config", "c.toml"]
        yield line(f"config: {text[:30]!r}", words, [named], setup=f"cat > c.toml <<'END'\n{text}\nEND")
    for place in ("/dev/zero", "/dev/urandom", "fifo", ".", "nowhere.toml", "loop"):
        yield line(f"config from {place}", [*train, "--config", place], [place], setup="mkfifo fifo; ln -s loop loop")
    for place in ("/dev/null", "t.txt", "t.txt/x", "x" * 300, "/proc/new", "loop", "loop/x"):
        for words in ([*train[:-1], place], [world.recompute, "profile", *SMALL, "--out", place]):
            yield line(f"{words[1]} --out {place[:20]}", words, [place[:100]], setup="ln -s loop loop")
    for place in ("/dev/null", "t.txt", "t.txt/x", "x" * 300, "nowhere", "loop", "r/checkpoints/LATEST"):
        for command in ("sample", "eval"):
            yield line(f"{command} --run {place[:20]}", [world.gpt, command, "--run", place], [place[:100]],
                       setup="ln -s loop loop")
    for temporary in ("/nowhere", "", "t.txt"):
        yield line(f"TMPDIR={temporary}", [*train, "--recompute", "offload"], ["TMPDIR", "temporary", "offload"],
                   codes=(0, 2), environment={"TMPDIR": temporary})
    yield line("a thousand threads", [*train, "--threads", "1000"], ["thread"], memory=1 << 30, codes=(0, 2))
    yield line("REPRISE_NUM_THREADS=1000", train, ["thread", "THREADS"], memory=1 << 30, codes=(0, 2),
               environment={"REPRISE_NUM_THREADS": "1000"})
    for value in ("x", "-1", "0", "1.5", "99999999999999999999", ""):
        yield line(f"REPRISE_NUM_THREADS={value}", train[:-4], ["REPRISE_NUM_THREADS", "--out"], codes=(0, 2),
                   environment={"REPRISE_NUM_THREADS": value})
    yield line("REPRISE_ISA=x", train, ["REPRISE_ISA"], environment={"REPRISE_ISA": "x"})
    yield line("prompt of unknown letters", [*train, "--prompt", "XYZ"], ["--prompt"])
    yield line("sample with such a prompt", [world.gpt, "sample", "--run", "r", "--prompt", "XYZ"], ["--prompt"])
    yield line("--val-fraction 1e-9", [*train, "--val-fraction", "1e-9"], ["--val-fraction"])
    yield line("a context longer than the text", [world.gpt, *replaced(train[1:], "--context", "100000")],
               ["--context", "t.txt"])


def cases(world):
    for name, program, words in commands(world):
        text = subprocess.run([program, words[0], "--help"], capture_output=True, text=True).stdout
        options = OPTION.findall(text)
        if not options:
            raise RuntimeError(f"{name} --help lists no options")
        for option, kind in options:
            for refused, values in ((True, REFUSED), (False, STRANGE)):
                for value in values[kind]:
                    yield option_case(world, name, program, words, option, value, refused)
    yield from bad_lines(world)
