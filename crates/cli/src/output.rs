//! The only way to the terminal: the same reply for people or, with `--json`, for scripts.
//!
//! With `--json` exactly one JSON value goes to the standard output, an error included; a watch writes
//! one for each change, a line each. Without it, replies go to the standard output, errors and progress
//! to the standard error. Colours appear on
//! a terminal only, and not at all with NO_COLOR.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice, StripStream};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::values::tame;

/// Good news.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Not what was hoped for, but no fault.
pub(crate) const CAUTION: Style = AnsiColor::Yellow.on_default().bold();
/// A fault.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// A heading or a name.
pub(crate) const STRONG: Style = Style::new().bold();
/// A command to copy.
pub(crate) const COMMAND: Style = AnsiColor::Cyan.on_default();
/// What may be skipped over.
pub(crate) const FAINT: Style = Style::new().dimmed();

const FIELD_WIDTH: usize = 14;

/// Something that a command has to say.
pub(crate) trait Reply: Serialize {
    /// Writes it for a person.
    fn write(&self, page: &mut Page<'_>) -> io::Result<()>;
}

/// Where a command's words go.
pub(crate) struct Output {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    json: bool,
    progress: bool,
    progress_width: usize,
}

impl Output {
    /// The process's own standard output and error.
    pub(crate) fn new(json: bool) -> Self {
        let out: Box<dyn Write + Send> = match AutoStream::choice(&io::stdout()) {
            ColorChoice::Never => Box::new(StripStream::new(io::stdout())),
            _ => Box::new(io::stdout()),
        };
        let err: Box<dyn Write + Send> = match AutoStream::choice(&io::stderr()) {
            ColorChoice::Never => Box::new(StripStream::new(io::stderr())),
            _ => Box::new(io::stderr()),
        };
        Self { out, err, json, progress: io::stderr().is_terminal(), progress_width: 0 }
    }

    /// Says a reply.
    pub(crate) fn reply<R: Reply>(&mut self, reply: &R) -> io::Result<()> {
        if self.json {
            self.line_of_json(reply)?;
        } else {
            reply.write(&mut Page(&mut self.out))?;
        }
        self.out.flush()
    }

    /// Says why a command failed, and how the process is to end.
    pub(crate) fn failure(&mut self, failure: &Failure) -> Exit {
        // If even this can't be written, the exit code still tells.
        let _ = self.write_failure(failure);
        failure.exit
    }

    /// Writes to a person as things happen; nothing with `--json`.
    pub(crate) fn live(
        &mut self,
        write: impl FnOnce(&mut Page<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        write(&mut Page(&mut self.out))?;
        self.out.flush()
    }

    /// Says something beside the replies: on the standard error, with `--json` too.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.err, "{FAINT}{}{FAINT:#}", tame(text))?;
        self.err.flush()
    }

    /// Shows on a terminal how far a long run is, each time over the line before. An empty text takes
    /// the line away.
    pub(crate) fn progress(&mut self, text: &str) -> io::Result<()> {
        if !self.progress {
            return Ok(());
        }
        // Spaces, since a sequence that clears the line would be stripped with the colours.
        let width = self.progress_width;
        write!(self.err, "\r{:width$}\r{FAINT}{text}{FAINT:#}", "")?;
        self.progress_width = text.chars().count();
        self.err.flush()
    }

    /// Writes to a person beside the reply, also where that goes to a script.
    pub(crate) fn aside(
        &mut self,
        write: impl FnOnce(&mut Page<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        write(&mut Page(&mut self.err))?;
        self.err.flush()
    }

    fn write_failure(&mut self, failure: &Failure) -> io::Result<()> {
        if self.progress_width > 0 {
            self.progress("")?;
        }
        if failure.exit == Exit::Done {
            return Ok(());
        }
        if self.json {
            self.line_of_json(&serde_json::json!({ "error": failure }))?;
            return self.out.flush();
        }
        Page(&mut self.err).failure(failure)?;
        self.err.flush()
    }

    fn line_of_json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, value)?;
        self.out.write_all(b"\n")
    }
}

/// A place to write for a person.
pub(crate) struct Page<'a>(pub(crate) &'a mut dyn Write);

