"""Machines that are network namespaces, whose cables meet in a switch. Needs root and iproute2."""

import contextlib
import itertools
import os
import shutil
import subprocess

FRAME = 1514  # bytes, as tbf counts them: a full packet and its Ethernet header
QUEUE = 16 << 20  # bytes: more than the sockets of a few ranks hold, so that nothing is dropped
_numbers = itertools.count()


def missing():
    """Why there are no machines here, or None."""
    if os.geteuid() != 0:
        return "it needs root"
    if not shutil.which("ip"):
        return "it needs iproute2"
    made = subprocess.run(["ip", "netns", "add", f"reprise-{os.getpid()}-probe"], capture_output=True, check=False)
    if made.returncode != 0:
        return f"ip netns: {made.stderr.decode().strip()}"
    subprocess.run(["ip", "netns", "del", f"reprise-{os.getpid()}-probe"], check=False)
    return None


def address(place):
    """Of the machine at this place."""
    return f"10.77.0.{place + 1}"


def run_ip(*words):
    """Runs `ip`; an exception where it fails."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


def limit(machines, megabits):
    """Each machine sends that much a second, whole frames counted. The bucket holds more than TCP hands over at once, 64 KiB: what
    is larger than the bucket would be cut into frames one by one, which takes the ranks' cores."""
    for name in machines:
        subprocess.run(["ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "veth", "root", "tbf", "rate",
                        f"{megabits}mbit", "burst", str(100 * FRAME), "limit", str(QUEUE)], check=True, capture_output=True)


def mute(name):
    """Half of a machine's cable: what it sends is dropped, without a word to it, and what is sent to it arrives. (No frame fits
    the bucket.)"""
    subprocess.run(["ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "veth", "root", "tbf", "rate", "8bit",
                    "burst", "10", "limit", "1"], check=True, capture_output=True)


@contextlib.contextmanager
def machines(count):
    """The names of that many namespaces; each has a cable `veth`."""
    number = next(_numbers)
    start = f"reprise-{os.getpid()}-{number}"
    switch, names = f"{start}-switch", [f"{start}-{place}" for place in range(count)]
    try:
        for name in [switch, *names]:
            run_ip("netns", "add", name)
        run_ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        run_ip("-n", switch, "link", "set", "bridge", "up")
        for place, name in enumerate(names):
            port = f"port{place}"
            run_ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "veth", "netns", name)
            run_ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            run_ip("-n", name, "addr", "add", f"{address(place)}/24", "dev", "veth")
            for link in ("lo", "veth"):
                run_ip("-n", name, "link", "set", link, "up")
        yield names
    finally:
        for name in [switch, *names]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
