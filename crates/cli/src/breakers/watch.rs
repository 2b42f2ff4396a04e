//! `semel breakers watch`

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use clap::Args;
use semel_proto::v1::{ListBreakersRequest, WatchBreakersRequest, WatchBreakersResponse};
use serde::Serialize;
use tokio::time::sleep;
use tonic::{Code, Request, Status};

use super::view::{BreakerView, no_breaker};
use crate::arguments::TenantArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{CAUTION, Output, Page, Reply};
use crate::paging::Paging;
use crate::stop::StopSignals;
use crate::target::NodeArgs;

/// The most breakers of one watch, as in the contract.
const WATCHED_MAX: usize = 256;

/// How long to wait before a node that went away is asked again.
const RECONNECT: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  semel breakers watch --tenant acme
  semel breakers watch stripe paypal --tenant acme --json

Ctrl-C ends it. With --json each change is one JSON value on a line of its own. If the node goes away,
it is asked again every second, and what changed meanwhile is shown then.";

/// The arguments of `semel breakers watch`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WatchArgs {
    /// Which breakers: at most 256, whether they have a state yet or not [default: those that the tenant
    /// has at this moment].
    #[arg(value_name = "DEPENDENCY")]
    dependencies: Vec<String>,

    #[command(flatten)]
    tenant: TenantArgs,
}

impl WatchArgs {
    /// Shows changes until it is interrupted.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let mut signals = StopSignals::listen()?;
        tokio::select! {
            biased;
            _ = signals.next() => Ok(Exit::Done),
            failure = self.watch(node, output) => Err(failure),
        }
    }

    /// Ends only with a failure.
    async fn watch(&self, node: &NodeArgs, output: &mut Output) -> Failure {
        let dependencies = match self.names(node, output).await {
            Ok(dependencies) => dependencies,
            Err(failure) => return failure,
        };
        let request = WatchBreakersRequest { tenant: self.tenant.tenant.clone(), dependencies };
        let mut watch = Watch { request, seen: BTreeMap::new(), told: false };
        loop {
            match watch.follow(node, output).await {
                // Nobody was there from the beginning: that is for its caller to hear.
                Err(failure) if watch.seen.is_empty() || failure.exit != Exit::NoAnswer => {
                    return failure;
                }
                Err(failure) => {
                    if let Err(error) = watch.note_once(&failure, output) {
                        return error.into();
                    }
                    sleep(RECONNECT).await;
                }
                Ok(()) => {}
            }
        }
    }

    /// Those that were named, or those that there are.
    async fn names(&self, node: &NodeArgs, output: &mut Output) -> Result<Vec<String>, Failure> {
        if !self.dependencies.is_empty() {
            return Ok(self.dependencies.clone());
        }
        let mut client = node.breakers().await?;
        let (mut paging, mut names) = (Paging::first(WATCHED_MAX), Vec::new());
        while let Some((page_size, page_token)) = paging.next() {
            let tenant = self.tenant.tenant.clone();
            let message = ListBreakersRequest { tenant, page_size, page_token, condition: 0 };
            let page = client.list_breakers(node.request(message, None)).await?.into_inner();
            paging.came(page.breakers.len(), page.next_page_token);
            names.extend(page.breakers.into_iter().map(|breaker| breaker.dependency));
        }
        if names.is_empty() {
            return Err(Failure::usage(format!("{} has no breakers yet", self.tenant.tenant))
                .advise("name the dependencies to watch: they need no state yet"));
        }
        let more = if paging.into_token().is_empty() { "" } else { ", the first; there are more" };
        output.note(&format!("watching {} breakers{more}", names.len()))?;
        Ok(names)
    }
}

/// A watch that outlives its streams.
struct Watch {
    request: WatchBreakersRequest,
    seen: BTreeMap<String, ChangeView>,
    /// The present absence of the node was noted.
    told: bool,
}

