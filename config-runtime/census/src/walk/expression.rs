//! Expressions.

use syn::{
    BinOp, Expr, ExprAssign, ExprBinary, ExprField, ExprMatch, ExprPath, ExprReference, ExprStruct, Member, Pat,
};

use super::{Names, Val, Via, Walk, local_via, start};
use crate::census::What;
use crate::index::{plain, segments};
use crate::types::Ty;

impl Walk<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Val {
        match expr {
            Expr::Path(path) => self.path(path),
            Expr::Field(field) => self.field(field),
            Expr::Reference(reference) => self.reference(reference),
            Expr::Paren(inner) => self.expr(&inner.expr),
            Expr::Group(inner) => self.expr(&inner.expr),
            Expr::Try(inner) => self.expr(&inner.expr),
            Expr::Await(inner) => self.expr(&inner.base),
            Expr::Call(call) => self.call(call),
            Expr::MethodCall(call) => self.method_call(call),
            Expr::Macro(call) => self.macro_call(&call.mac),
            Expr::Closure(closure) => self.closure(closure, None),
            Expr::Struct(literal) => self.literal(literal),
            Expr::Assign(assign) => self.assign(assign),
            Expr::Binary(binary) => self.binary(binary),
            Expr::Unary(unary) => {
                let value = self.expr(&unary.expr);
                if matches!(unary.op, syn::UnOp::Deref(_)) { value } else { result_of(&[value]) }
            }
            Expr::Match(choice) => self.choice(choice),
            Expr::If(_) | Expr::While(_) | Expr::ForLoop(_) | Expr::Loop(_) | Expr::Let(_) => self.control(expr),
            Expr::Block(block) if block.label.is_some() => {
                self.breaks.push(Val::unknown());
                let value = self.block(&block.block);
                self.breaks.pop().unwrap_or_else(Val::unknown).or(value)
            }
            Expr::Block(block) => self.block(&block.block),
            Expr::Unsafe(block) => self.block(&block.block),
            Expr::Const(block) => self.block(&block.block),
            Expr::Async(block) => {
                let value = self.block(&block.block);
                self.escapes(&value, "returned");
                value
            }
            Expr::TryBlock(block) => self.block(&block.block),
            Expr::Return(inner) => self.leaves(inner.expr.as_deref(), "returned"),
            Expr::Break(inner) => {
                if let Some(expr) = &inner.expr {
                    let value = self.expr(expr);
                    // Without a label it is for the innermost; with one, it may be for any.
                    let first = if inner.label.is_some() { 0 } else { self.breaks.len().saturating_sub(1) };
                    for slot in self.breaks.iter_mut().skip(first) {
                        *slot = std::mem::replace(slot, Val::plain()).or(value.clone());
                    }
                }
                Val::plain()
            }
            Expr::Yield(inner) => self.leaves(inner.expr.as_deref(), "returned"),
            Expr::Tuple(tuple) => {
                let parts: Vec<_> = tuple.elems.iter().map(|part| self.part(part, "stored in a tuple")).collect();
                let via = via_of(&parts);
                Val::new(Ty::Tuple(parts.into_iter().map(|part| part.ty).collect()), via)
            }
            Expr::Array(array) => {
                let parts = array.elems.iter().map(|part| self.part(part, "stored in an array")).collect::<Vec<_>>();
                elements(parts)
            }
            Expr::Repeat(repeat) => {
                self.expr(&repeat.len);
                let part = self.part(&repeat.expr, "stored in an array");
                elements(vec![part])
            }
            Expr::Index(index) => {
                self.expr(&index.index);
                self.expr(&index.expr)
            }
            Expr::Range(range) => {
                for end in range.start.iter().chain(&range.end) {
                    self.expr(end);
                }
                Val::plain()
            }
            Expr::Cast(cast) => {
                let value = self.expr(&cast.expr);
                let ty = self.index.ty(&cast.ty, &self.context);
                value.with_type(ty)
            }
            Expr::RawAddr(address) => {
                let mutable = matches!(address.mutability, syn::PointerMutability::Mut(_));
                self.borrow(&address.expr, mutable)
            }
            Expr::Lit(_) | Expr::Continue(_) => Val::plain(),
            Expr::Verbatim(tokens) => {
                self.scan(tokens.clone());
                Val::unknown()
            }
            _ => Val::unknown(),
        }
    }

    fn part(&mut self, expr: &Expr, how: &str) -> Val {
        let value = self.expr(expr);
        self.escapes(&value, how);
        value
    }

    fn leaves(&mut self, expr: Option<&Expr>, how: &str) -> Val {
        if let Some(expr) = expr {
            self.part(expr, how);
        }
        Val::plain()
    }

    fn path(&mut self, path: &ExprPath) -> Val {
        let span = start(path);
        if let Some(ident) = path.path.get_ident()
            && let Some(value) = self.local(&plain(ident))
        {
            return Val { at: vec![span], ..value.clone() };
        }
        let names = segments(&path.path);
        if let Some(ty) = self.index.static_named(&names, &self.context) {
            return Val { ty: ty.clone(), via: Via::Direct, at: vec![span] };
        }
        if let Some(def) = self.index.function_named(&names, &self.context) {
            let ty = Ty::Fn(def.inputs.clone(), Box::new(def.output.clone()));
            return Val::new(ty, Via::Fresh);
        }
        if let [before @ .., name] = names.as_slice()
            && let Some(owner) = self.index.type_named(before, &self.context)
            && let Some(def) = self.index.method_of(&owner, name)
        {
            // A method named as a function takes `self` as its first input.
            let own = def.has_self.then(|| Ty::Named(owner, Vec::new()));
            let inputs = own.into_iter().chain(def.inputs.iter().cloned()).collect();
            return Val::new(Ty::Fn(inputs, Box::new(def.output.clone())), Via::Fresh);
        }
        match self.index.constructor(&path.path, &self.context) {
            Some(id) => Val::new(Ty::Named(owner_of_variant(&id, self), Vec::new()), Via::Fresh),
            None => Val::unknown(),
        }
    }

    fn field(&mut self, field: &ExprField) -> Val {
        let base = self.expr(&field.base);
        let (name, span) = match &field.member {
            Member::Named(ident) => (plain(ident), ident.span()),
            Member::Unnamed(index) => (index.index.to_string(), index.span),
        };
        self.member(&base, &name, span, start(field), &field.base)
    }

    /// A field of a value.
    pub(super) fn member(
        &mut self,
        base: &Val,
        name: &str,
        span: proc_macro2::Span,
        whole: proc_macro2::Span,
        expr: &Expr,
    ) -> Val {
        let wraps_target = matches!(base.ty, Ty::Wrapped(_)) && self.target(base).is_some();
        if wraps_target && name.parse::<usize>().is_ok() {
            // A tuple of what a wrapper holds, as `split_at` gives.
            return base.clone();
        }
        let own = base.ty.name().is_some_and(|id| {
            self.index.types.get(id).is_some_and(|def| def.fields.iter().any(|(field, _)| field == name))
        });
        let target = if own { self.target(base) } else { self.index.target_of(&base.ty) };
        if let Some(target) = target {
            let ty = self.index.field(&Ty::Named(target.to_owned(), Vec::new()), name).unwrap_or(Ty::Unknown);
            let via = if self.target(base).is_some() { base.via } else { Via::Parked };
            return match self.index.leaf(target, name).map(str::to_owned) {
                Some(leaf) => {
                    self.note_read(span, What::Leaf(leaf), via);
                    Val::new(ty, Via::Fresh)
                }
                None => Val { ty, via, at: vec![whole] },
            };
        }
        if let Some(ty) = self.index.field(&base.ty, name) {
            let via = if matches!(base.ty.bare(), Ty::Tuple(_)) { local_via(base.via) } else { Via::Parked };
            return Val { ty, via, at: vec![whole] };
        }
        if base.ty == Ty::Plain {
            return Val::unknown();
        }
        if let Some(ty) = self.index.field_by_name(name) {
            return Val { ty: ty.clone(), via: Via::Parked, at: vec![whole] };
        }
        if self.index.leaf_names.contains(name) && !matches!(base.ty.bare(), Ty::Named(..)) {
            let of = shorten(expr);
            self.note_unfollowed(span, name, format!("the type of `{of}` is not known"));
        }
        Val::unknown()
    }

    fn reference(&mut self, reference: &ExprReference) -> Val {
        self.borrow(&reference.expr, reference.mutability.is_some())
    }

    fn borrow(&mut self, expr: &Expr, mutable: bool) -> Val {
        if mutable && let Some((field, span)) = self.leaf_place(expr) {
            self.note_write(span, &field, "borrowed mutably");
            return self.quietly(expr);
        }
        let value = self.expr(expr);
        if mutable && self.target(&value).is_some() {
            self.note_write(start(expr), "(whole)", "borrowed mutably");
        }
        value
    }

    fn literal(&mut self, literal: &ExprStruct) -> Val {
        let id = self.index.constructor(&literal.path, &self.context);
        let is_target = id.as_ref().is_some_and(|id| self.index.targets.contains_key(id));
        let name = segments(&literal.path).join("::");
        if is_target {
            self.note_write(start(&literal.path), "(whole)", "constructed");
        }
        let def = id.as_ref().and_then(|id| self.index.types.get(id));
        let declared = def.map(|def| def.fields.clone()).unwrap_or_default();
        let generics = def.map(|def| def.generics.clone()).unwrap_or_default();
        let mut known = Vec::new();
        for field in &literal.fields {
            let value = self.expr(&field.expr);
            let member = match &field.member {
                Member::Named(ident) => plain(ident),
                Member::Unnamed(index) => index.index.to_string(),
            };
            self.escapes(&value, &format!("stored in `{name}.{member}`"));
            if let Some((_, ty)) = declared.iter().find(|(field, _)| *field == member) {
                ty.learn(&value.ty, &mut known);
            }
        }
        if let Some(rest) = &literal.rest {
            let value = self.expr(rest);
            self.escapes(&value, &format!("stored in `{name}` by `..`"));
        }
        let arguments = generics.into_iter().map(|name| Ty::Param(name).with(&known)).collect();
        let ty = id.map_or(Ty::Plain, |id| Ty::Named(owner_of_variant(&id, self), arguments));
        Val { ty, via: Via::Fresh, at: vec![start(literal)] }
    }

    fn assign(&mut self, assign: &ExprAssign) -> Val {
        let value = self.expr(&assign.right);
        if let Expr::Path(path) = &*assign.left
            && let Some(ident) = path.path.get_ident()
        {
            let name = plain(ident);
            let is_new = self.local(&name).is_some_and(|local| !local.ty.leads_on());
            let rebinds = matches!(&*assign.right, Expr::Reference(_));
            if is_new || rebinds {
                let via = local_via(value.via);
                for scope in self.scopes.iter_mut().rev() {
                    if let Some(local) = scope.get_mut(&name) {
                        *local = Val::new(value.ty, via);
                        return Val::plain();
                    }
                }
            }
        }
        if let Expr::Infer(_) = &*assign.left {
            return Val::plain();
        }
        self.escapes(&value, &format!("stored in `{}`", shorten(&assign.left)));
        self.written(&assign.left, "assigned");
        Val::plain()
    }

    /// Notes a write to a place.
    pub(super) fn written(&mut self, left: &Expr, how: &str) {
        if let Expr::Unary(inner) = left {
            return self.written(&inner.expr, how);
        }
        if let Expr::Tuple(tuple) = left {
            for part in &tuple.elems {
                self.written(part, how);
            }
            return;
        }
        if let Some((field, span)) = self.leaf_place(left) {
            self.note_write(span, &field, how);
            return;
        }
        let place = self.quietly(left);
        if self.target(&place).is_some() {
            self.note_write(start(left), "(whole)", how);
        } else if let Expr::Field(field) = left {
            // Of something else; on the way there the struct may be read.
            self.expr(&field.base);
        } else {
            self.expr(left);
        }
    }

    fn binary(&mut self, binary: &ExprBinary) -> Val {
        let assigns = matches!(
            binary.op,
            BinOp::AddAssign(_)
                | BinOp::SubAssign(_)
                | BinOp::MulAssign(_)
                | BinOp::DivAssign(_)
                | BinOp::RemAssign(_)
                | BinOp::BitXorAssign(_)
                | BinOp::BitAndAssign(_)
                | BinOp::BitOrAssign(_)
                | BinOp::ShlAssign(_)
                | BinOp::ShrAssign(_)
        );
        if assigns {
            self.expr(&binary.right);
            self.written(&binary.left, "assigned");
            return Val::plain();
        }
        let sides = [&binary.left, &binary.right].map(|side| self.part(side, "compared"));
        result_of(&sides)
    }

    fn choice(&mut self, choice: &ExprMatch) -> Val {
        let value = self.expr(&choice.expr);
        let mut result: Option<Val> = None;
        for arm in &choice.arms {
            self.scopes.push(Names::new());
            self.bind(&arm.pat, &value, local_via(value.via));
            let branch = self.expr(&arm.body);
            self.scopes.pop();
            result = Some(match result {
                Some(result) => result.or(branch),
                None => branch,
            });
        }
        result.unwrap_or_else(Val::plain)
    }

    fn control(&mut self, expr: &Expr) -> Val {
        self.scopes.push(Names::new());
        let value = match expr {
            Expr::If(branch) => {
                self.expr(&branch.cond);
                let then = self.block(&branch.then_branch);
                self.scopes.pop();
                self.scopes.push(Names::new());
                match &branch.else_branch {
                    Some((_, otherwise)) => then.or(self.expr(otherwise)),
                    None => Val::plain(),
                }
            }
            Expr::While(repeat) => {
                self.expr(&repeat.cond);
                self.block(&repeat.body);
                Val::plain()
            }
            Expr::ForLoop(repeat) => {
                let value = self.expr(&repeat.expr);
                let ty = entry_of(&repeat.pat, &value.ty).unwrap_or_else(|| value.ty.clone());
                self.bind(&repeat.pat, &value.with_type(ty), Via::Alias);
                self.block(&repeat.body);
                Val::plain()
            }
            Expr::Loop(repeat) => {
                self.breaks.push(Val::unknown());
                self.block(&repeat.body);
                self.breaks.pop().unwrap_or_else(Val::unknown)
            }
            Expr::Let(binding) => {
                let value = self.expr(&binding.expr);
                self.scopes.pop();
                self.bind(&binding.pat, &value, local_via(value.via));
                return Val::plain();
            }
            _ => Val::unknown(),
        };
        self.scopes.pop();
        value
    }
}

