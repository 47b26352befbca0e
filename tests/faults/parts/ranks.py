"""Ranks of real runs are killed, stopped and starved at random moments: join, steps, saves and evaluations. All others
must name the right one, in time and with the right code, and leave nothing behind."""

import os
import random
import re
import signal
import socket
import threading
import time

from harness import Case, finish, wait_until
from training import Training, newest_loads, saved_step, write_text

RANKS = 4
KILLS, STOPS = 100, 50         # where --count does not say
JOIN_SECONDS, PEER_SECONDS = 6, 2
KILL_BOUND, STOP_BOUND = 2, PEER_SECONDS + 1
SLACK = 3                      # of both bounds, for a machine that is loaded; what was needed is in the report
RUN = Training(steps=10**6, save_every=3, keep=2, eval_every=5, sample_every=50)
MORE = ["--accumulate", RANKS, "--timeout", JOIN_SECONDS, "--peer-timeout", PEER_SECONDS]
BEFORE_ALL_CAME = "not all of 4 ranks came|rank 0 was not found|Stopped before the first step"
MARK = "REPRISE_ATTACK_CASE"     # a variable that all processes of a case have
_times = {}
_lock = threading.Lock()


def shared_memory():
    """What programs of ours have in shared memory, but for folders of tests and attacks."""
    ours = {name for name in os.listdir("/dev/shm") if "reprise" in name}
    return {name for name in ours if not name.startswith(("reprise-attack-", "reprise_test_"))}


class Ranks:
    """The four ranks of a run in `folder`, by torchrun's variables or as children of --ranks."""

    def __init__(self, world, folder, launched, faults=None):
        self.folder, self.launched, self.begin = folder, launched, time.monotonic()
        self.shared_before = shared_memory()
        write_text(folder)
        words, mark = RUN.words(world, *MORE), {MARK: str(folder)}
        if launched:
            self.processes = [world.start(words + ["--ranks", RANKS], folder, environment=mark)]
            return
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = min(probe.getsockname()[1], 65000)
        self.processes = []
        for rank in range(RANKS):
            variables = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
                         "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": folder.name + str(port)}
            self.processes.append(world.start(words, folder, (faults or {}).get(rank),
                                              environment=variables | mark))

    def pid(self, rank):
        """The process of a rank; None where the launcher has not started it yet."""
        if not self.launched:
            return self.processes[rank][0].pid
        launcher = self.processes[0][0].pid
        try:
            with open(f"/proc/{launcher}/task/{launcher}/children", encoding="ascii") as children:
                pids = [int(word) for word in children.read().split()]
        except OSError:
            return None
        return pids[rank] if len(pids) == RANKS else None

    def trains(self):
        """Whether a step is recorded."""
        path = self.folder / "r" / "metrics.jsonl"
        return path.exists() and path.stat().st_size > 0

    def ends(self, seconds, but=None):
        """The outcomes of all processes but one, by rank; of a launcher alone, by -1. What they say is read meanwhile, so
        that none waits for a pipe."""
        started = {-1: self.processes[0]} if self.launched else dict(enumerate(self.processes))
        chosen = {rank: process for rank, process in started.items() if rank != but}
        outcomes, threads = {}, []
        for rank, (process, command) in chosen.items():
            threads.append(threading.Thread(
                target=lambda rank=rank, process=process, command=command: outcomes.update(
                    {rank: finish(process, command, seconds)})))
            threads[-1].start()
        for thread in threads:
            thread.join()
        return outcomes


def told_by(outcomes, launched, victim):
    """What each rank but the victim said on standard error."""
    if not launched:
        return {rank: outcome.err for rank, outcome in outcomes.items() if rank != victim}
    lines = outcomes[-1].err.splitlines()
    others = [rank for rank in range(RANKS) if rank != victim]
    return {rank: "\n".join(line for line in lines if line.startswith(f"[{rank}] ")) for rank in others}


