//! Rendering a conversation into the text a model was trained on.

use std::collections::BTreeMap;
use std::time::SystemTime;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value, ValueKind};
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;

use super::python_json::PythonJson;
use super::{calendar, generation_tags, percent_operator, python_methods, template_tags};
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

    /// What the model has said.
    #[must_use]
    pub fn assistant(content: &str) -> Self {
        Self { role: "assistant".into(), content: content.into() }
    }

    /// What holds for the whole conversation.
    #[must_use]
    pub fn system(content: &str) -> Self {
        Self { role: "system".into(), content: content.into() }
    }
}

/// A compiled chat template in the dialect of Hugging Face models.
///
/// Beyond Jinja it knows `raise_exception`, `strftime_now`, Python's string and list methods, `tojson` as Python writes it,
/// `%` between a text and values, `break` and `continue`, and the `generation` tags, which mark what the model says and change no text.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    begin_token: Option<String>,
    end_token: Option<String>,
}

const NAME: &str = "chat_template";

impl ChatTemplate {
    /// Compiles a template; it may refer to the begin and end tokens as `bos_token` and `eos_token`.
    pub fn new(source: &str, begin_token: Option<String>, end_token: Option<String>) -> Result<Self> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| describe(&e))?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_unknown_method_callback(python_methods::unknown_method);
        environment.add_function("raise_exception", raise_exception);
        environment.add_filter("tojson", to_json);
        environment.add_filter(percent_operator::FILTER, percent_operator::apply);
        let source = template_tags::map(source, generation_tags::replaced);
        let source = template_tags::map(&source, percent_operator::replaced);
        environment.add_template_owned(NAME, source).map_err(|e| describe(&e))?;
        Ok(Self { environment, begin_token, end_token })
    }

    /// The text of `messages`, followed by the beginning of the model's answer.
    ///
    /// There is no clock: `strftime_now` is undefined, so that a conversation always renders alike.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        self.render_with(messages, minijinja::context! {})
    }

    /// The same at a moment, which `strftime_now` tells in universal time.
    pub fn render_at(&self, messages: &[Message], now: SystemTime) -> Result<String> {
        let strftime_now = move |format: String| {
            calendar::strftime(now, &format).map_err(|e| minijinja::Error::new(ErrorKind::InvalidOperation, e))
        };
        self.render_with(messages, minijinja::context! { strftime_now => Value::from_function(strftime_now) })
    }

    fn render_with(&self, messages: &[Message], more: Value) -> Result<String> {
        let template = self.environment.get_template(NAME).map_err(|e| describe(&e))?;
        // Templates ask whether tools and documents are none, which an undefined value is not.
        let context = minijinja::context! {
            messages => Value::from(Serde(messages)),
            add_generation_prompt => true,
            tools => Value::from(()),
            documents => Value::from(()),
            bos_token => self.begin_token.as_deref().unwrap_or_default(),
            eos_token => self.end_token.as_deref().unwrap_or_default(),
            ..more
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

/// JSON with the options that Hugging Face's filter of that name has; nothing is escaped for HTML.
#[allow(clippy::needless_pass_by_value)] // Filters are called with owned arguments.
fn to_json(value: &Value, options: Kwargs) -> std::result::Result<Value, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    let ensure_ascii: Option<bool> = options.get("ensure_ascii")?;
    let separators: Option<(String, String)> = options
        .get::<Option<Vec<String>>>("separators")?
        .map(|pair| match <[String; 2]>::try_from(pair) {
            Ok([item, key]) => Ok((item, key)),
            Err(_) => Err(minijinja::Error::new(ErrorKind::InvalidOperation, "separators of tojson are two texts")),
        })
        .transpose()?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    if value.kind() == ValueKind::Undefined {
        return Err(minijinja::Error::new(ErrorKind::UndefinedError, "tojson of an undefined value"));
    }
    let invalid = |e: serde_json::Error| minijinja::Error::new(ErrorKind::BadSerialization, e.to_string());
    let format = PythonJson::new(indent, separators, ensure_ascii.unwrap_or(false));
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, format);
    if sort_keys.unwrap_or(false) {
        sorted(value)?.serialize(&mut serializer).map_err(invalid)?;
    } else {
        value.serialize(&mut serializer).map_err(invalid)?;
    }
    Ok(Value::from_safe_string(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The same value with the keys of its maps in order, at every depth.
fn sorted(value: &Value) -> std::result::Result<Value, minijinja::Error> {
    match value.kind() {
        ValueKind::Map => {
            let keys = value.try_iter()?;
            let entries = keys.map(|key| Ok((key.clone(), sorted(&value.get_item(&key)?)?)));
            Ok(Value::from(entries.collect::<std::result::Result<BTreeMap<Value, Value>, minijinja::Error>>()?))
        }
        ValueKind::Seq => {
            Ok(Value::from(value.try_iter()?.map(|entry| sorted(&entry)).collect::<std::result::Result<Vec<_>, _>>()?))
        }
        _ => Ok(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{ChatTemplate, Message};

    fn render(source: &str, messages: &[Message]) -> Result<String, String> {
        ChatTemplate::new(source, Some("<s>".into()), Some("</s>".into()))
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
    fn json_takes_the_options_that_python_has() {
        let set = "{% set x = {'b': [1, {'d': 'é', 'c': []}], 'a': {}} %}";
        let cases = [
            ("tojson(separators=(',', ':'))", "{\"b\":[1,{\"d\":\"é\",\"c\":[]}],\"a\":{}}"),
            ("tojson(sort_keys=true)", "{\"a\": {}, \"b\": [1, {\"c\": [], \"d\": \"é\"}]}"),
            ("tojson(ensure_ascii=true)", "{\"b\": [1, {\"d\": \"\\u00e9\", \"c\": []}], \"a\": {}}"),
            (
                "tojson(indent=2)",
                "{\n  \"b\": [\n    1,\n    {\n      \"d\": \"é\",\n      \"c\": []\n    }\n  ],\n  \"a\": {}\n}",
            ),
            ("tojson(indent=0)", "{\n\"b\": [\n1,\n{\n\"d\": \"é\",\n\"c\": []\n}\n],\n\"a\": {}\n}"),
        ];
        for (filter, want) in cases {
            let text = render(&format!("{set}{{{{ x | {filter} }}}}"), &[]).expect("renders");
            assert_eq!(text, want, "{filter}");
        }
        assert_eq!(
            render("{{ '🦀\x7f' | tojson(ensure_ascii=true) }}", &[]).as_deref(),
            Ok("\"\\ud83e\\udd80\\u007f\"")
        );
        let wrong = [
            "[1] | tojson(separators=[','])",
            "[1] | tojson(separators=1)",
            "[1] | tojson(no_such_option=1)",
            "[1] | tojson(indent='x')",
            "[1] | tojson(ensure_ascii='x')",
            "[1] | tojson(sort_keys='x')",
            "no_such_value | tojson",
            // No list is a key in JSON.
            "{[1]: 2} | tojson",
            "{[1]: 2} | tojson(sort_keys=true)",
        ];
        for wrong in wrong {
            assert!(render(&format!("{{{{ {wrong} }}}}"), &[]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn generation_tags_change_no_text_and_have_a_scope() {
        let source = "{% set x = 'out' %}[{%- generation -%}\n{% set x = 'in' %}{{ messages[0].content }} {{ x }}{%- endgeneration -%}\n]{{ x }}";
        assert_eq!(render(source, &[Message::assistant("yes")]).as_deref(), Ok("[yes in]out"));
    }

    #[test]
    fn tools_and_documents_are_none() {
        let source = "{% if tools is not none or documents is not none %}tools{% else %}plain{% endif %}";
        assert_eq!(render(source, &[]).as_deref(), Ok("plain"));
    }

    #[test]
    fn a_moment_is_told_where_there_is_one() {
        let source = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% else %}26 Jul 2024{% endif %}";
        let template = ChatTemplate::new(source, None, None).expect("compiles");
        let moment = UNIX_EPOCH + Duration::from_secs(951_782_405);
        assert_eq!(template.render_at(&[], moment).as_deref().ok(), Some("29 Feb 2000"));
        assert_eq!(template.render(&[]).as_deref().ok(), Some("26 Jul 2024"));
        let template = ChatTemplate::new("{{ strftime_now('%Q') }}", None, None).expect("compiles");
        assert!(template.render_at(&[], moment).expect_err("refused").to_string().contains("%Q"));
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
