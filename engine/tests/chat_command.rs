//! `engine chat` from outside, through a pipe.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::AtomicBool;

use engine::generate::{Request, generate};
use engine::sampling::Sampling;
use engine::text::{Message, SpecialTokens};
use support::{models, open, runner};

fn chat(flags: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_engine"))
        .args(["chat", "--model-path"])
        .arg(models().join("llama"))
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
    let cases: [(&[&str], &[u8], &str); 3] = [
        (&[], b"Hello\nab\xffc\n", "standard input is not UTF-8 text: byte 9 is 0xff"),
        (&["--context-length", "4"], b"Hello\n", "tokens, more than the context length of 4"),
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
