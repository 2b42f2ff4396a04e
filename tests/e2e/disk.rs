//! A disk that is full, and then is not: no claim is answered that is not on it, nothing that was
//! answered is lost, and the node goes on by itself when there is room again.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use semel_proto::v1::ClaimKeyResponse;
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::keys_client::KeysClient;
use tempfile::TempDir;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::support::ask::{claim, complete, owner, reason, replayed_body, retry_after};
use crate::support::node::{Home, Node};
use crate::support::settings::skip;

/// How long a node may take to notice that the disk takes writes again.
const RECOVERY_MAX: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_file_that_can_not_grow_stops_claims_until_it_can() {
    let node = Home::new(&[]).start_with_size_errors();
    let story = Story::begin(&node).await;
    // Room for a little more than is written already: the next commits fit, later ones don't.
    let limit = written_bytes(&node.home.data) + 16_384;
    node.limit_file_bytes(Some(limit));
    let story = story.write_until_refused(&node).await;
    node.limit_file_bytes(None);
    story.goes_on(node).await;
}

#[tokio::test]
async fn a_full_disk_stops_claims_until_there_is_room() {
    let Some(disk) = SmallDisk::mount(96 << 20) else {
        skip("the full disk: a tmpfs can't be mounted here (it needs root)");
        return;
    };
    // The node's log lies on the same disk, as it often does.
    let node = Home::at(disk.folder.path(), &[]).start();
    let story = Story::begin(&node).await;
    let ballast = disk.fill();
    let story = story.write_until_refused(&node).await;
    std::fs::remove_file(ballast).unwrap();
    story.goes_on(node).await;
}

/// What was answered, and what was not, since the node began.
#[derive(Default)]
struct Story {
    /// Keys that were claimed and completed.
    completed: u32,
    /// Keys that were claimed, with their fences.
    claimed: Vec<u64>,
    pid: u32,
}

impl Story {
    async fn begin(node: &Node) -> Self {
        let mut story = Self { pid: node.pid(), ..Self::default() };
        let mut keys = node.keys().await;
        for number in 0..50 {
            let (key, owner) = (format!("completed-{number}"), owner(number));
            let fence = keys.claim_key(claim(&key, owner)).await.unwrap().into_inner().fence;
            keys.complete_key(complete(&key, owner, fence, key.as_bytes())).await.unwrap();
            story.completed += 1;
        }
        story
    }

    /// Claims until the disk is full, and a while longer: then every claim is refused.
    async fn write_until_refused(mut self, node: &Node) -> Self {
        let mut keys = node.keys().await;
        while let Ok(reply) = self.claim_next(&mut keys).await {
            assert!(self.claimed.len() < 1_000_000, "the disk never fills");
            self.claimed.push(reply.fence);
        }
        for _ in 0..20 {
            let refused = self.claim_next(&mut keys).await.unwrap_err();
            assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
            assert_eq!(reason(&refused), "STORE_UNAVAILABLE", "{refused:?}");
            assert!(retry_after(&refused).is_some(), "{refused:?}");
        }
        self
    }

    /// Claims the first key that was not claimed yet: again and again the same, with the same owner.
    async fn claim_next(&self, keys: &mut KeysClient<Channel>) -> Result<ClaimKeyResponse, Status> {
        let number = self.claimed.len();
        let request = claim(&format!("claimed-{number}"), owner(number.try_into().unwrap()));
        keys.claim_key(request).await.map(tonic::Response::into_inner)
    }

    /// The same process takes claims again, and all that it answered is there: now, and after a crash.
    async fn goes_on(mut self, node: Node) {
        let mut keys = node.keys().await;
        let begun = began();
        let fence = loop {
            match self.claim_next(&mut keys).await {
                Ok(reply) => break reply.fence,
                Err(status) => {
                    assert_eq!(reason(&status), "STORE_UNAVAILABLE", "{status:?}");
                    assert!(begun.elapsed() < RECOVERY_MAX, "{}", node.home.log());
                    tokio::time::sleep(retry_after(&status).unwrap()).await;
                }
            }
        };
        println!("took claims again after {:?}", begun.elapsed());
        self.claimed.push(fence);
        for _ in 0..200 {
            let reply = self.claim_next(&mut keys).await.unwrap();
            self.claimed.push(reply.fence);
        }
        assert_eq!(node.pid(), self.pid);
        node.assert_calm();
        self.assert_all_there(&node).await;
        let node = node.kill().start();
        self.assert_all_there(&node).await;
    }

    async fn assert_all_there(&self, node: &Node) {
        let mut keys = node.keys().await;
        for number in 0..self.completed {
            let key = format!("completed-{number}");
            let reply = keys.claim_key(claim(&key, owner(1 << 64))).await.unwrap().into_inner();
            assert_eq!(replayed_body(&reply), key.as_bytes());
        }
        for (fence, number) in self.claimed.iter().zip(0..) {
            let request = claim(&format!("claimed-{number}"), owner(number));
            let reply = keys.claim_key(request).await.unwrap().into_inner();
            assert_eq!(reply.disposition(), Disposition::Claimed);
            assert_eq!((reply.fence, reply.resumed), (*fence, true), "claimed-{number}");
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a test of real time reads a real clock")]
fn began() -> Instant {
    Instant::now()
}

/// How far the longest file of a store is written: what follows is space that was reserved.
fn written_bytes(folder: &Path) -> u64 {
    let written = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
    };
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| if path.is_dir() { written_bytes(&path) } else { written(&path) })
        .max()
        .unwrap_or(0)
}

/// A disk of its own, so small that a test can fill it.
struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    fn mount(bytes: u64) -> Option<Self> {
        let folder = TempDir::with_prefix("semel-disk-").unwrap();
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "semel-test"]).arg(folder.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then_some(Self { folder })
    }

    /// Takes all the room that is left.
    fn fill(&self) -> PathBuf {
        let path = self.folder.path().join("ballast");
        let mut file = File::create(&path).unwrap();
        let full = loop {
            if let Err(error) = file.write_all(&[1; 4_096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A node may still be ending on it: the mount goes when that is done.
        let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
    }
}
