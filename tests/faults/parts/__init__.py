"""The parts of the attack: each module's `cases(world)` yields what it tries."""
