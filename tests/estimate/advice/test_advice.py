"""Advice: what is recommended, at what price, and why not reducers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rsctl.estimate.advice.calibration import UNCALIBRATED
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.interconnect import INTERCONNECTS
from rsctl.estimate.advice.profile import Profile, even_profile
from rsctl.estimate.advice.recommendation import Advice, interval, make_advice, recommended
from rsctl.estimate.advice.situation import ReducerMachine, Situation
from rsctl.estimate.advice.step import ExchangeSettings

MACHINE = ReducerMachine(name="cpu-16", bits=10e9, cores=16, dollars=1.0)
CLUSTER = ModelledCluster(workers=8, worker_bits=10e9, worker_cores=16)
SITUATION = Situation(
    target="vertex",
    cluster=CLUSTER,
    worker_machine="gpu-1",
    worker_dollars=20.0,
    reducer_machines=(MACHINE,),
)
LARGE = even_profile(1_000_000_000, 0.1)


def advice(situation: Situation = SITUATION, profile=LARGE, **more) -> Advice:  # type: ignore[no-untyped-def]
    return make_advice(situation, profile, UNCALIBRATED, **more)


def whys(made: Advice) -> list[str]:
    return [hint.text for hint in made.hints if hint.kind == "why"]


def test_a_network_bound_job_gets_as_many_reducers_as_its_workers_can_use() -> None:
    made = advice(steps=10_000, batch=4)
    best = made.recommendation
    assert (best.topology, best.reducers, best.reducer_machine) == ("pool", 8, "cpu-16")
    assert best.gain == pytest.approx(1 - 4 / 7, abs=0.03)
    price = (8 * 20 + 8 * 1) / 3600 * best.step_seconds * 1000
    assert best.dollars_per_1000_steps == pytest.approx(price)
    assert best.run_dollars == pytest.approx(10 * price)
    assert best.samples_per_second == pytest.approx(8 * 4 / best.step_seconds)
    assert (best.low, best.high) == pytest.approx(
        (best.step_seconds / 1.15, best.step_seconds / 0.85)
    )
    assert made.options[0].reducers == 8
    assert made.pool_sizes.saturating == 8
    assert made.pool_sizes.break_even == 5
    assert "lower cost" in best.sentence


def test_reducers_with_slower_cards_are_faster_than_a_ring_in_larger_numbers() -> None:
    half = advice(replace(SITUATION, reducer_machines=(replace(MACHINE, bits=5e9),)))
    assert half.pool_sizes.break_even == 10  # 8 * 8 / (2 * 7) / 0.5, and more


def test_dear_reducers_do_not_pay() -> None:
    dear = replace(SITUATION, reducer_machines=(replace(MACHINE, dollars=50.0),))
    made = advice(dear)
    assert made.recommendation.reducers == 0
    assert made.recommendation.sentence.startswith("Use no reducers (ring): a step of")
    assert made.fastest is not None
    assert made.fastest.reducers == 8
    assert made.pool_sizes.cheapest == 0
    assert whys(made) == [
        "reducers do not pay off: with 1 reducer on cpu-16 a step is 1.089 times as fast, and "
        "must be 1.312 times as fast to justify their price"
    ]


UNPRICED = replace(
    SITUATION, worker_dollars=None, reducer_machines=(replace(MACHINE, dollars=None),)
)


@pytest.mark.parametrize(
    ("situation", "profile", "sentence"),
    [
        (
            SITUATION,
            LARGE,
            "Use 8 reducers on cpu-16 (pool): a step of 892 ms (775 ms to 1.05 s), 42% less than "
            "the 1.53 s without reducers, at a 39% lower cost.",
        ),
        (
            UNPRICED,
            even_profile(10_000_000, 0.02),
            "Use 8 reducers on cpu-16 (pool): a step of 29 ms (25.2 ms to 34.1 ms), 17% less than "
            "the 34.7 ms without reducers.",
        ),
        (
            UNPRICED,
            even_profile(3_000_000, 0.02),
            "Use 8 reducers on cpu-16 (pool): a step of 23 ms (20 ms to 27 ms), 3% less than the "
            "23.6 ms without reducers; this is within the error of the model.",
        ),
        (
            SITUATION,
            even_profile(1_000_000, 0.5),
            "Use no reducers (ring): a step of 503 ms (437 ms to 592 ms), limited by computation.",
        ),
        (
            replace(SITUATION, cluster=replace(CLUSTER, workers=1)),
            LARGE,
            "Use no reducers: a step of 100 ms, limited by computation.",
        ),
    ],
)
def test_the_advice_in_one_sentence(situation: Situation, profile: Profile, sentence: str) -> None:
    best = advice(situation, profile).recommendation
    assert best.sentence == sentence
    assert (best.run_dollars, best.samples_per_second) == (None, None)  # without steps and batch


def test_without_prices_time_decides() -> None:
    best = advice(UNPRICED).recommendation
    assert (best.reducers, best.dollars_per_1000_steps, best.saving) == (8, None, None)


def test_a_reducer_without_a_price_is_not_the_cheapest() -> None:
    unknown = replace(SITUATION, reducer_machines=(replace(MACHINE, dollars=None),))
    assert advice(unknown).recommendation.reducers == 0


@pytest.mark.parametrize(
    ("seconds", "reducers"),
    [
        ({0: 51.0, 1: 50.0}, 0),
        ({0: 51.1, 1: 50.0}, 1),
        ({0: 100.0, 2: 51.1, 3: 51.0, 4: 50.0}, 3),
        ({0: 100.0, 2: 101.0}, 0),
        ({0: 100.0}, 0),
    ],
)
@pytest.mark.parametrize("is_priced", [True, False])
def test_reducers_and_more_of_them_must_gain_two_percent(
    seconds: dict[int, float], reducers: int, is_priced: bool
) -> None:
    some = advice().every_option[0]
    options = [
        replace(
            some,
            reducers=count,
            step_seconds=1.0 if is_priced else cost,
            dollars_per_1000_steps=cost if is_priced else None,
        )
        for count, cost in seconds.items()
    ]
    assert recommended(options).reducers == reducers


def test_a_better_machine_for_reducers_is_found() -> None:
    slow, fast = (
        replace(MACHINE, bits=1e9),
        ReducerMachine(name="cpu-64", bits=10e9, cores=64, dollars=1.5),
    )
    alone = advice(replace(SITUATION, reducer_machines=(fast,)))
    made = advice(replace(SITUATION, reducer_machines=(slow, fast)))
    assert made.recommendation.reducer_machine == "cpu-64"
    assert made.default_machine == "cpu-16"
    assert [hint.text[:15] for hint in alone.hints] == ["gradients of tw"]
    assert made.hints == alone.hints  # with this machine, too
    assert shown(made) == [
        ("pool", 8, "cpu-64"),
        ("pool", 80, "cpu-16"),
        ("ring", 0, None),
        ("pool", 40, "cpu-16"),
        ("hybrid", 1, "cpu-16"),
        ("co-located", 0, None),
        ("tree", 0, None),
        ("central", 1, "cpu-16"),
    ]


def shown(made: Advice) -> list[tuple[str, int, str | None]]:
    return [(each.topology, each.reducers, each.reducer_machine) for each in made.options]


def test_the_numbers_of_reducers_that_are_shown() -> None:
    """One, half and all of what the workers can use, and the job's own; of the usual machine."""
    dear = ReducerMachine(name="cpu-64", bits=10e9, cores=64, dollars=5.0)
    made = advice(replace(SITUATION, reducer_machines=(MACHINE, dear), count=3))
    assert [option for option in shown(made) if option[1] and option[0] != "central"] == [
        ("pool", 8, "cpu-16"),
        ("hybrid", 4, "cpu-16"),
        ("hybrid", 3, "cpu-16"),
        ("hybrid", 1, "cpu-16"),
    ]


