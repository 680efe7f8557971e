from __future__ import annotations

import os
import signal

import pytest

from tritone.stop_signals import stop_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_first_asks_and_the_second_orders(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_signals() as stop:
        assert not stop.wait(0)
        os.kill(os.getpid(), number)
        assert stop.wait(1)
        assert (stop.is_requested, stop.is_forced) == (True, False)
        os.kill(os.getpid(), number)
        assert stop.is_forced
    assert signal.getsignal(number) is before


def test_interrupts_what_need_not_end_by_itself_but_only_once() -> None:
    with stop_signals() as stop:
        with pytest.raises(KeyboardInterrupt), stop.interrupting():
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_forced
