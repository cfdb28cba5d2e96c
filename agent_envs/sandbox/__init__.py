"""Runs untrusted Python code with limits, and on Linux in namespaces of its own."""

from agent_envs.sandbox.execution import Execution
from agent_envs.sandbox.isolation import missing_isolation
from agent_envs.sandbox.limits import Limits
from agent_envs.sandbox.process import SandboxError
from agent_envs.sandbox.session import PythonSession, run_python

__all__ = ["Execution", "Limits", "PythonSession", "SandboxError", "missing_isolation", "run_python"]
