"""slurm_nodes.py - a Slurm of three nodes on this machine, each a host of network.py, for test_slurm.py. Needs root, and Debian's
slurmctld, slurmd and munge, of which nothing has to be set up or running."""
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

import network
from server import wait_until

NODES = "n1", "n2", "n3"
CONFIGURATION = """ClusterName=test
SlurmctldHost={host}({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmctldPort=17000
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
MailProg=/bin/true
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MpiDefault=none
GresTypes=gpu
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing():
    """What is not here that a Nodes needs."""
    return network.missing("slurmctld", "slurmd", "sbatch", "munged", "setpriv")


def version():
    return int(subprocess.check_output(["slurmd", "-V"], text=True).split()[1].split(".")[0])


class Nodes(network.Network):
    """with Nodes() as nodes: nodes.run("sbatch", ...)"""

    def __init__(self):
        super().__init__(*NODES)
        self.temporary = tempfile.TemporaryDirectory(prefix="slurm-")
        self.folder = pathlib.Path(self.temporary.name)
        self.daemons = []
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def __enter__(self):
        super().__enter__()
        try:
            self.start()
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind=None, *_):
        if kind is None:
            self.run("scancel", "--user=root", check=False)
            wait_until(lambda: not self.run("squeue", "--noheader"))
        for one in reversed(self.daemons):
            one.terminate()
        for one in reversed(self.daemons):
            try:
                one.wait(10)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        for log in self.folder.glob("*.log") if kind else ():
            print("%s: %s" % (log.name, log.read_text()[-2000:]))
        super().__exit__()
        self.temporary.cleanup()

    def start(self):
        """munged runs as the user of its package, and insists on owning its folder."""
        munge = self.folder / "munge"
        munge.mkdir()
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o600)
        for path in munge, munge / "key":
            shutil.chown(path, "munge", "munge")
        self.folder.chmod(0o755)  # munged's user has to come through
        (self.folder / "state").mkdir()
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=self.folder, address=self.hosts[self.HUB], host=socket.gethostname().split(".")[0],
            nodes="\n".join("NodeName=%s NodeAddr=%s Port=%d CPUs=4 Gres=gpu:2" % (name, address, 17000 + i)
                            for i, (name, address) in enumerate(self.hosts.items()) if name != self.HUB)))
        # Files that are there stand for GPUs: Slurm only counts them here.
        (self.folder / "gres.conf").write_text("NodeName=n[1-3] Name=gpu File=/dev/tty[1-2]\n")
        if version() >= 23:  # which otherwise insist on cgroups
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        self.daemon("munged", "setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--foreground",
                    "--socket=%s" % (munge / "socket"), "--key-file=%s" % (munge / "key"), "--pid-file=%s" % (munge / "pid"),
                    "--seed-file=%s" % (munge / "seed"), "--log-file=%s" % (munge / "log"))
        wait_until((munge / "socket").exists)
        self.daemon("slurmctld", *self.on(self.HUB), "slurmctld", "-D")
        for name in NODES:
            self.daemon(name, *self.on(name), "slurmd", "-D", "-N", name)
        wait_until(lambda: self.run("sinfo", "--noheader", "--states=idle", "--format=%D", check=False).strip() == "3")

    def daemon(self, name, *command):
        with open(self.folder / ("%s.log" % name), "w") as log:
            self.daemons.append(subprocess.Popen(command, stdout=log, stderr=log, env=self.environment,
                                                 start_new_session=True))

    def run(self, *command, on=network.Network.HUB, check=True, **more):
        """Runs a command on the controller's host; what it said."""
        done = subprocess.run([*self.on(on), *map(str, command)], capture_output=True, text=True, timeout=600,
                              env={**self.environment, **more})
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout
