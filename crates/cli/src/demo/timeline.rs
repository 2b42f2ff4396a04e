//! What everybody says, as it happens.

use std::io;
use std::time::Duration;

use anstyle::Style;
use tokio::sync::mpsc;

use crate::output::{FAINT, Output};
use crate::stopwatch::Stopwatch;

/// Lines that may wait to be shown.
const BACKLOG: usize = 64;

/// Who speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Party {
    /// The client.
    Client,
    /// The charge service.
    Service,
    /// The payment provider.
    Provider,
}

impl Party {
    const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Service => "  service",
            Self::Provider => "    provider",
        }
    }
}

struct Line {
    at_ms: u64,
    party: Party,
    style: Style,
    text: String,
}

/// A clock that began with the scene, and a voice.
#[derive(Clone)]
pub(crate) struct Timeline {
    watch: Stopwatch,
    lines: mpsc::Sender<Line>,
}

/// Where the voices are heard.
pub(crate) struct Transcript(mpsc::Receiver<Line>);

impl Timeline {
    /// Begins a scene. It ends when the last voice is gone.
    pub(crate) fn begin() -> (Self, Transcript) {
        let (lines, heard) = mpsc::channel(BACKLOG);
        (Self { watch: Stopwatch::start(), lines }, Transcript(heard))
    }

    /// The time since the scene began.
    pub(crate) fn now(&self) -> Duration {
        self.watch.elapsed()
    }

    /// The same in whole milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.watch.elapsed_ms()
    }

    /// Says something.
    pub(crate) async fn say(&self, party: Party, style: Style, text: String) {
        // If nobody listens any more, the output is closed, and its error is told elsewhere.
        let _ = self.lines.send(Line { at_ms: self.now_ms(), party, style, text }).await;
    }
}

impl Transcript {
    /// Shows every line as it comes, until the scene ends.
    pub(crate) async fn show(mut self, output: &mut Output) -> io::Result<()> {
        while let Some(Line { at_ms, party, style, text }) = self.0.recv().await {
            output.live(|page| {
                let name = party.name();
                page.line(format!("{FAINT}{at_ms:>7} ms{FAINT:#}  {name:14}{style}{text}{style:#}"))
            })?;
        }
        Ok(())
    }
}
