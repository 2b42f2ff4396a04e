//! A page of the journal turns into zeros while the node is down. It then opens with everything that
//! it answered, or it refuses, says why, and leaves every file as it is.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::support::ask::{claim, complete, owner, replayed_body};
use crate::support::node::{Home, Node};
use crate::support::settings::{number, seed};

const KEYS: u32 = 400;
const CALLERS: u32 = 8;
const PAGE: [u8; 4_096] = [0; 4_096];
/// The exit code of a node whose store would not open.
const STORE_REFUSED: i32 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zeroed_page_of_the_journal_loses_nothing_in_silence() {
    let trials = number("SEMEL_DAMAGE_TRIALS", 12);
    let mut random = SmallRng::seed_from_u64(seed());
    let node = Node::start(&[]);
    let mut callers = JoinSet::new();
    for (mut keys, caller) in node.clients(8).await.into_iter().zip(0..CALLERS) {
        callers.spawn(async move {
            for number in (0..KEYS).filter(|number| number % CALLERS == caller) {
                let (key, owner) = (key(number), owner(number.into()));
                let fence = keys.claim_key(claim(&key, owner)).await.unwrap().into_inner().fence;
                let done = complete(&key, owner, fence, key.as_bytes());
                keys.complete_key(done).await.unwrap();
            }
        });
    }
    callers.join_all().await;
    let home = node.kill();
    let (mut opened, mut refused) = (0, 0);
    for trial in 1..=trials {
        let copy = TempDir::with_prefix("semel-damage-").unwrap();
        let damaged = Home::at(copy.path(), &[]);
        copy_folder(&home.data, &damaged.data);
        let offset = zero_a_page(&damaged.data, &mut random);
        let before = files(&damaged.data);
        match damaged.try_start() {
            Ok(node) => {
                assert_all_there(&node).await;
                opened += 1;
            }
            Err(refusal) => {
                let said = refusal.said["error"]["message"].as_str().unwrap_or_default();
                println!("trial {trial}: zeros at {offset}: refused");
                assert_eq!(refusal.code, Some(STORE_REFUSED), "{refusal:?}");
                assert_eq!(refusal.said["error"]["code"], "STORE_REFUSED");
                assert!(said.contains("damaged") && said.contains("nothing was changed"), "{said}");
                assert!(before == files(&refusal.home.data), "a refusal changed a file");
                refused += 1;
            }
        }
    }
    println!("{trials} damaged journals: {opened} opened with everything, {refused} refused");
    assert!(trials < 5 || refused > 0, "no page mattered: that is unlikely");
}

fn key(number: u32) -> String {
    format!("key-{number}")
}

async fn assert_all_there(node: &Node) {
    let mut keys = node.keys().await;
    for number in 0..KEYS {
        let reply = keys.claim_key(claim(&key(number), owner(u128::MAX))).await.unwrap();
        assert_eq!(replayed_body(&reply.into_inner()), key(number).as_bytes());
    }
}

/// Zeroes one page of the journal, somewhere in the part that is written, and tells where.
fn zero_a_page(data: &Path, random: &mut SmallRng) -> u64 {
    let written = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) as u64;
    let journals = files(data)
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|name| name == "jnl"));
    let (journal, length) = journals
        .map(|(path, bytes)| (path, written(&bytes)))
        .max_by_key(|(_, length)| *length)
        .expect("a store has a journal");
    let page = PAGE.len() as u64;
    assert!(length > 10 * page, "the journal is too short to tell anything: {length} bytes");
    let offset = random.random_range(0..length / page) * page;
    let file = std::fs::File::options().write(true).open(journal).unwrap();
    file.write_all_at(&PAGE, offset).unwrap();
    offset
}

/// Every file under a folder, with what is in it.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

fn copy_folder(from: &Path, to: &Path) {
    for (path, bytes) in files(from) {
        let copy = to.join(path.strip_prefix(from).unwrap());
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::write(copy, bytes).unwrap();
    }
}
