"""Which calls a program makes that a plan of faults can hit."""

import pathlib
import tempfile


def count(world, words, prepare):
    """Runs `words` undisturbed in a folder that `prepare(folder)` filled: the names of its calls, in their order."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=world.scratch))
    prepare(folder)
    report = folder.parent / f"{folder.name}.calls"
    outcome = world.run(words, folder, {"FAULT_DO": "count", "FAULT_AT": 1, "FAULT_ALWAYS": 1, "FAULT_REPORT": report})
    if outcome.code != 0:
        raise RuntimeError(outcome.problem("an undisturbed run fails"))
    return [line.split(" ")[1] for line in report.read_text().splitlines()]
