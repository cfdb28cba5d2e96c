"""Run as a program: forbids itself new namespaces, as a container does, and says what the sandbox makes of that.

``python without_namespaces.py CODE ...`` prints a JSON object with, among others, the run of each code.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings

from agent_envs.errors import ConfigError
from agent_envs.sandbox import Limits, PythonSession, run_python
from agent_envs.sandbox.inside import kernel
from agent_envs.sandbox.seccomp import build_filter, this_machine


def main() -> None:
    machine = this_machine()
    assert machine is not None
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.install_filter(build_filter(machine, frozenset({"unshare"})))
    refusals = []
    for attempt in (lambda: run_python("1"), PythonSession):
        try:
            attempt()
        except ConfigError as error:
            refusals.append(str(error))
    limits = Limits(timeout_s=1.0, memory_mb=128, file_mb=8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runs = {code: dataclasses.asdict(run_python(code, limits, "best-effort")) for code in sys.argv[1:]}
    messages = [str(warning.message) for warning in caught]
    print(json.dumps({"refusals": refusals, "warnings": messages, "runs": runs}))


if __name__ == "__main__":
    main()
