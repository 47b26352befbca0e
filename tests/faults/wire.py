"""A wire between two machines that loses, delays and reorders packets, by a seed: two TUN devices, and a thread that hands
packets from one to the other. Needs root, iproute2 and /dev/net/tun."""

import contextlib
import fcntl
import heapq
import itertools
import os
import random
import selectors
import struct
import subprocess
import threading
import time

import namespaces

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
LONGEST = 65536  # bytes of a packet; the devices' are 1,500
_numbers = itertools.count()


def missing():
    """Why there is no wire here, or None."""
    if reason := namespaces.missing():
        return reason
    try:
        os.close(_open_device(f"probe{os.getpid() % 10**6}"))
    except OSError as error:
        return f"/dev/net/tun: {error.strerror}"
    return None


def _open_device(name):
    """A new TUN device, for as long as its descriptor is open."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    except OSError:
        os.close(device)
        raise
    return device


class Wire:
    """What it does to packets may be changed while it runs. `lost`, `late` and `overtaken` count packets."""

    def __init__(self, devices, seed):
        self.loss = 0.0          # the share of packets that are lost
        self.delay = (0.0, 0.0)  # seconds, between which each packet's lies: where they differ, packets overtake others
        self.lost = self.late = self.overtaken = 0
        self._devices, self._random = devices, random.Random(seed)
        self._waiting = []               # a heap: when it is due, its number, its end, the packet
        self._newest = [-1, -1]          # the number of the newest packet that has left, by end
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self):
        """Packets that wait are lost."""
        os.close(self._wake_writer)
        self._thread.join()
        os.close(self._wake_reader)

    def _run(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_reader, selectors.EVENT_READ, None)
            for end, device in enumerate(self._devices):
                selector.register(device, selectors.EVENT_READ, end)
            for number in itertools.count():
                wait = max(0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
                for key, _ in selector.select(wait):
                    if key.data is None:
                        return
                    self._take(number * 2 + key.data, key.data)
                self._deliver()

    def _take(self, number, end):
        packet = os.read(self._devices[end], LONGEST)
        if self._random.random() < self.loss:
            self.lost += 1
            return
        delay = self._random.uniform(*self.delay)
        self.late += delay > 0
        heapq.heappush(self._waiting, (time.monotonic() + delay, number, 1 - end, packet))

    def _deliver(self):
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            _, number, end, packet = heapq.heappop(self._waiting)
            self.overtaken += number < self._newest[end]
            self._newest[end] = max(self._newest[end], number)
            with contextlib.suppress(OSError):  # the device is full, or going: a packet is lost
                os.write(self._devices[end], packet)


@contextlib.contextmanager
def wired_machines(seed):
    """The names of two namespaces, and the wire between them; their addresses are those of namespaces.machines."""
    start = f"reprise-{os.getpid()}-wire{next(_numbers)}"
    names, devices, wire = [f"{start}-{place}" for place in range(2)], [], None
    try:
        for place, name in enumerate(names):
            namespaces.run_ip("netns", "add", name)
            device = f"rp{os.getpid() % 10**6}x{next(_numbers) % 10**5}"  # at most 15 bytes, until it has moved
            devices.append(_open_device(device))
            namespaces.run_ip("link", "set", device, "netns", name, "name", "wire")
            namespaces.run_ip("-n", name, "addr", "add", f"{namespaces.address(place)}/24", "dev", "wire")
            for link in ("lo", "wire"):
                namespaces.run_ip("-n", name, "link", "set", link, "up")
        wire = Wire(devices, seed)
        yield names, wire
    finally:
        if wire:
            wire.end()
        for device in devices:
            os.close(device)
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
