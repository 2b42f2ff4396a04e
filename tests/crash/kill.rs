//! A node is killed under load, again and again, each time at another moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::{ClaimKeyRequest, ClaimKeyResponse, ClaimKeysRequest, GetKeyRequest};
use semel_proto::v1::{claim_key_result, keys_client::KeysClient};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::callers::{Caller, Counts, Scene};
use crate::ledger::{Answer, Facts, Held};
use crate::support::ask::{OPERATION, Owner, TENANT, claim, complete, owner};
use crate::support::node::{Home, Node};
use crate::support::settings::{number, seed};

const CALLERS: u64 = 64;
const CONNECTIONS: usize = 8;
/// Keys in one call while the answers are checked.
const BATCH: usize = 500;
/// Keys of earlier rounds that are looked at again after each.
const SAMPLE: usize = 1_000;
/// Held keys whose leases are looked at after each round.
const LEASES: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_under_load() {
    let rounds = number("SEMEL_CRASH_ROUNDS", 6);
    let seed = seed();
    let mut random = SmallRng::seed_from_u64(seed);
    let mut scene =
        Scene { ledger: Arc::default(), replies: Arc::new(Semaphore::new(0)), round: 0, seed };
    let mut home = Home::new(&[]);
    let mut all = Counts::default();
    for round in 1..=rounds {
        scene.round = round;
        let node = home.start();
        // Some die as soon as they begin.
        let replies = if round % 5 == 0 { 0..50 } else { 200..4_000 };
        let (counts, killed) = load_and_kill(node, &scene, random.random_range(replies)).await;
        all += counts;
        let node = killed.start();
        let checked = check(&node, &scene, Some(round)).await;
        node.assert_calm();
        println!(
            "round {round}: {counts:?}; open in {} ms, {checked} keys as they were answered",
            node.opened_ms
        );
        home = node.kill();
    }
    let node = home.start();
    let checked = check(&node, &scene, None).await;
    println!("{rounds} kills: {all:?}; all {checked} keys are as they were answered");
    assert!(rounds == 0 || all.claims > 0 && all.completions > 0 && all.replays > 0, "{all:?}");
}

/// Lets all callers work, and ends the process without a warning after so many replies.
async fn load_and_kill(node: Node, scene: &Scene, replies: u32) -> (Counts, Home) {
    let mut callers = JoinSet::new();
    let clients = node.clients(CONNECTIONS).await;
    for (keys, number) in clients.into_iter().cycle().zip(0..CALLERS) {
        callers.spawn(Caller::new(keys, scene.clone(), number).work());
    }
    tokio::select! {
        enough = scene.replies.acquire_many(replies) => enough.unwrap().forget(),
        ended = callers.join_next() => panic!("a caller ended early: {ended:?}"),
    }
    let home = node.kill();
    let mut counts = Counts::default();
    while let Some(caller) = callers.join_next().await {
        counts += caller.unwrap();
    }
    scene.replies.forget_permits(usize::MAX >> 4);
    (counts, home)
}

/// What to ask about a key, given what is known of it.
#[derive(Clone, Copy, Debug)]
enum Question {
    /// A stranger gets the answer.
    Answer,
    /// Its holder still holds it, by the same fence.
    Held(Held),
    /// Its last holder sent a completion that was not answered: it is done so, or still to do.
    Unsettled(Owner),
}

impl Question {
    /// Nothing can be asked of a key that nobody was told anything about.
    fn about(facts: &Facts) -> Option<Self> {
        if facts.answer.is_some() {
            return Some(Self::Answer);
        }
        if facts.brief {
            return None;
        }
        let held = facts.held.map(Self::Held);
        held.or_else(|| facts.sent.last().map(|(owner, _)| Self::Unsettled(*owner)))
    }

    fn owner(self) -> Owner {
        match self {
            Self::Answer => owner(u128::MAX),
            Self::Held(held) => held.owner,
            Self::Unsettled(owner) => owner,
        }
    }
}

