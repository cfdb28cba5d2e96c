"""Where namespaces are not to be had: a refusal that says what to do, and what best effort still gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from agent_envs.sandbox.process import remove_tree
from agent_envs.sandbox.seccomp import this_machine

PROGRAM = "tests.agent_envs.sandbox.without_namespaces"
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or this_machine() is None, reason="namespaces can be forbidden on Linux only"
)

SURROUNDINGS = "import os\nprint(os.getcwd(), os.listdir(), 'SANDBOX_TEST_SECRET' in os.environ)"
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid())
        time.sleep(60)
    os._exit(0)
os.wait()
time.sleep(0.1)
"""
STATUSES = {
    "1 + 1": "ok",
    "while True: pass": "timeout",
    "x = [0] * 10**10": "memory",
    "while True: print('x' * 1000)": "killed",
    "import socket; socket.create_connection(('127.0.0.1', 80))": "error",
    "import os; os.memfd_create('x')": "error",
    "open('f', 'wb').truncate(10**9)": "error",
}


@pytest.fixture(scope="module")
def report(project_root: Path) -> dict[str, Any]:
    environment = os.environ | {"SANDBOX_TEST_SECRET": "hidden"}
    command = [sys.executable, "-m", PROGRAM, *STATUSES, SURROUNDINGS, DAEMON, f"print(open({__file__!r}).readline())"]
    done = subprocess.run(command, cwd=project_root, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_folder_that_the_code_made_unreadable_is_removed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a child process without root's rights, in whose way no mode would stand."""
    monkeypatch.chdir(tmp_path)  # the folders above are for this user alone
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    folder = tmp_path / "sandbox"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("x")
    (folder / "a" / "link").symlink_to(outside)
    nobody = 65534
    if os.geteuid() == 0:
        tmp_path.chmod(0o777)
        for path in (folder, *folder.rglob("*"), outside):
            os.chown(path, nobody, nobody, follow_symlinks=False)
    (folder / "a" / "b").chmod(0)
    (folder / "a").chmod(0)
    folder.chmod(0)
    child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            os.setuid(nobody)
        remove_tree(os.path.relpath(folder, tmp_path))
        os._exit(0)
    os.waitpid(child, 0)
    assert not folder.exists()
    assert outside.stat().st_mode & 0o777 == 0o750


def test_require_refuses_and_says_what_is_missing_and_what_to_do(report: dict[str, Any]) -> None:
    refusals = report["refusals"]
    assert len(refusals) == 2
    assert "unshare: Operation not permitted" in refusals[0]
    assert "user namespaces" in refusals[0]
    assert 'isolation="best-effort"' in refusals[0]


def test_best_effort_warns_once(report: dict[str, Any]) -> None:
    assert len(report["warnings"]) == 1
    assert "without isolation" in report["warnings"][0]


@pytest.mark.parametrize("code", STATUSES)
def test_limits_and_the_filter_hold_without_namespaces(report: dict[str, Any], code: str) -> None:
    run = report["runs"][code]
    assert run["status"] == STATUSES[code], run
    assert (run["status"] != "error") or run["error"].startswith("Traceback")


def test_the_environment_is_scrubbed_and_the_folder_empty_and_removed(report: dict[str, Any]) -> None:
    folder, rest = report["runs"][SURROUNDINGS]["stdout"].split(" ", 1)
    assert rest == "[] False\n"
    assert folder.startswith(tempfile.gettempdir())
    assert not Path(folder).exists()


def test_children_that_left_the_group_are_killed_too(report: dict[str, Any]) -> None:
    run = report["runs"][DAEMON]
    assert run["status"] == "ok"
    assert not Path(f"/proc/{int(run['stdout'])}").exists()


def test_files_of_the_host_can_be_read_as_the_warning_says(report: dict[str, Any]) -> None:
    assert "Where namespaces" in report["runs"][f"print(open({__file__!r}).readline())"]["stdout"]
