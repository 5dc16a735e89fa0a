//! What holds whatever the line between two nodes does.

use super::super::super::ChaseOrders;
use super::*;

/// Draws by seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound as u64).unwrap_or(0)
    }
}

/// Any page of a source, as a line that loses, repeats and reorders brings it.
fn stray_page(from: &Swarm, source: &str, to: &mut Swarm, draw: &mut Draw) {
    let rows = outbox(from);
    for _ in 0..draw.below(6) {
        let Some(row) = rows.get(draw.below(rows.len().max(1))) else {
            return;
        };
        let mut stray = consume(source, row);
        // What is only late is not given up here.
        stray.gap.within = limits::DISPATCH_VALID_MAX;
        to.ok(stray);
    }
}

#[test]
fn whatever_the_line_does_every_event_has_its_effect_once() {
    for seed in 1..=300 {
        let mut draw = Draw(seed);
        let mut pair = Pair::new();
        let mut sent = 0;
        for step in 0..40 {
            let id = format!("evt_{seed}_{step}");
            match draw.below(7) {
                0 => {
                    pair.a.ok(publish(&id, "A", &["B"]));
                    sent += 1;
                }
                1 => {
                    pair.b.ok(publish(&id, "B", &["A"]));
                }
                2 => {
                    let mut one = task(&id, &["B"]);
                    one.event = id.as_str().into();
                    pair.a.ok(one);
                }
                3 => stray_page(&pair.a, "a", &mut pair.b, &mut draw),
                4 => stray_page(&pair.b, "b", &mut pair.a, &mut draw),
                5 => {
                    asks(&mut pair.a, "b");
                    asks(&mut pair.b, "a");
                }
                _ => {
                    pair.wait(Duration::from_secs(3 * draw.below(9) as u64));
                    pair.a.ok(ChaseOrders);
                    pair.b.ok(ChaseOrders);
                }
            }
        }
        pair.exchange();
        let received = |swarm: &Swarm, agent: &str, of: &str| {
            let of = swarm
                .messages
                .values()
                .filter(|message| message.from.as_str() == of);
            let to = of.filter(|message| {
                let key = (message.id.clone(), AgentId::from(agent));
                swarm.deliveries.contains_key(&key) && message.kind == "custom"
            });
            to.count()
        };
        assert_eq!(received(&pair.b, "B", "A"), sent, "seed {seed}");
        for swarm in [&pair.a, &pair.b] {
            for record in swarm.records.values() {
                let Record::Order(order) = record else {
                    continue;
                };
                assert!(!order.is_emitted(), "seed {seed}: {order:?}");
            }
        }
        let orders = pair.a.records.values();
        let tasks = orders.filter(|record| matches!(record, Record::Ordered(_)));
        assert_eq!(tasks.count(), pair.b.tasks.len(), "seed {seed}");
        assert!(pair.a.tasks.is_empty(), "no task is held on two nodes");
    }
}
