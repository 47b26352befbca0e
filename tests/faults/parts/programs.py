"""Random programs under recompute: other ones in each attack, each bit-equal to the same without a checkpoint."""

import random

from test_programs import test_case, tests_of

PROGRAMS = 14400
CHUNK = 200


def cases(world):
    first = random.Random(world.seed).randrange(10**9)
    for name in tests_of(world, "autograd_tests", "*RandomPrograms*"):
        for begin in range(first, first + PROGRAMS, CHUNK):
            yield test_case(world, "autograd_tests", name, {"REPRISE_PROGRAMS": f"{begin}:{CHUNK}"}, CHUNK)
