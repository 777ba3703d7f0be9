//! Goes through all code, knows the type of every name in scope, and notes what happens to the struct.

mod call;
mod closure;
mod expression;
mod macros;
mod pattern;
mod place;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Block, FnArg, ImplItem, Item, Pat, Signature, Stmt, TraitItem};

use crate::census::{Place, Read, Route, Unfollowed, What, Write};
use crate::index::{Context, Index, plain};
use crate::sources::Sources;
use crate::types::Ty;

/// Where a value is from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Via {
    /// Made by this very expression.
    Fresh,
    /// Returned by a call, and held by something else.
    Borrowed,
    /// A local that owns what was made, or a static.
    Direct,
    Alias,
    Parked,
    Parameter,
}

/// The value of an expression.
#[derive(Clone, Debug)]
struct Val {
    ty: Ty,
    via: Via,
    /// The expressions it comes from, of which each is noted if the value goes on as a whole.
    at: Vec<Span>,
}

impl Val {
    fn new(ty: Ty, via: Via) -> Self {
        Self { ty, via, at: Vec::new() }
    }

    fn plain() -> Self {
        Self::new(Ty::Plain, Via::Fresh)
    }

    fn unknown() -> Self {
        Self::new(Ty::Unknown, Via::Fresh)
    }

    /// One of two branches.
    fn or(mut self, other: Self) -> Self {
        if !self.ty.leads_on() && (other.ty.leads_on() || self.ty == Ty::Plain) {
            return Self { at: [self.at, other.at].concat(), ..other };
        }
        self.at.extend(other.at);
        self
    }

    fn with_type(mut self, ty: Ty) -> Self {
        self.ty = ty;
        self
    }
}

type Names = HashMap<String, Val>;

/// A closure without types for its parameters, kept until it is called.
struct Kept {
    closure: Rc<syn::ExprClosure>,
    scopes: Vec<Names>,
}

type Key = (usize, usize, String);

/// What was found in all files.
pub(crate) struct Found {
    pub(crate) reads: Vec<Read>,
    pub(crate) writes: Vec<Write>,
    pub(crate) unfollowed: Vec<Unfollowed>,
}

pub(crate) struct Walk<'a> {
    index: &'a Index,
    file: String,
    context: Context,
    scopes: Vec<Names>,
    /// Names of the macros around this place.
    macros: Vec<String>,
    /// Nothing is noted: the expression is only asked for its type.
    quiet: usize,
    kept: Vec<Kept>,
    /// What `break` gives to each loop and labelled block around this place.
    breaks: Vec<Val>,
    reads: BTreeMap<Key, Read>,
    writes: BTreeMap<Key, Write>,
    unfollowed: BTreeMap<Key, Unfollowed>,
}

