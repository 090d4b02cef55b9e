"""namespaces.py - hosts on one machine: network namespaces, each with a cable to one bridge. Needs root, and iproute2."""
import os
import subprocess


class Networks:
    """A namespace for each process, and one with the bridge; this machine has an address there, too."""

    def __init__(self, names):
        self.id = "sy%d" % os.getpid()
        own = os.getpid() % 15000  # several of these may run at once
        self.net = "10.%d.%d." % (188 + own // 250, own % 250)
        self.made = []
        try:
            self.add("br")
            self.ip("-n", self.name("br"), "link", "add", "bridge", "type", "bridge")
            self.ip("-n", self.name("br"), "link", "set", "bridge", "up")
            self.hosts = {name: "%s%d" % (self.net, 11 + i) for i, name in enumerate(names)}
            self.connect(None, "%s1" % self.net, 0)
            for i, name in enumerate(names):
                self.add(name)
                self.connect(name, self.hosts[name], i + 1)
        except (subprocess.CalledProcessError, FileNotFoundError):
            self.remove()
            raise

    def ip(self, *args):
        subprocess.run(["ip", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def name(self, name):
        return "%s-%s" % (self.id, name)

    def add(self, name):
        self.ip("netns", "add", self.name(name))
        self.made.append(self.name(name))
        self.ip("-n", self.name(name), "link", "set", "lo", "up")

    def connect(self, name, address, number):
        """A cable from a namespace, or from this machine, to the bridge."""
        inside, outside = "%s.%d" % (self.id, number), "port%d" % number
        self.ip("link", "add", inside, "type", "veth", "peer", "name", outside, "netns", self.name("br"))
        self.ip("-n", self.name("br"), "link", "set", outside, "master", "bridge", "up")
        where = []
        if name:
            self.ip("link", "set", inside, "netns", self.name(name))
            where = ["-n", self.name(name)]
        self.ip(*where, "address", "add", address + "/24", "dev", inside)
        self.ip(*where, "link", "set", inside, "up")

    def prefix(self, name):
        return ["ip", "netns", "exec", self.name(name)]

    def remove(self):
        for name in self.made:  # the cables go with them
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)
