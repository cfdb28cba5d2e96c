from __future__ import annotations

import pytest
import torch

from agent_trainer.estimators.overlong import overlong_penalty


def test_the_penalty_grows_over_the_buffer() -> None:
    # 100 tokens at most, a buffer of 40: nothing up to 60, -1/4 at 70, -1/2 at 80, -1 from 100 on.
    lengths = torch.tensor([0, 59, 60, 70, 80, 100, 500])
    assert overlong_penalty(lengths, 100, 40).tolist() == [0, 0, 0, -0.25, -0.5, -1, -1]


@pytest.mark.parametrize("buffer", [0, 101])
def test_a_buffer_out_of_range_is_an_error(buffer: int) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        overlong_penalty(torch.tensor([1]), 100, buffer)
