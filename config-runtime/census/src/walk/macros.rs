//! Macros: their arguments are expressions where they can be read as such, and names with fields where they cannot.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Block, Expr, Macro, Pat, Token};

use super::expression::elements;
use super::{Names, Val, Walk};
use crate::index::plain;

/// Macros that write values as text.
const PRINTS: &[&str] = &[
    "anyhow",
    "bail",
    "dbg",
    "debug",
    "ensure",
    "eprint",
    "eprintln",
    "error",
    "format",
    "format_args",
    "info",
    "log",
    "panic",
    "print",
    "println",
    "todo",
    "trace",
    "unimplemented",
    "unreachable",
    "warn",
    "write",
    "writeln",
];

const COMPARES: &[&str] =
    &["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne", "matches"];

impl Walk<'_> {
    pub(super) fn macro_call(&mut self, call: &Macro) -> Val {
        let name = call.path.segments.last().map(|segment| plain(&segment.ident)).unwrap_or_default();
        self.macros.push(name.clone());
        let value = match name.as_str() {
            "macro_rules" => {
                self.definition(&call.tokens);
                Val::plain()
            }
            "matches" if self.matches(&call.tokens) => Val::plain(),
            _ => self.tokens(&call.tokens),
        };
        self.captures(&call.tokens);
        self.macros.pop();
        match name.as_str() {
            "vec" => elements(vec![value]),
            "dbg" => value,
            _ if PRINTS.contains(&name.as_str()) || COMPARES.contains(&name.as_str()) => Val::plain(),
            _ => Val::unknown(),
        }
    }

    pub(super) fn item_macro(&mut self, call: &Macro) {
        if let Ok(file) = syn::parse2::<syn::File>(call.tokens.clone())
            && !call.path.is_ident("macro_rules")
        {
            file.items.iter().for_each(|item| self.item(item));
            return;
        }
        self.scopes.push(Names::new());
        self.macro_call(call);
        self.scopes.pop();
    }

    /// Tokens as expressions, as statements, or as what they are. Gives the last value.
    fn tokens(&mut self, tokens: &TokenStream) -> Val {
        if let Ok(exprs) = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens.clone()) {
            let mut last = Val::unknown();
            for expr in &exprs {
                last = match expr {
                    // `name = value`, as in `println!("{name}", name = value)`.
                    Expr::Assign(assign) if matches!(&*assign.left, Expr::Path(_)) => self.expr(&assign.right),
                    expr => self.expr(expr),
                };
                self.given(&last);
            }
            return last;
        }
        if let Ok(statements) = Block::parse_within.parse2(tokens.clone()) {
            self.scopes.push(Names::new());
            let value = self.statements(&statements);
            self.given(&value);
            self.scopes.pop();
            return value;
        }
        for part in parts(tokens) {
            match syn::parse2::<Expr>(part.clone()) {
                Ok(expr) => {
                    let value = self.expr(&expr);
                    self.given(&value);
                }
                Err(_) => self.scan(part),
            }
        }
        Val::unknown()
    }

    /// The whole struct is an argument of the macro.
    fn given(&mut self, value: &Val) {
        let name = self.macros.last().cloned().unwrap_or_default();
        if PRINTS.contains(&name.as_str()) {
            self.escapes(value, &format!("printed by `{name}!`"));
        } else if COMPARES.contains(&name.as_str()) {
            self.escapes(value, "compared");
        } else if name == "vec" {
            self.escapes(value, "stored in an array");
        } else {
            let why = format!("`{name}!` may read it");
            self.escapes_unfollowed(value, &format!("given to `{name}!`"), &why);
        }
    }

    /// `matches!(value, pattern)`.
    fn matches(&mut self, tokens: &TokenStream) -> bool {
        let parser = |input: ParseStream<'_>| {
            let expr: Expr = input.parse()?;
            input.parse::<Token![,]>()?;
            let pattern = Pat::parse_multi_with_leading_vert(input)?;
            let guard = if input.peek(Token![if]) {
                input.parse::<Token![if]>()?;
                Some(input.parse::<Expr>()?)
            } else {
                None
            };
            input.parse::<Option<Token![,]>>()?;
            Ok((expr, pattern, guard))
        };
        let Ok((expr, pattern, guard)) = parser.parse2(tokens.clone()) else { return false };
        let value = self.expr(&expr);
        self.scopes.push(Names::new());
        self.bind(&pattern, &value, super::local_via(value.via));
        if let Some(guard) = guard {
            self.expr(&guard);
        }
        self.scopes.pop();
        true
    }

    /// Names in the braces of format strings: `"{args:?}"`.
    fn captures(&mut self, tokens: &TokenStream) {
        for token in tokens.clone() {
            let TokenTree::Literal(literal) = token else { continue };
            let text = literal.to_string();
            let text = text.replace("{{", "");
            for part in text.split('{').skip(1) {
                let name: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if let Some(value) = self.local(&name).cloned() {
                    let how = format!("printed by `{}!`", self.macros.last().map_or("", String::as_str));
                    self.escapes(&Val { at: vec![literal.span()], ..value }, &how);
                }
            }
        }
    }

    /// Reads what looks like an expression, wherever it stands.
    pub(super) fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut position = 0;
        while position < tokens.len() {
            let end = chain_end(&tokens, position);
            match &tokens[position] {
                TokenTree::Ident(ident) => {
                    let braces = tokens.get(end).and_then(|token| match token {
                        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
                        _ => None,
                    });
                    if braces.is_some() && self.names_target(&tokens[position..end]) {
                        let why = "a pattern or literal in the tokens of a macro";
                        self.note_unfollowed(ident.span(), "(whole)", why);
                    }
                    self.chain(&tokens[position..end]);
                }
                TokenTree::Group(group) => {
                    self.tokens(&group.stream());
                }
                // The field of something that was not understood.
                TokenTree::Punct(punct) if punct.as_char() == '.' => {
                    let called = matches!(tokens.get(position + 2), Some(TokenTree::Group(group))
                        if group.delimiter() == Delimiter::Parenthesis);
                    if let Some(TokenTree::Ident(ident)) = tokens.get(position + 1)
                        && !called
                        && self.index.leaf_names.contains(&plain(ident))
                    {
                        self.note_unfollowed(ident.span(), &plain(ident), "in the tokens of a macro");
                    }
                    position += 1;
                    continue;
                }
                _ => {}
            }
            position = end;
        }
    }

    fn names_target(&self, chain: &[TokenTree]) -> bool {
        let name = self.index.target.rsplit("::").next().unwrap_or_default();
        chain.last().is_some_and(|token| token.to_string() == name)
    }

    fn chain(&mut self, tokens: &[TokenTree]) {
        if let Ok(expr) = syn::parse2::<Expr>(tokens.iter().cloned().collect()) {
            let value = self.expr(&expr);
            self.given(&value);
            return;
        }
        for token in tokens {
            if let TokenTree::Group(group) = token {
                self.tokens(&group.stream());
            }
        }
    }

    /// In the definition of a macro nothing has a type: what has the name of a leaf may be one.
    fn definition(&mut self, tokens: &TokenStream) {
        let tokens: Vec<_> = tokens.clone().into_iter().collect();
        for (position, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.definition(&group.stream()),
                TokenTree::Ident(ident) => {
                    let name = plain(ident);
                    let after_dot = position > 0 && is_punct(&tokens[position - 1], '.');
                    let called = matches!(tokens.get(position + 1), Some(TokenTree::Group(group))
                        if group.delimiter() == Delimiter::Parenthesis);
                    if after_dot && !called && self.index.leaf_names.contains(&name) {
                        self.note_unfollowed(ident.span(), &name, "in the definition of a macro");
                    }
                }
                _ => {}
            }
        }
    }
}

