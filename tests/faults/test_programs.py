"""Cases that are tests of the suite's own programs: the attack gives them other numbers, or picks what tries faults."""

from harness import Case


def tests_of(world, program, chosen):
    """The names of a test program's tests that fit `chosen`, as --gtest_filter takes it."""
    path = world.programs / program
    if not path.exists():
        return []
    listed = world.run([path, "--gtest_list_tests", f"--gtest_filter={chosen}"], world.scratch).out
    names, suite = [], ""
    for line in listed.splitlines():
        word = line.split("#")[0].rstrip()
        if not line.startswith(" "):
            suite = word
        elif suite.endswith("."):
            names.append(suite + word.strip())
    return names


def test_case(world, program, name, environment=None, weight=1, seconds=300):
    """One test that must pass."""
    def check(folder):
        outcome = world.run([world.programs / program, f"--gtest_filter={name}"], folder, seconds=seconds,
                            environment=environment or {})
        if outcome.code == 0:
            return None
        return f"{outcome.out[-1500:]}\n      {outcome.problem('the test fails')}"
    return Case(name + "".join(f" {key}={value}" for key, value in (environment or {}).items()), check, weight)


def chosen_tests(world, wanted):
    """A case for each test in `wanted`: (program, filter) pairs."""
    for program, chosen in wanted:
        for name in tests_of(world, program, chosen):
            yield test_case(world, program, name)
