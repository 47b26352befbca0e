"""A user's locale, one that groups digits too: what is written does not change. The tests make the locale; the
programs are started under each that the system has."""

import subprocess

from harness import Case
from test_programs import chosen_tests
from training import Training, final_state, reference, write_text

RUN = Training(steps=6, save_every=2, keep=1, eval_every=2, sample_every=3)
TESTS = [(program, "*Locale*:*locale*") for program in ("core_tests", "io_tests", "apps_tests", "nn_tests")]


def under(world, locale):
    def check(folder):
        write_text(folder)
        outcome = world.run(RUN.words(world), folder, environment={"LC_ALL": locale, "LANG": locale})
        if outcome.code != 0:
            return outcome.problem("it fails")
        return None if final_state(folder) == reference(world, RUN) else "other weights than in the locale C"
    return Case(f"LC_ALL={locale}", check)


def cases(world):
    yield from chosen_tests(world, TESTS)
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split()
    for locale in sorted({*known, "de_DE.UTF-8", "tr_TR.UTF-8", "nonsense", ""}):
        yield under(world, locale)