def test_one_reducer_thread_a_lane_is_a_limit_of_its_own() -> None:
    wide = replace(SITUATION, cluster=replace(CLUSTER, worker_bits=100e9))
    made = advice(
        replace(wide, reducer_machines=(replace(MACHINE, bits=100e9),)), even_profile(10**9, 0.001)
    )
    # 0.56 CPU s a GB are 14.3 Gbit/s on one core, and so 56 reducers for 8 workers of 100.
    assert made.pool_sizes.saturating == 56


def test_one_node_exchanges_nothing() -> None:
    made = advice(replace(SITUATION, cluster=replace(CLUSTER, workers=1)))
    assert [option.topology for option in made.options] == ["none"]
    assert whys(made) == ["there is only one node, which exchanges nothing over a network"]
    assert made.recommendation.efficiency == 1.0


def test_two_nodes_gain_nothing() -> None:
    made = advice(replace(SITUATION, cluster=replace(CLUSTER, workers=2)))
    assert made.recommendation.reducers == 0
    assert whys(made) == [
        "a ring of two nodes sends each gradient once, as with reducers: 2(N-1)/N is 1"
    ]


def test_a_small_model_hides_behind_its_computation() -> None:
    made = advice(profile=even_profile(1_000_000, 0.5))
    assert made.recommendation.reducers == 0
    assert made.recommendation.bottleneck == "computation"
    assert whys(made) == [
        "communication overlaps with computation: even without any communication, a step would be "
        "only 0.6% faster"
    ]


