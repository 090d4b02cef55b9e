"""container.py - a process with a file system of its own that it cannot write, as a user without rights, on a host of network.py: what
Kubernetes makes of a pod, and systemd of a unit. Its image is what `cmake --install` installs, and this machine's /usr."""
import os
import pathlib
import subprocess

import network
from server import BINARY

# Mounts, in a namespace of mounts: $1 is the root, then come FROM TO pairs up to a --, and the command.
START = """set -e
root=$1; shift
mount --bind "$root" "$root"
mount --rbind /usr "$root/usr"
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done; shift
mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"
"""


def missing():
    lacks = network.missing("unshare", "setpriv", "cmake")
    return lacks or ("" if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode == 0
                     else "no namespaces of mounts here")


class Image:
    """The program, installed."""

    def __init__(self, folder):
        self.prefix = folder / "image"
        subprocess.run(["cmake", "--install", os.path.dirname(BINARY), "--prefix", self.prefix], check=True,
                       stdout=subprocess.DEVNULL)


class Container:
    def __init__(self, image, where, folder, command, user, writable=(), readable=(), env=None):
        """`where`: a host of a Network. writable: paths that get empty folders; readable: (path inside, path here)."""
        self.root, self.log, self.place = folder / "root", folder / "log", folder
        self.root.mkdir(parents=True)
        pairs = [(image.prefix, "/usr/local"), *((str(here), inside) for inside, here in readable)]
        for path in writable:
            pairs.append((self.folder(path), path))
            pairs[-1][0].mkdir()
            os.chown(pairs[-1][0], user, user)
        for path in ("usr", "dev", "proc", "etc"):
            (self.root / path).mkdir()
        for name in ("bin", "sbin", "lib", "lib64"):
            if os.path.islink("/" + name):
                (self.root / name).symlink_to(os.readlink("/" + name))
        for name in ("ld.so.cache", "nsswitch.conf"):
            (self.root / "etc" / name).write_bytes(pathlib.Path("/etc", name).read_bytes())
        (self.root / "etc/host.conf").write_text("multi on\n")  # a name in /etc/hosts may have several addresses
        for here, inside in pairs[1:]:  # where they are mounted
            at = self.root / inside[1:]
            if os.path.isdir(here):
                at.mkdir(parents=True, exist_ok=True)
            else:
                at.parent.mkdir(parents=True, exist_ok=True)
                at.touch()
        words = [str(word) for pair in pairs for word in pair]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [*where, "unshare", "--mount", "sh", "-c", START, "sh", str(self.root), *words, "--", "setpriv",
                 "--reuid=%d" % user, "--regid=%d" % user, "--clear-groups", "--bounding-set=-all", "--no-new-privs", *command],
                stdout=log, stderr=log, env={"PATH": os.environ["PATH"], **(env or {})})

    def folder(self, path):
        """Where the folder of a writable path lies here."""
        return self.place / path.replace("/", "_")

    def says(self):
        return self.log.read_text()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
