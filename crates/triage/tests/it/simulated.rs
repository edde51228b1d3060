//! The short form of the simulation; `examples/simulate.rs` prints the long one.

use crate::simulation::{Outage, Scenario, row};

#[test]
fn little_is_lost_and_little_is_wasted_beside_those_who_know_more() {
    for (keys, rate, hours, seed) in [(1, 0.2, 48, 1), (3, 0.5, 36, 2), (40, 1.0, 24, 3)] {
        let scenario = Scenario::new(keys, rate, hours, seed);
        let [oracle, least, ours] = ["oracle", "least", "backstop"].map(|name| row(name, &scenario));
        assert!(ours.lost_beyond(&oracle) <= 0.1, "{keys} keys: {:.3} %", ours.lost_beyond(&oracle));
        let ratio = ours.wasted as f64 / least.wasted as f64;
        assert!(ratio <= 1.25, "{keys} keys: {ratio:.2}: {:?} {:?}", ours.wasted_on, least.wasted_on);
    }
}

#[test]
fn a_total_outage_is_not_amplified() {
    for outage in Outage::ALL {
        for keys in [1, 100] {
            let tally = row("backstop", &Scenario::outage(outage, keys, 10.0, 20));
            let amplification = tally.calls as f64 / tally.requests as f64;
            assert!(amplification <= 1.2, "{}, {keys} keys: {amplification:.3}", outage.name());
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_world() {
    let scenario = Scenario::new(5, 1.0, 6, 7);
    let [one, two] = [(); 2].map(|()| row("backstop", &scenario));
    assert_eq!((one.calls, one.lost, one.wasted_on), (two.calls, two.lost, two.wasted_on));
}
