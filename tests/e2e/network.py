"""network.py - several hosts on this machine: network namespaces and a bridge between them. Needs root, ip and nsenter."""
import os
import shutil
import signal
import subprocess


def missing(*programs):
    """What a Network, or the programs, need and have not: a sentence, or nothing."""
    absent = [name for name in ("ip", "nsenter", *programs) if not shutil.which(name)]
    return "hosts of their own need root" if os.getuid() else absent[0] + " is not installed (./run test does it)" if absent else ""


class Network:
    """with Network(NAME...) as network: subprocess.run([*network.on(NAME), ...]). The host HUB is there, too: the bridge."""
    HUB = "hub"
    made = 0

    def __init__(self, *names):
        Network.made += 1
        self.id = "sy%d.%d" % (os.getpid(), Network.made)
        own = (os.getpid() * 7 + Network.made) % 25000  # several processes have networks at once
        self.net = "10.%d.%d." % (88 + own // 250, own % 250)
        self.hosts = {self.HUB: self.net + "1", **{name: self.net + str(11 + i) for i, name in enumerate(names)}}
        self.names = []

    def __enter__(self):
        try:
            self.add(self.HUB)
            self.ip(self.HUB, "link", "add", "bridge", "type", "bridge")
            self.up(self.HUB, "bridge")
            for i, name in enumerate(list(self.hosts)[1:]):
                self.add(name)
                cable = "cable%d" % i
                self.ip(self.HUB, "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", self.namespace(name))
                self.ip(self.HUB, "link", "set", cable, "master", "bridge", "up")
                self.up(name, "eth0")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            for pid in self.processes(name):
                os.kill(pid, signal.SIGKILL)
            subprocess.run(["ip", "netns", "delete", self.namespace(name)])

    def namespace(self, name):
        return "%s-%s" % (self.id, name)

    def on(self, name):
        """What a command line starts with that is to run on a host. Unlike 'ip netns exec' it leaves the mounts alone: slurmd wants
        cgroups in /sys, and in a chroot nothing can be mounted."""
        return "nsenter", "--net=/run/netns/" + self.namespace(name)

    def ip(self, name, *args):
        subprocess.run([*self.on(name), "ip", *args], check=True)

    def add(self, name):
        subprocess.run(["ip", "netns", "add", self.namespace(name)], check=True)
        self.names.append(name)
        self.ip(name, "link", "set", "lo", "up")

    def up(self, name, device):
        self.ip(name, "address", "add", self.hosts[name] + "/24", "dev", device)
        self.ip(name, "link", "set", device, "up")

    def processes(self, name):
        """The processes that run on a host."""
        said = subprocess.run(["ip", "netns", "pids", self.namespace(name)], capture_output=True, text=True).stdout
        return [int(pid) for pid in said.split()]