impl<'a> Walk<'a> {
    pub(crate) fn over(sources: &Sources, index: &'a Index) -> Found {
        let mut found = Found { reads: Vec::new(), writes: Vec::new(), unfollowed: Vec::new() };
        for file in &sources.files {
            let mut walk = Walk {
                index,
                file: file.path.clone(),
                context: Context { module: file.module.clone(), ..Context::default() },
                scopes: Vec::new(),
                macros: Vec::new(),
                quiet: 0,
                kept: Vec::new(),
                breaks: Vec::new(),
                reads: BTreeMap::new(),
                writes: BTreeMap::new(),
                unfollowed: BTreeMap::new(),
            };
            for item in &file.syntax.items {
                walk.item(item);
            }
            let Walk { reads, writes, mut unfollowed, .. } = walk;
            // What one way of looking at it did not understand, another may have.
            unfollowed.retain(|key, use_| use_.field == "(whole)" || !reads.contains_key(key));
            found.reads.extend(reads.into_values());
            found.writes.extend(writes.into_values());
            found.unfollowed.extend(unfollowed.into_values());
        }
        found
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Fn(item) => self.function(&item.sig, &item.block),
            Item::Impl(item) => {
                let context = self.index.impl_context(&self.context.module, item);
                self.within(context, |walk| {
                    for part in &item.items {
                        match part {
                            ImplItem::Fn(method) => walk.function(&method.sig, &method.block),
                            ImplItem::Const(constant) => walk.initial(&constant.expr),
                            ImplItem::Macro(call) => walk.item_macro(&call.mac),
                            _ => {}
                        }
                    }
                });
            }
            Item::Trait(item) => {
                let context = Index::trait_context(&self.context.module, item);
                self.within(context, |walk| {
                    for part in &item.items {
                        if let TraitItem::Fn(method) = part
                            && let Some(block) = &method.default
                        {
                            walk.function(&method.sig, block);
                        }
                    }
                });
            }
            Item::Mod(item) => {
                let mut context = Context { module: self.context.module.clone(), ..Context::default() };
                context.module.push(plain(&item.ident));
                self.within(context, |walk| {
                    for item in item.content.iter().flat_map(|(_, items)| items) {
                        walk.item(item);
                    }
                });
            }
            Item::Static(item) => self.initial(&item.expr),
            Item::Const(item) => self.initial(&item.expr),
            Item::Macro(item) => self.item_macro(&item.mac),
            _ => {}
        }
    }

    /// Does something in another context, with no local in scope.
    fn within(&mut self, context: Context, inside: impl FnOnce(&mut Self)) {
        let context = std::mem::replace(&mut self.context, context);
        let scopes = std::mem::take(&mut self.scopes);
        inside(self);
        self.context = context;
        self.scopes = scopes;
    }

    fn initial(&mut self, value: &syn::Expr) {
        self.within(self.context.clone(), |walk| {
            walk.scopes.push(Names::new());
            walk.expr(value);
        });
    }

    fn function(&mut self, signature: &Signature, body: &Block) {
        let mut context = self.context.clone();
        self.index.add_generics(&signature.generics, &mut context);
        self.within(context, |walk| {
            walk.scopes.push(Names::new());
            for input in &signature.inputs {
                match input {
                    FnArg::Receiver(receiver) => {
                        let ty = walk.index.receiver(&receiver.kind, &walk.context);
                        walk.name("self", Val::new(ty, Via::Parameter));
                    }
                    FnArg::Typed(typed) => {
                        let ty = walk.index.ty(&typed.ty, &walk.context);
                        walk.bind(&typed.pat, &Val::new(ty, Via::Parameter), Via::Parameter);
                    }
                }
            }
            let value = walk.block(body);
            walk.escapes(&value, "returned");
            // A closure that is returned takes what the signature says.
            if let (Ty::Closure(number), syn::ReturnType::Type(_, output)) = (value.ty.bare(), &signature.output)
                && let Ty::Fn(inputs, _) = walk.index.ty(output, &walk.context).bare()
            {
                walk.call_kept(*number, inputs);
            }
        });
    }

    fn block(&mut self, block: &Block) -> Val {
        self.scopes.push(Names::new());
        let value = self.statements(&block.stmts);
        self.scopes.pop();
        value
    }

    fn statements(&mut self, statements: &[Stmt]) -> Val {
        let mut value = Val::plain();
        for statement in statements {
            value = self.statement(statement);
        }
        value
    }

    fn statement(&mut self, statement: &Stmt) -> Val {
        match statement {
            Stmt::Local(local) => {
                let mut value = Val::unknown();
                if let Some(init) = &local.init {
                    value = self.expr(&init.expr);
                    if let Some((_, diverge)) = &init.diverge {
                        self.expr(diverge);
                    }
                }
                if let Pat::Type(typed) = &local.pat {
                    let declared = self.index.ty(&typed.ty, &self.context);
                    if let (Ty::Closure(number), Ty::Fn(inputs, _)) = (value.ty.bare(), declared.bare()) {
                        self.call_kept(*number, inputs);
                    }
                    // `let x: Vec<_> = …` says less than the value does.
                    if declared.leads_on() || (declared == Ty::Plain && value.ty == Ty::Unknown) {
                        value.ty = declared;
                    }
                }
                let via = local_via(value.via);
                self.bind(&local.pat, &value, via);
                Val::plain()
            }
            Stmt::Item(item) => {
                self.item(item);
                Val::plain()
            }
            Stmt::Expr(expr, semicolon) => {
                let value = self.expr(expr);
                if semicolon.is_some() { Val::plain() } else { value }
            }
            Stmt::Macro(call) => {
                let value = self.macro_call(&call.mac);
                if call.semi_token.is_some() { Val::plain() } else { value }
            }
        }
    }

    fn name(&mut self, name: &str, value: Val) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), value);
        }
    }

    fn local(&self, name: &str) -> Option<&Val> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn place(&self, span: Span) -> Place {
        let start = span.start();
        Place { file: self.file.clone(), line: start.line, column: start.column + 1 }
    }

    fn key(place: &Place, field: &str) -> Key {
        (place.line, place.column, field.to_owned())
    }

    fn route(&self, via: Via) -> Route {
        if !self.macros.is_empty() {
            return Route::Macro;
        }
        match via {
            Via::Fresh | Via::Borrowed | Via::Direct => Route::Direct,
            Via::Alias => Route::Alias,
            Via::Parked => Route::Parked,
            Via::Parameter => Route::Parameter,
        }
    }

    fn note_read(&mut self, span: Span, what: What, via: Via) {
        if self.quiet == 0 {
            let (place, route) = (self.place(span), self.route(via));
            let key = Self::key(&place, what.field());
            self.reads.entry(key).or_insert(Read { place, what, route });
        }
    }

    fn note_write(&mut self, span: Span, field: &str, how: impl Into<String>) {
        if self.quiet == 0 {
            let place = self.place(span);
            let key = Self::key(&place, field);
            self.writes.entry(key).or_insert(Write { place, field: field.to_owned(), how: how.into() });
        }
    }

    fn note_unfollowed(&mut self, span: Span, field: &str, why: impl Into<String>) {
        if self.quiet == 0 {
            let place = self.place(span);
            let key = Self::key(&place, field);
            self.unfollowed.entry(key).or_insert(Unfollowed { place, field: field.to_owned(), why: why.into() });
        }
    }

    /// The struct, or a struct flattened into it, that the value is.
    fn target(&self, value: &Val) -> Option<&'a str> {
        match value.ty.bare() {
            // A struct that dereferences to it has fields of its own, and goes on as itself.
            Ty::Named(name, _) if self.index.targets.contains_key(name) => self.index.target_of(&value.ty),
            _ => None,
        }
    }

    /// Notes that the value goes on as a whole, if it is the struct.
    fn escapes(&mut self, value: &Val, how: &str) {
        if let Ty::Tuple(_) = value.ty.bare() {
            return;
        }
        let Some(target) = self.target(value) else { return };
        let prefix = self.index.targets[target].trim_end_matches('.');
        let how = if prefix.is_empty() { how.to_owned() } else { format!("`{prefix}` {how}") };
        for span in value.at.clone() {
            self.note_read(span, What::Whole(how.clone()), value.via);
        }
    }

    fn escapes_unfollowed(&mut self, value: &Val, how: &str, why: &str) {
        if self.target(value).is_some() {
            self.escapes(value, how);
            for span in value.at.clone() {
                self.note_unfollowed(span, "(whole)", why);
            }
        }
    }

    /// The type of an expression, without noting anything.
    fn quietly(&mut self, expr: &syn::Expr) -> Val {
        self.quiet += 1;
        let value = self.expr(expr);
        self.quiet -= 1;
        value
    }
}

/// How a local is reached that is bound to a value.
fn local_via(via: Via) -> Via {
    if via == Via::Fresh { Via::Direct } else { Via::Alias }
}

fn start(node: &impl Spanned) -> Span {
    node.span()
}
