"""A program that forks, or works while it ends: the tests that start such programs."""

from test_programs import chosen_tests

TESTS = [("core_tests", "*Fork*:*fork*:*Exit*:*exit*"), ("autograd_tests", "*Fork*:*AtExit*"),
         ("nn_tests", "*Fork*:*AtExit*")]


def cases(world):
    return chosen_tests(world, TESTS)
