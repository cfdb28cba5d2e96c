"""The circuit breaker, by hand on a clock of its own."""

from __future__ import annotations

from agent_envs.retrieval.client_breaker import CircuitBreaker, Verdict


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def tripped(clock: Clock) -> CircuitBreaker:
    breaker = CircuitBreaker(failures_to_open=3, cooldown_s=10.0, clock=clock)
    for _ in range(3):
        assert breaker.ask() is Verdict.PASS
        breaker.failed()
    return breaker


def test_failures_in_a_row_lead_to_a_probe_and_a_success_between_them_does_not() -> None:
    breaker = CircuitBreaker(failures_to_open=3, cooldown_s=10.0)
    for _ in range(5):
        breaker.failed()
        breaker.failed()
        breaker.succeeded()
    assert breaker.ask() is Verdict.PASS
    for _ in range(3):
        breaker.failed()
    assert breaker.ask() is Verdict.PROBE


def test_while_one_probes_a_suspect_the_others_go_on() -> None:
    breaker = tripped(Clock())
    assert breaker.ask() is Verdict.PROBE
    assert breaker.ask() is Verdict.PASS
    breaker.settle(alive=True)
    assert not breaker.is_open
    assert breaker.ask() is Verdict.PASS


def test_a_dead_server_is_asked_again_after_the_cooldown_only() -> None:
    clock = Clock()
    breaker = tripped(clock)
    assert breaker.ask() is Verdict.PROBE
    breaker.settle(alive=False)
    assert breaker.is_open
    assert breaker.ask() is Verdict.REFUSE
    clock.now += 9.9
    assert breaker.ask() is Verdict.REFUSE
    clock.now += 0.2
    assert breaker.ask() is Verdict.PROBE
    assert breaker.ask() is Verdict.REFUSE  # it is open, and one probe is enough
    breaker.settle(alive=False)
    assert breaker.ask() is Verdict.REFUSE
    clock.now += 10.1
    assert breaker.ask() is Verdict.PROBE
    breaker.settle(alive=True)
    assert breaker.ask() is Verdict.PASS and not breaker.is_open


def test_after_a_sign_of_life_the_count_begins_anew() -> None:
    breaker = tripped(Clock())
    assert breaker.ask() is Verdict.PROBE
    breaker.settle(alive=True)
    breaker.failed()
    breaker.failed()
    assert breaker.ask() is Verdict.PASS
    breaker.failed()
    assert breaker.ask() is Verdict.PROBE


def test_an_exchange_that_ends_well_closes_the_circuit() -> None:
    breaker = tripped(Clock())
    assert breaker.ask() is Verdict.PROBE
    breaker.settle(alive=False)
    breaker.succeeded()  # one that was under way before
    assert breaker.ask() is Verdict.PASS and not breaker.is_open