impl Page<'_> {
    /// A line as it is.
    pub(crate) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.0, "{text}")
    }

    /// The answer in a word, and what it means.
    pub(crate) fn title(&mut self, style: Style, word: &str, meaning: &str) -> io::Result<()> {
        writeln!(self.0, "{style}{word}{style:#}  {meaning}")
    }

    /// A named value.
    pub(crate) fn field(&mut self, name: &str, value: impl Display) -> io::Result<()> {
        writeln!(self.0, "  {FAINT}{name:FIELD_WIDTH$}{FAINT:#} {}", tame(&value.to_string()))
    }

    /// A named value, if there is one.
    pub(crate) fn field_if(&mut self, name: &str, value: Option<impl Display>) -> io::Result<()> {
        value.map_or(Ok(()), |value| self.field(name, value))
    }

    /// A command to try next.
    pub(crate) fn next(&mut self, when: &str, command: &Invocation) -> io::Result<()> {
        writeln!(self.0, "\n{when}\n  {COMMAND}{command}{COMMAND:#}")
    }

    /// A table: its first row is the heading. Cells are tamed by whoever wrote them.
    pub(crate) fn table(&mut self, rows: &[Vec<String>]) -> io::Result<()> {
        let mut writer = tabwriter::TabWriter::new(&mut *self.0).padding(2).ansi(true);
        for (position, row) in rows.iter().enumerate() {
            let style = if position == 0 { STRONG } else { Style::new() };
            let cells: Vec<String> =
                row.iter().map(|cell| format!("{style}{cell}{style:#}")).collect();
            writeln!(writer, "{}", cells.join("\t"))?;
        }
        writer.flush()
    }

    fn failure(&mut self, failure: &Failure) -> io::Result<()> {
        let reason = failure.reason.as_ref().map_or_else(String::new, |name| format!(" {name}:"));
        self.line(format!("{BAD}error:{BAD:#}{reason} {}", tame(&failure.message)))?;
        for problem in failure.fields.iter().filter(|field| field.description != failure.message) {
            self.field(&problem.field, &problem.description)?;
        }
        for problem in &failure.problems {
            self.line(format!("  {}", tame(&problem.to_string())))?;
        }
        for (name, value) in &failure.metadata {
            self.field(name, value)?;
        }
        if let Some(retry_after_ms) = failure.retry_after_ms {
            self.field("retry after", format!("{retry_after_ms} ms"))?;
        }
        if let Some(advice) = &failure.advice {
            self.line(format!("{STRONG}next:{STRONG:#} {advice}"))?;
        }
        if let Some(repeat) = &failure.repeat {
            self.line(format!("  {COMMAND}{repeat}{COMMAND:#}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What was written, without colours.
    #[derive(Clone, Default)]
    pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

    impl Written {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(anstream::adapter::strip_bytes(&self.0.lock().unwrap()).into_vec())
                .unwrap()
        }
    }

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// An output to look into: what goes to the standard output, what to the standard error.
    pub(crate) fn capture(json: bool) -> (Output, Written, Written) {
        let (out, err) = (Written::default(), Written::default());
        let output = Output {
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            json,
            progress: true,
            progress_width: 0,
        };
        (output, out, err)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::capture;
    use super::*;

    #[derive(Serialize)]
    struct Greeting {
        to: &'static str,
    }

    impl Reply for Greeting {
        fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
            page.title(GOOD, "HELLO", self.to)?;
            page.field("to", self.to)
        }
    }

    #[test]
    fn people_get_lines_and_scripts_get_one_value() {
        let (mut output, out, _) = capture(false);
        output.reply(&Greeting { to: "you" }).unwrap();
        assert_eq!(out.text(), "HELLO  you\n  to             you\n");

        let (mut output, out, _) = capture(true);
        output.live(|page| page.line("not for scripts")).unwrap();
        output.reply(&Greeting { to: "you" }).unwrap();
        assert_eq!(out.text(), "{\"to\":\"you\"}\n");
    }

    #[test]
    fn failures_go_where_their_reader_looks() {
        let failure = Failure::usage("no such thing").advise("name another");

        let (mut output, out, err) = capture(false);
        assert_eq!(output.failure(&failure), Exit::Usage);
        assert_eq!(out.text(), "");
        assert_eq!(err.text(), "error: no such thing\nnext: name another\n");

        let (mut output, out, err) = capture(true);
        output.failure(&failure);
        assert_eq!(err.text(), "");
        let json: serde_json::Value = serde_json::from_str(&out.text()).unwrap();
        assert_eq!(json["error"]["code"], "USAGE");
        assert_eq!(json["error"]["advice"], "name another");
    }

    #[test]
    fn progress_is_written_over_and_taken_away() {
        let (mut output, out, err) = capture(false);
        output.progress("half of it").unwrap();
        output.progress("done").unwrap();
        output.progress("").unwrap();
        let text = err.text();
        assert_eq!(text, "\r\rhalf of it\r          \rdone\r    \r");
        assert_eq!(out.text(), "");
    }

    #[test]
    fn tables_line_up() {
        let (mut output, out, _) = capture(false);
        let rows = [vec!["KEY".to_owned(), "STATE".to_owned()], vec!["a".into(), "b".into()]];
        output.live(|page| page.table(&rows)).unwrap();
        assert_eq!(out.text(), "KEY  STATE\na    b\n");
    }
}
