//! A node whose clock is off decides nothing by it: time is the store's; and once it has noticed, it
//! refuses.

use std::time::Duration;

use semel_proto::v1::ClaimKeyResponse;
use semel_proto::v1::claim_key_response::Disposition;
use tonic::Status;

use crate::call::{Client, now_us, timed, within};
use crate::cluster::Cluster;
use crate::databases::Database;
use crate::support::ask::{brief_claim, owner, reason};
use crate::support::settings::skip;

const DEADLINE: Duration = Duration::from_secs(2);
const LEASE: Duration = Duration::from_secs(3);
/// How far apart the ends of two leases may be that were granted one after the other.
const APART_MAX: Duration = Duration::from_secs(1);

/// A library that runs a process by another clock.
#[derive(Clone, Debug)]
pub(crate) struct FakedClock(String);

impl FakedClock {
    /// The environment of a process whose clock of the day is off by so much, e.g. `+5s`.
    pub(crate) fn off_by<'a>(&'a self, offset: &'a str) -> [(&'a str, &'a str); 3] {
        // The clock that measures stays as it is, as on a machine whose date is wrong.
        [("LD_PRELOAD", &self.0), ("FAKETIME", offset), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]
    }
}

/// The library, if this machine has it; else a note of the skip.
pub(crate) fn faked_clock() -> Option<FakedClock> {
    let folders = std::fs::read_dir("/usr/lib").unwrap().filter_map(Result::ok);
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let found = libraries.find(|library| library.exists());
    if found.is_none() {
        skip("a node whose clock is off: libfaketime is not installed");
    }
    Some(FakedClock(found?.to_str()?.to_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_whose_clock_is_off_goes_by_the_stores_and_then_refuses() {
    let what = "a node whose clock is off";
    let Some(mut cluster) = Cluster::over_postgres(what).await else { return };
    go_off(&mut cluster).await;
}

/// Runs a node by a clock that is ahead, then behind, and asks it what an honest node knows.
pub(crate) async fn go_off<D: Database>(cluster: &mut Cluster<D>) {
    let Some(clock) = faked_clock() else { return };
    for offset in ["+5s", "-5s"] {
        cluster.members[1].kill();
        cluster.members[1].set_variables(&clock.off_by(offset));
        cluster.members[1].start();
        let clients = cluster.clients();
        let (honest, off) = (&clients[0], &clients[1]);
        let (held, own) = (format!("held{offset}"), format!("own{offset}"));
        let first = claim(honest, &held, 1).await.unwrap();
        assert_eq!(first.disposition(), Disposition::Claimed);
        let told = match (claim(off, &held, 2).await, claim(off, &own, 1).await) {
            (Ok(other), Ok(own)) => {
                assert_eq!(other.disposition(), Disposition::InProgress, "it ended a lease");
                let apart = until(&own).abs_diff(until(&first));
                assert!(apart < APART_MAX, "{apart:?} between {own:?} and {first:?}");
                format!("goes by the store's time: two leases end {} ms apart", apart.as_millis())
            }
            (first, second) => {
                for refused in [first, second].into_iter().filter_map(Result::err) {
                    assert_eq!(reason(&refused), "STORE_UNAVAILABLE", "{refused:?}");
                }
                "refuses".to_owned()
            }
        };
        let noticed_us = refused(off, &own).await;
        println!("a node whose clock is off by {offset} {told}; refuses {noticed_us} us later");
        cluster.members[1].kill();
        cluster.members[1].set_variables(&[]);
        cluster.members[1].start();
    }
    cluster.assert_calm();
}

/// Waits until a node refuses claims, which it does once it has measured its clock.
async fn refused(client: &Client, key: &str) -> u64 {
    let began_us = now_us();
    loop {
        let passed_us = now_us() - began_us;
        match claim(client, key, 1).await {
            Err(status) => {
                assert_eq!(reason(&status), "STORE_UNAVAILABLE", "{status:?}");
                return passed_us;
            }
            Ok(_) => assert!(passed_us < 10_000_000, "it never notices"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn claim(client: &Client, key: &str, by: u128) -> Result<ClaimKeyResponse, Status> {
    let request = brief_claim(key, owner(by), LEASE);
    timed(DEADLINE, client.keys.clone().claim_key(within(DEADLINE, request))).await.result
}

/// When the lease of a claim ends, since the epoch.
fn until(claimed: &ClaimKeyResponse) -> Duration {
    let at = claimed.lease_expires_at.unwrap();
    Duration::new(at.seconds.try_into().unwrap(), at.nanos.try_into().unwrap())
}