def test_latency_is_no_matter_of_reducers() -> None:
    made = make_advice(SITUATION, even_profile(100_000, 0.0001), replace(UNCALIBRATED, overlap=0.0))
    assert made.options[0].reducers > 0  # two messages in a row are fewer than fourteen
    slow_servers = replace(SITUATION, refused="reducers are refused here")
    made = make_advice(slow_servers, even_profile(100_000, 0.0001), UNCALIBRATED)
    assert whys(made) == [
        "reducers are refused here",
        "the model is small: latency limits its exchange, not bandwidth",
    ]


def test_four_hundred_gigabit_are_too_many_for_tcp() -> None:
    fast = replace(SITUATION, cluster=replace(CLUSTER, worker_bits=400e9), refused="it brings EFA")
    why = (
        "nodes have 400 Gbit/s: reducers use TCP, and one would need 28 cores to receive that rate"
    )
    assert why in whys(advice(fast))


def test_no_network_is_said() -> None:
    here = Situation(
        target="process",
        cluster=ModelledCluster(workers=4, worker_bits=None, shared_cores=2),
        reducer_machines=(ReducerMachine(),),
    )
    made = advice(here)
    assert made.recommendation.reducers == 0
    assert whys(made) == ["no network limits this target, and reducers add a hop on the same cores"]
    assert made.pool_sizes.saturating is None


def test_a_job_that_waits_for_input_is_told_so() -> None:
    made = advice(profile=even_profile(1_000_000, 1.0, data_seconds=0.6))
    assert made.recommendation.bottleneck == "input data"
    assert [hint.text for hint in made.hints if hint.kind == "instead"] == [
        "the step spends 60% of its time waiting for input data, which no topology reduces; read "
        "shards sequentially from a local disk, with more DataLoader workers"
    ]


def test_a_job_that_waits_for_input_first_hears_of_that_alone() -> None:
    """Gradients of 16 bits would save 4 %, and a faster loader far more."""
    plain = replace(SITUATION, settings=ExchangeSettings(may_compress=True), refused="no")
    made = advice(plain, even_profile(525_000_000, 1.0, data_seconds=0.3))
    assert made.recommendation.bottleneck == "input data"
    assert made.recommendation.step_seconds > 1.04
    assert [h.text[:27] for h in made.hints if h.kind == "instead"] == [
        "the step spends 30% of its "
    ]


