//! The operator `%` of texts: `'%s, %s' % (one, other)`.
//!
//! In Python it formats a text, and between numbers it is the remainder. The template engine knows the second alone, and leaves no
//! way to teach it the first. So each `left % right` is written as the filter `left | percent_operator(right)`, which asks for the
//! types.

use std::borrow::Cow;

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::Value;
use minijinja::{Error, State};

/// The filter's name in a template.
pub(super) const FILTER: &str = "percent_operator";

/// The tag with each operator `%` as the filter.
///
/// The operator binds as multiplication does and a filter binds tighter. So in `a * b % c` the operator stays as it is; what is on its
/// left there is a number.
pub(super) fn replaced(tag: &str) -> Cow<'_, str> {
    let inner = if tag.starts_with("{{") || tag.starts_with("{%") { 2..tag.len().saturating_sub(2) } else { 0..0 };
    let tokens = tokens(tag.get(inner).unwrap_or_default());
    let mut out = String::new();
    let mut copied = 0;
    // Whether the operand that is being read is one of a product, for each open bracket.
    let mut in_product = vec![false];
    let mut previous = None;
    let mut closings: Vec<(usize, &str)> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => in_product.push(false),
            ")" | "]" | "}" => {
                in_product.pop();
                if in_product.is_empty() {
                    return Cow::Borrowed(tag);
                }
            }
            "*" | "/" | "**" => set(&mut in_product, true),
            "-" if previous.is_none_or(Token::opens_operand) => {}
            "%" => match right_operand(&tokens[index + 1..]) {
                Some(count)
                    if in_product.last() == Some(&false) && previous.is_some_and(|token| !token.opens_operand()) =>
                {
                    out.push_str(&tag[copied..2 + token.start]);
                    out.push_str("| percent_operator(");
                    copied = 2 + token.start + 1;
                    let end = 2 + tokens[index + count].end();
                    closings.push((end, ")"));
                }
                _ => set(&mut in_product, true),
            },
            "." | "|" => {}
            _ if token.opens_operand() => set(&mut in_product, false),
            _ => {}
        }
        while let Some(&(end, closing)) = closings.last().filter(|(end, _)| *end <= 2 + token.end()) {
            out.push_str(&tag[copied..end]);
            out.push_str(closing);
            copied = end;
            closings.pop();
        }
        previous = Some(token);
    }
    if out.is_empty() {
        return Cow::Borrowed(tag);
    }
    out.push_str(&tag[copied..]);
    Cow::Owned(out)
}

fn set(in_product: &mut [bool], value: bool) {
    if let Some(last) = in_product.last_mut() {
        *last = value;
    }
}

/// A word, text or sign of an expression. A number with a point is two words and a sign.
struct Token<'a> {
    text: &'a str,
    start: usize,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether an operand follows, so that a sign there is one of a number.
    fn opens_operand(&self) -> bool {
        const WORDS: [&str; 12] =
            ["and", "or", "not", "in", "if", "else", "elif", "is", "set", "print", "recursive", "call"];
        match self.text.chars().next() {
            Some('"' | '\'' | ')' | ']' | '}') => false,
            Some(c) if c.is_alphanumeric() || c == '_' => WORDS.contains(&self.text),
            _ => true,
        }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let start = text.len() - rest.len();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let length = match c {
            '"' | '\'' => quoted_length(rest),
            _ if is_part(c) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            _ if rest.starts_with("**") => 2,
            _ => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        if !c.is_whitespace() {
            tokens.push(Token { text: token, start });
        }
        rest = after;
    }
    tokens
}