/// Asks about all keys of a round and some earlier ones, or about all keys there are. The ledger
/// judges the replies. Tells how many were asked about.
async fn check(node: &Node, scene: &Scene, round: Option<u64>) -> usize {
    let of_round =
        |key: &str| round.is_none_or(|round| key.split('-').nth(1) == Some(&round.to_string()));
    let questions: BTreeMap<String, Question> = {
        let ledger = scene.ledger();
        let (new, old): (Vec<_>, Vec<_>) = ledger.all().partition(|(key, _)| of_round(key));
        let asked = new.into_iter().chain(old.into_iter().take(SAMPLE));
        asked.filter_map(|(key, facts)| Some((key.clone(), Question::about(facts)?))).collect()
    };
    let mut keys = node.keys().await;
    check_leases(&mut keys, &questions).await;
    let questions: Vec<_> = questions.into_iter().collect();
    for batch in questions.chunks(BATCH) {
        let claims = batch.iter().map(|(key, question)| claim(key, question.owner())).collect();
        for ((key, question), reply) in batch.iter().zip(claim_all(&mut keys, claims).await) {
            settle(&mut keys, scene, key, *question, &reply).await;
        }
    }
    questions.len()
}

async fn claim_all(
    keys: &mut KeysClient<Channel>,
    claims: Vec<ClaimKeyRequest>,
) -> Vec<ClaimKeyResponse> {
    let reply = keys.claim_keys(ClaimKeysRequest { claims }).await.unwrap().into_inner();
    let results = reply.results.into_iter().map(|result| match result.result {
        Some(claim_key_result::Result::Response(response)) => response,
        other => panic!("{other:?}"),
    });
    results.collect()
}

async fn settle(
    keys: &mut KeysClient<Channel>,
    scene: &Scene,
    key: &str,
    question: Question,
    reply: &ClaimKeyResponse,
) {
    let unsettled: Vec<(Owner, Answer)> = {
        let mut ledger = scene.ledger();
        let before = ledger.before(key);
        ledger.claimed(key, question.owner(), before, reply);
        ledger.facts(key).sent.clone()
    };
    match question {
        Question::Answer => assert_eq!(reply.disposition(), Disposition::Replay, "{key}"),
        Question::Held(held) => {
            assert_eq!(reply.disposition(), Disposition::Claimed, "{key}: {held:?} was lost");
            assert_eq!((reply.fence, reply.resumed), (held.fence, true), "{key}: {held:?}");
        }
        Question::Unsettled(_) if reply.disposition() == Disposition::Replay => {}
        Question::Unsettled(owner) => {
            assert_eq!(reply.disposition(), Disposition::Claimed, "{key}: {unsettled:?}");
            let (_, answer) = unsettled.last().unwrap();
            assert_eq!((reply.fence, reply.resumed), (answer.fence, true), "{key}: {answer:?}");
            let before = scene.ledger().completing(key, owner, answer.clone());
            keys.complete_key(complete(key, owner, answer.fence, &answer.body)).await.unwrap();
            scene.ledger().completed(key, before, answer.clone());
        }
    }
}

/// An extension that was answered holds.
async fn check_leases(keys: &mut KeysClient<Channel>, questions: &BTreeMap<String, Question>) {
    let held = questions.iter().filter_map(|(key, question)| match question {
        Question::Held(held) => Some((key, held)),
        _ => None,
    });
    for (key, held) in held.take(LEASES) {
        let request = GetKeyRequest {
            tenant: TENANT.to_owned(),
            operation: OPERATION.to_owned(),
            key: key.clone(),
            include_body: false,
        };
        let view = keys.get_key(request).await.unwrap().into_inner().key.unwrap();
        let until = view.lease_expires_at.unwrap();
        assert!((until.seconds, until.nanos) >= held.lease_until, "{key}: {held:?}, {view:?}");
    }
}
