"""When a peer is started again and when it is given up: rules one by one, promises by random history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.restart import RestartMachine, RestartPolicy, Transition
from gateway.config.peer import RestartConfig

S = 1_000_000_000
POLICY = RestartPolicy()


def crash(machine: RestartMachine, now: int, draw: float = 0.5) -> Transition:
    return machine.ended(now, draw, reason="exited with code 3")


def running(now: int = 0) -> RestartMachine:
    machine = RestartMachine(POLICY)
    machine.start(now)
    machine.ready(now)
    return machine


def failed(now: int = 0) -> RestartMachine:
    """A machine whose breaker has just opened, at the returned machine's `wake_at_ns - cool_down`."""
    machine = RestartMachine(POLICY)
    machine.start(now)
    while crash(machine, now).state != "failed":
        now = machine.wake_at_ns or now
        machine.tick(now)
    return machine


def test_the_first_want_spawns_and_the_handshake_makes_it_ready() -> None:
    machine = RestartMachine()
    begun = machine.start(5)
    assert (begun.before, begun.state, begun.action, begun.life) == ("idle", "starting", "spawn", 1)
    done = machine.ready(5 + S)
    assert (done.state, done.action, done.facts["took_ms"]) == ("ready", "nothing", 1000)
    assert done.wake_at_ns == 5 + S + POLICY.stable_ns


def test_wanting_what_is_there_changes_nothing() -> None:
    machine = running()
    again = machine.start(1)
    assert (again.changed, again.action, again.life) == (False, "nothing", 1)


def test_a_crash_is_followed_by_a_wait_and_another_life() -> None:
    machine = running()
    ended = crash(machine, 3 * S, draw=0.0)
    assert (ended.state, ended.life, ended.action) == ("backing_off", 1, "nothing")
    assert ended.wake_at_ns == 3 * S + POLICY.first_wait_ns // 2
    assert ended.facts == {"reason": "exited with code 3", "failures": 1, "wait_ms": 50}
    assert machine.tick(3 * S).action == "nothing"
    again = machine.tick(machine.wake_at_ns or 0)
    assert (again.state, again.action, again.life) == ("starting", "spawn", 2)


def test_waits_double_up_to_a_limit_and_the_draw_moves_them_within_half() -> None:
    waits = [POLICY.wait_ns(n, 0.0) for n in range(1, 12)]
    assert waits[:4] == [50_000_000, 100_000_000, 200_000_000, 400_000_000]
    assert waits[-1] == POLICY.longest_wait_ns // 2
    assert POLICY.wait_ns(1, 0.999999) <= POLICY.first_wait_ns
    assert POLICY.wait_ns(10_000, 0.999999) <= POLICY.longest_wait_ns


def test_the_fifth_failure_in_a_row_opens_the_breaker() -> None:
    machine = RestartMachine()
    now = 0
    machine.start(now)
    for _ in range(4):
        assert crash(machine, now).state == "backing_off"
        assert machine.may_call
        now = machine.wake_at_ns or 0
        assert machine.tick(now).action == "spawn"
    opened = crash(machine, now)
    assert (opened.state, opened.facts["failures"]) == ("failed", 5)
    assert not machine.may_call
    assert machine.retry_after_ms(now) == 30_000
    assert machine.retry_after_ms(now + 29_999_500_000) == 1


def test_wanting_a_failed_peer_does_not_shorten_its_cool_down() -> None:
    machine = failed()
    assert machine.start(machine.wake_at_ns or 0).action == "nothing"
    assert machine.state == "failed"


def test_after_the_cool_down_one_life_is_tried_and_its_failure_opens_for_twice_as_long() -> None:
    machine = failed()
    now = machine.wake_at_ns or 0
    trial = machine.tick(now)
    assert (trial.action, trial.facts["half_open"]) == ("spawn", True)
    assert machine.ready(now).state == "ready"
    opened = crash(machine, now + S)
    assert (opened.state, opened.wake_at_ns) == ("failed", now + S + 2 * POLICY.cool_down_ns)


def test_a_trial_that_stays_ready_closes_the_breaker() -> None:
    machine = failed()
    now = machine.wake_at_ns or 0
    machine.tick(now)
    settled_at = machine.ready(now).wake_at_ns or 0
    settled = machine.tick(settled_at)
    assert (settled.changed, settled.wake_at_ns, machine.failures, machine.half_open) == (
        False,
        None,
        0,
        False,
    )
    assert crash(machine, settled_at + 1).state == "backing_off"


