//! What the package declares: types, functions, statics, and what names mean where.

mod names;

use std::collections::{HashMap, HashSet};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{
    AngleBracketedGenericArguments, FnArg, GenericArgument, GenericParam, Generics, Item, Path, PathArguments,
    ReceiverKind, ReturnType, Signature, Type, TypeParamBound, WherePredicate,
};

use crate::sources::Sources;
use crate::types::Ty;
use names::{Names, names};

/// A struct, the variant of an enum, or a trait.
pub(crate) struct TypeDef {
    pub(crate) generics: Vec<String>,
    pub(crate) fields: Vec<(String, Ty)>,
    /// What it dereferences to.
    pub(crate) deref: Option<Ty>,
}

/// A function or method.
#[derive(Clone)]
pub(crate) struct FnDef {
    module: Vec<String>,
    /// Without `self`.
    pub(crate) inputs: Vec<Ty>,
    pub(crate) output: Ty,
    /// Whether what it returns is held by something else: a reference or a shared pointer.
    pub(crate) borrows: bool,
    pub(crate) has_self: bool,
    /// `&mut self`.
    pub(crate) changes_self: bool,
    /// The type that the `impl` is for.
    pub(crate) self_ty: Option<Ty>,
}

/// Where a type is written: what `Self` and type parameters mean there.
#[derive(Clone, Default)]
pub(crate) struct Context {
    pub(crate) module: Vec<String>,
    pub(crate) self_ty: Option<Ty>,
    pub(crate) generics: HashMap<String, Ty>,
    /// How many aliases led here.
    pub(crate) aliases: usize,
}

/// More aliases than this in a row are a circle.
const MOST_ALIASES: usize = 16;

/// More dereferences than this in a row are a circle.
const MOST_DEREFS: usize = 8;

pub(crate) struct Index {
    /// Full path of the struct that the census is of.
    pub(crate) target: String,
    /// Structs whose fields are leaves: the target and what is flattened into it, each with the prefix of its leaves.
    pub(crate) targets: HashMap<String, String>,
    /// Leaves with their declarations.
    pub(crate) leaves: Vec<(String, syn::Field)>,
    pub(crate) leaf_names: HashSet<String>,
    pub(crate) types: HashMap<String, TypeDef>,
    names: Names,
    functions: HashMap<String, Vec<FnDef>>,
    methods: HashMap<(String, String), FnDef>,
    methods_by_name: HashMap<String, Vec<(String, FnDef)>>,
    statics: HashMap<String, Vec<(Vec<String>, Ty)>>,
    fields_by_name: HashMap<String, Vec<Ty>>,
    associated: HashMap<String, Vec<Ty>>,
}

fn split(path: &str) -> Vec<String> {
    path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

pub(crate) fn segments(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| plain(&segment.ident)).collect()
}

pub(crate) fn plain(ident: &syn::Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").unwrap_or(&text).to_owned()
}

fn join(module: &[String], name: &str) -> String {
    module.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("::")
}

/// Every item with the module it is in.
struct Items<'a> {
    module: Vec<String>,
    found: Vec<(Vec<String>, &'a Item)>,
}

impl<'a> Visit<'a> for Items<'a> {
    fn visit_item(&mut self, item: &'a Item) {
        self.found.push((self.module.clone(), item));
        if let Item::Mod(module) = item {
            self.module.push(plain(&module.ident));
            visit::visit_item(self, item);
            self.module.pop();
        } else {
            visit::visit_item(self, item);
        }
    }
}

impl Index {
    pub(crate) fn of(sources: &Sources, target: &str) -> Result<Self, String> {
        let mut items = Items { module: Vec::new(), found: Vec::new() };
        for file in &sources.files {
            items.module.clone_from(&file.module);
            items.visit_file(&file.syntax);
        }
        let names = names(sources, &items.found);
        let target = find_target(&items.found, target)?;
        let mut index = Self {
            targets: HashMap::from([(target.clone(), String::new())]),
            target,
            leaves: Vec::new(),
            leaf_names: HashSet::new(),
            types: HashMap::new(),
            names,
            functions: HashMap::new(),
            methods: HashMap::new(),
            methods_by_name: HashMap::new(),
            statics: HashMap::new(),
            fields_by_name: HashMap::new(),
            associated: HashMap::new(),
        };
        for (module, item) in &items.found {
            index.type_item(module, item);
        }
        for (module, item) in &items.found {
            index.value_item(module, item);
        }
        index.find_leaves(&items.found);
        Ok(index)
    }

