"""Ranks on two machines, which are network namespaces with a cable each to one switch: each has an address and a loopback of its
own. They give the bits of one process, those without the job's token are refused, and where the cable is cut all end and
say which rank is silent, also where the cut is of one direction. Over a wire that loses, delays and reorders packets they
train to the same bits, or end in time where it delays them for too long. Needs root and iproute2, the wire /dev/net/tun."""

import random
import re
import subprocess
import threading
import time

import wire
from harness import Case, finish, wait_until
from namespaces import address, machines, missing, mute
from training import Training, final_state, reference, write_text

CUTS = 20                      # where --count does not say
PEER_SECONDS, BOUND, SLACK = 2, 3, 3   # the bound: peer timeout and 1 s; slack: for a machine that is loaded
ADDRESSES = [address(place) for place in range(2)]
TOKEN = "4f1c2b8a9d3e5f60718293a4b5c6d7e8"
ACCUMULATE = ["--accumulate", 4]


class FourParts(Training):
    """A run whose steps have four micro-batches, so that one, two and four ranks have the same bits."""

    def words(self, world, *more):
        return super().words(world, *ACCUMULATE, *more)


SHORT = FourParts(steps=12)
LONGER = FourParts(steps=60, save_every=20)  # long enough for what is done to the wire meanwhile
ENDLESS = FourParts(steps=10**6, save_every=100, eval_every=0, sample_every=0)
_times, _packets = [], []
_lock = threading.Lock()


def start(world, folder, machine, rank, ranks, words, variables=None):
    """A rank on a machine, by the variables that torchrun would set."""
    own = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29500",
           "TORCHELASTIC_RUN_ID": folder.name}
    own |= {"REPRISE_JOB_TOKEN": TOKEN} if variables is None else variables
    return world.start(["ip", "netns", "exec", machine, *words], folder, environment=own)


