"""The masks end to end: from a three-turn episode with a real chat template to the gradient of the loss.

The model here is a table of logits, one row per position, so that the gradient at each place can be read off and the
context has no way to influence anything.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from agent_envs.budgets import Budgets
from agent_envs.episode import EpisodeCore
from agent_envs.formats import FORMATS
from agent_envs.tasks.hotpotqa import HotpotQaOptions, load_hotpotqa
from agent_envs.tasks.qa import QaTask
from agent_envs.tokenizers import ByteTokenizer, Tokenizer
from agent_envs.types import Episode
from agent_trainer.batch import RowBatch, make_rows
from agent_trainer.estimators import ESTIMATORS, AdvantageInputs
from agent_trainer.learner import TokenScorer
from agent_trainer.losses import Denominators, LossInputs, LossSettings, TokenLayout, loss_mask, policy_loss
from tests.agent_envs import small_tokenizers as small

TURNS = (
    '<think>first</think>\n<tool_call>\n{"name": "search", "arguments": {"query": "river"}}\n</tool_call>',
    '<tool_call>\n{"name": "search", "arguments": {"query": "novel"}}\n</tool_call>',
    "<think>so</think><answer>Vysma</answer>",
)


class LogitTable(nn.Module):
    """Logits ``[B, L, V]`` that are parameters, whatever the ids."""

    def __init__(self, rows: int, length: int, vocab_size: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.table = nn.Parameter(torch.randn(rows, length, vocab_size, generator=generator))
        self.head = nn.Identity()

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> SimpleNamespace:
        assert input_ids.shape[1] <= self.table.shape[1]
        return SimpleNamespace(logits=self.head(self.table[:, : input_ids.shape[1]]))


@dataclass(frozen=True)
class Played:
    """Two episodes of one group and what the policy wrote in each."""

    tokenizer: Tokenizer
    episodes: tuple[Episode, Episode]
    written: tuple[list[int], list[int]]


@functools.cache
def task() -> QaTask:
    return load_hotpotqa(HotpotQaOptions(split="mini/test"))


def play(tokenizer: Tokenizer, answer: str) -> tuple[Episode, list[int]]:
    core = EpisodeCore("AgentR1/HotpotQA-v0", task(), tokenizer, FORMATS.get("hermes"), Budgets())
    core.reset(0, seed=1)
    written: list[int] = []
    for text in (*TURNS[:2], TURNS[2].replace("Vysma", answer)):
        ids = core.encode_turn(text)
        core.feed(ids)
        written += ids
    return core.snapshot(), written


@pytest.fixture(params=["byte", "tools", "plain"])
def played(request: pytest.FixtureRequest) -> Played:
    template = {"tools": small.WITH_TOOLS, "plain": small.PLAIN}
    tokenizer = ByteTokenizer() if request.param == "byte" else small.bpe_tokenizer(template[request.param])
    wrong, written_wrong = play(tokenizer, "nowhere")
    right, written_right = play(tokenizer, task().item(0).answers[0])
    assert (wrong.total_reward, right.total_reward) == (0.0, 1.0)
    return Played(tokenizer, (wrong, right), (written_wrong, written_right))


def loss_of(table: LogitTable, rows: RowBatch, only_actions: bool = True) -> Tensor:
    mask = loss_mask(rows.action_mask, rows.completion_mask, only_actions=only_actions)
    advantages = ESTIMATORS.get("grpo")(
        AdvantageInputs(
            rows.rewards, rows.action_mask, mask, rows.turn_ids, rows.episode_ids, rows.group_ids, rows.valid
        )
    )
    scores = TokenScorer(temperature=1.0)(
        table,
        {
            "prompt_ids": rows.prompt_ids,
            "prompt_mask": rows.prompt_mask,
            "completion_ids": rows.completion_ids,
            "completion_mask": rows.completion_mask,
        },
        mask,
    )
    layout = TokenLayout.of_rows(mask, rows.turn_ids, rows.episode_ids)
    inputs = LossInputs(scores.logprobs, advantages.values, layout, ref_logprobs=torch.zeros_like(scores.logprobs))
    return policy_loss(inputs, LossSettings(kl_coef=0.1), Denominators.count(layout)).loss


def gradient_norms(table: LogitTable, loss: Tensor) -> Tensor:
    """``[B, L]``: how much the logits that predict the next position are moved."""
    table.zero_grad()
    loss.backward()
    assert table.table.grad is not None
    return table.table.grad.abs().sum(dim=-1)


def table_for(played: Played) -> LogitTable:
    return LogitTable(2, max(len(episode.tokens) for episode in played.episodes), played.tokenizer.vocab_size)


def test_decoding_the_true_tokens_gives_exactly_what_the_policy_wrote(played: Played) -> None:
    for episode, written in zip(played.episodes, played.written, strict=True):
        assert episode.tokens[episode.action_mask].tolist() == written
        rows = make_rows([episode], [0], [0])
        assert rows.completion_ids[rows.action_mask].tolist() == written
        text = played.tokenizer.decode(written)
        assert TURNS[0] in text
        assert TURNS[1] in text
        assert "<tool_response>" not in text


def test_the_gradient_at_every_environment_token_is_exactly_zero(played: Played) -> None:
    table = table_for(played)
    norms = gradient_norms(table, loss_of(table, make_rows(played.episodes, [0, 1], [0, 0])))
    for row, episode in enumerate(played.episodes):
        predicts = torch.zeros(table.table.shape[1], dtype=torch.bool)
        predicts[torch.from_numpy(episode.action_mask.nonzero()[0]) - 1] = True
        assert (norms[row][~predicts] == 0).all()
        assert (norms[row][predicts] > 0).all()


def test_without_the_loss_mask_the_tools_output_is_trained(played: Played) -> None:
    table = table_for(played)
    norms = gradient_norms(table, loss_of(table, make_rows(played.episodes, [0, 1], [0, 0]), only_actions=False))
    for row, episode in enumerate(played.episodes):
        feedback = range(episode.turns[0].stop, episode.turns[0].feedback_stop)
        assert (norms[row][[position - 1 for position in feedback]] > 0).all()


def test_other_tool_output_changes_no_loss_term_except_through_the_context(played: Played) -> None:
    table = table_for(played)
    changed = []
    for episode in played.episodes:
        tokens = episode.tokens.copy()
        outside = ~episode.action_mask
        outside[: episode.segments[0].prompt_length] = False
        tokens[outside] = (tokens[outside] + 1) % 200
        changed.append(replace(episode, tokens=tokens))
    before, after = (make_rows(episodes, [0, 1], [0, 0]) for episodes in (played.episodes, changed))
    assert not torch.equal(before.completion_ids, after.completion_ids)
    assert torch.equal(loss_of(table, before), loss_of(table, after))
    whole = [loss_of(table, rows, only_actions=False) for rows in (before, after)]
    assert not torch.equal(whole[0], whole[1])
