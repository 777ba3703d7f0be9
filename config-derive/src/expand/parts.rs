//! What single attributes and types come to in an expansion, and what is not emitted.

use syn::DeriveInput;

use crate::choice::config_choice;

/// The tokens without any space.
fn written(tokens: &proc_macro2::TokenStream) -> String {
    tokens.to_string().split_whitespace().collect()
}

fn of_schema(declaration: &str) -> String {
    let input: DeriveInput = syn::parse_str(declaration).unwrap_or_else(|error| panic!("{error}: {declaration}"));
    written(&super::config_namespaces(&input))
}

/// A root with one setting.
fn of_field(attributes: &str, field: &str) -> String {
    of_schema(&format!("struct Args {{ /// What is tried.\n #[config(ns = \"pool\", {attributes})] {field} }}"))
}

/// A root, or a namespace struct `pool`, with these attributes and the settings `workers` and `queue` in `pool`.
fn of_two(is_root: bool, attributes: &str) -> String {
    let (ns, name) = if is_root { ("ns = \"pool\",", "Args") } else { ("", "Pool") };
    let own = if is_root { "" } else { "ns = \"pool\"," };
    of_schema(&format!(
        "#[config({own} {attributes})] struct {name} {{
            /// Threads.
            #[config({ns} default = 1)] workers: usize,
            /// Jobs.
            #[config({ns} default = 1, hot)] queue: usize,
        }}"
    ))
}

#[test]
fn attributes_are_in_the_constant() {
    let table = [
        ("default = 1", "a: usize", "cache_key:true,resolution_only:false,bootstrap:false"),
        ("cache_key = true", "a: usize", "cache_key:true,"),
        ("cache_key = false", "a: usize", "cache_key:false,"),
        ("resolution_only", "a: usize", "resolution_only:true,"),
        ("bootstrap", "a: usize", "bootstrap:true,"),
        ("bootstrap", "a: usize", "a:::kitbag::Key<S,usize,::kitbag::Bootstrap>"),
        ("hot", "a: usize", "a:::kitbag::Key<S,usize>"),
        // A literal is its text, anything else is made by a function.
        ("default = 1_000", "a: usize", "Default{text:\"1000\",make:::core::option::Option::None}"),
        ("default = 5_usize", "a: usize", "Default{text:\"5_usize\",make:::core::option::Option::Some("),
        ("default = 0.5", "a: f64", "Default{text:\"0.5\",make:::core::option::Option::None}"),
        ("default = 0.5_f64", "a: f64", "Default{text:\"0.5_f64\",make:::core::option::Option::Some("),
        ("default = -5", "a: i64", "Default{text:\"-5\",make:::core::option::Option::None}"),
        ("default = !5", "a: i64", "make:::core::option::Option::Some("),
        // Its type is that of the setting.
        ("default = 5", "a: u8", "let_:u8=5;"),
        ("default = 3", "a: NonZeroU16", "<NonZeroU16>::new(3).expect(\"`pool.a`isneverzero"),
        // Types and ranges as one would write them.
        ("hot", "a: BTreeMap<String, Vec<u8>>", "type_name:\"BTreeMap<String,Vec<u8>>\""),
        ("range = 1 ..= N", "a: u8", "range:::core::option::Option::Some(\"1..=N\")"),
        ("secret", "a: Token", "::core::assert!(<Tokenas::kitbag::Leaf>::SECRET"),
    ];
    for (attributes, field, part) in table {
        let written = of_field(attributes, field);
        assert!(written.contains(part), "{attributes}, {field}: no {part} in {written}");
    }
    let absent = [
        ("resolution_only", "a: usize", "pubfna("),
        ("default = NonZeroU16::MIN", "a: NonZeroU16", "<NonZeroU16>::new("),
        ("hot", "a: Token", "::core::assert!"),
        ("secret", "a: Secret<String>", "::core::assert!"),
        ("secret", "a: String", "::core::assert!"),
    ];
    for (attributes, field, part) in absent {
        let written = of_field(attributes, &format!("pub {field}"));
        assert!(!written.contains(part), "{attributes}, {field}: {part} in {written}");
    }
}

