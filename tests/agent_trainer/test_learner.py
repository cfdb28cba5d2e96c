from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from agent_trainer.batch import RowBatch, make_rows, pad_rows
from agent_trainer.learner import TokenScorer, logprobs_and_entropy
from tests.agent_trainer.episodes import episode
from tests.agent_trainer.small_training import tiny_model

NAMES = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def some_rows() -> RowBatch:
    return make_rows([episode(), episode("PPPPPPaeeeaa"), episode("Pa")], [0, 1, 2], [0, 0, 0])


def tensors(rows: RowBatch) -> dict[str, Tensor]:
    return {name: getattr(rows, name) for name in NAMES}


def test_entropy_and_logprobs_by_hand() -> None:
    logits = torch.tensor([[0.0, 0.0], [2.0 * torch.log(torch.tensor(3.0)), 0.0]])
    logprobs, entropy = logprobs_and_entropy(logits, torch.tensor([1, 0]), temperature=2.0)
    assert logprobs.exp().tolist() == pytest.approx([0.5, 0.75])
    assert entropy.tolist() == pytest.approx([0.693147, 0.562335], abs=1e-5)


def test_scores_are_those_of_each_row_by_itself_without_padding() -> None:
    model, rows = tiny_model(), some_rows()
    scores = TokenScorer(temperature=0.7)(model, tensors(rows), rows.action_mask)
    for index in range(len(rows)):
        prompt = rows.prompt_ids[index][rows.prompt_mask[index].bool()]
        completion = rows.completion_ids[index][rows.completion_mask[index].bool()]
        logits = model(input_ids=torch.cat([prompt, completion])[None]).logits[0, len(prompt) - 1 : -1] / 0.7
        expected = logits.log_softmax(-1).gather(-1, completion[:, None])[:, 0]
        mask = rows.action_mask[index]
        assert torch.allclose(scores.logprobs[index][mask], expected[mask[: len(completion)]], atol=1e-5)
        assert not scores.logprobs[index][~mask].any()


def test_logits_are_computed_at_the_asked_tokens_and_nowhere_else() -> None:
    model, rows = tiny_model(), some_rows()
    shapes = []
    model.lm_head.register_forward_hook(lambda _module, _inputs, output: shapes.append(tuple(output.shape)))
    TokenScorer(1.0)(model, tensors(rows), rows.action_mask)
    assert shapes == [(int(rows.action_mask.sum()), model.config.vocab_size)]


def test_the_entropy_is_a_number_unless_the_loss_has_it() -> None:
    model, rows = tiny_model(), some_rows()
    assert not TokenScorer(1.0)(model, tensors(rows), rows.action_mask).entropy.requires_grad
    assert TokenScorer(1.0, entropy_gradient=True)(model, tensors(rows), rows.action_mask).entropy.requires_grad


def test_ids_beyond_the_tokenizer_have_no_probability() -> None:
    model, rows = tiny_model(), some_rows()
    narrow = TokenScorer(1.0, vocab_size=100)(model, tensors(rows), rows.action_mask).logprobs
    wide = TokenScorer(1.0)(model, tensors(rows), rows.action_mask).logprobs
    assert (narrow[rows.action_mask] > wide[rows.action_mask]).all()


def test_the_environments_tokens_act_through_the_context_only() -> None:
    model, rows = tiny_model(), some_rows()
    changed = copy.deepcopy(tensors(rows))
    environment = rows.completion_mask.bool() & ~rows.action_mask
    changed["completion_ids"][environment] += 50
    scorer = TokenScorer(1.0)
    before, after = (scorer(model, inputs, rows.action_mask).logprobs for inputs in (tensors(rows), changed))
    first_turn = rows.action_mask & (rows.turn_ids == 0)
    assert torch.equal(before[first_turn], after[first_turn])
    assert (before[rows.action_mask] != after[rows.action_mask]).any()


def test_an_empty_request_is_attached_to_the_graph_with_zero_gradients() -> None:
    model, rows = tiny_model(), some_rows()
    scores = TokenScorer(1.0, entropy_gradient=True)(model, tensors(rows), torch.zeros_like(rows.action_mask))
    (scores.logprobs.sum() + scores.entropy.sum()).backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and not gradient.any() for gradient in gradients)


def test_rows_of_weight_zero_and_chunks_change_nothing() -> None:
    model, rows = tiny_model(), some_rows()
    scorer, padded = TokenScorer(1.0), pad_rows(some_rows(), 8)
    whole = scorer(model, tensors(rows), rows.action_mask).logprobs
    assert torch.allclose(scorer(model, tensors(padded), padded.action_mask).logprobs[:3], whole, atol=1e-6)
    assert torch.allclose(scorer.in_chunks(model, tensors(rows), rows.action_mask, 2), whole, atol=1e-6)
    assert not scorer.in_chunks(model, tensors(rows), rows.action_mask, 2).requires_grad