fn quoted_length(text: &str) -> usize {
    let mut chars = text.char_indices();
    let quote = chars.next().map(|(_, c)| c);
    let mut is_escaped = false;
    for (index, c) in chars {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if Some(c) == quote => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// The tokens of the operand that `tokens` begin with; nothing where there is none, or where a test follows, which is a part of it.
fn right_operand(tokens: &[Token<'_>]) -> Option<usize> {
    let at = |index: usize| tokens.get(index).map(|token| token.text);
    let mut next = 0;
    loop {
        while at(next) == Some("-") {
            next += 1;
        }
        next = match at(next)? {
            "(" | "[" | "{" => after_bracket(tokens, next)?,
            _ if tokens[next].opens_operand() => return None,
            _ => next + 1,
        };
        loop {
            next = match at(next) {
                Some("." | "|") => next + 2,
                Some("(" | "[") => after_bracket(tokens, next)?,
                Some("is") => return None,
                _ => break,
            };
        }
        if at(next) != Some("**") {
            return (next <= tokens.len()).then_some(next);
        }
        next += 1;
    }
}

/// The token after the bracket that closes the one at `open`.
fn after_bracket(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(index + 1);
        }
    }
    None
}

/// The filter.
pub(super) fn apply(state: &mut State<'_, '_>, left: &Value, right: &Value) -> Result<Value, Error> {
    let Some(text) = left.as_str() else {
        let remainder = state.env().compile_expression("left % right")?;
        return remainder.eval(minijinja::context! { left, right });
    };
    // A list is one value; the values of a tuple are one each.
    let values = if right.is_tuple() { right.try_iter()?.collect() } else { vec![right.clone()] };
    format(FormatStyle::Printf, text, &values).map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn the_operator_is_written_as_a_filter_of_its_left_operand() {
        let cases = [
            ("{{ '%s' % x }}", "{{ '%s' | percent_operator( x) }}"),
            ("{{- a.b[0] % (c, d) -}}", "{{- a.b[0] | percent_operator( (c, d)) -}}"),
            ("{% if loop.index0 % 2 == 0 %}", "{% if loop.index0 | percent_operator( 2) == 0 %}"),
            ("{{ a+b%c ~ d }}", "{{ a+b| percent_operator(c) ~ d }}"),
            ("{{ -a % -b }}", "{{ -a | percent_operator( -b) }}"),
            ("{{ _a % _b }}", "{{ _a | percent_operator( _b) }}"),
            ("{{ 1.5 % b }}", "{{ 1.5 | percent_operator( b) }}"),
            ("{{ a % b % c }}", "{{ a | percent_operator( b) | percent_operator( c) }}"),
            ("{{ a * b and c % d }}", "{{ a * b and c | percent_operator( d) }}"),
            ("{{ 'a\\' b' % c }}", "{{ 'a\\' b' | percent_operator( c) }}"),
            ("{{ a % b * c }}", "{{ a | percent_operator( b) * c }}"),
            ("{{ a * b - c % d }}", "{{ a * b - c | percent_operator( d) }}"),
            ("{{ a % b ** c.d }}", "{{ a | percent_operator( b ** c.d) }}"),
            (
                "{{ f('%d' % n, '%' % (a % b)) }}",
                "{{ f('%d' | percent_operator( n), '%' | percent_operator( (a | percent_operator( b)))) }}",
            ),
            ("{{ '%s' % x | trim }}", "{{ '%s' | percent_operator( x | trim) }}"),
            ("{{ '%s' % m['a'].b('c') + 1 }}", "{{ '%s' | percent_operator( m['a'].b('c')) + 1 }}"),
            ("{{ '%(a)s' % {'a': 1} }}", "{{ '%(a)s' | percent_operator( {'a': 1}) }}"),
            ("{% set x = '%s' % y if z else '' -%}", "{% set x = '%s' | percent_operator( y) if z else '' -%}"),
        ];
        for (tag, want) in cases {
            assert_eq!(replaced(tag), want);
        }
    }

    #[test]
    fn everything_else_stays() {
        let tags = [
            "{{ '100 % of' }}",
            "{%- if x -%}",
            "{{ a * b % c }}",
            "{{ a // b % c }}",
            "{{ a ** b % c }}",
            "{{ a * -b % c }}",
            "{{ a % b is odd }}",
            "{{ a % }}",
            "{{ a % * b }}",
            "{{ a % b. }}",
            "{{ a + % b }}",
            "{{ % a }}",
            "{{ a) % b }}",
            "{{ a % (b }}",
            "{{ a % b(c }}",
            "{{ a % b[c }}",
            "{{ 1. % b }}",
            "{# a % b #}",
            "{{",
            "{%",
            "{{ 'a",
        ];
        for tag in tags {
            assert_eq!(replaced(tag), tag);
        }
    }
}
