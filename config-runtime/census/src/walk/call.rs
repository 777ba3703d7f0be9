//! Calls of functions and methods.

use syn::punctuated::Punctuated;
use syn::{AngleBracketedGenericArguments, Expr, ExprCall, ExprMethodCall, PathArguments, Token};

use super::expression::{entry_of, shorten};
use super::place::changes;
use super::{Val, Via, Walk, local_via, start};
use crate::index::{FnDef, plain, segments};
use crate::types::Ty;

type Arguments = Punctuated<Expr, Token![,]>;

/// Types of the standard library that hold one value.
const HOLDERS: &[&str] = &[
    "Arc", "Box", "Cell", "Cow", "LazyCell", "LazyLock", "Mutex", "Once", "OnceCell", "OnceLock", "Pin", "Rc",
    "RefCell", "Reverse", "RwLock", "Weak",
];

/// Functions derived or implemented for a type that make a value of it.
const MAKES: &[&str] = &[
    "clone",
    "default",
    "deserialize",
    "from",
    "from_arg_matches",
    "from_args",
    "from_env",
    "from_iter",
    "from_str",
    "new",
    "parse",
    "parse_from",
    "try_from",
    "try_parse",
    "try_parse_from",
];

const CLONES: &[&str] = &["clone", "cloned", "load_full", "to_owned", "to_vec", "unwrap_or_clone"];

/// Methods that give the value itself, if they are not the type's own.
const SAME: &[&str] = &[
    "as_deref",
    "as_mut",
    "as_ref",
    "borrow",
    "borrow_mut",
    "by_ref",
    "deref",
    "deref_mut",
    "expect",
    "into",
    "into_inner",
    "unwrap",
];

/// Methods of wrappers that say something about them and do not lead to what they hold.
const ABOUT: &[&str] = &[
    "all",
    "any",
    "capacity",
    "contains",
    "contains_key",
    "count",
    "eq",
    "for_each",
    "is_empty",
    "is_err",
    "is_err_and",
    "is_none",
    "is_none_or",
    "is_ok",
    "is_ok_and",
    "is_some",
    "is_some_and",
    "keys",
    "len",
    "ne",
    "position",
    "strong_count",
];

/// Methods that take a closure and give what the wrapper holds, not what the closure returns.
const KEEP: &[&str] = &[
    "dedup_by_key",
    "filter",
    "find",
    "get_or_init",
    "get_or_insert_with",
    "insert_with",
    "inspect",
    "map_err",
    "max_by",
    "max_by_key",
    "min_by",
    "min_by_key",
    "ok_or_else",
    "or_else",
    "or_insert_with",
    "reduce",
    "retain",
    "rev",
    "skip_while",
    "sort_by",
    "sort_by_key",
    "take_while",
    "unwrap_or_else",
];

/// Methods that put a value into the wrapper they are called on.
const STORES: &[&str] = &[
    "extend",
    "get_or_init",
    "get_or_insert",
    "insert",
    "or",
    "push",
    "push_back",
    "push_front",
    "replace",
    "send",
    "set",
    "store",
    "swap",
    "unwrap_or",
    "unwrap_or_default",
];

