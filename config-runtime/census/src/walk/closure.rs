//! Closures: the types of their parameters come from where they are given, or from where they are called.

use std::rc::Rc;

use syn::{ExprClosure, Pat, ReturnType};

use super::{Kept, Names, Val, Via, Walk};
use crate::types::Ty;

impl Walk<'_> {
    /// A closure whose parameters have these types, if they are known.
    pub(super) fn closure(&mut self, closure: &ExprClosure, inputs: Option<&[Ty]>) -> Val {
        let open = closure.inputs.iter().any(|input| match input {
            Pat::Type(typed) => self.index.ty(&typed.ty, &self.context) == Ty::Unknown,
            _ => true,
        });
        let output = self.closure_body(closure, inputs.unwrap_or_default());
        if open && inputs.is_none() {
            self.kept.push(Kept { closure: Rc::new(closure.clone()), scopes: self.scopes.clone() });
            return Val::new(Ty::Closure(self.kept.len() - 1), Via::Fresh);
        }
        let inputs = closure.inputs.iter().enumerate().map(|(position, input)| match input {
            Pat::Type(typed) => self.index.ty(&typed.ty, &self.context),
            _ => inputs.and_then(|inputs| inputs.get(position)).cloned().unwrap_or(Ty::Unknown),
        });
        let inputs = inputs.collect();
        Val::new(Ty::Fn(inputs, Box::new(output.ty)), output.via)
    }

    fn closure_body(&mut self, closure: &ExprClosure, inputs: &[Ty]) -> Val {
        self.scopes.push(Names::new());
        for (position, input) in closure.inputs.iter().enumerate() {
            let ty = inputs.get(position).cloned().unwrap_or(Ty::Unknown);
            self.bind(input, &Val::new(ty, Via::Parameter), Via::Parameter);
        }
        let mut value = self.expr(&closure.body);
        self.escapes(&value, "returned");
        if let ReturnType::Type(_, ty) = &closure.output {
            value.ty = self.index.ty(ty, &self.context);
        }
        self.scopes.pop();
        value
    }

    /// Goes through a kept closure again, now that the types of its parameters are known.
    pub(super) fn call_kept(&mut self, number: usize, inputs: &[Ty]) -> Val {
        let Some(kept) = self.kept.get(number) else { return Val::unknown() };
        let (closure, scopes) = (Rc::clone(&kept.closure), kept.scopes.clone());
        let scopes = std::mem::replace(&mut self.scopes, scopes);
        let value = self.closure_body(&closure, inputs);
        self.scopes = scopes;
        Val { at: Vec::new(), ..value }
    }
}