impl Watch {
    /// Shows what one stream brings, until it ends, which is a failure in itself.
    async fn follow(&mut self, node: &NodeArgs, output: &mut Output) -> Result<(), Failure> {
        let mut client = node.watched_breakers().await?;
        // A watch has no end, hence no deadline.
        let request = Request::new(self.request.clone());
        let mut changes = client.watch_breakers(request).await?.into_inner();
        loop {
            let change = changes.message().await.map_err(transient)?;
            let Some(change) = change else {
                return Err(Status::unavailable("the node ended the watch").into());
            };
            if std::mem::take(&mut self.told) {
                output.note("the node is back")?;
            }
            self.show(change, output)?;
        }
    }

    /// Shows what differs from what was shown before: after a reconnection everything comes again.
    fn show(&mut self, change: WatchBreakersResponse, output: &mut Output) -> Result<(), Failure> {
        let breaker = BreakerView::from(change.breaker.ok_or_else(no_breaker)?);
        let change = ChangeView { breaker, degraded: change.degraded };
        let name = change.breaker.dependency.clone();
        if self.seen.get(&name).is_some_and(|before| before.looks_like(&change)) {
            return Ok(());
        }
        output.reply(&change)?;
        self.seen.insert(name, change);
        Ok(())
    }

    fn note_once(&mut self, failure: &Failure, output: &mut Output) -> io::Result<()> {
        if std::mem::replace(&mut self.told, true) {
            return Ok(());
        }
        output.note(&format!("{}; asking again every second", failure.message))
    }
}

/// A stream that broke says so in many ways, all of which mean that the node is gone for now.
fn transient(status: Status) -> Status {
    match status.code() {
        Code::Unknown | Code::Internal | Code::Cancelled | Code::Ok => {
            Status::unavailable(format!("the watch broke off: {}", status.message()))
        }
        _ => status,
    }
}

#[derive(Debug, Serialize)]
struct ChangeView {
    breaker: BreakerView,
    degraded: bool,
}

impl ChangeView {
    fn looks_like(&self, other: &Self) -> bool {
        self.degraded == other.degraded && self.breaker.looks_like(&other.breaker)
    }
}

impl Reply for ChangeView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        self.breaker.write_line(page)?;
        if self.degraded {
            let text = "the store is out of reach: this is the last that the node knew";
            page.line(format!("  {CAUTION}{text}{CAUTION:#}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use semel_proto::v1::BreakerSnapshot;

    use super::*;
    use crate::output::testing::capture;

    fn change(generation: u64, degraded: bool) -> WatchBreakersResponse {
        let breaker = BreakerSnapshot { dependency: "d".into(), generation, ..Default::default() };
        WatchBreakersResponse { breaker: Some(breaker), degraded }
    }

    #[test]
    fn after_a_reconnection_only_what_changed_is_shown_each_on_a_line() {
        let (mut output, out, err) = capture(true);
        let request = WatchBreakersRequest::default();
        let mut watch = Watch { request, seen: BTreeMap::new(), told: false };
        for shown in [change(1, false), change(1, false), change(2, false), change(2, true)] {
            watch.show(shown, &mut output).unwrap();
        }
        let generations: Vec<u64> = out
            .text()
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|json| json["breaker"]["generation"].as_u64().unwrap())
            .collect();
        assert_eq!(generations, [1, 2, 2]);

        let gone = Failure::from(Status::unavailable("gone"));
        watch.note_once(&gone, &mut output).unwrap();
        watch.note_once(&gone, &mut output).unwrap();
        assert_eq!(err.text(), "gone; asking again every second\n");
    }

    #[test]
    fn a_broken_stream_is_a_node_that_is_gone() {
        let failure = Failure::from(transient(Status::unknown("h2 protocol error")));
        assert_eq!(failure.exit, Exit::NoAnswer);
        let denied = Failure::from(transient(Status::permission_denied("not yours")));
        assert_eq!(denied.exit, Exit::No);
    }
}
