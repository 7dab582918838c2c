"""The keeper of one peer: a tiny process between gateway and peer that lets nothing outlive either of them.

Owns the peer's process tree: it is the reaper of every orphan in it, ends all of it when asked or when the
gateway is gone (also by SIGKILL), and reports how the peer ended. It is not in the data path: the peer
inherits the pipes, the keeper lets go of them. It never decides to stop a peer that keeps its limits, and
runs on Linux alone.

Run as a program by `tether`, without site packages: each import is start-up time of every peer, which is
why it uses the bare modules behind `os`, `signal` and `ctypes`, whose wrappers cost several milliseconds.

    keeper CONTROL GATEWAY_PID LIMITS EXECUTABLE ARGV0 [ARGUMENT…]

CONTROL is one end of a socket pair. Bytes that come in: `T` (SIGTERM to the peer's group), `K` (SIGKILL to
every descendant). Lines that go out: `pid N`, or `fail ERRNO`; `exit CODE CPU_MS MAXRSS_KB` (CODE negative
for a signal); `limit processes N`; `left PID…` for what could not be ended. End of stream means that no
descendant is left. LIMITS is `NAME=SOFT:HARD,…` with the names of RLIMIT constants, and `TREE=N:N` for the
size of the tree.
"""
# ruff: noqa: SIM105, FBT003, SLF001 - contextlib is an import too many; bare functions take no keywords

import _ctypes
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    import signal
else:
    import _signal as signal
    import posix as os

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ORPHAN_GRACE_S = 0.5
"""What a peer gets to end by itself after the gateway's death closed its stdin; then again after SIGTERM."""
GIVE_UP_S = 10.0
"""How long SIGKILL is repeated. A process that outlives this hangs in the kernel."""
RETRY_MS = 10
TREE_CHECK_MS = 200


def prctl(option: int, value: int) -> None:
    """Set an option of this process. Raises `OSError` where the system does not."""
    address = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # pyright: ignore[reportArgumentType]
    if _ctypes.call_function(address, (option, value, 0, 0, 0)) != 0:
        raise OSError(95, "prctl failed")


def parse_limits(text: str) -> dict[str, tuple[int, int]]:
    """Return soft and hard value by name, out of `NAME=SOFT:HARD,…`."""
    limits: dict[str, tuple[int, int]] = {}
    for item in text.split(",") if text else []:
        name, _, values = item.partition("=")
        soft, _, hard = values.partition(":")
        limits[name] = (int(soft), int(hard))
    return limits


def read_file(path: str) -> bytes:
    """Return the whole file, also of those that do not know their size."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    content = b""
    try:
        while chunk := os.read(descriptor, 65536):
            content += chunk
    finally:
        os.close(descriptor)
    return content


def original_environment() -> dict[bytes, bytes]:
    """What the gateway gave: the interpreter may have put LC_CTYPE into the environment it shows us."""
    entries = read_file("/proc/self/environ").split(b"\0")
    pairs = (entry.partition(b"=") for entry in entries if b"=" in entry)
    return {name: value for name, _, value in pairs}


def children(pid: int) -> list[int]:
    """Return the children of all threads of a process; none of one that has ended."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += [int(child) for child in read_file(f"/proc/{pid}/task/{task}/children").split()]
    except OSError:
        pass  # it ended while we looked: whatever it had is our own child by now
    return found


def descendants() -> list[int]:
    """Return everything below this process, zombies included."""
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        fresh = children(todo.pop())
        found += fresh
        todo += fresh
    return found


def send(pid: int, number: int) -> None:
    """Send a signal; to nobody is fine."""
    try:
        os.kill(pid, number)
    except OSError:
        pass


def kill_everyone() -> None:
    """One pass of SIGKILL. All are stopped first, so that a fork bomb cannot outrun the walk."""
    seen: set[int] = set()
    for _ in range(200):
        fresh = [pid for pid in descendants() if pid not in seen]
        if not fresh:
            break
        for pid in fresh:
            send(pid, signal.SIGSTOP)
        seen.update(fresh)
    for pid in descendants():
        send(pid, signal.SIGKILL)