def at_a_moment(ranks, moments, in_join):
    """Waits for a random moment of the join, or of the training."""
    if in_join:
        time.sleep(moments.uniform(0, 0.4))
        return wait_until(lambda: ranks.pid(RANKS - 1), 5)
    begun = wait_until(ranks.trains, 30)
    time.sleep(moments.uniform(0, 0.7))
    return begun


def names(text, victim, words):
    """Whether a rank's last words are of the victim; before all have come it may only know who has."""
    return re.search(rf"rank {victim}\b[^\n]* ({words})", text)


def processes_of(folder):
    """What a case in `folder` has started and still runs, wherever it has gone: by the mark that its children inherit."""
    mark = f"{MARK}={folder}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as variables:
                if mark in variables.read().split(b"\0"):
                    yield int(name)
        except OSError:
            continue  # it has ended, or is another user's


def sockets_of(pid):
    """The addresses on which a process listens, as /proc/net/tcp has them."""
    try:
        held = {os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")}
    except OSError:
        return []
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.read().splitlines()[1:]]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in held]


def left_behind(ranks):
    """Processes of the case, which alone can hold sockets of the job, and shared memory."""
    for pid in processes_of(ranks.folder):
        return f"process {pid} still runs, and listens on {sockets_of(pid) or 'nothing'}"
    if not wait_until(lambda: shared_memory() <= ranks.shared_before):  # what other programs have goes by itself
        return f"shared memory is left: {shared_memory() - ranks.shared_before}"
    return None


def goes_on(world, ranks, moments):
    """The newest checkpoint loads, and in some of the cases the run goes on, on another number of ranks, and leaves no
    unfinished folder."""
    folder = ranks.folder
    if saved_step(folder) is None:
        return None
    problem = newest_loads(world, folder)
    if problem or moments.random() < 0.7:
        return problem
    words = [world.gpt, "train", "--out", "r", "--resume", "--ranks", 2, "--stop-after", 7]
    outcome = world.run(words, folder, seconds=60)
    if outcome.code != 0:
        return outcome.problem("it does not go on")
    unfinished = [path.name for path in (folder / "r" / "checkpoints").iterdir() if path.name.startswith(".unfinished")]
    return f"left over: {unfinished}" if unfinished else None


def judge(outcomes, ranks, victim, joined, codes, words):
    """What is wrong with the ends of the others."""
    for outcome in outcomes.values():
        if outcome.code is None:
            return outcome.problem("it hangs")
    for rank, text in told_by(outcomes, ranks.launched, victim).items():
        if names(text, victim, words):
            continue
        if not joined and re.search(BEFORE_ALL_CAME, text):
            continue
        return f"rank {rank} does not name rank {victim}: {text.strip()[-500:] or 'nothing on standard error'}"
    wanted = codes if joined else codes | {4, 5} | ({3} if ranks.launched else set())
    wrong = [f"{rank}: {outcome.code}" for rank, outcome in outcomes.items() if outcome.code not in wanted]
    return f"codes {wrong}, not {wanted}" if wrong else None


def in_time(kind, seconds, bound, joined):
    """Notes how long the others took; what is wrong with that."""
    if not joined:
        return f"{seconds:.1f} s after the join's timeout" if seconds > JOIN_SECONDS + bound + SLACK else None
    with _lock:
        _times.setdefault(kind, []).append(seconds)
    return f"the others took {seconds:.1f} s" if seconds > bound + SLACK else None


def killed(world, number):
    """SIGKILL to one rank."""
    def check(folder):
        moments = random.Random(f"{world.seed} kill {number}")
        victim, in_join, launched = moments.randrange(RANKS), moments.random() < 0.2, moments.random() < 0.3
        ranks = Ranks(world, folder, launched)
        if not at_a_moment(ranks, moments, in_join):
            return next(iter(ranks.ends(0.1).values())).problem("it does not begin")
        joined = ranks.trains()
        os.kill(ranks.pid(victim), signal.SIGKILL)
        begin = time.monotonic()
        outcomes = ranks.ends(40)
        seconds = time.monotonic() - begin
        if not launched and outcomes.pop(victim).code != -signal.SIGKILL:
            return "the victim ended by itself"
        return (judge(outcomes, ranks, victim, joined, {4}, "died|went before") or
                in_time("kill", seconds, KILL_BOUND, joined) or left_behind(ranks) or goes_on(world, ranks, moments))
    return Case(f"kill {number}", check)