#[test]
fn an_accessor_stands_for_each_setting_that_is_read() {
    let accessors = |attributes: &str| of_field(attributes, "a: usize").matches("fna(&self)").count();
    // Of the bag, and of its recording twin.
    assert_eq!((accessors("hot"), accessors("resolution_only")), (2, 0));
}

#[test]
fn texts_have_spaces_where_one_would_write_them() {
    let text = |field: &str| {
        let declaration = format!("struct Args {{ /// It.\n #[config(ns = \"pool\")] {field} }}");
        let input: DeriveInput = syn::parse_str(&declaration).expect("a struct");
        let tokens = super::config_namespaces(&input).to_string();
        let after = tokens.split("type_name : \"").nth(1).expect("a type");
        after.split('"').next().map(str::to_owned).expect("an end")
    };
    for ty in ["BTreeMap<String, Vec<u8>>", "(u8, (u16, u8))", "[u8; 4]", "std::path::PathBuf", "&'static str"] {
        assert_eq!(text(&format!("a: {ty}")), ty);
    }
}

#[test]
fn functions_look_inputs_up_with_the_keys_of_their_struct() {
    let (of_root, of_pool) =
        ("<Argsas::kitbag::ConfigNamespaces>::keys()", "<Poolas::kitbag::Namespace>::keys::<Pool>(0)");
    let attributes = [
        ("derived(pool.total: usize = f(pool.queue))", "derived(total: usize = f(queue))"),
        ("validate(f(pool.queue))", "validate(f(queue))"),
        (
            "derived(#[cases(pool.queue = [N])] pool.total: usize = f(pool.queue))",
            "derived(#[cases(queue = [N])] total: usize = f(queue))",
        ),
    ];
    for (root, namespace) in attributes {
        let written = of_two(true, root);
        assert!(written.contains(of_root) && !written.contains("kitbag::Namespace>::keys"), "{root}");
        let written = of_two(false, namespace);
        assert!(written.contains(of_pool) && !written.contains("ConfigNamespaces"), "{namespace}");
    }
    let cases = of_two(true, "derived(#[cases(pool.queue = [-1, N])] pool.total: usize = f(pool.queue))");
    assert!(
        cases.contains("(\"pool.queue\",&[::kitbag::__private::Case::Text(\"-1\"),::kitbag::__private::Case::Made(")
    );
    let former = [
        (
            of_pool,
            "#[config(ns = \"pool\")] struct Pool {
                /// Jobs.
                #[config(default = 1)] queue: usize,
                /// Former.
                #[config(deprecated(use = \"queue\", map = twice))] jobs: usize,
            }",
        ),
        (
            of_root,
            "struct Args {
                /// Jobs.
                #[config(ns = \"pool\", default = 1)] queue: usize,
                /// Former.
                #[config(ns = \"pool\", deprecated(use = \"pool.queue\", map = twice))] jobs: usize,
            }",
        ),
    ];
    for (keys, declaration) in former {
        let written = of_schema(declaration);
        for part in [keys, "target:\"pool.queue\"", "twice(<usizeas::core::clone::Clone>::clone("] {
            assert!(written.contains(part), "no {part} in {written}");
        }
    }
}

#[test]
fn a_derived_value_has_its_own_words_or_says_its_function() {
    assert!(of_two(true, "derived(/** All. */ pool.total: usize = f(pool.queue))").contains("doc:\"All.\""));
    assert!(
        of_two(true, "derived(pool.total: usize = m::f(pool.queue))").contains("doc:\"Derived:`m::f(pool.queue)`.\"")
    );
    // One that follows a change is behind a guard; one that is fixed at launch is not.
    let read = |policy: &str| of_two(true, &format!("derived({policy} pool.total: usize = f(pool.queue))"));
    assert!(read("live").contains("erase_copy::<usize>(self.total().into_ref())"));
    assert!(read("at_launch").contains("erase_copy::<usize>(&self.total)"));
}

