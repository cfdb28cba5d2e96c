"""What every test shares: hypothesis that repeats itself exactly, and the real samples where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A shared machine is slow at times: no deadlines, and the same examples in every run.
settings.register_profile("offline", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("offline")

PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The folder that holds pyproject.toml."""
    return PROJECT


@pytest.fixture(scope="session")
def real_samples() -> Path:
    """The folder with samples of the public sets, which are not the project's to ship."""
    folder = PROJECT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs samples of the public sets in ../shared/data; runs where they are laid out")
    return folder
