"""What hostile code tries. Each attack prints BREACH, or the secret, where it gets through; most just raise.

``{canary}``, ``{pid}``, ``{port}``, ``{abstract}``, ``{project}`` and ``{packages}`` are filled in with what there is
to attack: a file with the secret, the process that started the sandbox, a TCP server and a Unix socket on the host,
the project's folder, and site-packages.
"""

from __future__ import annotations

from dataclasses import dataclass

ENDS = frozenset({"ok", "error"})


@dataclass(frozen=True)
class Attack:
    """Code, and how a run of it may end: by itself, with an exception or without, unless told otherwise."""

    code: str
    statuses: frozenset[str] = ENDS


def stopped(code: str, *statuses: str) -> Attack:
    return Attack(code, frozenset(statuses or ("timeout",)))


PRELUDE = """
import ctypes, os, resource, signal, socket, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def breach_if(condition):
    if condition:
        print("BREACH")
"""

READING = {
    "a file by its path": Attack("print(open({canary!r}).read())"),
    "a file by a path with dots": Attack("print(open('../../../../../../..' + {canary!r}).read())"),
    "a file by a symbolic link": Attack("os.symlink({canary!r}, 'link'); print(open('link').read())"),
    "a file by a hard link": Attack("os.link({canary!r}, 'hard'); print(open('hard').read())"),
    "a file by a folder's descriptor": Attack(
        "d = os.open('/', 0); print(open(os.open({canary!r}[1:], 0, dir_fd=d)).read())"
    ),
    "the whole tree": Attack(
        "for top, folders, files in os.walk('/'):\n"
        "    breach_if(set(files) & {{'canary.txt', 'pyproject.toml', 'passwd', 'environ', 'numpy'}})\n"
        "    breach_if(top.endswith('-packages') and (files or folders))\n"
        "    if 'lib' in top.split('/'): folders[:] = [f for f in folders if f.startswith(('python', 'site', 'dist'))]"
    ),
    "the project": Attack("breach_if(os.listdir({project!r}))"),
    "the project by import": Attack("import agent_envs\nprint('BREACH')"),
    "packages by import": Attack("sys.path.append({packages!r})\nimport numpy\nprint('BREACH')"),
    "packages by listing": Attack("breach_if(os.listdir({packages!r}))"),
    "accounts": Attack("print(open('/etc/passwd').read(), 'BREACH')"),
    "its own environment": Attack("print(dict(os.environ))"),
    "the parent's environment": Attack("print(open('/proc/{pid}/environ').read(), 'BREACH')"),
    "the parent's memory by ptrace": Attack("breach_if(libc.ptrace(16, {pid}, 0, 0) == 0)"),
    "the parent's memory by proc": Attack("print(open('/proc/{pid}/mem', 'rb').read(1), 'BREACH')"),
    "the memory of process 1": Attack(
        "b = ctypes.create_string_buffer(8)\n"
        "class V(ctypes.Structure): _fields_ = [('a', ctypes.c_void_p), ('n', ctypes.c_size_t)]\n"
        "here = V(ctypes.addressof(b), 8)\n"
        "breach_if(libc.process_vm_readv(1, ctypes.byref(here), 1, ctypes.byref(here), 1, 0) > 0)"
    ),
    "inherited descriptors": Attack(
        "import stat\n"
        "for fd in range(3, 256):\n"
        "    try: mode = os.fstat(fd).st_mode\n"
        "    except OSError: continue\n"
        "    breach_if(not stat.S_ISSOCK(mode))"
    ),
    "devices": Attack(
        "breach_if(set(os.listdir('/dev')) - {{'null', 'zero', 'full', 'random', 'urandom', 'shm'}})\n"
        "os.mknod('disk', 0o060600, os.makedev(254, 0)); open('disk', 'rb').read(1); print('BREACH')"
    ),
    "the kernel's keys": Attack("breach_if(libc.syscall({keyctl}, 0, -3, 1) >= 0)"),
}

WRITING = {
    "overwriting a file": Attack("open({canary!r}, 'w').write('x'); print('BREACH')"),
    "deleting a file": Attack("os.remove({canary!r}); print('BREACH')"),
    "the standard library": Attack("open(os.__file__, 'a').write('#'); print('BREACH')"),
    "the interpreter": Attack("open(sys.executable, 'r+b'); print('BREACH')"),
    "byte code beside the library": Attack(
        "open(os.path.dirname(os.__file__) + '/__pycache__/x.pyc', 'w'); print('BREACH')"
    ),
    "the root folder": Attack("os.mkdir('/new'); print('BREACH')"),
    "a symbolic link out, followed": Attack("os.symlink({canary!r}, 'link'); open('link', 'w').write('x')"),
}