#[test]
fn only_a_schema_with_derived_values_has_a_test_of_them() {
    let has_test = |written: String| written.contains("fnderived_values_of_args_equal_their_functions");
    assert!(!has_test(of_two(true, "")));
    assert!(has_test(of_two(true, "derived(pool.total: usize = f(pool.queue))")));
    assert!(has_test(of_schema("struct Args { #[config(nested)] net: Net }")), "it may have some");
}

#[test]
fn after_a_fault_nothing_is_called_and_what_is_read_is_there() {
    let faulty = of_schema(
        "#[config(derived(pool.total: usize = total(pool.queue)), validate(fits(pool.queue), fits(pool.quue)))]
         struct Args {
            /// Jobs.
            #[config(ns = \"pool\", default = 1)] queue: usize,
            /// Former.
            #[config(ns = \"pool\", deprecated(use = \"pool.queue\", map = twice))] jobs: usize,
            #[config(nested)] net: Net,
        }",
    );
    for part in ["total(__", "fits(__", "twice(", "misplaced", "whole_schema", "fnderived_values"] {
        assert!(!faulty.contains(part), "{part} in {faulty}");
    }
    for part in ["fnqueue(&self)", "fntotal(&self)", "fnnet(&self)"] {
        assert!(faulty.contains(part), "no {part} in {faulty}");
    }
    // A setting stays if a part of what is said of it is faulty, and the sound parts say what they say.
    for attributes in ["#[config(ns = \"pool\", defalt = 1, hot)]", "#[config = 3] #[config(ns = \"pool\", hot)]"] {
        let written = of_schema(&format!("struct Args {{ /// Jobs.\n {attributes} queue: usize }}"));
        assert!(written.contains("fnqueue(&self)->::kitbag::Hot<'_,usize>"), "{attributes}: {written}");
    }
    let written = of_schema("#[config(ns = \"pool\")] struct Pool { /// Jobs.\n #[config(defalt = 1)] queue: usize }");
    assert!(written.contains("fnqueue(&self)"), "{written}");
    // A namespace that is no path is one all the same.
    for (ns, bag) in [("Http", "structHttpBag"), ("1", "structUnnamedBag")] {
        let written = of_schema(&format!("struct Args {{ /// Port.\n #[config(ns = \"{ns}\")] port: u16 }}"));
        assert!(written.contains(bag), "{ns}: {written}");
    }
    // Of two namespaces of one name one is left.
    let twice =
        of_schema("struct Args { #[config(nested)] pool: Pool, /// Jobs.\n #[config(ns = \"pool\")] queue: usize }");
    assert_eq!(twice.matches("fnpool(&self)").count(), 2, "of the pin and of its recording twin: {twice}");
    // Types of one name cannot stand side by side: none is emitted.
    let clash = of_schema(
        "struct Args {
            /// One.
            #[config(ns = \"a.b\")] size: usize,
            /// Other.
            #[config(ns = \"a_b\")] width: usize,
        }",
    );
    assert!(!clash.contains("struct"), "{clash}");
}

#[test]
fn an_accessor_of_a_namespace_has_the_doc_comment_of_its_field() {
    let accessor = |doc: &str| of_schema(&format!("struct Args {{ {doc} #[config(nested)] net: Net }}"));
    assert!(accessor("/// Wires.\n").contains("#[doc=\"Wires.\"]"));
    assert!(accessor("").contains("#[doc=\"Namespace`net`.\"]"));
}

#[test]
fn a_variant_with_a_number_of_its_own_is_found_by_its_place() {
    let of_choice = |declaration: &str| written(&config_choice(&syn::parse_str(declaration).expect("an enum")));
    assert!(of_choice("enum Mode { A = 3, B = 1 }").contains("matchself{Self::A=>0usize,Self::B=>1usize,}"));
    assert!(of_choice("enum Mode { A, B }").contains("selfasusize"));
}
