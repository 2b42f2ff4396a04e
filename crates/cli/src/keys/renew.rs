//! `semel keys renew`

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use semel_proto::v1::{RenewKeyRequest, RenewKeyResponse};
use semel_store::{Clock, SystemClock};
use serde::Serialize;

use super::arguments::{HolderArgs, KeyArgs, read};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{CAUTION, GOOD, Output, Page, Reply};
use crate::target::NodeArgs;
use crate::values::{parse_duration, time, to_wire};

const EXAMPLES: &str = "\
Examples (fence and owner are those that `claim` printed):
  semel keys renew payments.charge order-8812 --tenant acme \\
      --fence F --owner O --lease 5m
  semel keys renew payments.charge order-8812 --tenant acme \\
      --fence F --owner O --checkpoint 'row 4000 of 9000'";

/// The arguments of `semel keys renew`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RenewArgs {
    #[command(flatten)]
    key: KeyArgs,

    #[command(flatten)]
    holder: HolderArgs,

    /// How long the claim is to hold from now on [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    lease: Option<Duration>,

    /// Counts the renewals of a claim upwards; an older one that arrives late changes nothing
    /// [default: the clock, in microseconds].
    #[arg(long, value_name = "N")]
    renewal: Option<u64>,

    /// How far the work is, for whoever might have to take over.
    #[arg(long, value_name = "TEXT", conflicts_with = "checkpoint_file")]
    checkpoint: Option<String>,

    /// The same from a file; - reads the standard input.
    #[arg(long, value_name = "FILE")]
    checkpoint_file: Option<PathBuf>,
}

impl RenewArgs {
    /// Renews the claim.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let message = RenewKeyRequest {
            checkpoint: read(self.checkpoint.as_ref(), self.checkpoint_file.as_deref())?,
            tenant: self.key.tenant.tenant,
            operation: self.key.operation,
            key: self.key.key,
            fence: self.holder.fence,
            owner_id: self.holder.owner,
            renewal: self.renewal.unwrap_or_else(|| SystemClock.now_us()),
            lease: self.lease.map(to_wire),
        };
        let mut keys = node.keys().await?;
        let response = keys.renew_key(node.request(message, None)).await?.into_inner();
        output.reply(&RenewView::from(response))?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Serialize)]
struct RenewView {
    stale: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_expires_at: Option<String>,
}

impl From<RenewKeyResponse> for RenewView {
    fn from(response: RenewKeyResponse) -> Self {
        Self { stale: response.stale, lease_expires_at: time(response.lease_expires_at.as_ref()) }
    }
}

impl Reply for RenewView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        if self.stale {
            page.title(CAUTION, "STALE", "a newer renewal arrived before; nothing changed")?;
        } else {
            page.title(GOOD, "RENEWED", "the work is still yours to do")?;
        }
        page.field_if("lease until", self.lease_expires_at.as_ref())
    }
}