ESCAPING = {
    "chroot": Attack("os.mkdir('j'); os.chroot('j'); print('BREACH')"),
    "mounting proc": Attack("os.mkdir('p'); breach_if(libc.mount(b'proc', b'p', b'proc', 0, None) == 0)"),
    "remounting the library": Attack("breach_if(libc.mount(b'none', b'/usr/lib', None, 4096 | 32, None) == 0)"),
    "new namespaces": Attack("breach_if(libc.unshare(0x10000000) == 0)"),
    "new namespaces by clone": Attack("breach_if(libc.syscall({clone}, 0x10000000 | 17, 0, 0, 0, 0) >= 0)"),
    "becoming root": Attack("os.setuid(0); print('BREACH')"),
    "a shell": Attack("print(subprocess.run(['/bin/sh', '-c', 'echo BREACH'], capture_output=True).stdout)"),
    "raising limits": Attack(
        "for kind in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):\n"
        "    try: resource.setrlimit(kind, (resource.RLIM_INFINITY,) * 2); print('BREACH')\n"
        "    except (ValueError, OSError): pass"
    ),
    "raising its priority": Attack("os.nice(-10); print('BREACH')"),
    "signalling the parent": Attack("os.kill({pid}, signal.SIGTERM); print('BREACH')"),
    "signalling its own parent": Attack("os.kill(os.getppid(), signal.SIGTERM)", frozenset({"ok", "error", "killed"})),
    "signalling its group": stopped("os.killpg(0, signal.SIGTERM); time.sleep(9)", "killed"),
    "signalling everyone": Attack("os.kill(-1, signal.SIGTERM)"),
    "killing process 1": Attack("os.kill(1, signal.SIGKILL)"),
}

NETWORK = {
    "a server on this host": Attack("socket.create_connection(('127.0.0.1', {port})); print('BREACH')"),
    "a server far away": Attack("socket.create_connection(('93.184.215.14', 80), timeout=0.5); print('BREACH')"),
    "a name": Attack("print(socket.getaddrinfo('pypi.org', 443), 'BREACH')"),
    "a datagram": Attack("socket.socket(2, 2).sendto(b'x', ('127.0.0.1', {port})); print('BREACH')"),
    "an abstract Unix socket": Attack("s = socket.socket(1); s.connect(chr(0) + {abstract!r}); print('BREACH')"),
    "the hypervisor": Attack("breach_if(libc.socket(40, 1, 0) >= 0)"),
    "the kernel by netlink": Attack("breach_if(libc.socket(16, 3, 0) >= 0)"),
    "listening": Attack("s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); print('BREACH')"),
}

EXHAUSTING = {
    "a fork bomb": stopped("while True:\n    try: os.fork()\n    except OSError: pass", "timeout", "killed"),
    "forks that all spin": stopped(
        "while True:\n    try:\n        if os.fork() == 0: break\n    except OSError: break\nwhile True: pass"
    ),
    "a thread bomb": Attack(
        "n = 0\n"
        "try:\n"
        "    while n < 500: threading.Thread(target=time.sleep, args=(9,), daemon=True).start(); n += 1\n"
        "except RuntimeError: pass\n"
        "breach_if(n > 20)"
    ),
    "memory": stopped("x = []\nwhile True: x.append(bytearray(10**7))", "memory"),
    "memory at once": stopped("x = [0] * 10**10", "memory"),
    "memory by children": stopped(
        "for _ in range(20):\n"
        "    try:\n"
        "        if os.fork() == 0: break\n"
        "    except OSError: pass\n"
        "x = []\n"
        "while True:\n"
        "    try: x.append(bytearray(10**7))\n"
        "    except MemoryError: time.sleep(0.01)"
    ),
    "memory by memfd": Attack("os.memfd_create('x'); print('BREACH')"),
    "memory by System V": Attack("breach_if(libc.shmget(0, 10**8, 0o1600) >= 0)"),
    "memory by mmap": Attack("import mmap\nmmap.mmap(-1, 10**10); print('BREACH')"),
    "locked memory": Attack("b = bytearray(10**6); breach_if(libc.mlockall(3) == 0)"),
    "disk": Attack(
        "n = 0\n"
        "try:\n"
        "    for i in range(10**6):\n"
        "        with open(f'f{{i}}', 'wb') as f: n += f.write(bytes(10**6))\n"
        "except OSError: pass\n"
        "print(n); breach_if(n > 10 * 10**6)"
    ),
    "one large file": stopped("f = open('f', 'wb')\nwhile True: f.write(bytes(10**6))", "error", "killed"),
    "a sparse file": stopped("open('f', 'wb').truncate(1 << 40); print('BREACH')", "error", "killed"),
    "many files": Attack(
        "n = 0\n"
        "try:\n"
        "    for n in range(10**5): os.close(os.open(str(n), os.O_CREAT))\n"
        "except OSError: pass\n"
        "breach_if(n > 5000)"
    ),
    "open files": Attack("fds = []\nwhile True: fds.append(os.open('/dev/null', 0)); breach_if(len(fds) > 1000)"),
    "pipes full of data": Attack(
        "while True:\n    r, w = os.pipe(); os.set_blocking(w, False); os.write(w, bytes(10**6))"
    ),
    "endless output": stopped("while True: print('x' * 1000)", "killed"),
    "endless errors": stopped("while True: sys.stderr.write('x' * 1000)", "killed"),
    "endless output of a child": stopped("os.fork()\nwhile True: os.write(1, bytes(60000))", "killed"),
    "a huge value": Attack("'x' * 10**7"),
    "contexts of asynchronous I/O, which the host has few of": Attack(
        "c = ctypes.c_ulong(); breach_if(libc.syscall({io_setup}, 1000, ctypes.byref(c)) == 0)"
    ),
    "inotify, which the user has few of": Attack("breach_if(libc.inotify_init1(0) >= 0)"),
    "a huge message": Attack("raise ValueError('x' * 10**7)"),
    "a huge integer": stopped("(10**8) ** (10**7)", "timeout", "memory"),
}