impl Walk<'_> {
    pub(super) fn call(&mut self, call: &ExprCall) -> Val {
        let at = vec![start(call)];
        let Expr::Path(function) = &*call.func else {
            let function = self.expr(&call.func);
            let name = shorten(&call.func);
            return Val { at, ..self.call_value(&function.ty, &call.args, &name) };
        };
        let names = segments(&function.path);
        let name = names.join("::");
        if let [local] = names.as_slice()
            && let Some(value) = self.local(local)
        {
            let ty = value.ty.clone();
            return Val { at, ..self.call_value(&ty, &call.args, &name) };
        }
        let (last, before) = names.split_last().map_or(("", &names[..]), |(last, before)| (last.as_str(), before));
        // `<Type as Trait>::function` says the type apart from the path.
        let qualified = function.qself.as_ref().map(|qself| self.index.ty(&qself.ty, &self.context));
        let owner = match &qualified {
            Some(ty) => ty.name().map(str::to_owned),
            None => self.index.type_named(before, &self.context),
        };
        if let Some(owner) = owner.clone()
            && let Some(def) = self.index.method_of(&owner, last).cloned()
        {
            let own = def.has_self.then(|| Ty::Named(owner, Vec::new()));
            return Val { at, ..self.call_known(&def, own, &call.args, &name) };
        }
        if qualified.is_none()
            && let Some(id) = self.index.constructor(&function.path, &self.context)
        {
            return Val { at, ..self.construct(&id, &call.args, &name) };
        }
        if let Some(owner) = owner {
            return Val { at, ..self.call_derived(&owner, last, call) };
        }
        if let Some(def) = self.index.function_named(&names, &self.context).cloned() {
            return Val { at, ..self.call_known(&def, None, &call.args, &name) };
        }
        let turbofish = function.path.segments.iter().rev().find_map(|segment| match &segment.arguments {
            PathArguments::AngleBracketed(arguments) => Some(arguments),
            _ => None,
        });
        self.call_foreign(&names, turbofish, call)
    }

    /// A function or closure in a variable.
    fn call_value(&mut self, ty: &Ty, arguments: &Arguments, name: &str) -> Val {
        match ty.bare() {
            Ty::Fn(inputs, output) => {
                self.arguments(arguments, Some(inputs), name);
                Val::new((**output).clone(), Via::Borrowed)
            }
            Ty::Closure(number) => {
                let values = self.arguments(arguments, None, name);
                for value in &values {
                    self.escapes(value, &format!("passed to `{name}`"));
                }
                let types: Vec<_> = values.into_iter().map(|value| value.ty).collect();
                let value = self.call_kept(*number, &types);
                Val { via: Via::Borrowed, ..value }
            }
            _ => {
                for value in self.arguments(arguments, None, name) {
                    self.escapes_unfollowed(&value, &format!("passed to `{name}`"), &format!("`{name}` is not known"));
                }
                Val::unknown()
            }
        }
    }

    /// A function of this package; `own` is the type of `self`, given as the first argument.
    fn call_known(&mut self, def: &FnDef, own: Option<Ty>, arguments: &Arguments, name: &str) -> Val {
        let inputs: Vec<_> = own.into_iter().chain(def.inputs.iter().cloned()).collect();
        let values = self.arguments(arguments, Some(&inputs), name);
        self.typeless(&inputs, &values, name);
        let mut known = Vec::new();
        inputs.iter().zip(&values).for_each(|(input, value)| input.learn(&value.ty, &mut known));
        let via = if def.borrows { Via::Borrowed } else { Via::Fresh };
        Val::new(def.output.with(&known), via)
    }

    /// Where the struct is given for a parameter whose type does not say so.
    fn typeless(&mut self, inputs: &[Ty], values: &[Val], name: &str) {
        for (input, value) in inputs.iter().zip(values) {
            if matches!(input, Ty::Plain | Ty::Unknown | Ty::Param(_)) && self.target(value).is_some() {
                for span in value.at.clone() {
                    self.note_unfollowed(span, "(whole)", format!("`{name}` takes it as another type"));
                }
            }
        }
    }

    /// A tuple struct, or a variant of an enum.
    fn construct(&mut self, id: &str, arguments: &Arguments, name: &str) -> Val {
        let mut known = Vec::new();
        let def = self.index.types.get(id);
        let fields: Vec<_> = def.map(|def| def.fields.iter().map(|(_, ty)| ty.clone()).collect()).unwrap_or_default();
        for (position, argument) in arguments.iter().enumerate() {
            let value = self.expr(argument);
            self.escapes(&value, &format!("stored in `{name}`"));
            if let Some(field) = fields.get(position) {
                field.learn(&value.ty, &mut known);
            }
        }
        let generics = def.map(|def| def.generics.clone()).unwrap_or_default();
        let arguments = generics.into_iter().map(|name| Ty::Param(name).with(&known)).collect();
        let owner = match id.rsplit_once("::") {
            Some((owner, _)) if self.index.types.contains_key(owner) => owner,
            _ => id,
        };
        Val::new(Ty::Named(owner.to_owned(), arguments), Via::Fresh)
    }

    /// A function of a type of this package that no `impl` here has: a derive wrote it.
    fn call_derived(&mut self, owner: &str, name: &str, call: &ExprCall) -> Val {
        let shown = shorten(&call.func);
        let values = self.arguments(&call.args, None, &shown);
        let is_target = self.index.targets.contains_key(owner);
        for value in &values {
            if name == "clone" {
                self.escapes(value, "cloned");
            } else {
                let why = format!("`{shown}` is not part of this package");
                self.escapes_unfollowed(value, &format!("passed to `{shown}`"), &why);
            }
        }
        if MAKES.contains(&name) || name.starts_with("try_") {
            return Val::new(Ty::Named(owner.to_owned(), Vec::new()), Via::Fresh);
        }
        if is_target && values.iter().all(|value| self.target(value).is_none()) {
            self.note_unfollowed(start(call), "(whole)", format!("what `{shown}` returns is not known"));
        }
        Val::unknown()
    }

    /// A function of another package.
    fn call_foreign(
        &mut self,
        names: &[String],
        turbofish: Option<&AngleBracketedGenericArguments>,
        call: &ExprCall,
    ) -> Val {
        let name = names.join("::");
        let last = names.last().map(String::as_str).unwrap_or_default();
        let owner = names.len().checked_sub(2).and_then(|position| names.get(position)).map(String::as_str);
        let holds = match owner {
            None => matches!(last, "Some" | "Ok" | "Err"),
            Some(owner) => HOLDERS.contains(&owner) && matches!(last, "from" | "new" | "pin" | "from_ref"),
        };
        if holds || matches!(owner, Some("Option" | "Result")) {
            // Still the value itself: what is done with the wrapper is noted there.
            let values = call.args.iter().map(|argument| self.expr(argument)).collect::<Vec<_>>();
            let first = values.into_iter().next().unwrap_or_else(Val::unknown);
            let produced = match &first.ty {
                Ty::Fn(_, output) => (**output).clone(),
                ty => ty.clone(),
            };
            return Val { ty: produced.wrapped(), ..first };
        }
        let values = self.arguments(&call.args, None, &name);
        if last == "clone" || CLONES.contains(&last) {
            for value in &values {
                self.escapes(value, "cloned");
            }
            return values.into_iter().next().map_or_else(Val::unknown, |value| Val { at: Vec::new(), ..value });
        }
        for value in &values {
            let why = format!("`{name}` is not part of this package");
            self.escapes_unfollowed(value, &format!("passed to `{name}`"), &why);
        }
        let given = turbofish.map(|arguments| self.index.angle(arguments, &self.context)).unwrap_or_default();
        let given = given.into_iter().find(Ty::leads_on);
        let made = values.into_iter().find_map(|value| match value.ty {
            Ty::Fn(_, output) if output.leads_on() => Some(*output),
            _ => None,
        });
        Val { ty: given.or(made).map_or(Ty::Unknown, Ty::wrapped), via: Via::Fresh, at: vec![start(call)] }
    }

    /// The values of arguments. Closures come last: what the others are may say what they are given.
    fn arguments(&mut self, arguments: &Arguments, inputs: Option<&[Ty]>, name: &str) -> Vec<Val> {
        let mut values = vec![Val::unknown(); arguments.len()];
        let mut known = Vec::new();
        let expected = |position: usize| inputs.and_then(|inputs| inputs.get(position));
        for (position, argument) in arguments.iter().enumerate() {
            if matches!(argument, Expr::Closure(_)) {
                continue;
            }
            let value = self.expr(argument);
            if inputs.is_some() {
                self.escapes(&value, &format!("passed to `{name}`"));
            }
            if let Some(input) = expected(position) {
                input.learn(&value.ty, &mut known);
            }
            values[position] = value;
        }
        for (position, argument) in arguments.iter().enumerate() {
            let wanted = expected(position).map(|input| input.with(&known));
            let inputs = match &wanted {
                Some(Ty::Fn(inputs, _)) => Some(inputs.as_slice()),
                _ => None,
            };
            if let Expr::Closure(closure) = argument {
                values[position] = self.closure(closure, inputs);
            } else if let (Ty::Closure(number), Some(inputs)) = (&values[position].ty, inputs) {
                let value = self.call_kept(*number, inputs);
                values[position].ty = Ty::Fn(inputs.to_vec(), Box::new(value.ty));
            }
        }
        values
    }

    pub(super) fn method_call(&mut self, call: &ExprMethodCall) -> Val {
        let name = plain(&call.method);
        let at = vec![start(call)];
        if let Some(value) = self.change(call, &name) {
            return value;
        }
        let receiver = self.expr(&call.receiver);
        let owner = receiver.ty.name().map(str::to_owned);
        if let Some(owner) = &owner
            && let Some(def) = self.index.method_of(owner, &name).cloned()
        {
            self.escapes(&receiver, &format!("`{name}` called"));
            if def.changes_self && self.target(&receiver).is_some() {
                self.note_write(start(&*call.receiver), "(whole)", format!("changed by `{name}`"));
            }
            let mut known = Vec::new();
            if let Some(own) = &def.self_ty {
                own.learn(receiver.ty.bare(), &mut known);
            }
            let inputs: Vec<_> = def.inputs.iter().map(|input| with_known(input, &known)).collect();
            let values = self.arguments(&call.args, Some(&inputs), &name);
            self.typeless(&inputs, &values, &name);
            inputs.iter().zip(&values).for_each(|(input, value)| input.learn(&value.ty, &mut known));
            let via = if def.borrows { Via::Borrowed } else { Via::Fresh };
            return Val { ty: def.output.with(&known), via, at };
        }
        if CLONES.contains(&name.as_str()) {
            self.escapes(&receiver, "cloned");
            return Val { at: Vec::new(), ..receiver };
        }
        let value = match &receiver.ty {
            Ty::Wrapped(_) | Ty::Tuple(_) => self.wrapper_method(call, &name, receiver),
            Ty::Named(..) if SAME.contains(&name.as_str()) => receiver,
            Ty::Named(..) => {
                let why = format!("method `{name}` is not part of this package");
                self.escapes_unfollowed(&receiver, &format!("`{name}` called"), &why);
                self.method_arguments(call, &name, &receiver.ty, true);
                self.by_name(call, &name)
            }
            _ => {
                let values = self.method_arguments(call, &name, &Ty::Unknown, false);
                self.learn_content(&call.receiver, &name, &values);
                let made = values.into_iter().find_map(|value| match value.ty {
                    Ty::Fn(_, output) if output.leads_on() => Some(*output),
                    _ => None,
                });
                match made {
                    Some(ty) => Val::new(ty.wrapped(), Via::Borrowed),
                    None => self.by_name(call, &name),
                }
            }
        };
        if value.at.is_empty() { Val { at, ..value } } else { value }
    }

    /// A method that changes a leaf in its place.
    fn change(&mut self, call: &ExprMethodCall, name: &str) -> Option<Val> {
        let place = self.leaf_place(&call.receiver)?;
        let ty = self.quietly(&call.receiver).ty;
        let own = ty.name().and_then(|owner| self.index.method_of(owner, name));
        let is_change = own.map_or_else(|| changes(name, call.args.len()), |def| def.changes_self);
        if !is_change {
            return None;
        }
        let (field, span) = place;
        self.note_write(span, &field, format!("changed by `{name}`"));
        self.method_arguments(call, name, &ty, true);
        Some(Val::unknown())
    }

    /// A method of something around the struct, or around a type of this package.
    fn wrapper_method(&mut self, call: &ExprMethodCall, name: &str, receiver: Val) -> Val {
        let values = self.method_arguments(call, name, &receiver.ty, true);
        if ABOUT.contains(&name) {
            return Val::plain();
        }
        let held = receiver.ty.bare().clone();
        match name {
            "enumerate" => return Val { ty: Ty::Tuple(vec![Ty::Plain, held]).wrapped(), ..receiver },
            "zip" => {
                let other = values.into_iter().next().map_or(Ty::Unknown, |value| value.ty.bare().clone());
                return Val { ty: Ty::Tuple(vec![held, other]).wrapped(), ..receiver };
            }
            _ => {}
        }
        if !KEEP.contains(&name) {
            let returned = values.into_iter().rev().find_map(|value| match value.ty {
                Ty::Fn(_, output) => Some((*output, value.via)),
                _ => None,
            });
            if let Some((output, via)) = returned {
                return Val::new(output.wrapped(), via);
            }
        }
        receiver
    }

    /// Arguments of a method that is not of this package; closures get what the receiver holds.
    fn method_arguments(&mut self, call: &ExprMethodCall, name: &str, receiver: &Ty, known: bool) -> Vec<Val> {
        let mut values = Vec::new();
        for argument in &call.args {
            let held = receiver.bare();
            let value = match argument {
                Expr::Closure(closure) if known => {
                    let mut inputs = vec![held.clone(); closure.inputs.len()];
                    if matches!(name, "fold" | "try_fold" | "scan") && inputs.len() == 2 {
                        inputs[0] = values.first().map_or(Ty::Unknown, |value: &Val| value.ty.clone());
                    }
                    if let Some(input) = closure.inputs.first().filter(|_| inputs.len() == 1) {
                        inputs = vec![entry_of(input, receiver).unwrap_or_else(|| held.clone())];
                    }
                    self.closure(closure, Some(&inputs))
                }
                argument => self.expr(argument),
            };
            let value = match value.ty {
                Ty::Closure(number) if known => {
                    let output = self.call_kept(number, std::slice::from_ref(held));
                    Val::new(Ty::Fn(vec![held.clone()], Box::new(output.ty)), output.via)
                }
                _ => value,
            };
            if matches!(name, "chain" | "zip") {
                // Still followed, as a part of what they make.
            } else if STORES.contains(&name) {
                self.escapes(&value, &format!("stored by `{name}`"));
            } else {
                let why = format!("method `{name}` is not part of this package");
                self.escapes_unfollowed(&value, &format!("passed to `{name}`"), &why);
            }
            values.push(value);
        }
        values
    }

    /// A local container of which nothing was known holds what is put into it.
    fn learn_content(&mut self, receiver: &Expr, method: &str, values: &[Val]) {
        let Expr::Path(path) = receiver else { return };
        let Some(ident) = path.path.get_ident().filter(|_| STORES.contains(&method)) else { return };
        let Some(content) = values.iter().map(|value| &value.ty).find(|ty| ty.leads_on()) else { return };
        let ty = content.clone().wrapped();
        let name = plain(ident);
        if let Some(local) = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(&name)) {
            *local = Val::new(ty, local_via(local.via));
        }
    }

    /// What a method of an unknown type gives, if its name or its type arguments say so.
    fn by_name(&mut self, call: &ExprMethodCall, name: &str) -> Val {
        if let Some(arguments) = &call.turbofish {
            let given = self.index.angle(arguments, &self.context);
            if let Some(ty) = given.into_iter().find(Ty::leads_on) {
                return Val::new(ty.wrapped(), Via::Fresh);
            }
        }
        let found = self.index.method_by_name(name).filter(|def| self.index.target_of(&def.output).is_some());
        found.map_or_else(Val::unknown, |def| Val::new(def.output.clone(), Via::Borrowed))
    }
}

/// With the parameters that are known; the others stay open.
fn with_known(ty: &Ty, known: &[(String, Ty)]) -> Ty {
    if known.is_empty() { ty.clone() } else { ty.with(known) }
}
