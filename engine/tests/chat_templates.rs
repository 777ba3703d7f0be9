//! Chat templates against the template engine that their authors write them for.

mod support;

use std::time::{Duration, UNIX_EPOCH};

use engine::text::{ChatTemplate, Message};
use serde_json::Value;
use support::{json, models};

fn messages(case: &Value) -> Vec<Message> {
    let text = |message: &Value, key: &str| message[key].as_str().expect("text").to_owned();
    let messages = case["messages"].as_array().expect("messages").iter();
    messages.map(|message| Message { role: text(message, "role"), content: text(message, "content") }).collect()
}

#[test]
fn hand_made_templates_give_the_reference_text() {
    let reference = json(&models().join("chat-templates.json"));
    let now = UNIX_EPOCH + Duration::from_secs(reference["now"].as_u64().expect("seconds"));
    let cases = reference["cases"].as_array().expect("cases");
    assert!(cases.len() >= 15);
    let mut faults = Vec::new();
    for case in cases {
        let source = case["template"].as_str().expect("text");
        let text = ChatTemplate::new(source, Some("<s>".into()), Some("</s>".into()))
            .and_then(|template| template.render_at(&messages(case), now))
            .map_err(|e| e.to_string());
        match (&text, &case["text"], &case["error"]) {
            (Ok(text), Value::String(want), _) if text == want => {}
            (Err(text), _, Value::String(want)) if text.contains(want.as_str()) => {}
            (_, want, error) => faults.push(format!("{}:\n   got {text:?}\n  want {want} {error}\n", case["name"])),
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.concat());
}

#[test]
fn templates_of_the_small_models_write_a_conversation() {
    for entry in std::fs::read_dir(models()).expect("lists") {
        let path = entry.expect("an entry").path().join("tokenizer_config.json");
        if !path.exists() {
            continue;
        }
        let source = json(&path)["chat_template"].as_str().expect("text").to_owned();
        let template = ChatTemplate::new(&source, None, None).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let text =
            template.render(&[Message::system("s"), Message::user("u"), Message::assistant("a"), Message::user("v")]);
        let want = "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n\
            <|im_start|>user\nv<|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(text.expect("renders"), want, "{}", path.display());
    }
}
