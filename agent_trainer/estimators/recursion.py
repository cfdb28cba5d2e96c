"""The one recursion of every estimator that looks ahead: x_k + c_k (x_{k+1} + c_{k+1} (x_{k+2} + ...)).

It runs over sequences of action tokens (``sequences.py``), so that an observation between two tokens neither decays nor
resets anything, whatever its length.
"""

from __future__ import annotations

import torch
from torch import Tensor


def discounted_sums(terms: Tensor, factors: Tensor) -> Tensor:
    """float64 ``[E, K]``: S_k = terms_k + factors_k S_{k+1}, with nothing behind the last column.

    Padding on the right must hold zero terms.
    """
    sums = torch.empty_like(terms)
    carry = terms.new_zeros(len(terms))
    for place in reversed(range(terms.shape[1])):
        carry = terms[:, place] + factors[:, place] * carry
        sums[:, place] = carry
    return sums


def generalized_advantages(rewards: Tensor, values: Tensor, next_values: Tensor, gamma: Tensor, lam: Tensor) -> Tensor:
    """float64 ``[E, K]``: A_k = d_k + gamma_k lam_k A_{k+1}, with d_k = r_k + gamma_k V_{k+1} - V_k.

    Source: arXiv 1506.02438, eq. 16, with a discount and a lambda of each step's own.

    Args:
        rewards: ``[E, K]``, zero on padding.
        values: ``[E, K]``, V_k, zero on padding.
        next_values: ``[E, K]``, V_{k+1}; behind the last token the bootstrap, zero on padding.
        gamma: ``[E, K]``, the discount between token k and the next.
        lam: ``[E, K]``, the lambda between them.
    """
    return discounted_sums(rewards + gamma * next_values - values, gamma * lam)
