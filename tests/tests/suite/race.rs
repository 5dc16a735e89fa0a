//! Many claim, one wins; and a claim that is asked for again takes nothing more.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};
use switchboard_tests::{API, Answer, Client, Project, Request, completion};

const RACERS: usize = 8;
const ROUNDS: usize = 10_000;
const ROUNDS_OF_RETRIES: usize = 400;

#[test]
fn of_eight_agents_that_claim_one_task_exactly_one_gets_it_ten_thousand_times() {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    (0..RACERS).for_each(|racer| client.register(&agent(racer)));
    let line = Barrier::new(RACERS);
    let (addr, line) = (hub.addr(), &line);
    let outcomes: Vec<Vec<Outcome>> = thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| scope.spawn(move || race(addr, racer, line)))
            .collect();
        racers.into_iter().map(join).collect()
    });
    for round in 0..ROUNDS {
        let of_round: Vec<&Outcome> = outcomes.iter().map(|racer| &racer[round]).collect();
        let winners = of_round
            .iter()
            .filter(|outcome| matches!(outcome, Outcome::Won));
        assert_eq!(winners.count(), 1, "round {round}: {of_round:?}");
        for outcome in of_round {
            if let Outcome::Odd(why) = outcome {
                panic!("round {round}: {why}");
            }
        }
    }
    let events = client.events();
    let of = |kind: &str| {
        events
            .iter()
            .filter(|event| event["type"] == kind)
            .collect::<Vec<_>>()
    };
    let claimed = of("task_claimed");
    let tasks: BTreeSet<&str> = claimed
        .iter()
        .filter_map(|event| event["task"].as_str())
        .collect();
    assert_eq!((claimed.len(), tasks.len()), (ROUNDS, ROUNDS));
    assert!(
        claimed.iter().all(|event| event["epoch"] == 1),
        "a task was claimed twice"
    );
    assert_eq!(of("task_completed").len(), ROUNDS);
    hub.stop();
}

/// How a round went for one of them.
#[derive(Debug)]
enum Outcome {
    Won,
    Lost,
    /// What must not happen; kept until everyone has left the track, so that nobody waits for a racer that stopped.
    Odd(String),
}

fn race(addr: SocketAddr, racer: usize, line: &Barrier) -> Vec<Outcome> {
    let mut client = Client::new(addr);
    let mut outcomes = Vec::with_capacity(ROUNDS);
    let mut won = None;
    for round in 0..ROUNDS {
        let prepared = prepare(&mut client, racer, round, won.take());
        line.wait();
        let claim = claim(racer, round);
        let answer = client.send(&Request::post(format!("{API}/tasks/claim"), &claim));
        line.wait();
        let outcome = match (prepared, answer) {
            (Ok(()), Ok(answer)) => judge(&answer, racer, round),
            (Err(odd), _) => Outcome::Odd(odd),
            (_, Err(error)) => Outcome::Odd(error.to_string()),
        };
        won = matches!(outcome, Outcome::Won).then_some(round);
        outcomes.push(outcome);
    }
    let finished = prepare(&mut client, racer, usize::MAX, won);
    finished.expect("the last task can be completed");
    outcomes
}

/// Whoever won the round before completes its task; one of them brings the next task.
fn prepare(
    client: &mut Client,
    racer: usize,
    round: usize,
    won: Option<usize>,
) -> Result<(), String> {
    let send = |client: &mut Client, path: String, body: &Value, status: u16| {
        let answer = client
            .send(&Request::post(path, body))
            .map_err(|error| error.to_string())?;
        (answer.status == status)
            .then_some(())
            .ok_or_else(|| answer.text())
    };
    if let Some(won) = won {
        let path = format!("{API}/tasks/{}/complete", task(won));
        send(client, path, &completion(&agent(racer), 1), 200)?;
    }
    if round != usize::MAX && round % RACERS == racer {
        let body = json!({"id": task(round), "title": "the prize"});
        send(client, format!("{API}/tasks"), &body, 201)?;
    }
    Ok(())
}

/// Every other time the task is claimed by name.
fn claim(racer: usize, round: usize) -> Value {
    match round % 2 {
        0 => json!({"agentId": agent(racer)}),
        _ => json!({"agentId": agent(racer), "taskId": task(round)}),
    }
}

fn judge(answer: &Answer, racer: usize, round: usize) -> Outcome {
    let body = answer.json();
    let got = &body["task"];
    let won = body["success"] == true
        && got["id"] == task(round).as_str()
        && got["assignedAgent"] == agent(racer).as_str()
        && got["epoch"] == 1;
    let lost = match round % 2 {
        0 => answer.status == 200 && body["reason"] == "all_tasks_claimed",
        _ => answer.status == 409 && body["error"] == "task_already_claimed",
    };
    match (won, lost) {
        (true, _) => Outcome::Won,
        (false, true) => Outcome::Lost,
        (false, false) => Outcome::Odd(format!("{} {body}", answer.status)),
    }
}

#[test]
fn a_claim_asked_for_again_with_its_key_takes_no_second_task() {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    client.register("a");
    let tasks: Vec<Value> = (0..ROUNDS_OF_RETRIES + 1)
        .map(|round| json!({"id": task(round), "title": "one of many"}))
        .collect();
    client
        .post(&format!("{API}/tasks"), &json!({"tasks": tasks}))
        .expect(201);
    let line = Barrier::new(RACERS);
    // All of them are the same agent, and all ask for the same thing at the same time.
    let ask = || {
        let mut client = Client::new(hub.addr());
        let ask = |round: usize| {
            line.wait();
            let request = Request::post(format!("{API}/tasks/claim"), &json!({"agentId": "a"}));
            client
                .send(&request.key(format!("claim-{round}")))
                .map_err(|error| error.to_string())
        };
        (0..ROUNDS_OF_RETRIES).map(ask).collect::<Vec<_>>()
    };
    let answers: Vec<Vec<Result<Answer, String>>> = thread::scope(|scope| {
        let askers: Vec<_> = (0..RACERS).map(|_| scope.spawn(ask)).collect();
        askers.into_iter().map(join).collect()
    });
    let mut taken = BTreeSet::new();
    for round in 0..ROUNDS_OF_RETRIES {
        let of_round = answers
            .iter()
            .map(|asker| asker[round].as_ref().expect("it was answered"));
        let (replays, firsts): (Vec<&Answer>, Vec<&Answer>) =
            of_round.partition(|answer| answer.is_replay());
        assert_eq!(firsts.len(), 1, "round {round}");
        let first = firsts[0].expect(200);
        assert!(
            replays.iter().all(|replay| replay.expect(200) == first),
            "round {round}"
        );
        assert!(
            taken.insert(first["task"]["id"].to_string()),
            "round {round}: {first}"
        );
    }
    let status = client.status();
    assert_eq!(status["tasks"]["claimed"], ROUNDS_OF_RETRIES);
    assert_eq!(status["tasks"]["ready"], 1);
    hub.stop();
}

fn agent(racer: usize) -> String {
    format!("racer-{racer}")
}

fn task(round: usize) -> String {
    format!("prize-{round}")
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|failed| std::panic::resume_unwind(failed))
}