OUTSTAYING = {
    "a loop": stopped("while True: pass"),
    "a loop that catches everything": stopped(
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    ),
    "sleep with signals ignored": stopped(
        "for s in set(signal.Signals) - {{signal.SIGKILL, signal.SIGSTOP}}: signal.signal(s, signal.SIG_IGN)\n"
        "time.sleep(60)"
    ),
    "C code: a regular expression": stopped("import re; re.match('(a+)+$', 'a' * 40 + 'b')"),
    "C code: a large sum": stopped("sum(range(10**12))"),
    "C code: a sort by a slow key": stopped("sorted(range(10**9))", "timeout", "memory"),
    "C code: a lock": stopped("l = threading.Lock(); l.acquire(); l.acquire()"),
    "stopping itself": stopped("os.kill(os.getpid(), signal.SIGSTOP)"),
    "a value that never shows": stopped("class A:\n    def __repr__(self):\n        while True: pass\nA()"),
    "a child that lives on": Attack("if os.fork() == 0: time.sleep(60)"),
    "a daemon": Attack(
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: os.closerange(0, 99); time.sleep(60)\n"
        "    os._exit(0)"
    ),
    "a child that ignores signals": Attack("if os.fork() == 0:\n    signal.signal(15, signal.SIG_IGN); time.sleep(60)"),
    "a thread": Attack("threading.Thread(target=time.sleep, args=(60,)).start()"),
    "a child of a dying process": stopped("if os.fork() == 0: time.sleep(60)\nos._exit(0)", "killed"),
    "an exit handler": Attack("import atexit; atexit.register(time.sleep, 60)"),
}

DISTURBING = {
    "closing every descriptor": stopped("os.closerange(0, 100)", "killed"),
    "garbage to the other half": stopped("os.write({socket}, b'\\xff' * 100000); time.sleep(9)", "killed"),
    "half a message": stopped("os.write({socket}, b'\\0\\0\\0'); time.sleep(9)"),
    "a message that is no record": stopped("os.write({socket}, b'\\0\\0\\0\\0'); time.sleep(9)", "killed"),
    "a long record of its own": stopped(
        "import struct\n"
        "def framed(data): return struct.pack('!I', len(data)) + data\n"
        "record = framed(b'ok') + framed(b'A' * 150000) + framed(b'value') + framed(b'')\n"
        "os.write({socket}, framed(record)); time.sleep(9)",
        "ok",
    ),
    "hanging up": stopped("socket.socket(fileno={socket}).shutdown(2); time.sleep(9)", "killed"),
    "a crash": stopped("ctypes.string_at(0)", "killed"),
    "an abort": stopped("os.abort()", "killed"),
    "endless recursion": Attack(
        "sys.setrecursionlimit(10**9)\ndef f(): return f()\nf()", frozenset({"error", "killed", "memory", "timeout"})
    ),
    "breaking its streams": Attack("sys.stdout.close(); sys.stderr = None; del sys.modules['sys']"),
    "an exception that can't be shown": Attack("class E(Exception):\n    def __str__(self): raise self\nraise E"),
}

FAMILIES = {
    "reading": READING,
    "writing": WRITING,
    "escaping": ESCAPING,
    "network": NETWORK,
    "exhausting": EXHAUSTING,
    "outstaying": OUTSTAYING,
    "disturbing": DISTURBING,
}
ATTACKS = {f"{family}: {name}": attack for family, attacks in FAMILIES.items() for name, attack in attacks.items()}
