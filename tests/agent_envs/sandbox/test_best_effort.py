"""Where namespaces are not to be had: a refusal that says what to do, and what best effort still gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent_envs.sandbox.seccomp import this_machine

PROGRAM = "tests.agent_envs.sandbox.without_namespaces"
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or this_machine() is None, reason="namespaces can be forbidden on Linux only"
)


@cache
def report(code: str, project: Path) -> dict[str, Any]:
    environment = os.environ | {"SANDBOX_TEST_SECRET": "hidden"}
    command = [sys.executable, "-m", PROGRAM, code]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_require_refuses_and_says_what_is_missing_and_what_to_do(project_root: Path) -> None:
    refusals = report("1 + 1", project_root)["refusals"]
    assert len(refusals) == 2
    assert "unshare: Operation not permitted" in refusals[0]
    assert "user namespaces" in refusals[0]
    assert 'isolation="best-effort"' in refusals[0]


def test_best_effort_runs_and_warns_once(project_root: Path) -> None:
    result = report("1 + 1", project_root)
    assert (result["run"]["status"], result["run"]["value"]) == ("ok", "2")
    assert len(result["warnings"]) == 1
    assert "without isolation" in result["warnings"][0]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("while True: pass", "timeout"),
        ("x = [0] * 10**10", "memory"),
        ("while True: print('x' * 1000)", "killed"),
        ("import socket; socket.create_connection(('127.0.0.1', 80))", "error"),
        ("import os; os.memfd_create('x')", "error"),
        ("open('f', 'wb').truncate(10**9)", "error"),
    ],
)
def test_limits_and_the_filter_hold_without_namespaces(code: str, status: str, project_root: Path) -> None:
    run = report(code, project_root)["run"]
    assert run["status"] == status
    assert (status != "error") or run["error"].startswith("Traceback")


def test_the_environment_is_scrubbed_and_the_folder_empty_and_removed(project_root: Path) -> None:
    run = report("import os\nprint(os.getcwd(), os.listdir(), 'SANDBOX_TEST_SECRET' in os.environ)", project_root)[
        "run"
    ]
    folder, rest = run["stdout"].split(" ", 1)
    assert rest == "[] False\n"
    assert folder.startswith(tempfile.gettempdir())
    assert not Path(folder).exists()


def test_children_that_left_the_group_are_killed_too(project_root: Path, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    daemon = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        f"        open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(60)\n    os._exit(0)\n"
        f"while not os.path.exists({str(mark)!r}): time.sleep(0.01)"
    )
    assert report(daemon, project_root)["run"]["status"] == "ok"
    assert not Path(f"/proc/{mark.read_text()}").exists()
