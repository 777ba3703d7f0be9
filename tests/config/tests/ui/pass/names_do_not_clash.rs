//! Names in the expansion never meet the user's.
#![allow(dead_code)]
#![no_implicit_prelude]

extern crate kitbag;
extern crate std;

use std::primitive::{str, u8, usize};

/// Types that shadow what generated code is built from.
struct Option;
struct Result;
struct Some;
struct String;
struct Vec;
struct Clone;
struct Bag;
struct Erased;

#[derive(::kitbag::ConfigNamespaces)]
struct Args {
    /// Words used inside the expansion.
    #[config(ns = "pool", default = 1)]
    edit: usize,
    /// Another.
    #[config(ns = "pool", default = 1)]
    offset: usize,
    /// Another.
    #[config(ns = "pool", default = 1)]
    index: usize,
    /// Another.
    #[config(ns = "pool", default = 1, hot)]
    values: usize,
    /// Another.
    #[config(ns = "pool", default = 1)]
    form: usize,
    /// A keyword.
    #[config(ns = "pinned", default = 1)]
    r#fn: usize,
    /// Another.
    #[config(ns = "role.edit", default = 1)]
    value: u8,
}

fn main() {
    let cfg = <Args as ::kitbag::ConfigNamespaces>::for_test(|o| {
        o.pool().edit(2);
        o.pool().offset(3);
        o.pool().index(4);
        o.pool().values(5);
        o.pool().form(6);
        o.role().edit().value(7);
        o.pinned().r#fn(8);
    });
    let now = cfg.pin();
    ::std::assert_eq!(now.pool().edit() + now.pool().offset() + now.pool().index() + now.pool().form(), 15);
    ::std::assert_eq!((now.role().edit().value(), now.pinned().r#fn()), (7, 8));
    let _: &str = "used";
}
