"""A mark for tests that need a machine which can isolate."""

from __future__ import annotations

import pytest

from agent_envs.sandbox import missing_isolation

MISSING = missing_isolation()
needs_isolation = pytest.mark.skipif(
    MISSING is not None, reason=f"runs where Python can be isolated; missing here: {MISSING}"
)