def test_a_long_life_wipes_out_failures_even_if_nobody_ticked() -> None:
    machine = running()
    for _ in range(20):
        now = (machine.wake_at_ns or 0) + 1
        assert crash(machine, now).facts["failures"] == 1
        now = machine.wake_at_ns or 0
        machine.tick(now)
        machine.ready(now)


def test_a_final_end_is_not_tried_again_until_a_person_resets() -> None:
    machine = running()
    ended = machine.ended(S, 0.5, reason="speaks 1999-12-31", final=True)
    assert (ended.state, ended.wake_at_ns) == ("failed", None)
    assert machine.retry_after_ms(S) is None
    assert machine.tick(10**18).action == "nothing"
    assert machine.reset(2 * S).action == "spawn"


def test_without_restarts_the_first_end_is_the_last() -> None:
    machine = RestartMachine(RestartPolicy(enabled=False))
    machine.start(0)
    machine.ready(0)
    assert crash(machine, S).state == "failed"
    assert machine.tick(10**18).action == "nothing"


def test_a_reset_ends_a_wait_at_once_and_forgets() -> None:
    machine = failed()
    begun = machine.reset(1)
    assert (begun.action, begun.facts["half_open"], machine.failures) == ("spawn", False, 0)


def test_stopping_ends_in_stopped_however_the_process_goes() -> None:
    machine = running()
    asked = machine.stop(S)
    assert (asked.state, asked.action, asked.facts["lived_ms"]) == ("stopping", "stop", 1000)
    ended = crash(machine, 2 * S)
    assert (ended.state, ended.action, ended.wake_at_ns) == ("stopped", "nothing", None)
    assert machine.tick(10**18).action == "nothing"
    assert machine.start(3 * S).action == "spawn"


def test_a_want_while_stopping_is_served_once_the_old_life_is_over() -> None:
    machine = running()
    machine.stop(S)
    assert machine.start(S).action == "nothing"
    again = crash(machine, 2 * S)
    assert (again.state, again.action, again.life) == ("starting", "spawn", 2)


def test_stopping_during_a_wait_needs_no_process_to_end() -> None:
    machine = running()
    crash(machine, S)
    assert machine.stop(S).state == "stopped"
    assert machine.tick(10**18).action == "nothing"


def test_the_policy_follows_the_configuration() -> None:
    policy = RestartPolicy.of(RestartConfig(backoff_s=0.5, backoff_max_s=8, budget=3, window_s=10))
    assert (policy.first_wait_ns, policy.longest_wait_ns) == (S // 2, 8 * S)
    assert (policy.open_after, policy.stable_ns, policy.enabled) == (3, 10 * S, True)


steps = st.lists(
    st.tuples(
        st.sampled_from(["start", "ready", "ended", "final", "tick", "wake", "stop", "reset"]),
        st.integers(0, 90 * S),
        st.floats(0, 1, exclude_max=True),
    ),
    max_size=60,
)


@given(steps)
def test_no_history_makes_two_lives_at_once_or_forgets_one(history: list[tuple[str, int, float]]) -> None:
    machine = RestartMachine(POLICY)
    now, alive, lives = 0, False, 0
    for step, passed, draw in history:
        now = max(now, machine.wake_at_ns or 0) if step == "wake" else now + passed
        before = machine.state
        match step:
            case "start":
                came = machine.start(now)
            case "ready":
                came = machine.ready(now)
            case "ended" | "final":
                if not alive:
                    continue
                alive = False
                came = machine.ended(now, draw, reason="crash", final=step == "final")
            case "stop":
                came = machine.stop(now)
            case "reset":
                came = machine.reset(now)
            case _:
                came = machine.tick(now)
        assert (came.before, came.state) == (before, machine.state)
        assert came.life == machine.life
        if came.action == "spawn":
            assert not alive
            alive, lives = True, lives + 1
            assert machine.life == lives
        # A process is there exactly in the states that say so.
        assert alive == (machine.state in {"starting", "ready", "stopping"})
        if machine.state == "backing_off":
            assert machine.failures < POLICY.open_after
            assert machine.wake_at_ns is not None
        if machine.state in {"backing_off", "failed"} and machine.wake_at_ns is not None and came.changed:
            assert now < machine.wake_at_ns <= now + POLICY.longest_cool_down_ns
        assert bool(came.facts) == came.changed


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=30))
def test_the_same_draws_give_the_same_waits(draws: list[float]) -> None:
    def waits() -> list[int | None]:
        machine = RestartMachine(RestartPolicy(open_after=1000))
        machine.start(0)
        found: list[int | None] = []
        for draw in draws:
            found.append(crash(machine, machine.wake_at_ns or 0, draw).wake_at_ns)
            machine.tick(machine.wake_at_ns or 0)
        return found

    assert waits() == waits()