class Keeper:
    """Holds one peer and its tree, until nothing of it is left."""

    def __init__(self, control: int, limits: dict[str, tuple[int, int]]) -> None:
        self.control = control
        self.tree_limit = limits.pop("TREE", (0, 0))[0]
        self.limits = limits
        self.peer = 0
        self.peer_ended = False
        self.kill_since: float | None = None
        self.gateway_gone_at: float | None = None
        self.asked_orphans = False

    def report(self, line: str) -> None:
        """Tell the gateway."""
        try:
            os.write(self.control, line.encode() + b"\n")
        except OSError:
            pass  # the gateway is gone, which its end of the control socket tells us as well

    def spawn(self, executable: str, argv: list[str]) -> bool:
        """Start the peer in a session of its own, within its limits; tell how it went and return whether it did."""
        environment = original_environment()
        if self.limits:
            import resource  # here, since most peers have no limits and should not pay for it

            numbers = {name: int(getattr(resource, f"RLIMIT_{name}")) for name in self.limits}
            set_limit = resource.setrlimit
        else:
            numbers, set_limit = {}, None
        reader, writer = os.pipe()
        try:
            child = os.fork()
        except OSError as fault:
            self.report(f"fail {fault.errno}")
            return False
        if child == 0:
            number = 0
            try:
                os.setsid()
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                for number_of in ("SIGPIPE", "SIGXFSZ", "SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD"):
                    signal.signal(getattr(signal, number_of), signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                if set_limit is not None:
                    for name, values in self.limits.items():
                        set_limit(numbers[name], values)
                os.execve(executable, argv, environment)
            except OSError as fault:
                number = fault.errno or 5
            except ValueError:
                number = 22
            os.write(writer, str(number).encode())
            os._exit(127)
        os.close(writer)
        fault = os.read(reader, 16)
        os.close(reader)
        if fault:
            self.report(f"fail {int(fault)}")
            return False
        self.peer = child
        self.report(f"pid {child}")
        return True

    def reap(self) -> bool:
        """Collect what has ended. Returns False once there is no descendant left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.peer:
                self.peer_ended = True
                code = os.waitstatus_to_exitcode(status)
                cpu_ms = int((usage.ru_utime + usage.ru_stime) * 1000)
                self.report(f"exit {code} {cpu_ms} {usage.ru_maxrss}")

    def terminate(self) -> None:
        """SIGTERM to the peer's group, and SIGCONT so that a stopped one can obey."""
        # As long as we have not reaped the peer, the number of its group cannot have passed to anybody else.
        group = [pid for pid in descendants() if self.in_group(pid)] if self.peer_ended else [-self.peer]
        for target in group:
            send(target, signal.SIGTERM)
            send(target, signal.SIGCONT)

    def in_group(self, pid: int) -> bool:
        """Whether a process is still in the peer's group."""
        try:
            return os.getpgid(pid) == self.peer
        except OSError:
            return False

    def read_orders(self) -> bytes:
        """Return what the gateway orders; nothing where it is gone."""
        try:
            return os.read(self.control, 64)
        except OSError:
            return b""  # reset: the gateway died with a report of ours unread

    def obey(self, orders: bytes) -> None:
        """Do as ordered; no orders mean that the gateway is gone."""
        if not orders:
            self.gateway_gone_at = self.gateway_gone_at or time.monotonic()
        if b"T" in orders:
            self.terminate()
        if b"K" in orders:
            self.kill_since = self.kill_since or time.monotonic()

    def check_orphaned(self) -> None:
        """The gateway is gone: the peer's stdin is closed by that; then SIGTERM, then SIGKILL."""
        if self.gateway_gone_at is None or self.kill_since is not None:
            return
        waited = time.monotonic() - self.gateway_gone_at
        if waited >= 2 * ORPHAN_GRACE_S:
            self.kill_since = time.monotonic()
        elif waited >= ORPHAN_GRACE_S and not self.asked_orphans:
            self.asked_orphans = True
            self.terminate()

    def check_tree(self) -> None:
        """End a tree that has grown over its limit."""
        if self.tree_limit and self.kill_since is None:
            size = len(descendants())
            if size > self.tree_limit:
                self.report(f"limit processes {size}")
                self.kill_since = time.monotonic()

    def end_all(self) -> None:
        """Kill until nothing is left, for at most `GIVE_UP_S`."""
        until = time.monotonic() + GIVE_UP_S
        while self.reap() and time.monotonic() < until:
            kill_everyone()
            time.sleep(RETRY_MS / 1000)

    def run(self, wakeup: int, gateway: int) -> int:
        """Watch the peer and the gateway until no descendant is left; return the exit code, 1 where one is."""
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        try:
            # The control socket could live on in a process that the gateway forked: watch its death as well.
            poll.register(os.pidfd_open(gateway, 0), select.POLLIN)
        except OSError:
            pass  # an old kernel, or the gateway has just gone, which the next line sees
        if os.getppid() != gateway:
            self.gateway_gone_at = time.monotonic()
        while self.reap():
            self.check_orphaned()
            self.check_tree()
            timeout: int | None = TREE_CHECK_MS if self.tree_limit else None
            if self.kill_since is not None:
                if time.monotonic() - self.kill_since > GIVE_UP_S:
                    self.report("left " + " ".join(map(str, descendants())))
                    return 1
                kill_everyone()
                timeout = RETRY_MS
            elif self.gateway_gone_at is not None:
                timeout = 50
            for descriptor, _ in poll.poll(timeout):
                if descriptor == wakeup:
                    os.read(wakeup, 512)
                elif descriptor == self.control:
                    orders = self.read_orders()
                    self.obey(orders)
                    if not orders:
                        poll.unregister(self.control)
                else:
                    poll.unregister(descriptor)
                    self.obey(b"")
        return 0


def on_child(number: int, frame: object) -> None:
    """Its only use is that the signal has a handler and so writes to the wake-up pipe."""


def main(argv: list[str]) -> int:
    """Keep one peer, as the arguments say (see above); return the exit code."""
    control = int(argv[1])
    os.set_inheritable(control, False)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != int(argv[2]):
        return 1  # the gateway was killed before we came up
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, on_child)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    keeper = Keeper(control, parse_limits(argv[3]))
    spawned = keeper.spawn(argv[4], argv[5:])
    # The peer alone holds the pipes from here on: else nobody would ever see their end.
    nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor, False)
    try:
        return keeper.run(reader, int(argv[2])) if spawned else 1
    except BaseException:
        keeper.end_all()  # a fault of ours must not leave anything behind either
        raise
