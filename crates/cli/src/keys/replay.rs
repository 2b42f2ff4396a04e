//! `semel keys replay`

use std::io;
use std::time::Duration;

use clap::Args;
use semel_proto::v1::{KeyState, ReplayKeyRequest, ReplayKeyResponse};
use serde::Serialize;

use super::arguments::{KeyArgs, PayloadArgs};
use super::view::{CompletionView, state_name, state_style};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, Page, Reply};
use crate::target::NodeArgs;
use crate::values::{parse_duration, show_ms, to_ms, to_wire};

const EXAMPLES: &str = "\
Examples:
  semel keys replay payments.charge order-8812 --tenant acme --payload 'charge 42.00 EUR'
  semel keys replay payments.charge order-8812 --tenant acme \\
      --payload-file request.json --wait 30s --json

It needs the payload of the claim: guessing a key shows nothing.";

/// The arguments of `semel keys replay`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    key: KeyArgs,

    #[command(flatten)]
    payload: PayloadArgs,

    /// How long to wait for the answer [default: not at all].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
}

impl ReplayArgs {
    /// Reads the answer.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let message = ReplayKeyRequest {
            fingerprints: self.payload.fingerprints(&self.key.operation)?,
            tenant: self.key.tenant.tenant,
            operation: self.key.operation,
            key: self.key.key,
            wait: self.wait.map(to_wire),
        };
        let mut keys = node.keys().await?;
        let response = keys.replay_key(node.request(message, self.wait)).await?.into_inner();
        let exit = if response.completion.is_some() { Exit::Done } else { Exit::No };
        output.reply(&ReplayView::from(response))?;
        Ok(exit)
    }
}

#[derive(Debug, Serialize)]
struct ReplayView {
    #[serde(skip)]
    raw_state: i32,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion: Option<CompletionView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<i64>,
}

impl From<ReplayKeyResponse> for ReplayView {
    fn from(response: ReplayKeyResponse) -> Self {
        Self {
            raw_state: response.state,
            state: state_name(response.state),
            completion: response.completion.map(CompletionView::from),
            retry_after_ms: response.retry_after.as_ref().map(to_ms),
        }
    }
}

impl Reply for ReplayView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let meaning = match KeyState::try_from(self.raw_state) {
            Ok(KeyState::Succeeded) => "here is the answer",
            Ok(KeyState::FailedFinal) => "it failed for good; here is the answer",
            Ok(KeyState::Claimed) => "somebody is doing it now",
            Ok(KeyState::Lapsed) => "its owner was lost; it may have been done",
            Ok(KeyState::Released) => "given back, not done; a claim would get it",
            Ok(KeyState::Indeterminate) => "it may have been done; nobody knows yet",
            Ok(KeyState::Forgotten) => "it was done, and its answer was erased",
            Ok(KeyState::Unspecified) | Err(_) => "a state that is not known here",
        };
        page.title(state_style(self.raw_state), &self.state, meaning)?;
        page.field_if("look again in", self.retry_after_ms.map(show_ms))?;
        self.completion.as_ref().map_or(Ok(()), |completion| completion.write(page))
    }
}