def ends(processes, seconds):
    """The outcomes of all, which are read side by side."""
    outcomes = [None] * len(processes)

    def wait(place, process, command):
        outcomes[place] = finish(process, command, seconds)

    threads = [threading.Thread(target=wait, args=(place, *started)) for place, started in enumerate(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def same_bits(world, folder, training=SHORT):
    """What differs from a run of one process."""
    return None if final_state(folder) == reference(world, training) else "other bits than one process's"


def steps_are_recorded(folder):
    """Waits for the first one."""
    log = folder / "r" / "metrics.jsonl"
    return wait_until(lambda: log.exists() and log.stat().st_size > 0, 40)


def trained(ranks, more):
    """Two or four ranks, half of them on each machine."""
    def check(world, folder):
        write_text(folder)
        (folder / "meet").mkdir()
        (folder / "token").write_text(TOKEN + "\n")
        (folder / "token").chmod(0o600)
        with machines(2) as two:
            processes = [start(world, folder, two[rank * 2 // ranks], rank, ranks, SHORT.words(world, *more), {})
                         for rank in range(ranks)]
            for outcome in ends(processes, 60):
                if outcome.code != 0:
                    return outcome.problem("it does not train")
        return same_bits(world, folder)
    return check


def without_token(world, folder):
    """No rank has a token: each is an error at once."""
    write_text(folder)
    with machines(2) as two:
        processes = [start(world, folder, machine, rank, 2, SHORT.words(world), {})
                     for rank, machine in enumerate(two)]
        for outcome in ends(processes, 10):
            if outcome.code != 2 or "REPRISE_JOB_TOKEN" not in outcome.err:
                return outcome.problem("it is not refused")
    return None


def wrong_token(world, folder):
    """A rank with another token is refused in a second or so; rank 0 says so once, waits, and trains with the right one."""
    write_text(folder)
    with machines(2) as two:
        first = start(world, folder, two[0], 0, 2, SHORT.words(world))
        time.sleep(0.5)
        begin = time.monotonic()
        wrong = finish(*start(world, folder, two[1], 1, 2, SHORT.words(world), {"REPRISE_JOB_TOKEN": TOKEN[::-1]}), 20)
        if wrong.code != 4 or "another token than this rank" not in wrong.err:
            return wrong.problem("it is not refused")
        if time.monotonic() - begin > 2 + SLACK:
            return wrong.problem("it is refused late")
        right = start(world, folder, two[1], 1, 2, SHORT.words(world))
        outcomes = ends([first, right], 60)
        for outcome in outcomes:
            if outcome.code != 0:
                return outcome.problem("it does not train")
        told = re.findall(rf"refused a process at {ADDRESSES[1]} that says it is rank 1", outcomes[0].err)
        if len(told) != 1:
            return outcomes[0].problem(f"rank 0 says {len(told)} times who was refused")
    return same_bits(world, folder)


def beyond_is_silent(outcomes):
    """What is wrong with the ends of four ranks between whose machines nothing comes through any more. Beyond a cut rank 0
    is the hub, and the only rank that is known."""
    for rank, outcome in enumerate(outcomes):
        silent = "[23]" if rank < 2 else "0"
        if outcome.code != 5 or not re.search(rf"rank {silent}\b.* is silent", outcome.err):
            return outcome.problem(f"rank {rank} does not name a rank beyond the cut")
    return None


def cut(world, folder, number):
    """The cable is cut at a random moment, from either side; every other time in one direction alone."""
    moments = random.Random(f"{world.seed} cut {number}")
    half = number % 2 == 1
    write_text(folder)
    with machines(2) as two:
        words = ENDLESS.words(world, "--peer-timeout", PEER_SECONDS)
        processes = [start(world, folder, two[rank // 2], rank, 4, words) for rank in range(4)]
        if not steps_are_recorded(folder):
            return ends(processes, 0.1)[0].problem("it does not begin")
        time.sleep(moments.uniform(0, 1))
        side = moments.choice(two)
        if half:
            mute(side)
        else:
            subprocess.run(["ip", "-n", side, "link", "set", "veth", "down"], check=True)
        begin = time.monotonic()
        outcomes = ends(processes, 40)
        seconds = time.monotonic() - begin
    # Where one direction works, the side that hears may be told by the other, whose ranks end first.
    if not half and (problem := beyond_is_silent(outcomes)):
        return problem
    for rank, outcome in enumerate(outcomes):
        if outcome.code not in (4, 5) or not re.search(r"rank [0-3]\b", outcome.err):
            return outcome.problem(f"rank {rank} does not name a rank")
    if not any(re.search(r"rank [0-3]\b.* is silent", outcome.err) for outcome in outcomes):
        return outcomes[0].problem("no rank says who is silent")
    with _lock:
        _times.append(seconds)
    return f"the ranks took {seconds:.1f} s" if seconds > BOUND + SLACK else None


def calm(the_wire, folder, processes):
    """Nothing but what the wire does from the first packet on."""


def mended(the_wire, folder, processes):
    """Nothing comes through for a while that is shorter than the peer timeout."""
    if not steps_are_recorded(folder):
        return "it does not begin"
    the_wire.loss = 1.0
    time.sleep(0.7)
    the_wire.loss = 0.0
    return None if processes[0][0].poll() is None else "it had ended before: the training is too short for this case"


def over_a_wire(training, loss, delay, disturb, wanted):
    """Four ranks train over a wire, to the bits of one process. `wanted`: the counters of the wire that must have moved."""
    def check(world, folder):
        write_text(folder)
        with wire.wired_machines(f"{world.seed} {loss} {delay}") as (two, the_wire):
            the_wire.loss, the_wire.delay = loss, delay
            processes = [start(world, folder, two[rank // 2], rank, 4, training.words(world, "--peer-timeout", 20))
                         for rank in range(4)]
            problem = disturb(the_wire, folder, processes)
            for outcome in ends(processes, 120):
                if outcome.code != 0:
                    return outcome.problem("it does not train")
        moved = {name: getattr(the_wire, name) for name in wanted}
        with _lock:
            _packets.append(moved)
        if problem or not all(moved.values()):
            return problem or f"the wire did nothing: {moved}"
        return same_bits(world, folder, training)
    return check


def late_for_good(world, folder):
    """From a moment on each packet takes longer than the peer timeout: the ranks on both machines end, and say who is silent."""
    write_text(folder)
    with wire.wired_machines(f"{world.seed} late") as (two, the_wire):
        the_wire.delay = (0.0, 0.002)
        words = ENDLESS.words(world, "--peer-timeout", PEER_SECONDS)
        processes = [start(world, folder, two[rank // 2], rank, 4, words) for rank in range(4)]
        if not steps_are_recorded(folder):
            return ends(processes, 0.1)[0].problem("it does not begin")
        the_wire.delay = (2.0 * PEER_SECONDS, 2.5 * PEER_SECONDS)
        begin = time.monotonic()
        outcomes = ends(processes, 40)
        seconds = time.monotonic() - begin
    if problem := beyond_is_silent(outcomes):
        return problem
    return f"the ranks took {seconds:.1f} s" if seconds > BOUND + SLACK else None


def report():
    """How long the ranks took after a cut, what the wire did, or why nothing was tried."""
    if reason := missing():
        return f"skipped: {reason}"
    ordered, lines = sorted(_times), []
    if reason := wire.missing():
        lines.append(f"no wire: {reason}")
    if _packets:
        lines.append("packets of the wire: " + "; ".join(
            ", ".join(f"{count} {name}" for name, count in moved.items()) for moved in _packets))
    if not ordered:
        return "\n".join([*lines, "no cable was cut"])
    return "\n".join(lines + [f"cut: in {len(ordered)} cases, all ranks had ended after {ordered[len(ordered) // 2]:.2f} s (median), "
            f"{ordered[-1]:.2f} s (longest), with a peer timeout of {PEER_SECONDS} s"])


def cases(world):
    if missing():
        return
    by_file = ["--rendezvous", "file:meet", "--bind", ADDRESSES[0], "--token-file", "token"]
    named = {"2 ranks": trained(2, ["--token-file", "token"]), "4 ranks": trained(4, ["--token-file", "token"]),
             "by a file": trained(2, by_file),
             "by a place": trained(2, ["--rendezvous", f"{ADDRESSES[0]}:31000", "--token-file", "token"]),
             "on all networks": trained(2, ["--bind", "0.0.0.0", "--token-file", "token"]),
             "no token": without_token, "wrong token": wrong_token}
    if not wire.missing():
        named |= {"lossy": over_a_wire(SHORT, 0.02, (0.0, 0.001), calm, ["lost"]),
                  "reordered and delayed": over_a_wire(SHORT, 0.0, (0.001, 0.008), calm, ["late", "overtaken"]),
                  "lost for a while": over_a_wire(LONGER, 0.0, (0.001, 0.001), mended, ["lost"]),
                  "delayed beyond the peer timeout": late_for_good}
    for name, check in named.items():
        yield Case(name, lambda folder, check=check: check(world, folder))
    for number in range(world.count or CUTS):
        yield Case(f"cut {number}", lambda folder, number=number: cut(world, folder, number))
