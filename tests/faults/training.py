"""Tiny training runs, and what must be true of their folders whatever happened to them."""

import dataclasses
import random
import shutil
import struct
import threading

TINY = ["--layers", "1", "--heads", "1", "--width", "8", "--context", "8", "--batch", "2", "--threads", "1",
        "--data", "t.txt", "--sample-tokens", "8", "--eval-batches", "4", "--dropout", "0.1"]


TINY_IMAGES = ["--data", "idx:.", "--image", "8", "--patch", "2", "--width", "16", "--layers", "1", "--heads", "2",
               "--batch", "6", "--accumulate", "2", "--warmup", "2", "--ema", "0.9", "--drop-path", "0.2", "--dropout",
               "0.1", "--threads", "1", "--workers", "2"]


def write_text(folder):
    """The text to learn from, the same in every folder."""
    letters = random.Random(1)
    (folder / "t.txt").write_text("".join(letters.choice("abcdefgh ijk\n") for _ in range(1500)))


def write_images(folder):
    """Images to learn from, 8 x 8 pixels in three classes, the same in every folder: IDX files."""
    pixels = random.Random(1)
    for part, count in (("train", 90), ("t10k", 30)):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 0x0803, count, 8, 8) + bytes(pixels.randrange(256) for _ in range(64 * count)))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x0801, count) + bytes(i % 3 for i in range(count)))


@dataclasses.dataclass(frozen=True)
class Training:
    """Options of a run; two of the same options must end with the same bits."""
    steps: int
    save_every: int = 2
    keep: int = 2
    eval_every: int = 8
    sample_every: int = 12

    def words(self, world, *more):
        return [world.gpt, "train", *TINY, "--steps", self.steps, "--save-every", self.save_every, "--keep", self.keep,
                "--eval-every", self.eval_every, "--sample-every", self.sample_every, "--out", "r", *more]

    def prepare(self, folder):
        write_text(folder)

    def reading(self, world):
        """A command that reads every file of the newest checkpoint, and its checksums."""
        return [world.gpt, "eval", "--run", "r", "--data", "t.txt"]


@dataclasses.dataclass(frozen=True)
class ImageTraining(Training):
    """The same on images, by reprise-vit."""

    def words(self, world, *more):
        return [world.vit, "train", *TINY_IMAGES, "--steps", self.steps, "--save-every", self.save_every, "--keep",
                self.keep, "--eval-every", self.eval_every, "--out", "r", *more]

    def prepare(self, folder):
        write_images(folder)

    def reading(self, world):
        return [world.vit, "eval", "--run", "r"]


_references, _prepared = {}, {}
_lock = threading.Lock()


def reference(world, training):
    """The final state of an undisturbed run: made once."""
    with _lock:
        key = (training, world.plant)
        if key not in _references:
            folder = world.scratch / f"reference-{len(_references)}"
            folder.mkdir()
            training.prepare(folder)
            outcome = world.run(training.words(world), folder, seconds=120)
            if outcome.code != 0:
                raise RuntimeError(outcome.problem("an undisturbed run fails"))
            _references[key] = final_state(folder)
        return _references[key]


def prepared(world, training, stop_after, folder):
    """Puts a run into `folder` that was stopped after some steps: made once, copied then."""
    key = (training, stop_after, world.plant)
    with _lock:
        if key not in _prepared:
            made = world.scratch / f"prepared-{len(_prepared)}"
            made.mkdir()
            training.prepare(made)
            outcome = world.run(training.words(world, "--stop-after", stop_after), made)
            if outcome.code != 0:
                raise RuntimeError(outcome.problem("an undisturbed run fails"))
            _prepared[key] = made
    shutil.copytree(_prepared[key], folder, dirs_exist_ok=True)


def latest(folder):
    """The name that LATEST holds, or None."""
    try:
        return (folder / "r" / "checkpoints" / "LATEST").read_text().strip() or None
    except OSError:
        return None


def saved_step(folder):
    """The step of the newest checkpoint, or None."""
    name = latest(folder)
    return int(name.split("-")[1]) if name else None


def final_state(folder):
    """The bytes of the newest checkpoint's tensors, by file."""
    checkpoint = folder / "r" / "checkpoints" / (latest(folder) or "none")
    return {path.name: path.read_bytes() for path in sorted(checkpoint.glob("*.safetensors"))}


def newest_loads(world, folder, training=Training(0)):
    """What keeps the newest checkpoint from being loaded whole, or None."""
    outcome = world.run(training.reading(world), folder)
    return None if outcome.code == 0 else outcome.problem(f"the newest checkpoint ({latest(folder)}) does not load")


def go_on(world, folder, training, faults=None):
    """Goes on with an interrupted run: resumed where there is a checkpoint, started again where there is none."""
    outcome = world.run(training.words(world, "--resume"), folder, faults)
    if outcome.code == 2 and latest(folder) is None:
        outcome = world.run(training.words(world), folder, faults)
    return outcome


def same_end(world, folder, training):
    """Finishes the run in `folder`, and says what differs from the run that was not disturbed, or None."""
    wanted = reference(world, training)
    if saved_step(folder) != training.steps:
        outcome = go_on(world, folder, training)
        if outcome.code != 0:
            return outcome.problem("it does not go on")
    got = final_state(folder)
    if not got or sorted(got) != sorted(wanted):
        return f"the last checkpoint holds {sorted(got)}, not {sorted(wanted)}"
    differing = [name for name in wanted if got[name] != wanted[name]]
    return f"not the bits of an undisturbed run: {differing}" if differing else None


def whole_afterwards(world, folder, training, least=None):
    """Whatever happened: what was saved loads, at step `least` or later, and the run ends with the same bits."""
    step = saved_step(folder)
    if least is not None and (step is None or step < least):
        return f"step {least} was reported saved; the newest checkpoint is {latest(folder)}"
    if step is not None:
        problem = newest_loads(world, folder, training)
        if problem:
            return problem
    return same_end(world, folder, training)