    fn type_item(&mut self, module: &[String], item: &Item) {
        match item {
            Item::Struct(item) => {
                let id = join(module, &plain(&item.ident));
                self.define(id, module, &item.generics, &item.fields);
            }
            Item::Enum(item) => {
                let id = join(module, &plain(&item.ident));
                self.define(id.clone(), module, &item.generics, &syn::Fields::Unit);
                for variant in &item.variants {
                    let id = format!("{id}::{}", plain(&variant.ident));
                    self.define(id, module, &item.generics, &variant.fields);
                }
            }
            Item::Union(item) => {
                let id = join(module, &plain(&item.ident));
                self.define(id, module, &item.generics, &syn::Fields::Named(item.fields.clone()));
            }
            Item::Trait(item) => {
                let id = join(module, &plain(&item.ident));
                self.define(id, module, &item.generics, &syn::Fields::Unit);
            }
            Item::Impl(item) => {
                let context = self.impl_context(module, item);
                for part in &item.items {
                    if let syn::ImplItem::Type(associated) = part {
                        let ty = self.ty(&associated.ty, &context);
                        let is_target = associated.ident == "Target";
                        if is_target && let Some(name) = context.self_ty.as_ref().and_then(Ty::name) {
                            let deref = (name.to_owned(), ty.clone());
                            if let Some(def) = self.types.get_mut(&deref.0) {
                                def.deref = Some(deref.1);
                            }
                        }
                        self.associated.entry(plain(&associated.ident)).or_default().push(ty);
                    }
                }
            }
            _ => {}
        }
    }

    fn define(&mut self, id: String, module: &[String], generics: &Generics, fields: &syn::Fields) {
        let names: Vec<_> = generics.type_params().map(|param| plain(&param.ident)).collect();
        let context = Context {
            module: module.to_vec(),
            self_ty: Some(Ty::Named(id.clone(), names.iter().cloned().map(Ty::Param).collect())),
            generics: names.iter().map(|name| (name.clone(), Ty::Param(name.clone()))).collect(),
            ..Context::default()
        };
        let fields: Vec<_> = fields
            .iter()
            .enumerate()
            .map(|(position, field)| {
                let name = field.ident.as_ref().map_or_else(|| position.to_string(), plain);
                (name, self.ty(&field.ty, &context))
            })
            .collect();
        for (name, ty) in &fields {
            self.fields_by_name.entry(name.clone()).or_default().push(ty.clone());
        }
        self.types.insert(id, TypeDef { generics: names, fields, deref: None });
    }

    fn value_item(&mut self, module: &[String], item: &Item) {
        let here = Context { module: module.to_vec(), ..Context::default() };
        match item {
            Item::Fn(item) => {
                let def = self.function(&item.sig, &here);
                self.functions.entry(plain(&item.sig.ident)).or_default().push(def);
            }
            Item::Impl(item) => {
                let context = self.impl_context(module, item);
                let Some(owner) = context.self_ty.as_ref().and_then(Ty::name).map(str::to_owned) else { return };
                for part in &item.items {
                    match part {
                        syn::ImplItem::Fn(method) => {
                            let def = self.function(&method.sig, &context);
                            self.method(owner.clone(), plain(&method.sig.ident), def);
                        }
                        syn::ImplItem::Const(constant) => {
                            let ty = self.ty(&constant.ty, &context);
                            self.statics.entry(plain(&constant.ident)).or_default().push((module.to_vec(), ty));
                        }
                        _ => {}
                    }
                }
            }
            Item::Trait(item) => {
                let owner = join(module, &plain(&item.ident));
                let context = Context { self_ty: Some(Ty::Named(owner.clone(), Vec::new())), ..here };
                for part in &item.items {
                    if let syn::TraitItem::Fn(method) = part {
                        let def = self.function(&method.sig, &context);
                        self.method(owner.clone(), plain(&method.sig.ident), def);
                    }
                }
            }
            Item::Static(item) => {
                let ty = self.ty(&item.ty, &here);
                self.statics.entry(plain(&item.ident)).or_default().push((module.to_vec(), ty));
            }
            Item::Const(item) => {
                let ty = self.ty(&item.ty, &here);
                self.statics.entry(plain(&item.ident)).or_default().push((module.to_vec(), ty));
            }
            Item::Macro(item) => {
                for (name, ty) in statics_in(&item.mac.tokens) {
                    let ty = self.ty(&ty, &here).wrapped();
                    self.statics.entry(name).or_default().push((module.to_vec(), ty));
                }
            }
            _ => {}
        }
    }