/// The enum of a variant, or the struct itself.
fn owner_of_variant(id: &str, walk: &Walk<'_>) -> String {
    match id.rsplit_once("::") {
        Some((owner, _)) if walk.index.types.contains_key(owner) => owner.to_owned(),
        _ => id.to_owned(),
    }
}

/// What is iterated over is a map, if the pattern is a pair and the type is none.
pub(super) fn entry_of(pattern: &Pat, ty: &Ty) -> Option<Ty> {
    match (pattern, ty.bare()) {
        (Pat::Tuple(pair), Ty::Named(..)) if pair.elems.len() == 2 => {
            Some(Ty::Tuple(vec![Ty::Plain, ty.bare().clone()]))
        }
        (Pat::Reference(inner), _) => entry_of(&inner.pat, ty),
        _ => None,
    }
}

/// What an operator gives: a plain value, unless it is one that this package may have implemented.
fn result_of(operands: &[Val]) -> Val {
    if operands.iter().any(|operand| operand.ty.leads_on()) { Val::unknown() } else { Val::plain() }
}

/// What several values have in common.
pub(super) fn elements(parts: Vec<Val>) -> Val {
    let via = via_of(&parts);
    let ty = parts.into_iter().map(|part| part.ty).find(Ty::leads_on).unwrap_or(Ty::Plain);
    Val::new(ty.wrapped(), via)
}

/// What holds the parts holds what they are names for.
fn via_of(parts: &[Val]) -> Via {
    parts.iter().find(|part| part.ty.leads_on()).map_or(Via::Fresh, |part| part.via)
}

/// An expression on one line, cut short.
pub(super) fn shorten(expr: &Expr) -> String {
    use quote::ToTokens;
    let text = expr.to_token_stream().to_string();
    let text = text.replace(" . ", ".").replace(" ()", "()").replace(" :: ", "::").replace("& ", "&");
    if text.chars().count() <= 40 {
        return text;
    }
    let start: String = text.chars().take(37).collect();
    format!("{start}...")
}
