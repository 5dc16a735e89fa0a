//! Holds operations to what they cost: a rise fails, a fall is written down.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use switchboard_cost::meter::Counts;
use switchboard_cost::table::{Cost, Costs, differences, parse, print};
use switchboard_cost::{Bench, ground};

/// One test, because allocations are those of the whole process.
#[test]
fn operations_cost_what_the_table_says() {
    let mut found = Costs::new();
    let counts = Arc::new(Counts::default());
    let bench = Bench::new(Arc::clone(&counts), ground::sqlite(&counts));
    add(&mut found, "sqlite", bench.measure());
    let counts = Arc::new(Counts::default());
    match ground::postgres(&counts) {
        Ok(opened) => {
            let bench = Bench::new(Arc::clone(&counts), opened);
            add(&mut found, "postgres", bench.measure());
        }
        Err(missing) => missing.skip("what operations cost on PostgreSQL"),
    }

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("costs.md");
    let text = std::fs::read_to_string(&path).expect("the table is there");
    let mut expected = parse(&text);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        expected.extend(found);
        std::fs::write(&path, print(&text, &expected)).expect("the table is written");
        return;
    }
    let told = differences(&expected, &found);
    assert!(
        told.is_empty(),
        "{}\nlook at the change, then run the test with UPDATE_SNAPSHOTS=1",
        told.join("\n")
    );
}

fn add(costs: &mut Costs, engine: &str, measured: BTreeMap<&'static str, Cost>) {
    for (operation, cost) in measured {
        costs.insert((engine.to_owned(), operation.to_owned()), cost);
    }
}

#[test]
fn a_table_is_read_as_it_is_printed_and_differences_are_told() {
    let cost = Cost {
        rounds: 1,
        asks: 2,
        statements: 3,
        rows: 4,
        wal_bytes: 1000,
        allocations: 100,
    };
    let name = ("sqlite".to_owned(), "claim".to_owned());
    let costs = Costs::from([(name.clone(), cost)]);
    assert_eq!(parse(&print("words\n\n", &costs)), costs);
    let with = |change: fn(&mut Cost)| {
        let mut other = cost;
        change(&mut other);
        differences(&costs, &Costs::from([(name.clone(), other)]))
    };
    assert!(with(|_| ()).is_empty());
    assert!(with(|cost| cost.allocations = 102).is_empty());
    assert!(with(|cost| cost.wal_bytes = 980).is_empty());
    assert_eq!(
        with(|cost| cost.allocations = 103),
        ["claim on sqlite costs more allocations: 103, not 100"]
    );
    assert_eq!(
        with(|cost| cost.rows = 3),
        ["claim on sqlite costs fewer rows, which is to be written down: 3, not 4"]
    );
    assert!(!differences(&Costs::new(), &costs).is_empty());
}