    fn method(&mut self, owner: String, name: String, def: FnDef) {
        self.methods_by_name.entry(name.clone()).or_default().push((owner.clone(), def.clone()));
        self.methods.insert((owner, name), def);
    }

    /// What `Self` and type parameters mean in an `impl`.
    pub(crate) fn impl_context(&self, module: &[String], item: &syn::ItemImpl) -> Context {
        let mut context = Context { module: module.to_vec(), ..Context::default() };
        self.add_generics(&item.generics, &mut context);
        context.self_ty = Some(self.ty(&item.self_ty, &context));
        context
    }

    /// What `Self` means in a trait: whatever implements it.
    pub(crate) fn trait_context(module: &[String], item: &syn::ItemTrait) -> Context {
        let owner = join(module, &plain(&item.ident));
        Context { module: module.to_vec(), self_ty: Some(Ty::Named(owner, Vec::new())), ..Context::default() }
    }

    /// A type parameter stands for what its bounds lead to, or for itself.
    pub(crate) fn add_generics(&self, generics: &Generics, context: &mut Context) {
        for param in generics.type_params() {
            context.generics.insert(plain(&param.ident), Ty::Param(plain(&param.ident)));
        }
        let mut bounds: Vec<(String, Vec<&TypeParamBound>)> = Vec::new();
        for param in &generics.params {
            if let GenericParam::Type(param) = param {
                bounds.push((plain(&param.ident), param.bounds.iter().collect()));
            }
        }
        if let Some(clause) = &generics.where_clause {
            for predicate in &clause.predicates {
                if let WherePredicate::Type(predicate) = predicate
                    && let Type::Path(path) = &predicate.bounded_ty
                    && let Some(ident) = path.path.get_ident()
                {
                    bounds.push((plain(ident), predicate.bounds.iter().collect()));
                }
            }
        }
        for (name, bounds) in bounds {
            let ty = self.bounds(bounds.into_iter(), context);
            if ty.leads_on() {
                context.generics.insert(name, ty);
            }
        }
    }

