//! Methods that texts have in Python and templates call.

use minijinja::value::{Value, from_args};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat;

/// Those of the template engine's own collection, and a few that it lacks.
pub(super) fn unknown_method(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    match pycompat::unknown_method_callback(state, value, method, arguments) {
        Err(error) => match value.as_str() {
            Some(text) => of_text(text, method, arguments).unwrap_or(Err(error)),
            None => Err(error),
        },
        done => done,
    }
}

/// Nothing for a method that is not here either.
fn of_text(text: &str, method: &str, arguments: &[Value]) -> Option<Result<Value, Error>> {
    Some(match method {
        "rsplit" => rsplit(text, arguments),
        "partition" => partition(text, arguments, false),
        "rpartition" => partition(text, arguments, true),
        "removeprefix" => affix(arguments).map(|affix| text.strip_prefix(affix).unwrap_or(text).into()),
        "removesuffix" => affix(arguments).map(|affix| text.strip_suffix(affix).unwrap_or(text).into()),
        _ => return None,
    })
}

fn affix(arguments: &[Value]) -> Result<&str, Error> {
    from_args::<(&str,)>(arguments).map(|(affix,)| affix)
}

/// Separators count from the end; without one, runs of white space separate.
fn rsplit(text: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (separator, most): (Option<&str>, Option<i64>) = from_args(arguments)?;
    let most = most.and_then(|most| usize::try_from(most).ok()).map_or(usize::MAX, |most| most.saturating_add(1));
    let parts: Vec<&str> = match separator {
        Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "rsplit with an empty separator")),
        Some(separator) => text.rsplitn(most, separator).collect(),
        None => rsplit_space(text, most),
    };
    Ok(parts.into_iter().rev().collect())
}

fn rsplit_space(text: &str, most: usize) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text.trim_end());
    while !rest.trim_start().is_empty() {
        if parts.len() + 1 == most {
            parts.push(rest);
            break;
        }
        let start = rest
            .rfind(char::is_whitespace)
            .map_or(0, |space| space + rest[space..].chars().next().map_or(0, char::len_utf8));
        parts.push(&rest[start..]);
        rest = rest[..start].trim_end();
    }
    parts
}

/// What is before a separator, the separator, and what is after it.
fn partition(text: &str, arguments: &[Value], is_from_end: bool) -> Result<Value, Error> {
    let separator = affix(arguments)?;
    if separator.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "an empty separator"));
    }
    let split = if is_from_end { text.rsplit_once(separator) } else { text.split_once(separator) };
    let parts = match split {
        Some((before, after)) => [before, separator, after],
        None if is_from_end => ["", "", text],
        None => [text, "", ""],
    };
    Ok(parts.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use minijinja::{Environment, context};

    fn render(expression: &str) -> Result<String, String> {
        let mut environment = Environment::new();
        environment.set_unknown_method_callback(super::unknown_method);
        environment.render_str(&format!("{{{{ {expression} }}}}"), context! {}).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_that_python_refuses_are_refused() {
        for (expression, part) in [
            ("'a'.partition('')", "an empty separator"),
            ("'a'.rpartition('')", "an empty separator"),
            ("'a'.partition(1)", "not a string"),
            ("'a'.rsplit('')", "rsplit with an empty separator"),
            ("'a'.rsplit('a', 'b')", "cannot convert"),
            ("'a'.removeprefix()", "missing argument"),
            ("'a'.split(1, 2, 3)", "not a string"),
            ("'a'.no_such_method()", "no method named no_such_method"),
            ("[1].partition('a')", "no method named partition"),
        ] {
            let error = render(expression).expect_err(expression);
            assert!(error.contains(part), "{expression}: {error}");
        }
    }
}
