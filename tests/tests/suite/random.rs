//! What draws the histories of the other tests.

use switchboard_tests::Random;

#[test]
fn the_same_seed_draws_the_same_and_forks_differ() {
    let draws = |seed| {
        let mut random = Random::seeded(seed);
        let mut fork = random.fork();
        (0..4)
            .map(|_| (random.draw(), fork.draw()))
            .collect::<Vec<_>>()
    };
    assert_eq!(draws(7), draws(7));
    assert_ne!(draws(7), draws(8));
    assert!(draws(7).iter().all(|(one, other)| one != other));
}