    pub(crate) fn function(&self, signature: &Signature, outer: &Context) -> FnDef {
        let mut context = outer.clone();
        self.add_generics(&signature.generics, &mut context);
        let mut inputs = Vec::new();
        let (mut has_self, mut changes_self) = (false, false);
        for input in &signature.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    has_self = true;
                    changes_self = matches!(receiver.kind, ReceiverKind::Reference(_, _, Some(_)));
                }
                FnArg::Typed(typed) => inputs.push(self.ty(&typed.ty, &context)),
            }
        }
        let (output, borrows) = match &signature.output {
            ReturnType::Default => (Ty::Plain, false),
            ReturnType::Type(_, ty) => {
                let text = ty.to_token_stream().to_string();
                let shared = ["&", "Arc <", "Rc <", "Guard <", "Ref <"].iter().any(|mark| text.contains(mark));
                (self.ty(ty, &context), shared)
            }
        };
        let (module, self_ty) = (outer.module.clone(), outer.self_ty.clone());
        FnDef { module, inputs, output, borrows, has_self, changes_self, self_ty }
    }

    /// The type of `self`.
    pub(crate) fn receiver(&self, kind: &ReceiverKind, context: &Context) -> Ty {
        match kind {
            ReceiverKind::Typed(_, ty) => self.ty(ty, context),
            _ => context.self_ty.clone().unwrap_or(Ty::Unknown),
        }
    }

    pub(crate) fn ty(&self, ty: &Type, context: &Context) -> Ty {
        match ty {
            Type::Reference(reference) => self.ty(&reference.elem, context),
            Type::Paren(paren) => self.ty(&paren.elem, context),
            Type::Group(group) => self.ty(&group.elem, context),
            Type::Ptr(pointer) => self.ty(&pointer.elem, context).wrapped(),
            Type::Slice(slice) => self.ty(&slice.elem, context).wrapped(),
            Type::Array(array) => self.ty(&array.elem, context).wrapped(),
            Type::Tuple(tuple) if tuple.elems.is_empty() => Ty::Plain,
            Type::Tuple(tuple) => Ty::Tuple(tuple.elems.iter().map(|part| self.ty(part, context)).collect()),
            Type::ImplTrait(bounds) => self.bounds(bounds.bounds.iter(), context),
            Type::TraitObject(bounds) => self.bounds(bounds.bounds.iter(), context),
            Type::FnPtr(pointer) => {
                let inputs = pointer.inputs.iter().map(|input| self.ty(&input.ty, context)).collect();
                Ty::Fn(inputs, Box::new(self.output(&pointer.output, context)))
            }
            Type::Never(_) => Ty::Plain,
            Type::Path(path) => self.path(&path.path, path.qself.is_some(), context),
            _ => Ty::Unknown,
        }
    }

    fn output(&self, output: &ReturnType, context: &Context) -> Ty {
        match output {
            ReturnType::Default => Ty::Plain,
            ReturnType::Type(_, ty) => self.ty(ty, context),
        }
    }

    fn path(&self, path: &Path, qualified: bool, context: &Context) -> Ty {
        let names = segments(path);
        let Some(last) = path.segments.last() else { return Ty::Unknown };
        if let [name] = names.as_slice() {
            if name == "Self" {
                return context.self_ty.clone().unwrap_or(Ty::Unknown);
            }
            if let Some(ty) = context.generics.get(name) {
                return ty.clone();
            }
        }
        let first = names.first().map(String::as_str).unwrap_or_default();
        if qualified || (names.len() > 1 && (first == "Self" || context.generics.contains_key(first))) {
            return match self.associated.get(&plain(&last.ident)).map(Vec::as_slice) {
                Some([ty]) => ty.clone(),
                _ => Ty::Unknown,
            };
        }
        let arguments = self.arguments(&last.arguments, context);
        if context.aliases > MOST_ALIASES {
            return Ty::Unknown;
        }
        if let Some((module, item)) = self.alias(&names, &context.module) {
            let params: Vec<_> = item.generics.type_params().map(|param| plain(&param.ident)).collect();
            let inner = Context {
                module: module.clone(),
                self_ty: None,
                generics: params.into_iter().zip(arguments).collect(),
                aliases: context.aliases + 1,
            };
            return self.ty(&item.ty, &inner);
        }
        if let Some(id) = self.names.resolve(&names, &context.module) {
            return Ty::Named(id, arguments);
        }
        let name = names.last().map(String::as_str).unwrap_or_default();
        let leading: Vec<_> = arguments.iter().filter(|argument| argument.leads_on()).collect();
        let chosen = if name.ends_with("Map") { leading.last() } else { leading.first() };
        match chosen {
            Some(ty) => (**ty).clone().wrapped(),
            None if arguments.contains(&Ty::Unknown) => Ty::Unknown,
            None => Ty::Plain,
        }
    }

    fn alias(&self, names: &[String], module: &[String]) -> Option<&(Vec<String>, syn::ItemType)> {
        let full = self.names.full(names, module);
        let (last, before) = full.split_last()?;
        if !self.names.is_ours(before) {
            return None;
        }
        let found = self.names.aliases.get(last)?;
        let same = found.iter().find(|(other, _)| other == module && before.is_empty());
        let named = !before.is_empty() || self.names.globs.contains(module);
        same.or_else(|| if named { found.first() } else { None })
    }

    fn arguments(&self, arguments: &PathArguments, context: &Context) -> Vec<Ty> {
        match arguments {
            PathArguments::None => Vec::new(),
            PathArguments::AngleBracketed(arguments) => self.angle(arguments, context),
            PathArguments::Parenthesized(arguments) => {
                let inputs = arguments.inputs.iter().map(|input| self.ty(&input.ty, context)).collect();
                vec![Ty::Fn(inputs, Box::new(self.output(&arguments.output, context)))]
            }
        }
    }

    /// Type arguments and associated types, in order.
    pub(crate) fn angle(&self, arguments: &AngleBracketedGenericArguments, context: &Context) -> Vec<Ty> {
        let types = arguments.args.iter().filter_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            GenericArgument::AssocType(associated) => Some(&associated.ty),
            _ => None,
        });
        types.map(|ty| self.ty(ty, context)).collect()
    }

    fn bounds<'a>(&self, bounds: impl Iterator<Item = &'a TypeParamBound>, context: &Context) -> Ty {
        let mut found = Ty::Plain;
        for bound in bounds {
            let TypeParamBound::Trait(bound) = bound else { continue };
            let Some(last) = bound.path.segments.last() else { continue };
            if let PathArguments::Parenthesized(_) = last.arguments {
                return self.arguments(&last.arguments, context).pop().unwrap_or(Ty::Unknown);
            }
            let ty = self.path(&bound.path, false, context);
            if ty.leads_on() {
                found = ty;
            }
        }
        found
    }

    /// The type of this package that a path names.
    pub(crate) fn type_named(&self, path: &[String], context: &Context) -> Option<String> {
        if let [first] = path
            && first == "Self"
        {
            return context.self_ty.as_ref().and_then(Ty::name).map(str::to_owned);
        }
        if let Some((_, item)) = self.alias(path, &context.module) {
            let name = self.ty(&item.ty, context);
            return name.name().map(str::to_owned);
        }
        self.names.resolve(path, &context.module)
    }

    /// What a pattern or literal with this path has as fields: a struct, or a variant of an enum.
    pub(crate) fn constructor(&self, path: &Path, context: &Context) -> Option<String> {
        let mut names = segments(path);
        if let [only] = names.as_slice()
            && let Some(full) = self.names.uses.get(&context.module).and_then(|uses| uses.get(only))
        {
            names.clone_from(full);
        }
        if let Some(id) = self.type_named(&names, context) {
            return Some(id);
        }
        let (variant, owner) = names.split_last()?;
        let owner = self.type_named(owner, context)?;
        let id = format!("{owner}::{variant}");
        self.types.contains_key(&id).then_some(id)
    }

    /// The free function that a path names.
    pub(crate) fn function_named(&self, path: &[String], context: &Context) -> Option<&FnDef> {
        let full = self.names.full(path, &context.module);
        let (name, qualifiers) = full.split_last()?;
        let found = self.functions.get(name)?;
        let suffix: Vec<_> = qualifiers
            .iter()
            .filter(|part| !matches!(part.as_str(), "crate" | "self" | "super"))
            .filter(|part| self.names.package.as_ref() != Some(*part))
            .cloned()
            .collect();
        let external = suffix.first().is_some_and(|first| !self.names.modules.contains(first));
        if external {
            return None;
        }
        let same = found.iter().find(|def| qualifiers.is_empty() && def.module == context.module);
        let named = || found.iter().find(|def| !suffix.is_empty() && def.module.ends_with(&suffix));
        same.or_else(named).or_else(|| found.first())
    }

    /// A method of a type of this package, or of what it dereferences to.
    pub(crate) fn method_of(&self, owner: &str, name: &str) -> Option<&FnDef> {
        let mut owner = owner;
        for _ in 0..MOST_DEREFS {
            if let Some(found) = self.methods.get(&(owner.to_owned(), name.to_owned())) {
                return Some(found);
            }
            owner = self.types.get(owner)?.deref.as_ref()?.name()?;
        }
        None
    }

    /// A method that only traits of this package declare, for a type that they are implemented for by blanket.
    pub(crate) fn method_by_name(&self, name: &str) -> Option<&FnDef> {
        let found = self.methods_by_name.get(name)?;
        let (_, first) = found.first()?;
        found.iter().all(|(_, def)| def.output == first.output).then_some(first)
    }

    pub(crate) fn static_named(&self, path: &[String], context: &Context) -> Option<&Ty> {
        let imported = path.first().and_then(|first| self.names.uses.get(&context.module)?.get(first));
        let name = match imported {
            Some(full) if path.len() == 1 => full.last()?,
            _ => path.last()?,
        };
        let found = self.statics.get(name)?;
        let same = found.iter().find(|(module, _)| *module == context.module);
        same.or(found.first()).map(|(_, ty)| ty)
    }

    /// The type of a field, through what the type dereferences to.
    pub(crate) fn field(&self, ty: &Ty, name: &str) -> Option<Ty> {
        if let Ty::Tuple(parts) = ty.bare() {
            return parts.get(name.parse::<usize>().ok()?).cloned();
        }
        let mut ty = ty.bare().clone();
        for _ in 0..MOST_DEREFS {
            let Ty::Named(id, arguments) = ty.bare() else { return None };
            let def = self.types.get(id)?;
            let known: Vec<_> = def.generics.iter().cloned().zip(arguments.iter().cloned()).collect();
            if let Some((_, field)) = def.fields.iter().find(|(field, _)| field == name) {
                return Some(field.with(&known));
            }
            ty = def.deref.as_ref()?.with(&known);
        }
        None
    }

    /// The type that all fields with this name have, if it leads to the struct.
    pub(crate) fn field_by_name(&self, name: &str) -> Option<&Ty> {
        let found = self.fields_by_name.get(name)?;
        let first = found.first()?;
        found.iter().all(|ty| ty == first).then_some(first).filter(|ty| self.target_of(ty).is_some())
    }

    /// The target, or a struct flattened into it, that a type is or wraps or dereferences to.
    pub(crate) fn target_of(&self, ty: &Ty) -> Option<&str> {
        let mut name = ty.name()?;
        for _ in 0..MOST_DEREFS {
            if let Some((id, _)) = self.targets.get_key_value(name) {
                return Some(id);
            }
            name = self.types.get(name)?.deref.as_ref()?.name()?;
        }
        None
    }

    fn find_leaves(&mut self, items: &[(Vec<String>, &Item)]) {
        let mut open = vec![(self.target.clone(), String::new())];
        while let Some((id, prefix)) = open.pop() {
            let found = items.iter().find_map(|(module, item)| match item {
                Item::Struct(item) if join(module, &plain(&item.ident)) == id => Some((module, item)),
                _ => None,
            });
            let Some((module, item)) = found else { continue };
            self.targets.insert(id.clone(), prefix.clone());
            let context = Context { module: module.clone(), ..Context::default() };
            for field in &item.fields {
                let Some(ident) = &field.ident else { continue };
                let path = format!("{prefix}{}", plain(ident));
                let flattened = is_flattened(field);
                match self.ty(&field.ty, &context).bare() {
                    Ty::Named(inner, _) if flattened && !self.targets.contains_key(inner) => {
                        open.push((inner.clone(), format!("{path}.")));
                    }
                    _ => self.leaves.push((path, field.clone())),
                }
            }
        }
        self.leaf_names =
            self.leaves.iter().filter_map(|(path, _)| path.rsplit('.').next()).map(str::to_owned).collect();
    }

    /// The leaf that a field of a target struct is; none if it is a flattened struct.
    pub(crate) fn leaf(&self, target: &str, field: &str) -> Option<&str> {
        let path = format!("{}{field}", self.targets.get(target)?);
        self.leaves.iter().map(|(leaf, _)| leaf.as_str()).find(|leaf| *leaf == path)
    }
}

