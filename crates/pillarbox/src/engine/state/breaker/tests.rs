//! The breaker alone, request by request.

use tokio::time::Instant;

use super::*;

fn fail(breaker: &mut Breaker, sent: Sent, now: Instant, after: Option<Duration>) -> Duration {
    breaker.judge(sent);
    let pause = breaker.failed(now, after);
    breaker.judged(sent, now);
    pause
}

fn accept(breaker: &mut Breaker, sent: Sent, now: Instant) {
    breaker.judge(sent);
    breaker.accepted();
    breaker.judged(sent, now);
}

/// Requests in flight when the breaker opened, and the pause.
fn opened(breaker: &mut Breaker, now: Instant, in_flight: usize) -> (Vec<Sent>, Duration) {
    let mut sent: Vec<Sent> = (0..in_flight + 5).map(|_| breaker.send(now)).collect();
    let failing = sent.split_off(in_flight);
    let pauses: Vec<Duration> = failing.into_iter().map(|sent| fail(breaker, sent, now, None)).collect();
    (sent, pauses[4])
}

/// PBX-051
#[test]
fn five_failures_open_it_and_one_probe_closes_it() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    for _ in 0..4 {
        let sent = breaker.send(now);
        fail(&mut breaker, sent, now, None);
        assert_eq!(breaker.gate(now), Gate::Open);
    }
    let sent = breaker.send(now);
    let then = now + fail(&mut breaker, sent, now, None);
    assert_eq!(breaker.gate(now), Gate::Shut(Some(then)));
    assert_eq!(breaker.gate(then), Gate::Open);
    let probe = breaker.send(then);
    assert_eq!(breaker.gate(then), Gate::Shut(None), "nothing beside the probe");
    let pause = fail(&mut breaker, probe, then, None);
    assert_eq!(breaker.gate(then), Gate::Shut(Some(then + pause)), "a failed probe opens it again");
    let probe = breaker.send(then + pause);
    accept(&mut breaker, probe, then + pause);
    assert!(!breaker.is_open());
}

/// PBX-051
#[test]
fn only_opening_and_a_failed_probe_lengthen_the_pause() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    let (in_flight, pause) = opened(&mut breaker, now, 20);
    assert_eq!(pause, FIRST_PAUSE);
    for sent in in_flight {
        assert_eq!(fail(&mut breaker, sent, now, None), FIRST_PAUSE);
    }
    let mut then = now + pause;
    for seconds in [2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(breaker.gate(then), Gate::Open);
        let probe = breaker.send(then);
        let pause = fail(&mut breaker, probe, then, None);
        assert_eq!(pause, Duration::from_secs(seconds));
        then += pause;
    }
}

/// PBX-051
#[test]
fn an_answer_to_an_earlier_request_does_not_close_it() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    let (in_flight, pause) = opened(&mut breaker, now, 2);
    accept(&mut breaker, in_flight[0], now);
    assert_eq!(breaker.gate(now), Gate::Shut(Some(now + pause)));
    let probe = breaker.send(now + pause);
    accept(&mut breaker, in_flight[1], now + pause);
    assert_eq!(breaker.gate(now + pause), Gate::Shut(None), "the probe is still in flight");
    accept(&mut breaker, probe, now + pause);
    assert_eq!((breaker.is_open(), breaker.accepted_count()), (false, 3));
}

/// PBX-051
#[test]
fn a_longer_retry_after_of_an_earlier_request_extends_the_pause() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    let (in_flight, pause) = opened(&mut breaker, now, 2);
    fail(&mut breaker, in_flight[0], now, Some(pause / 2));
    assert_eq!(breaker.gate(now), Gate::Shut(Some(now + pause)));
    fail(&mut breaker, in_flight[1], now, Some(pause * 200));
    assert_eq!(breaker.gate(now), Gate::Shut(Some(now + pause * 200)));
}

/// PBX-051
#[test]
fn a_probe_that_tells_nothing_is_followed_by_another() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    let (_, pause) = opened(&mut breaker, now, 0);
    let then = now + pause;
    let probe = breaker.send(then);
    breaker.judge(probe);
    breaker.judged(probe, then);
    assert!(breaker.is_open());
    assert_eq!(breaker.gate(then), Gate::Open);
}

/// PBX-051
#[test]
fn after_it_closes_requests_in_flight_double_with_each_round() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    let (_, pause) = opened(&mut breaker, now, 7);
    let then = now + pause;
    let probe = breaker.send(then);
    accept(&mut breaker, probe, then);
    for expected in [1, 2, 4, 8] {
        let mut round = Vec::new();
        while breaker.gate(then) == Gate::Open {
            round.push(breaker.send(then));
        }
        assert_eq!(round.len(), expected, "what still hangs from before does not count");
        round.into_iter().for_each(|sent| accept(&mut breaker, sent, then));
    }
}

/// PBX-018, PBX-052
#[test]
fn retry_after_is_honoured_beyond_the_longest_pause() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    let sent = breaker.send(now);
    breaker.judge(sent);
    breaker.throttled(now, Some(Duration::from_secs(300)));
    breaker.judged(sent, now);
    assert!(!breaker.is_open());
    assert_eq!(breaker.gate(now), Gate::Shut(Some(now + Duration::from_secs(300))));
    let sent = breaker.send(now);
    assert_eq!(fail(&mut breaker, sent, now, Some(Duration::MAX)), LONGEST_AFTER);
}

/// PBX-052
#[test]
fn a_burst_that_is_throttled_is_one_refusal() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    let burst: Vec<Sent> = (0..10).map(|_| breaker.send(now)).collect();
    let mut gates = Vec::new();
    for sent in burst {
        breaker.judge(sent);
        breaker.throttled(now, None);
        breaker.judged(sent, now);
        gates.push(breaker.gate(now));
    }
    assert!(matches!(gates[0], Gate::Shut(Some(_))));
    assert!(gates.iter().all(|gate| *gate == gates[0]), "{gates:?}");
}
