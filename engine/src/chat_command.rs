//! `engine chat`: a conversation, one message a line.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;

use engine::checkpoint::Checkpoint;
use engine::generate::{Kept, Step, generate_after};
use engine::runner::Runner;
use engine::text::Message;
use engine_config::Settings;

use kitbag::clap::{Arg, ArgMatches, Command};
use kitbag::{ConfigNamespaces, Context};

use crate::cli::{Failure, loader};
use crate::generate_command::{asked, stops};
use crate::interrupts::Interrupts;
use crate::launch::{self, Asked, Opened};
use crate::machine::Machine;
use crate::prompt;
use crate::stdin::Lines;

pub(crate) const NAME: &str = "chat";

const HELP: &str = "/reset begins a new conversation, /exit or Ctrl-D ends; Ctrl-C stops an answer";

/// What a terminal hands on of a line at most; see termios(3) on the canonical mode.
const LONGEST_LINE: usize = 4095;

pub(crate) fn command() -> Command {
    let command = Command::new(NAME)
        .about("Hold a conversation, one message a line")
        .long_about(format!("Hold a conversation, one message a line: {HELP}. Lines may come through a pipe."))
        .arg(
            Arg::new("system")
                .long("system")
                .value_name("TEXT")
                .help("What holds for the whole conversation")
                .allow_hyphen_values(true),
        )
        .args(stops());
    Settings::augment(command)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let interrupts = Interrupts::new()?;
    let Opened { context, checkpoint } = launch::open(&loader(matches), None)?;
    let system: Vec<Message> =
        matches.get_one::<String>("system").map(|text| Message::system(text)).into_iter().collect();
    // Without vocabulary or chat template there is no conversation, which is said before anything is waited for.
    prompt::of_conversation(&checkpoint, &[&system[..], &[Message::user("?")]].concat())?;
    let asked = asked(matches, checkpoint.config().vocab_size)?;
    let mut runner = launch::build_runner(&context, &checkpoint, Machine::detect())?;
    let kept = Kept::new(&runner);
    let mut chat = Chat { context: &context, checkpoint: &checkpoint, asked, messages: system.clone(), system, kept };
    let is_terminal = std::io::stdin().is_terminal();
    if is_terminal {
        note(&format!("{HELP}\n"));
    }
    let mut lines = Lines::default();
    loop {
        if is_terminal {
            note("> ");
        }
        let Some(line) = lines.next()? else {
            if is_terminal {
                // Ctrl-D leaves the cursor behind the prompt.
                note("\n");
            }
            break;
        };
        match line.trim() {
            _ if is_terminal && line.len() >= LONGEST_LINE => note(&format!(
                "engine: a terminal hands on {LONGEST_LINE} bytes of a line and drops the rest, so nothing was asked; \
                 longer messages come through a pipe, or with `engine generate --chat -`\n"
            )),
            "" => {}
            "/exit" => break,
            "/reset" => chat.messages.clone_from(&chat.system),
            message => match chat.answer(&mut runner, &interrupts, message) {
                Err(failure) if goes_on(&failure, is_terminal, runner.is_lost()) => {
                    if let Failure::Run(problem) = failure {
                        note(&format!("engine: {problem}\n"));
                    }
                }
                answered => answered?,
            },
        }
    }
    launch::warn_of_graphs(&runner);
    chat.kept.release(&mut runner).map_err(Failure::run)
}

/// Whether a chat goes on after a message that was not answered, or in part. A person at a terminal can say something else,
/// unless the device has failed for good; what comes through a pipe has nobody to do so.
fn goes_on(failure: &Failure, is_terminal: bool, is_lost: bool) -> bool {
    match failure {
        Failure::Run(_) => is_terminal && !is_lost,
        Failure::Interrupted => is_terminal,
        Failure::Usage(_) | Failure::OutputClosed => false,
    }
}

/// Says something to a person at a terminal, apart from the answers.
fn note(text: &str) {
    // Nobody misses it who does not read it.
    let _ = write!(std::io::stderr(), "{text}");
}

/// A conversation underway.
struct Chat<'a> {
    context: &'a Context<Settings>,
    checkpoint: &'a Checkpoint,
    asked: Asked,
    /// What every conversation begins with.
    system: Vec<Message>,
    messages: Vec<Message>,
    /// The tokens of the conversation so far need not be run again.
    kept: Kept,
}

impl Chat<'_> {
    /// Prints the answer to a message as it comes, and remembers both.
    fn answer(&mut self, runner: &mut Runner, interrupts: &Interrupts, message: &str) -> Result<(), Failure> {
        let messages = [&self.messages[..], &[Message::user(message)]].concat();
        let prompt = prompt::of_conversation(self.checkpoint, &messages)?;
        let request = launch::request(&self.context.view(), self.checkpoint, prompt, self.asked.clone());
        let mut out = std::io::stdout().lock();
        let mut written = Ok(());
        let on_step = |step: Step<'_>| {
            written = out.write_all(step.text.as_bytes()).and_then(|()| out.flush());
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let (generated, is_interrupted) = interrupts.during(|cancelled| {
            generate_after(runner, &mut self.kept, self.checkpoint.tokenizer(), &request, cancelled, on_step)
        });
        let generation = generated.map_err(Failure::run)?;
        written?;
        writeln!(out)?;
        out.flush()?;
        self.messages = messages;
        // A part of an answer was said, too.
        self.messages.push(Message::assistant(&generation.text));
        if is_interrupted { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_goes_on_after_a_failure_unless_the_device_is_lost() {
        // At a terminal, through a pipe; the same with a device that is lost.
        let cases = [
            (Failure::Run("it is too long".into()), [true, false, false, false]),
            (Failure::Interrupted, [true, false, true, false]),
            (Failure::OutputClosed, [false; 4]),
            (Failure::Usage("no such setting".into()), [false; 4]),
        ];
        for (failure, wanted) in cases {
            let found = [(true, false), (false, false), (true, true), (false, true)]
                .map(|(is_terminal, is_lost)| goes_on(&failure, is_terminal, is_lost));
            assert_eq!(found, wanted, "{failure}");
        }
    }
}