def test_what_would_help_instead_has_numbers() -> None:
    half = replace(SITUATION, settings=ExchangeSettings(may_compress=True))
    hints = {hint.text.partition(":")[0]: hint for hint in advice(half).hints}
    compressed = hints["gradients sent in 16 bits"]
    assert compressed.setting == "comm.compression=bf16"
    step = advice(half).recommendation.step_seconds
    assert compressed.step_seconds == pytest.approx(step / 2, rel=0.15)
    assert "gradients of two steps accumulated (no_sync), or twice the batch" in hints
    eighth = next(h for h in hints.values() if h.setting == "comm.compression=int8")
    assert eighth.step_seconds == pytest.approx(step / 4, rel=0.3)


def test_two_steps_before_one_exchange_wait_twice_for_their_input() -> None:
    once = replace(even_profile(1_000_000_000, 0.1, data_seconds=0.02), data_overlaps=False)
    made = advice(profile=once)
    [hint] = [hint for hint in made.hints if "no_sync" in hint.text]
    twice = replace(
        once,
        step_seconds=0.2,
        data_seconds=0.04,
        buckets=tuple(replace(b, ready_seconds=b.ready_seconds + 0.1) for b in once.buckets),
    )
    best = made.recommendation
    [like] = [
        option
        for option in advice(profile=twice).every_option
        if (option.topology, option.reducers) == (best.topology, best.reducers)
    ]
    assert hint.step_seconds == pytest.approx(like.step_seconds / 2)
    assert hint.step_seconds < best.step_seconds


def test_what_changes_results_has_its_price_and_is_not_recommended() -> None:
    plain = replace(SITUATION, settings=ExchangeSettings(may_compress=True))
    made = advice(plain)
    compressed, eight, local = made.changed_results
    best = made.recommendation
    assert [each.setting for each in made.changed_results] == [
        "comm.compression=bf16",
        "comm.compression=int8",
        "comm.local_steps=32",
    ]
    assert eight.worker_bytes == pytest.approx(1e9 * 260 / 1024)
    assert made.options[0].worker_bytes == pytest.approx(1e9)
    assert (compressed.worker_bytes, local.worker_bytes) == pytest.approx((5e8, 1e9 / 32))
    exchange = made.options[0].exchange_seconds
    assert local.step_seconds == pytest.approx(0.1 + exchange / 32, rel=0.02)
    rate = 8 * 20 + 8 * 1
    assert local.dollars_per_1000_steps == pytest.approx(rate / 3.6 * local.step_seconds)
    assert "unknown for this model" in local.loss
    assert local.source == "DiLoCo, arXiv 2311.08105"
    assert best.step_seconds > compressed.step_seconds > local.step_seconds
    assert "local_steps" not in best.sentence + " ".join(hint.text for hint in made.hints)


def test_reducers_that_cannot_add_8_bits_are_not_asked_to() -> None:
    of_google = replace(CLUSTER, shares_work=False)
    plain = replace(SITUATION, settings=ExchangeSettings(may_compress=True), cluster=of_google)
    made = advice(plain)
    assert made.recommendation.reducers > 0
    found = {each.setting for each in made.changed_results}
    found |= {hint.setting for hint in made.hints if hint.setting}
    assert found == {"comm.compression=bf16", "comm.local_steps=32"}


def test_the_step_of_a_job_with_local_steps() -> None:
    local = ExchangeSettings(local_steps=10)
    made = advice(replace(SITUATION, settings=local))
    ring = next(option for option in made.every_option if option.topology == "ring")
    usual = next(option for option in advice().every_option if option.topology == "ring")
    assert ring.worker_bytes == pytest.approx(usual.worker_bytes / 10)
    assert ring.step_seconds == pytest.approx(0.1 + usual.exchange_seconds / 10)
    assert made.changed_results == []
    # Each of ten fragments travels during one step, and takes longer than the step.
    apart = advice(replace(SITUATION, settings=replace(local, fragments=10)))
    hidden = next(option for option in apart.every_option if option.topology == "ring")
    assert hidden.step_seconds == pytest.approx(max(0.1, usual.exchange_seconds / 10))


