from __future__ import annotations

from tritone.restart_policy import RestartPolicy


def test_the_delay_doubles_up_to_the_longest() -> None:
    policy = RestartPolicy()
    died_s = [float(400 * life) for life in range(9)]  # far enough apart for the limit, never healthy for long
    assert [policy.delay_s(died - 1, died) for died in died_s] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_minute_of_health_begins_anew() -> None:
    policy = RestartPolicy()
    assert [policy.delay_s(0, 1), policy.delay_s(2, 3), policy.delay_s(4, 63.9), policy.delay_s(70, 130)] == [
        0.5,
        1,
        2,
        0.5,
    ]


def test_gives_up_at_the_sixth_death_within_five_minutes() -> None:
    policy = RestartPolicy()
    assert [policy.delay_s(died, died) for died in range(5)] == [0.5, 1, 2, 4, 8]
    assert policy.delay_s(299, 300) is None
    assert policy.delay_s(299, 300.5) == 16  # the first of them is too long ago
