"""libFuzzer on every reader of outside bytes, under AddressSanitizer: build/fuzz, where clang is there to make it."""

import os

from harness import Case

SECONDS = 60  # of each fuzzer in a full attack


def fuzzer(world, program, seconds):
    name = program.name.removeprefix("fuzz_")
    seeds = program.parent.parent / "seeds" / name

    def check(folder):
        (folder / "new").mkdir()
        words = [program, f"-max_total_time={seconds}", "-rss_limit_mb=2048", "-timeout=10", f"-seed={world.seed}",
                 "new", *([seeds] if seeds.is_dir() else [])]
        outcome = world.run(words, folder, seconds=seconds + 60)
        return None if outcome.code == 0 else outcome.problem("a finding")
    return Case(name, check)


def cases(world):
    programs = sorted((world.build.parent / "fuzz" / "bin").glob("fuzz_*"))
    share = world.share * (os.cpu_count() or 1) / max(1, len(programs))
    return [fuzzer(world, program, SECONDS if world.full else max(1, int(share))) for program in programs]