def test_nccl_takes_the_faster_of_ring_and_tree() -> None:
    gpus = replace(
        CLUSTER, ranks=8, worker_bits=100e9, inside=INTERCONNECTS["a100-40gb"], workers=16
    )
    situation = replace(SITUATION, cluster=gpus, refused="none here")
    topologies = {
        size: advice(situation, even_profile(size, 0.001)).recommendation.topology
        for size in (50_000, 10**9)
    }
    assert topologies == {50_000: "tree", 10**9: "ring"}


def test_more_certain_once_calibrated() -> None:
    known = replace(UNCALIBRATED, fitted_from=("a", "b", "c"), median_error=0.03)
    made = make_advice(SITUATION, LARGE, known)
    assert made.recommendation.high == pytest.approx(made.recommendation.step_seconds / 0.97)
    assert made.assumptions[-1] == "calibrated on 3 runs: median error of step times 3.0%"
    assert advice().assumptions[-1] == ("not calibrated here: step times may differ by 15% or more")
    one = make_advice(SITUATION, LARGE, replace(UNCALIBRATED, fitted_from=("a",)))
    assert one.assumptions[-1] == (
        "fitted to 1 run, which is too few to measure the error: step times may differ by 15% or "
        "more"
    )
    assert one.recommendation.high == pytest.approx(one.recommendation.step_seconds / 0.85)


@pytest.mark.parametrize("measured", [0.5, 1.0, 1.7])
def test_the_interval_has_each_time_for_which_the_error_is_as_large(measured: float) -> None:
    """The error is a part of the measured time."""
    low, high = interval(1.0, 0.4)
    assert (low <= measured <= high) == (abs(1.0 / measured - 1) <= 0.4)
    assert interval(1.0, 5.0) == pytest.approx((1 / 6, 10.0))


ONE_MACHINE = replace(
    SITUATION, cluster=replace(CLUSTER, worker_bits=None, shared_cores=2, worker_cores=2)
)


@pytest.mark.parametrize(
    ("cores", "factor", "said"),
    [
        (
            0.98,
            0.98 * 8 / 2,
            "8 ranks share 2 cores, and each keeps 0.98 busy: the computation of a step takes 3.9 "
            "times as long as measured",
        ),
        (0.01, 1.0, None),
        (
            None,
            1.0,
            "8 ranks share 2 cores: if they compute on the cores, a step takes 4 times as long or "
            "longer",
        ),
    ],
)
def test_ranks_that_share_cores_compute_longer(
    cores: float | None, factor: float, said: str | None
) -> None:
    profile = replace(even_profile(4000, 0.004), cores=cores)
    made = make_advice(ONE_MACHINE, profile, UNCALIBRATED)
    assert made.profile.step_seconds == pytest.approx(0.004 * factor)
    assert made.recommendation.step_seconds >= 0.004 * factor
    assert [a for a in made.assumptions if "share" in a] == ([said] if said else [])
    for enough in (SITUATION, replace(ONE_MACHINE, cluster=replace(CLUSTER, shared_cores=8))):
        apart = make_advice(enough, replace(profile, cores=None), UNCALIBRATED)
        assert apart.profile.step_seconds == 0.004
        assert not [assumed for assumed in apart.assumptions if "share" in assumed]


def test_options_that_rsctl_cannot_choose_come_last_and_are_never_recommended() -> None:
    made = advice(replace(SITUATION, refused="no"))
    offered = [option.is_offered for option in made.options]
    assert offered == sorted(offered, reverse=True)
    assert {option.topology for option in made.options if not option.is_offered} == {
        "tree",
        "co-located",
        "central",
    }