def stopped(world, number):
    """SIGSTOP to one rank, and SIGCONT once the others have ended."""
    def check(folder):
        moments = random.Random(f"{world.seed} stop {number}")
        victim, in_join = moments.randrange(RANKS), moments.random() < 0.2
        ranks = Ranks(world, folder, launched=False)
        if not at_a_moment(ranks, moments, in_join):
            return next(iter(ranks.ends(0.1).values())).problem("it does not begin")
        joined = ranks.trains()
        os.kill(ranks.pid(victim), signal.SIGSTOP)
        begin = time.monotonic()
        outcomes = ranks.ends(40, but=victim)
        seconds = time.monotonic() - begin
        os.kill(ranks.pid(victim), signal.SIGCONT)
        process, command = ranks.processes[victim]
        continued = finish(process, command, JOIN_SECONDS + 10)
        if continued.code not in ({5} if joined else {3, 4, 5}):
            return continued.problem("continued, it does not end as silent")
        return (judge(outcomes, ranks, victim, joined, {5}, "is silent|died|went before") or
                in_time("stop", seconds, STOP_BOUND, joined) or left_behind(ranks) or goes_on(world, ranks, moments))
    return Case(f"stop {number}", check)


def starved(world, number, what):
    """One rank finds no memory, or rank 0 no room on the disk: its message is told on all others."""
    def check(folder):
        moments = random.Random(f"{world.seed} {what} {number}")
        victim = 0 if what == "full disk" else moments.randrange(RANKS)
        if what == "no memory":
            faults = {"FAULT_ALLOC": moments.randrange(1, 60000)}
        else:
            faults = {"FAULT_DO": "errno:28", "FAULT_AT": moments.randrange(1, 60), "FAULT_ONLY": ",write,"}
        if what == "full disk" or moments.random() < 0.5:
            faults["FAULT_ALWAYS"] = 1  # without any memory it cannot even say so, and has died for the others
        ranks = Ranks(world, folder, launched=False, faults={victim: faults})
        time.sleep(moments.uniform(0, 1.5))
        if wait_until(lambda: ranks.processes[victim][0].poll() is not None, 8):
            begin = time.monotonic()
        else:  # a full disk is told, and training goes on until it is asked to end
            os.kill(ranks.pid(victim), signal.SIGTERM)
            wait_until(lambda: ranks.processes[victim][0].poll() is not None, 30)
            begin = time.monotonic()
        outcomes = ranks.ends(40)
        seconds = time.monotonic() - begin
        own = outcomes.pop(victim)
        if own.code not in (0, 2, 3, -6):
            return own.problem(f"{what}: neither refused nor stopped")
        if own.code in (0, 3):
            others = [outcome for outcome in outcomes.values() if outcome.code not in (0, 3)]
            return others[0].problem("it does not stop with the others") if others else None
        return (judge(outcomes, ranks, victim, False, {4}, "died|aborted|failed in|left|went before") or
                in_time(what, seconds, KILL_BOUND, ranks.trains()) or left_behind(ranks))
    return Case(f"{what} {number}", check)


def report():
    """How long the others took, by kind."""
    rows = []
    for kind, times in sorted(_times.items()):
        ordered = sorted(times)
        rows.append(f"{kind}: in {len(ordered)} cases that trained, the others ended after "
                    f"{ordered[len(ordered) // 2]:.2f} s (median), {ordered[-1]:.2f} s (longest)")
    return "\n".join(rows)


def cases(world):
    kills = world.count if world.count else KILLS
    stops = (world.count + 1) // 2 if world.count else STOPS
    yield from (killed(world, number) for number in range(kills))
    yield from (stopped(world, number) for number in range(stops))
    for what in ("no memory", "full disk"):
        yield from (starved(world, number, what) for number in range(stops // 2))
