//! Rendering a conversation into the text a model was trained on.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value, ValueKind};
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;

use crate::error::{Error, Result};

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who speaks: `system`, `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// What the user says.
    #[must_use]
    pub fn user(content: &str) -> Self {
        Self { role: "user".into(), content: content.into() }
    }
}

/// A compiled chat template in the dialect of Hugging Face models.
///
/// Beyond Jinja it knows `raise_exception`, Python's string and list methods, `tojson` as Python writes it, and `break` and `continue`.
/// The clock is not offered: `strftime_now` is undefined, so that a conversation always renders alike.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    begin_token: Option<String>,
    end_token: Option<String>,
}

const NAME: &str = "chat_template";

impl ChatTemplate {
    /// Compiles a template; it may refer to the begin and end tokens as `bos_token` and `eos_token`.
    pub fn new(source: String, begin_token: Option<String>, end_token: Option<String>) -> Result<Self> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| describe(&e))?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", raise_exception);
        environment.add_filter("tojson", to_json);
        environment.add_template_owned(NAME, source).map_err(|e| describe(&e))?;
        Ok(Self { environment, begin_token, end_token })
    }

    /// The text of `messages`, followed by the beginning of the model's answer.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        let template = self.environment.get_template(NAME).map_err(|e| describe(&e))?;
        let context = minijinja::context! {
            messages => Value::from(Serde(messages)),
            add_generation_prompt => true,
            bos_token => self.begin_token.as_deref().unwrap_or_default(),
            eos_token => self.end_token.as_deref().unwrap_or_default(),
        };
        template.render(context).map_err(|e| describe(&e))
    }
}

fn describe(error: &minijinja::Error) -> Error {
    Error::ChatTemplate(error.to_string())
}

fn raise_exception(message: String) -> std::result::Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
}

/// JSON as Python's `json.dumps` writes it: spaces after separators, nothing escaped for HTML.
#[allow(clippy::needless_pass_by_value)] // Filters are called with owned arguments.
fn to_json(value: &Value, options: Kwargs) -> std::result::Result<Value, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    if value.kind() == ValueKind::Undefined {
        return Err(minijinja::Error::new(ErrorKind::UndefinedError, "tojson of an undefined value"));
    }
    let invalid = |e: serde_json::Error| minijinja::Error::new(ErrorKind::BadSerialization, e.to_string());
    let mut bytes = Vec::new();
    if let Some(indent) = indent {
        let spaces = " ".repeat(indent);
        let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter)).map_err(invalid)?;
    } else {
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Spaced)).map_err(invalid)?;
    }
    Ok(Value::from_safe_string(String::from_utf8_lossy(&bytes).into_owned()))
}

/// One line, with `", "` and `": "`.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, w: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, w: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, w: &mut W) -> std::io::Result<()> {
        w.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::{ChatTemplate, Message};

    fn render(source: &str, messages: &[Message]) -> Result<String, String> {
        ChatTemplate::new(source.into(), Some("<s>".into()), Some("</s>".into()))
            .and_then(|template| template.render(messages))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn blocks_leave_no_blank_lines_and_tokens_are_known() {
        let source = "{{ bos_token }}\n{% for m in messages %}\n    {% if m.role == 'user' %}\n{{ m.content.strip() }}{{ eos_token }}\n    {% endif %}\n{% endfor %}\n{% if add_generation_prompt %}>{% endif %}";
        let text = render(source, &[Message::user("  hi ")]).expect("renders");
        assert_eq!(text, "<s>\nhi</s>\n>");
    }

    #[test]
    fn a_template_may_refuse_a_conversation() {
        let source = "{% if messages[0]['role'] != 'user' %}{{ raise_exception('user first') }}{% endif %}";
        let message = Message { role: "assistant".into(), content: String::new() };
        let error = render(source, &[message]).expect_err("refused");
        assert!(error.contains("user first"), "{error}");
    }

    #[test]
    fn json_is_written_as_python_does() {
        let source =
            "{% set x = {'b': [1, 2.5, none, true], 'a': '<é\"&>'} %}{{ x | tojson }}|{{ [1] | tojson(indent=2) }}";
        let text = render(source, &[]).expect("renders");
        assert_eq!(text, "{\"b\": [1, 2.5, null, true], \"a\": \"<é\\\"&>\"}|[\n  1\n]");
    }

    #[test]
    fn the_clock_is_not_there_and_says_so_when_used() {
        let guarded = "{% if strftime_now is defined %}{{ strftime_now('%d') }}{% else %}26 Jul 2024{% endif %}";
        assert_eq!(render(guarded, &[]).as_deref(), Ok("26 Jul 2024"));
        let error = render("{{ strftime_now('%d') }}", &[]).expect_err("undefined");
        assert!(error.contains("strftime_now"), "{error}");
    }

    #[test]
    fn loops_may_break_and_content_is_not_escaped() {
        let source = "{% for m in messages %}{{ m['content'] }}{% break %}{% endfor %}";
        let text = render(source, &[Message::user("<b> & 'c'"), Message::user("two")]).expect("renders");
        assert_eq!(text, "<b> & 'c'");
    }

    #[test]
    fn a_broken_template_is_an_error() {
        assert!(render("{% for %}", &[]).is_err());
    }
}