/// Tokens between `,`, `;` and `=>`.
fn parts(tokens: &TokenStream) -> Vec<TokenStream> {
    let tokens: Vec<_> = tokens.clone().into_iter().collect();
    let mut parts = vec![Vec::new()];
    let mut position = 0;
    while let Some(token) = tokens.get(position) {
        let arrow = is_punct(token, '=') && tokens.get(position + 1).is_some_and(|next| is_punct(next, '>'));
        if arrow || is_punct(token, ',') || is_punct(token, ';') {
            parts.push(Vec::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(token.clone());
        }
        position += if arrow { 2 } else { 1 };
    }
    let filled = parts.into_iter().filter(|part| !part.is_empty());
    filled.map(|part| part.into_iter().collect()).collect()
}

fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}

/// The end of `a.b`, `a::b(…)[…]?.c` and the like, from the position on.
fn chain_end(tokens: &[TokenTree], from: usize) -> usize {
    let mut end = from + 1;
    if !matches!(tokens[from], TokenTree::Ident(_)) {
        return end;
    }
    loop {
        let dot = tokens.get(end).is_some_and(|token| is_punct(token, '.'));
        let path = tokens.get(end).is_some_and(|token| is_punct(token, ':'))
            && tokens.get(end + 1).is_some_and(|token| is_punct(token, ':'));
        let next = tokens.get(end + 1);
        if dot && matches!(next, Some(TokenTree::Ident(_) | TokenTree::Literal(_))) {
            end += 2;
        } else if path && matches!(tokens.get(end + 2), Some(TokenTree::Ident(_))) {
            end += 3;
        } else if tokens.get(end).is_some_and(|token| is_punct(token, '?')) {
            end += 1;
        } else if tokens.get(end).is_some_and(|token| is_punct(token, '!')) && matches!(next, Some(TokenTree::Group(_)))
        {
            end += 2;
        } else if let Some(TokenTree::Group(group)) = tokens.get(end)
            && matches!(group.delimiter(), Delimiter::Parenthesis | Delimiter::Bracket)
        {
            end += 1;
        } else {
            return end;
        }
    }
}
