//! `engine chat` from outside, through a pipe and on a terminal.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::AtomicBool;

use engine::generate::{Request, generate};
use engine::sampling::Sampling;
use engine::text::{Message, SpecialTokens};
use support::{ON_CPU, folder_with, models, open, runner};

fn chat(flags: &[&str]) -> Child {
    chat_with(&models().join("llama"), flags)
}

fn chat_with(model: &Path, flags: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_engine"))
        .envs([ON_CPU])
        .args(["chat", "--model-path"])
        .arg(model)
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

fn said(mut child: Child, input: &[u8]) -> Output {
    child.stdin.take().expect("a pipe").write_all(input).expect("written");
    child.wait_with_output().expect("ends")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// What the model answers to the last of `messages`, without the command, with nothing kept.
fn answer(messages: &[Message]) -> String {
    let checkpoint = open(&models().join("llama"));
    let tokenizer = checkpoint.tokenizer().expect("a vocabulary");
    let text = checkpoint.chat_template().expect("a template").render(messages).expect("renders");
    let request = Request {
        prompt_token_ids: tokenizer.encode(&text, SpecialTokens::AsWritten).expect("encodes"),
        max_new_tokens: 9,
        sampling: Sampling { temperature: 0.9, repetition_penalty: 1.1, seed: 4, ..Sampling::default() },
        stop_token_ids: checkpoint.stop_token_ids().to_vec(),
        ..Request::default()
    };
    let mut runner = runner(&checkpoint, 16, 512);
    let next = |_: engine::generate::Step<'_>| ControlFlow::Continue(());
    generate(&mut runner, Some(tokenizer), &request, &AtomicBool::new(false), next).expect("generates").text
}

const FLAGS: [&str; 8] =
    ["--max-new-tokens", "9", "--temperature", "0.9", "--repetition-penalty", "1.1", "--seed", "4"];

#[test]
fn each_line_is_answered_with_what_was_said_before_in_mind() {
    let output = said(chat(&FLAGS), "Hello\n\n  And then? \r\n/reset\nHello\n/exit\nnever read\n".as_bytes());
    let mut messages = vec![Message::user("Hello")];
    let first = answer(&messages);
    messages.extend([Message::assistant(&first), Message::user("And then?")]);
    let second = answer(&messages);
    assert_ne!(second, answer(&[Message::user("And then?")]), "the history changes nothing");
    // After a reset the conversation begins anew.
    assert_eq!(text(&output), format!("{first}\n{second}\n{first}\n"));
    assert!(output.stderr.is_empty(), "a pipe needs no prompts");
    // The last line may lack its end.
    let output = said(chat(&FLAGS), b"Hello");
    assert_eq!(text(&output), format!("{first}\n"));
    assert!(output.stderr.is_empty(), "the end of a pipe is no end of a line on a terminal");
    assert_eq!(text(&said(chat(&FLAGS), b"")), "");
}

#[test]
fn a_system_message_stays_through_a_reset() {
    let flags = [&FLAGS[..], &["--system", "Be brief."]].concat();
    let want = answer(&[Message::system("Be brief."), Message::user("Hello")]);
    assert_ne!(want, answer(&[Message::user("Hello")]));
    let output = said(chat(&flags), b"Hello\n/reset\nHello\n");
    assert_eq!(text(&output), format!("{want}\n{want}\n"));
}

#[test]
fn what_cannot_be_answered_ends_a_chat_through_a_pipe_with_the_reason() {
    let cases: [(&[&str], &[u8], &str); 4] = [
        (&[], b"Hello\nab\xffc\n", "standard input is not UTF-8 text: byte 9 is 0xff"),
        (&["--context-length", "4"], b"Hello\n", "tokens, more than the context length of 4"),
        (&["--activation-dtype", "int8"], b"", "--activation-dtype int8 is not available"),
        (&["--load-format", "dummy", "--temperature", "-1"], b"", "sampling.temperature: -1.0 is outside 0.0..=100.0"),
    ];
    for (flags, input, part) in cases {
        let mut child = chat(&[&["--max-new-tokens", "2"], flags].concat());
        // A chat that is refused reads nothing.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        let output = child.wait_with_output().expect("ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)) && said.contains(part), "`{part}` is missing in: {said}");
    }
}

#[test]
fn a_model_that_holds_no_conversations_is_told_before_anything_is_waited_for() {
    let folder = folder_with("llama", &["config.json", "tokenizer.json", "model.safetensors"]);
    let output = said(chat_with(folder.path(), &[]), b"");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("has no chat template"), "{said}");
}

#[test]
fn a_line_through_a_pipe_may_be_longer_than_one_on_a_terminal() {
    let mut line = "word ".repeat(1000);
    line.push('\n');
    let output = said(chat(&["--context-length", "64"]), line.as_bytes());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("more than the context length of 64"), "{said}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_chat_through_a_pipe() {
    let mut child = chat(&[]);
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    input.write_all(b"Hello\n").expect("written");
    let mut line = Vec::new();
    output.read_until(b'\n', &mut line).expect("reads");
    // It waits for the next line, or is about to.
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    output.read_to_end(&mut line).expect("reads");
    drop(input);
}

#[cfg(target_os = "linux")]
mod on_a_terminal {
    use super::support::terminal::Terminal;
    use super::{FLAGS, Message, answer, folder_with, models};

    const HELP: &str = "/reset begins a new conversation, /exit or Ctrl-D ends; Ctrl-C stops an answer\r\n> ";

    fn chat(flags: &[&str]) -> Terminal {
        let model = models().join("llama");
        let mut terminal =
            Terminal::start(&[&["chat", "--model-path", model.to_str().expect("text")], flags].concat(), &[]);
        terminal.shows(0, HELP);
        terminal
    }

    /// What a terminal shows of a text.
    fn shown(text: &str) -> String {
        text.replace('\n', "\r\n")
    }

    /// Types a line, and what is shown until the next prompt.
    fn says(terminal: &mut Terminal, keys: &str, answer: &str) {
        let from = terminal.screen.len();
        terminal.types(keys);
        terminal.shows(from, &format!("\r\n{}\r\n> ", shown(answer)));
    }

    #[test]
    fn a_conversation_with_commands_and_ctrl_d() {
        let mut terminal = chat(&FLAGS);
        let mut messages = vec![Message::user("Hello")];
        let first = answer(&messages);
        messages.extend([Message::assistant(&first), Message::user("And then?")]);
        let second = answer(&messages);
        let begin = terminal.screen.find(HELP).expect("the help");
        says(&mut terminal, "Hello\r", &first);
        says(&mut terminal, "And then?\r", &second);
        let from = terminal.screen.len();
        terminal.types("\r");
        terminal.shows(from, "\r\n> ");
        terminal.types("/reset\r");
        terminal.shows(from, "> /reset\r\n> ");
        says(&mut terminal, "Hello\r", &first);
        terminal.types("\x04");
        let (status, screen) = terminal.ends();
        assert_eq!(status.code(), Some(0), "{screen}");
        let (first, second) = (shown(&first), shown(&second));
        let expected = format!(
            "{HELP}Hello\r\n{first}\r\n> And then?\r\n{second}\r\n> \r\n> /reset\r\n> Hello\r\n{first}\r\n> \r\n"
        );
        assert_eq!(&screen[begin..], expected);
        // What was shown while the model was loaded is gone, and there are no colours.
        assert!(!screen[begin..].contains('\x1b'), "{screen:?}");
    }

    #[test]
    fn lines_are_edited_in_whole_characters() {
        let mut terminal = chat(&FLAGS);
        // Backspace, the key that empties the line, and the one that takes back a word.
        for (keys, message) in [
            ("Helxx\x7f\x7flo\r", "Hello"),
            ("nothing of this\x15Hello\r", "Hello"),
            ("Hello you\x17\x7f\r", "Hello"),
            ("日本\x7f語 é\x7fö🙂\r", "日語 ö🙂"),
        ] {
            says(&mut terminal, keys, &answer(&[Message::user(message)]));
            let from = terminal.screen.len();
            terminal.types("/reset\r");
            terminal.shows(from, "\r\n> ");
        }
        terminal.types("/exit\r");
        assert_eq!(terminal.ends().0.code(), Some(0));
    }

    #[test]
    fn a_line_that_the_terminal_cuts_off_is_not_taken_for_the_message() {
        let mut terminal = chat(&FLAGS);
        let long = "word ".repeat(60);
        says(&mut terminal, &format!("{long}\r"), &answer(&[Message::user(long.trim())]));
        let from = terminal.screen.len();
        terminal.types("/reset\r");
        terminal.shows(from, "\r\n> ");
        let from = terminal.screen.len();
        terminal.types(&format!("{}\r", "word ".repeat(1000)));
        terminal.shows(from, "engine: a terminal hands on 4095 bytes of a line and drops the rest");
        terminal.shows(from, "\r\n> ");
        // Nothing was asked.
        says(&mut terminal, "Hello\r", &answer(&[Message::user("Hello")]));
        terminal.types("\x04");
        assert_eq!(terminal.ends().0.code(), Some(0));
    }

    #[test]
    fn a_message_that_cannot_be_answered_is_told_and_the_chat_goes_on() {
        let mut terminal = chat(&[&FLAGS[..], &["--context-length", "64"]].concat());
        let from = terminal.screen.len();
        terminal.types(&format!("{}\r", "word ".repeat(60)));
        terminal.shows(from, "more than the context length of 64");
        terminal.shows(from, "\r\n> ");
        says(&mut terminal, "Hello\r", &answer(&[Message::user("Hello")]));
        terminal.types("/exit\r");
        assert_eq!(terminal.ends().0.code(), Some(0));
    }

    #[test]
    fn ctrl_c_stops_an_answer_and_at_the_prompt_the_chat() {
        // A model that is slow, and a text that is so long that nobody would wait for its end.
        let folder = folder_with("llama", &["tokenizer.json", "tokenizer_config.json"]);
        let mut config = super::support::json(&models().join("llama/config.json"));
        config["num_hidden_layers"] = 48.into();
        config["max_position_embeddings"] = 100_000.into();
        std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
        let model = folder.path().to_str().expect("text");
        let flags = ["--load-format", "dummy", "--ignore-eos", "--temperature", "1", "--max-new-tokens", "90000"];
        let mut terminal = Terminal::start(&[&["chat", "--model-path", model], &flags[..]].concat(), &[]);
        for _ in 0..2 {
            terminal.shows(0, HELP);
            let from = terminal.screen.len();
            terminal.types("Hello\r");
            // A part of the answer.
            terminal.shows_bytes(from + "Hello\r\n".len() + 20);
            let from = terminal.screen.len();
            terminal.types("\x03");
            terminal.shows(from, "\r\n> ");
        }
        terminal.types("\x03");
        let (status, screen) = terminal.ends();
        assert_eq!(status.code(), Some(130), "{screen}");
    }

    #[test]
    fn ctrl_c_at_the_first_prompt_and_after_a_whole_answer_ends_the_chat() {
        for is_answered in [false, true] {
            let mut terminal = chat(&FLAGS);
            if is_answered {
                says(&mut terminal, "Hello\r", &answer(&[Message::user("Hello")]));
            }
            // A chat that goes on would end by the second key, and well.
            terminal.types("\x03\x04");
            let (status, screen) = terminal.ends();
            assert_eq!(status.code(), Some(130), "{screen}");
        }
    }
}
