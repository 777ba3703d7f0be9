//! Expressions: which operators a kernel applies to what.

use std::ops::Range;

use super::{Form, Operand, Reader, TYPES, class};
use crate::mutants::Kind;
use crate::mutants::names::{Class, is_constant, is_float};
use crate::mutants::tokens::Token;

/// Binary operators and how tightly they bind.
fn level(sign: &str) -> Option<u8> {
    Some(match sign {
        "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "<<=" | ">>=" | "&=" | "|=" | "^=" => 1,
        "?" => 2,
        "||" => 3,
        "&&" => 4,
        "|" => 5,
        "^" => 6,
        "&" => 7,
        "==" | "!=" => 8,
        "<" | "<=" | ">" | ">=" => 9,
        "<<" | ">>" => 10,
        "+" | "-" => 11,
        "*" | "/" | "%" => 12,
        _ => return None,
    })
}

impl Reader<'_> {
    /// Expressions between commas, up to `end`, which is taken; the last of them.
    pub(super) fn list(&mut self, end: &str) -> Operand {
        let start = self.start();
        let nothing = Operand { place: start..start, class: Class::Index, constant: true, form: Form::Other };
        self.all(end).pop().unwrap_or(nothing)
    }

    /// Expressions between commas, up to `end`, which is taken.
    fn all(&mut self, end: &str) -> Vec<Operand> {
        let mut found = Vec::new();
        while !self.take(end) {
            if self.at >= self.tokens.len() {
                self.fail(end);
            }
            found.push(self.expression(1));
            if !self.take(",") {
                self.expect(end);
                break;
            }
        }
        found
    }

    /// What a value is made of, up to the brace, which is taken.
    fn parts(&mut self) {
        let values = self.all("}");
        self.take_in(&values);
    }

    /// An expression of operators that bind at least as tightly as `least`.
    pub(super) fn expression(&mut self, least: u8) -> Operand {
        let mut left = self.unary();
        loop {
            let operator = self.at;
            let Some(level) = level(self.next()).filter(|level| *level >= least) else { return left };
            self.at += 1;
            left = if level == 2 {
                self.choice(&left)
            } else {
                let right = self.expression(if level == 1 { 1 } else { level + 1 });
                self.binary(&left, operator, &right)
            };
        }
    }

    /// What follows the question mark after a condition.
    fn choice(&mut self, condition: &Operand) -> Operand {
        let yes = self.expression(1);
        self.expect(":");
        let no = self.expression(2);
        if !condition.constant {
            // The mask is what gives nothing.
            let masked = is_nothing(&self.text[yes.place.clone()]) && !is_nothing(&self.text[no.place.clone()]);
            self.change(Kind::Mask, condition.place.clone(), if masked { "false" } else { "true" });
        }
        let class = if yes.class == Class::Float { Class::Float } else { no.class };
        let place = condition.place.start..no.place.end;
        Operand { place, class, constant: condition.constant && yes.constant && no.constant, form: Form::Other }
    }

    fn binary(&mut self, left: &Operand, operator: usize, right: &Operand) -> Operand {
        let place = left.place.start..right.place.end;
        let sign = self.token(operator).to_owned();
        let constant = left.constant && right.constant;
        let after_left = left.place.end..right.place.end;
        let text = self.text[right.place.clone()].to_owned();
        let float = left.class == Class::Float || right.class == Class::Float;
        let mut class = match (left.class, right.class) {
            (Class::Float, _) | (_, Class::Float) => Class::Float,
            (pointer @ Class::Pointer { .. }, _) | (_, pointer @ Class::Pointer { .. }) => pointer,
            _ => Class::Index,
        };
        match sign.as_str() {
            "<" | "<=" | ">" | ">=" => {
                class = Class::Index;
                if !constant {
                    self.comparison(&sign, after_left, &text);
                }
            }
            "==" | "!=" => class = Class::Index,
            "&&" | "||" => {
                class = Class::Index;
                if !left.constant {
                    self.change(Kind::Mask, left.place.start..right.place.start, "");
                }
                if !right.constant {
                    self.change(Kind::Mask, after_left, "");
                }
            }
            "+=" | "-=" => {
                class = left.class;
                if !self.in_step {
                    let kind = if float { Kind::Value } else { Kind::Offset };
                    self.change(kind, place.clone(), "(void)0");
                }
            }
            "*=" | "/=" if left.class == Class::Float => {
                class = Class::Float;
                self.change(Kind::Value, place.clone(), "(void)0");
            }
            "&=" | "|=" | "^=" | "<<=" | ">>=" | "*=" | "/=" | "%=" => {
                class = left.class;
                if !self.in_step {
                    let kind = if matches!(sign.as_str(), "&=" | "|=" | "^=") { Kind::Mask } else { Kind::Offset };
                    self.change(kind, place.clone(), "(void)0");
                }
            }
            "=" => {
                class = left.class;
                self.take_in(std::slice::from_ref(right));
            }
            "+" | "-" | "*" | "/" if !constant && float => {
                if left.form == Form::Number && matches!(sign.as_str(), "+" | "*") {
                    self.change(Kind::Value, left.place.start..right.place.start, "");
                } else {
                    self.change(Kind::Value, after_left, "");
                }
            }
            "&" if !constant && !float => self.change(Kind::Mask, after_left, ""),
            "+" | "-" | "*" | "/" | "%" | "<<" | ">>" if !constant && !float => {
                // A number in front is what is dropped, not what it is applied to.
                if left.form == Form::Number && matches!(sign.as_str(), "+" | "*") {
                    self.change(Kind::Offset, left.place.start..right.place.start, "");
                } else {
                    self.change(Kind::Offset, after_left.clone(), "");
                }
                match sign.as_str() {
                    // One shift of a sum is as good as another.
                    "+" | "-" if left.form == Form::Sum => {}
                    "+" | "-" => self.change(Kind::Offset, after_left, format!(" {sign} 1 {sign} {text}")),
                    _ => self.change(Kind::Offset, after_left, format!(" {sign} (1 + {text})")),
                }
            }
            _ => {}
        }
        let form = match sign.as_str() {
            "=" if is_nothing(&text) => Form::Clears,
            "+" | "-" => Form::Sum,
            "<" | "<=" | ">" | ">=" | "==" | "!=" | "&&" | "||" => Form::Condition,
            _ => Form::Other,
        };
        Operand { place, class, constant, form }
    }

    /// A bound one too low and one too high. Of a loop whose rounds are written out only the one that leaves a round
    /// out: with a round more it would use registers that there are not, and such a program means nothing.
    fn comparison(&mut self, sign: &str, after_left: Range<usize>, right: &str) {
        let (tighter, looser) = match sign {
            "<" => (format!(" < -1 + ({right})"), format!(" <= {right}")),
            "<=" => (format!(" < {right}"), format!(" <= 1 + ({right})")),
            ">" => (format!(" > 1 + ({right})"), format!(" >= {right}")),
            _ => (format!(" > {right}"), format!(" >= -1 + ({right})")),
        };
        if !self.written_out {
            self.change(Kind::Guard, after_left.clone(), looser);
        }
        self.change(Kind::Guard, after_left, tighter);
    }

    /// A condition that becomes a value holds, whatever is asked.
    pub(super) fn take_in(&mut self, values: &[Operand]) {
        for value in values.iter().filter(|value| value.form == Form::Condition && !value.constant) {
            self.change(Kind::Guard, value.place.clone(), "true");
        }
    }

    fn unary(&mut self) -> Operand {
        let start = self.start();
        let sign = self.next().to_owned();
        if matches!(sign.as_str(), "-" | "+" | "!" | "~" | "*" | "&" | "++" | "--") {
            self.at += 1;
            let operand = self.unary();
            let class = if sign == "*" { operand.class.element() } else { operand.class };
            let form = if operand.form == Form::Number { Form::Number } else { Form::Other };
            return Operand { place: start..operand.place.end, class, form, ..operand };
        }
        if sign == "("
            && let Some((class, end)) = self.cast()
        {
            self.at = end;
            let operand = self.unary();
            return Operand { place: start..operand.place.end, class, form: Form::Other, ..operand };
        }
        let operand = self.primary();
        self.postfix(operand)
    }

    /// Whether the parenthesis at hand is a cast: to what, and the token after it.
    fn cast(&self) -> Option<(Class, usize)> {
        let mut index = self.at + 1;
        index += usize::from(self.token(index) == "const");
        let name = self.token(index);
        if self.kind(index) != Some(Token::Word) {
            return None;
        }
        let first_star = index + 1;
        let mut end = first_star;
        while matches!(self.token(end), "*" | "const") {
            end += 1;
        }
        let stars = end > first_star;
        let is_cast = self.token(end) == ")" && (stars || TYPES.contains(&name));
        is_cast.then(|| (class(name.starts_with("float"), stars), end + 1))
    }

    pub(super) fn primary(&mut self) -> Operand {
        let start = self.start();
        let mut operand = Operand { place: start..start, class: Class::Index, constant: false, form: Form::Other };
        match self.kind(self.at) {
            Some(Token::Number) => {
                operand.class = if is_float(self.next()) { Class::Float } else { Class::Index };
                (operand.constant, operand.form) = (true, Form::Number);
                self.at += 1;
            }
            Some(Token::Text) => self.at += 1,
            Some(Token::Word) => return self.named(),
            Some(Token::Sign) if self.next() == "(" => {
                self.at += 1;
                let inner = self.list(")");
                (operand.class, operand.constant) = (inner.class, inner.constant);
            }
            Some(Token::Sign) if self.next() == "{" => {
                self.at += 1;
                self.parts();
            }
            Some(Token::Sign) if self.next() == "[" => self.lambda(),
            _ => self.fail("an expression"),
        }
        operand.place.end = self.end();
        operand
    }

    fn lambda(&mut self) {
        self.skip_brackets();
        if self.next() == "(" {
            self.parameters();
        }
        while !matches!(self.next(), "{" | "") {
            self.at += 1;
        }
        let (written_out, in_step) = (std::mem::take(&mut self.written_out), std::mem::take(&mut self.in_step));
        self.block();
        (self.written_out, self.in_step) = (written_out, in_step);
    }

    /// A name, or a call of a function.
    fn named(&mut self) -> Operand {
        let start = self.start();
        let mut name = self.next().to_owned();
        self.at += 1;
        while self.next() == "::" {
            self.at += 1;
            name = self.next().to_owned();
            self.at += 1;
        }
        let arguments = self.template_arguments();
        let mut class = self.names.variable(&name);
        let mut constant = is_constant(&name) || name == "true" || name == "false";
        if self.take("(") {
            let values = self.all(")");
            self.take_in(&values);
            class = self.names.function(&name);
            constant = values.is_empty() && name == "infinity";
            let place = start..self.end();
            if name == "min" || name == "max" {
                let float = values.iter().any(|value| value.class == Class::Float);
                class = if float { Class::Float } else { Class::Index };
                constant = values.iter().all(|value| value.constant);
                self.clamp(place, &values);
            } else {
                self.call(&name, place, arguments);
            }
        } else if self.next() == "{" && is_type(&name) {
            self.at += 1;
            self.parts();
        }
        Operand { place: start..self.end(), class, constant, form: Form::Other }
    }

    /// Where the arguments between angles are, where a function's are there: a word, `<`, nothing that joins conditions
    /// or ends a statement, `>`, `(`.
    fn template_arguments(&mut self) -> Option<Range<usize>> {
        if self.next() != "<" {
            return None;
        }
        let mut index = self.at + 1;
        while !matches!(self.token(index), ">" | ";" | "{" | "}" | "&&" | "||" | "?" | "(" | ")" | "") {
            index += 1;
        }
        if self.token(index) != ">" || self.token(index + 1) != "(" {
            return None;
        }
        let place = self.tokens[self.at].1.end..self.tokens[index].1.start;
        self.at = index + 1;
        Some(place)
    }

    /// What holds a number within bounds lets it pass, or the bound.
    fn clamp(&mut self, place: Range<usize>, values: &[Operand]) {
        if values.iter().all(|value| value.constant) {
            return;
        }
        for value in values.iter().filter(|value| value.form != Form::Number) {
            let alone = format!("({})", &self.text[value.place.clone()]);
            self.change(Kind::Guard, place.clone(), alone);
        }
    }

    /// Barriers and waits are calls.
    fn call(&mut self, name: &str, place: Range<usize>, arguments: Option<Range<usize>>) {
        if name.starts_with("__syncthreads") || name.starts_with("__syncwarp") || name.contains("barrier") {
            self.change(Kind::Barrier, place, "(void)0");
        } else if name.contains("wait") || name.contains("commit") || name == "close_copy_group" {
            self.change(Kind::Wait, place, "(void)0");
            if let Some(arguments) = arguments {
                let one_more = format!("({}) + 1", &self.text[arguments.clone()]);
                self.change(Kind::Wait, arguments, one_more);
            }
        }
    }

    fn postfix(&mut self, mut operand: Operand) -> Operand {
        loop {
            match self.next() {
                "[" => {
                    self.at += 1;
                    self.list("]");
                    operand.class = operand.class.element();
                    operand.constant = false;
                }
                "(" => {
                    self.at += 1;
                    self.list(")");
                    operand.class = Class::Index;
                }
                "." | "->" => {
                    self.at += 1;
                    operand.class = self.names.member(self.next());
                    let name = self.next().to_owned();
                    self.at += 1;
                    if self.take("(") {
                        self.list(")");
                        operand.class = self.names.function(&name);
                    }
                    operand.constant = false;
                }
                "++" | "--" => {
                    self.at += 1;
                    operand.constant = false;
                }
                _ => break,
            }
            operand.form = Form::Other;
        }
        operand.place.end = self.end();
        operand
    }
}

fn is_type(name: &str) -> bool {
    TYPES.contains(&name) || (name.starts_with(|c: char| c.is_ascii_uppercase()) && !is_constant(name))
}

/// Whether an expression is what a masked place gets: a number, minus infinity, zeros.
fn is_nothing(text: &str) -> bool {
    let number = text.trim_start_matches("(bf16)").trim_start_matches('-');
    number.starts_with(|c: char| c.is_ascii_digit())
        || number.starts_with("infinity()")
        || number.starts_with("make_uint4(0")
}