fn find_target(items: &[(Vec<String>, &Item)], wanted: &str) -> Result<String, String> {
    let ids = items.iter().filter_map(|(module, item)| match item {
        Item::Struct(item) => Some(join(module, &plain(&item.ident))),
        _ => None,
    });
    let wanted = split(wanted);
    let mut found: Vec<_> = ids.filter(|id| split(id).ends_with(&wanted)).collect();
    found.sort();
    found.dedup();
    let exact = found.iter().position(|id| split(id) == wanted && wanted.len() > 1);
    match (exact, found.as_slice()) {
        (Some(exact), _) => Ok(found.swap_remove(exact)),
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err(format!("there is no struct `{}` here", wanted.join("::"))),
        (None, several) => Err(format!("there are several: say which with --struct: {}", several.join(", "))),
    }
}

fn is_flattened(field: &syn::Field) -> bool {
    field.attrs.iter().any(|attribute| {
        let named = ["arg", "cfg_attr", "clap", "command", "serde", "structopt"]
            .iter()
            .any(|name| attribute.path().is_ident(name));
        named && attribute.meta.to_token_stream().into_iter().any(|token| contains_word(token, "flatten"))
    })
}

fn contains_word(token: TokenTree, word: &str) -> bool {
    match token {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => group.stream().into_iter().any(|token| contains_word(token, word)),
        _ => false,
    }
}

/// `static NAME: Type = …` and `static ref NAME: Type = …` in the tokens of a macro such as `thread_local!`.
fn statics_in(tokens: &TokenStream) -> Vec<(String, Type)> {
    let tokens: Vec<_> = tokens.clone().into_iter().collect();
    let is = |index: usize, text: &str| tokens.get(index).is_some_and(|token| token.to_string() == text);
    let mut found = Vec::new();
    for index in 0..tokens.len() {
        if !is(index, "static") {
            continue;
        }
        let name = if is(index + 1, "ref") { index + 2 } else { index + 1 };
        let Some(TokenTree::Ident(ident)) = tokens.get(name) else { continue };
        if !is(name + 1, ":") {
            continue;
        }
        let ty = tokens[name + 2..].iter().take_while(|token| token.to_string() != "=").cloned().collect();
        if let Ok(ty) = syn::parse2(ty) {
            found.push((plain(ident), ty));
        }
    }
    found
}
