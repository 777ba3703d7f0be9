//! What a declaration may not say, and what is said of it: every fault the derives tell of themselves, one by one.
//! `tests/config/tests/ui` shows where the message stands, and what the compiler says besides.

use proc_macro2::{TokenStream, TokenTree};
use syn::DeriveInput;

use crate::{choice, expand, role};

/// The texts of all `compile_error!`s, in order.
fn messages(tokens: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_message = false;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if ident == "compile_error" => is_message = true,
            TokenTree::Group(group) if is_message => {
                found.push(syn::parse2::<syn::LitStr>(group.stream()).expect("a message is text").value());
                is_message = false;
            }
            TokenTree::Group(group) => found.extend(messages(group.stream())),
            _ => {}
        }
    }
    found
}

fn said(derive: fn(&DeriveInput) -> TokenStream, declaration: &str) -> Vec<String> {
    messages(derive(&syn::parse_str(declaration).unwrap_or_else(|error| panic!("{error}: {declaration}"))))
}

fn of_schema(declaration: &str) -> Vec<String> {
    said(expand::config_namespaces, declaration)
}

/// A root with `attributes`, and the settings `pool.workers`, a launch one, and `pool.queue`, a hot one.
fn of_root(attributes: &str) -> Vec<String> {
    of_schema(&format!(
        "#[config({attributes})] struct Args {{
            /// Threads.
            #[config(ns = \"pool\", default = 1)] workers: usize,
            /// Jobs.
            #[config(ns = \"pool\", default = 1, hot)] queue: usize,
        }}"
    ))
}

/// The same as a namespace struct `pool`.
fn of_namespace(attributes: &str) -> Vec<String> {
    of_schema(&format!(
        "#[config(ns = \"pool\", {attributes})] struct Pool {{
            /// Threads.
            #[config(default = 1)] workers: usize,
            /// Jobs.
            #[config(default = 1, hot)] queue: usize,
        }}"
    ))
}

/// A root with a setting `pool.workers` and this field.
fn of_field(attributes: &str, field: &str) -> Vec<String> {
    of_schema(&format!(
        "struct Args {{
            /// Threads.
            #[config(ns = \"pool\", default = 1)] workers: usize,
            /// What is tried.
            #[config({attributes})] {field},
        }}"
    ))
}

#[test]
fn a_struct_attribute_says_how_it_is_written() {
    const DERIVED: &str = "write `derived(namespace.name: Type = function(namespace.input, ...))`";
    const RETIRED: &str = "write `retired(namespace.name = \"what to do instead\")`";
    const VALIDATE: &str = "write `validate(function(namespace.input, ...))`";
    const CASES: &str = "write `#[cases(namespace.input = [value, ...], ...)]`";
    let table = [
        ("derived = 3", DERIVED.to_owned()),
        ("derived(pool.total usize)", format!("expected `:`; {DERIVED}")),
        (
            "derived(now pool.total: usize = f(pool.queue))",
            format!("a policy is `live`, `at_publish` or `at_launch`; {DERIVED}"),
        ),
        ("derived(#[cases(pool.queue)] pool.total: usize = f(pool.queue))", CASES.to_owned()),
        ("derived(#[cases(pool.queue = 3)] pool.total: usize = f(pool.queue))", CASES.to_owned()),
        ("derived(#[cases(pool.queue = [])] pool.total: usize = f(pool.queue))", CASES.to_owned()),
        ("derived(#[twin(f)] pool.total: usize = f(pool.queue))", "write `#[twin = module::function]`".to_owned()),
        (
            "derived(#[twin = 3] pool.total: usize = f(pool.queue))",
            "a twin is named by its path: `#[twin = module::function]`".to_owned(),
        ),
        (
            "derived(#[other] pool.total: usize = f(pool.queue))",
            "known here: a doc comment, `#[cases(namespace.input = [value, ...])]`, `#[twin = function]`".to_owned(),
        ),
        ("derived(# pool.total: usize = f(pool.queue))", format!("expected square brackets; {DERIVED}")),
        ("derived(3)", format!("expected identifier; {DERIVED}")),
        ("derived(3 pool.total: usize = f(pool.queue))", format!("expected identifier; {DERIVED}")),
        ("derived(pool.total: usize f(pool.queue))", format!("expected `=`; {DERIVED}")),
        ("derived(pool.total: usize =)", format!("unexpected end of input, expected an expression; {DERIVED}")),
        ("derived(#[cases(=)] pool.total: usize = f(pool.queue))", format!("expected an expression; {CASES}")),
        ("validate = 3", VALIDATE.to_owned()),
        ("validate(=)", "expected an expression".to_owned()),
        ("retired(3 = \"x\")", format!("expected identifier; {RETIRED}")),
        ("retired(pool.old = 3)", format!("expected string literal; {RETIRED}")),
        ("retired", RETIRED.to_owned()),
        ("retired(pool.old)", format!("expected `=`; {RETIRED}")),
        (
            "env = \"app\"",
            "an environment prefix is upper case, without the last underscore: `env = \"THUMB\"`".to_owned(),
        ),
    ];
    for (attributes, message) in table {
        assert_eq!(of_root(attributes), [message], "{attributes}");
    }
    let said = of_root("derived(pool.total: 3 = f(pool.queue))");
    assert!(said.len() == 1 && said[0].starts_with("expected one of: `for`"), "{said:?}");
    for env in ["", "APP_", "A-B"] {
        assert_eq!(of_root(&format!("env = \"{env}\"")).len(), 1, "{env}");
    }
    assert_eq!(of_root("env = \"APP_2\", retired(pool.old = \"use pool.queue\")"), [""; 0]);
}

#[test]
fn a_field_attribute_says_how_it_is_written() {
    const ALIAS: &str = "write the former path: `alias = \"namespace.name\"`, or several: `alias(\"a.b\", \"a.c\")`";
    const DEPRECATED: &str = "write `deprecated(since = \"0.3\", use = \"namespace.name\")`";
    const FLAG: &str = "a flag is written without dashes before it, in kebab case: `flag = \"max-size\"`";
    const ENV: &str = "an environment variable is upper case: `env = \"HTTP_PROXY\"`";
    let table = [
        ("alias = 3", ALIAS.to_owned()),
        ("alias", ALIAS.to_owned()),
        ("alias(old)", ALIAS.to_owned()),
        ("alias = \"old\"", "an alias is a full former path: `alias = \"namespace.name\"`".to_owned()),
        ("deprecated", DEPRECATED.to_owned()),
        ("deprecated(since)", format!("expected `=`; {DEPRECATED}")),
        ("deprecated(3)", format!("expected ident; {DEPRECATED}")),
        ("deprecated(since = 3)", format!("expected string literal; {DEPRECATED}")),
        ("deprecated(use = 3)", format!("expected string literal; {DEPRECATED}")),
        ("deprecated(remove_in = 3)", format!("expected string literal; {DEPRECATED}")),
        ("deprecated(use = \"pool.workers\", map = 3)", format!("expected identifier; {DEPRECATED}")),
        ("deprecated(since = \"0.3\" remove_in = \"0.5\")", format!("expected `,`; {DEPRECATED}")),
        ("deprecated(because = \"0.3\")", format!("known here: `since`, `use`, `remove_in`, `map`; {DEPRECATED}")),
        (
            "deprecated(since = \"0.3\", map = twice)",
            "`map` converts to the setting named by `use`, which is missing".to_owned(),
        ),
        (
            "deprecated(since = \"0.3\", use = \"pool workers\")",
            "write the path of a setting: `use = \"namespace.name\"`".to_owned(),
        ),
        ("flag = \"\"", FLAG.to_owned()),
        ("flag = \"-q\"", FLAG.to_owned()),
        ("flag = \"max_size\"", FLAG.to_owned()),
        ("env = \"\"", ENV.to_owned()),
        ("env = \"proxy\"", ENV.to_owned()),
        ("hot, load_time", "a setting is `hot` or `load_time`, not both".to_owned()),
    ];
    for (attributes, message) in table {
        assert_eq!(of_field(&format!("ns = \"pool\", {attributes}"), "queue: usize"), [message], "{attributes}");
    }
    let sound =
        ["flag = \"max-size-2\"", "env = \"PROXY_2\"", "alias(\"pool.a\", \"b.c\")", "deprecated(since = \"0.3\")"];
    for attributes in sound {
        assert_eq!(of_field(&format!("ns = \"pool\", {attributes}"), "queue: usize"), [""; 0], "{attributes}");
    }
    for path in ["", "Pool", "a..b", "2a", "a-b"] {
        let message = format!("`{path}` is not a namespace path; write lower-case names joined by dots: `exec.moe`");
        assert_eq!(of_field(&format!("ns = \"{path}\""), "queue: usize"), [message]);
    }
    assert_eq!(of_field("ns = \"a2.b_c\"", "queue: usize"), [""; 0]);
}

#[test]
fn one_slip_is_one_message() {
    assert_eq!(of_namespace("enw = \"APP\""), ["Unknown field: `enw`. Did you mean `env`?"]);
    assert_eq!(of_namespace("ns = \"net\"")[0], "Duplicate field `ns`");
    assert_eq!(
        of_field("ns = \"pool\", defalt = 1", "queue: usize"),
        ["Unknown field: `defalt`. Did you mean `default`?"]
    );
    // Perhaps the word that is wrong is the one that says the namespace.
    assert_eq!(of_field("nz = \"pool\"", "queue: usize").len(), 1);
    let undocumented = "struct Args { #[config(ns = \"pool\", default = 1)] queue: usize }";
    assert_eq!(of_schema(undocumented), ["setting `queue` has no doc comment; say what it does: `/// ...`"]);
    let homeless = "struct Args { /// Jobs.\n #[config(default = 1)] queue: usize }";
    assert!(of_schema(homeless)[0].starts_with("setting `queue` has no namespace; write `#[config(ns = "));
}

#[test]
fn what_is_a_settings_own_is_on_no_namespace_and_no_former_name() {
    let given = [
        ("default", "default = 1"),
        ("auto", "auto = Facts::cpus"),
        ("hot", "hot"),
        ("load_time", "load_time"),
        ("alias", "alias = \"a.b\""),
        ("env", "env = \"A\""),
        ("bootstrap", "bootstrap"),
    ];
    for (name, written) in given {
        assert_eq!(
            of_field(&format!("ns = \"pool\", deprecated(use = \"pool.workers\"), {written}"), "jobs: usize"),
            [format!("`{name}` belongs on `pool.workers`, which has the value; this is only its former name")]
        );
    }
    let further = [
        ("secret", "secret"),
        ("deprecated", "deprecated(since = \"1\")"),
        ("validate", "validate = check"),
        ("cache_key", "cache_key = false"),
        ("resolution_only", "resolution_only"),
        ("ns", "ns = \"a\""),
        ("range", "range = 1..2"),
        ("flag", "flag = \"a\""),
    ];
    for (name, written) in given.into_iter().chain(further) {
        assert_eq!(
            of_field(&format!("nested, {written}"), "net: Net"),
            [format!("`{name}` belongs on a setting, not on a nested namespace")]
        );
    }
}

#[test]
fn a_namespace_struct_speaks_of_itself_alone() {
    assert_eq!(
        of_namespace("env = \"APP\""),
        ["the environment prefix belongs on the root struct, not on a namespace"]
    );
    assert_eq!(
        of_namespace("derived(pool.total: usize = f(queue))"),
        ["a derived value of namespace `pool` is named alone: `total`"]
    );
    assert_eq!(of_namespace("derived(total: usize = f(queue))"), [""; 0]);
    assert_eq!(
        of_schema("#[config(ns = \"pool\")] struct Pool { /// Jobs.\n #[config(ns = \"pool\")] queue: usize }"),
        ["all fields of this struct are in namespace `pool`; remove `ns`"]
    );
    assert_eq!(
        of_schema(
            "#[config(derived(net.total: usize = f(net.port)))]
             struct Args { #[config(nested)] net: crate::net::Net }"
        ),
        ["namespace `net` is declared by `Net`; declare the value there"]
    );
    assert_eq!(
        of_schema(
            "#[config(derived(pool.total: usize = f(net.port)))]
             struct Args { #[config(nested)] net: crate::net::Net }"
        ),
        [""; 0]
    );
    assert_eq!(
        of_namespace("retired(queue = \"gone\")"),
        ["`pool.queue` is retired and a setting; a former name is not used again"]
    );
}

#[test]
fn a_rule_is_a_call_on_settings() {
    const CALL: &str = "write a call of a function on settings: `function(namespace.input, ...)`";
    const NAMED: &str = "the function is named by its path: `function` or `module::function`";
    const INPUT: &str = "an input is the path of a setting, such as `pool.workers`";
    let table = [
        ("derived(pool.total: usize = 3)", CALL),
        ("derived(pool.total: usize = (f)(pool.queue))", NAMED),
        ("derived(pool.total: usize = f(3))", INPUT),
        ("derived(pool.total: usize = f(pool.0))", INPUT),
        ("derived(pool.total: usize = f(a::b.queue))", INPUT),
        ("derived(total: usize = f(pool.queue))", "a derived value is in a namespace: write `namespace.total`"),
        (
            "derived(pool.total: usize = f(facts))",
            "a derived value is computed from settings, not from facts; make a setting `auto` instead",
        ),
        (
            "derived(pool.total: usize = f(pool.queue), #[cases(pool.total = [1])] pool.more: usize = f(pool.queue))",
            "`pool.total` is derived, so it has no cases; name what it is computed from",
        ),
        (
            "derived(#[cases(facts = [1])] pool.total: usize = f(pool.queue))",
            "cases are of a setting, such as `pool.workers = [1, 4]`",
        ),
        ("validate(f(pool.queue), 3)", CALL),
        // What is no input hides no fault of another one.
        ("validate(f(pool.quue))", "no setting is called `pool.quue`; did you mean `pool.queue`?"),
    ];
    for (attributes, message) in table {
        assert_eq!(of_root(attributes), [message], "{attributes}");
    }
    assert_eq!(
        of_root("validate(f(3, pool.quue))"),
        [INPUT.to_owned(), "no setting is called `pool.quue`; did you mean `pool.queue`?".to_owned()]
    );
    assert_eq!(of_root("derived(#[cases(pool.queue = [1])] pool.total: usize = f(pool.queue))"), [""; 0]);
    assert_eq!(
        of_field("ns = \"pool\", default = 1, auto = f(pool.workers)", "queue: usize"),
        ["a setting has a `default` or is `auto`, not both; `auto` computes the default by a rule"]
    );
    assert_eq!(
        of_field("ns = \"pool\", bootstrap, auto = f(facts, pool.workers)", "queue: usize"),
        ["this setting is known before `pool.workers` is; its rule may read `facts` alone"]
    );
    assert_eq!(of_field("ns = \"pool\", bootstrap, auto = f(facts)", "queue: usize"), [""; 0]);
    // What is below a nested namespace is known to the compiler alone, but one of a like name is not below it.
    let nested = |rule: &str| {
        of_schema(&format!(
            "#[config(validate({rule}))] struct Args {{
                /// Jobs.
                #[config(ns = \"pool\", default = 1)] queue: usize,
                #[config(nested)] net: Net,
            }}"
        ))
    };
    assert_eq!(nested("f(net.deep.port)"), [""; 0]);
    assert_eq!(
        of_schema(
            "struct Args {
                /// What the compiler looks up.
                #[config(ns = \"pool\", auto = f(net.port))] queue: usize,
                #[config(nested)] net: Net,
            }"
        ),
        [""; 0]
    );
    assert_eq!(nested("f(network.port)"), ["no setting is called `network.port`"]);
    assert_eq!(nested("f(queue)"), ["no setting is called `queue`; did you mean `pool.queue`?"]);
    assert_eq!(
        nested("f(port)"),
        ["no setting is called `port`; a setting is named with its namespace: `namespace.port`"]
    );
}

#[test]
fn a_value_fixed_at_launch_follows_no_hot_one() {
    let faults = |policy: &str, class: &str| {
        of_schema(&format!(
            "#[config(derived({policy} pool.twice: usize = twice(pool.queue)))] struct Args {{
                /// Jobs.
                #[config(ns = \"pool\", default = 1, hot)] queue: usize,
                /// Room.
                #[config(ns = \"pool\", auto = room(pool.twice), {class})] room: usize,
            }}"
        ))
    };
    let fault = "`pool.room` is fixed at launch, but its rule reads `pool.twice`, which follows `pool.queue`, a `hot` one; \
                 declare `pool.room` as derived, or mark it `hot`";
    for policy in ["live", "at_publish"] {
        assert_eq!((faults(policy, ""), faults(policy, "load_time")), (vec![fault.to_owned()], vec![fault.to_owned()]));
        assert_eq!(faults(policy, "hot"), [""; 0]);
    }
    assert_eq!(faults("at_launch", ""), [""; 0], "what is fixed at launch follows nothing");
    assert_eq!(
        of_schema(
            "struct Args {
                /// Jobs.
                #[config(ns = \"pool\", default = 1, hot)] queue: usize,
                /// Room.
                #[config(ns = \"pool\", auto = room(pool.queue))] room: usize,
            }"
        ),
        ["`pool.room` is fixed at launch, but its rule reads `pool.queue`, which is `hot`; \
         declare `pool.room` as derived, or mark it `hot`"]
    );
    // Two that go round are a fault of their own, and no end of following.
    let round = of_schema(
        "#[config(derived(pool.a: usize = f(pool.b), pool.b: usize = f(pool.a)))] struct Args {
            /// Room.
            #[config(ns = \"pool\", auto = room(pool.a))] room: usize,
        }",
    );
    assert_eq!(round.len(), 2, "{round:?}");
}

#[test]
fn a_value_depends_on_others_alone() {
    let faults = of_schema(
        "struct Args {
            /// Reads the circle, and is no part of it.
            #[config(ns = \"pool\", auto = f(pool.b))] a: usize,
            /// A circle.
            #[config(ns = \"pool\", auto = f(pool.d, pool.c))] b: usize,
            /// A circle.
            #[config(ns = \"pool\", auto = f(pool.b))] c: usize,
            /// A dead end.
            #[config(ns = \"pool\", default = 1)] d: usize,
            /// Itself.
            #[config(ns = \"pool\", auto = f(pool.e))] e: usize,
        }",
    );
    assert_eq!(
        faults,
        [
            "`pool.b` depends on itself: pool.b -> pool.c -> pool.b",
            "`pool.c` depends on itself: pool.c -> pool.b -> pool.c",
            "`pool.e` depends on itself: pool.e -> pool.e",
        ]
    );
}

/// A root with these two fields.
fn of_two(attributes: &str, one: &str, other: &str) -> Vec<String> {
    of_schema(&format!(
        "#[config(env = \"APP\", {attributes})] struct Args {{
            /// One.
            {one},
            /// Other.
            {other},
        }}"
    ))
}

/// One of them.
const QUEUE: &str = "#[config(ns = \"pool\", default = 1)] queue: usize";

#[test]
fn a_name_stands_for_one_thing() {
    let table = [
        (
            "derived(pool.queue: usize = f(pool.size))",
            QUEUE,
            "#[config(ns = \"pool\", default = 1)] size: usize",
            "`pool.queue` is declared twice",
        ),
        ("", "#[config(nested)] pool: Pool", QUEUE, "`pool` is declared as a namespace twice"),
        (
            "",
            QUEUE,
            "#[config(ns = \"pool.queue\", default = 1)] size: usize",
            "`pool.queue` is a setting and a namespace; rename one",
        ),
        (
            "",
            "#[config(nested)] one: Net",
            "#[config(nested)] other: Net",
            "this struct is namespace `one` already, and a struct is one namespace; declare a struct of its own for \
             `other`, or make a second instance of all settings with `Context::child`",
        ),
        (
            "",
            "#[config(ns = \"a.b\", default = 1)] size: usize",
            "#[config(ns = \"a_b\", default = 1)] width: usize",
            "namespaces `a.b` and `a_b` would both have a type `ABBag`, since names of types have neither dots nor \
             underscores; rename one",
        ),
        (
            "",
            QUEUE,
            "#[config(ns = \"args\", default = 1)] size: usize",
            "a schema and its namespace cannot both be called `Args`; rename one",
        ),
        (
            "retired(pool.old = \"gone\")",
            QUEUE,
            "#[config(ns = \"pool\", alias = \"pool.old\")] name: String",
            "`pool.old` is a former name twice",
        ),
        (
            "",
            QUEUE,
            "#[config(ns = \"pool\", deprecated(use = \"pool.queue\"))] queue: usize",
            "`pool.queue` is deprecated and a setting; a former name is not used again",
        ),
    ];
    for (attributes, one, other, message) in table {
        assert_eq!(of_two(attributes, one, other), [message], "{one}, {other}");
    }
    assert_eq!(of_two("", "#[config(nested)] one: Net", "#[config(nested)] other: Wires"), [""; 0]);
    assert_eq!(
        of_schema("#[config(ns = \"pool\")] struct Pool { /// Jobs.\n #[config(default = 1)] queue: usize }"),
        [""; 0],
        "a namespace struct may be called like its namespace"
    );
}

#[test]
fn a_flag_and_a_variable_are_of_one_setting() {
    let table = [
        (
            "",
            QUEUE,
            "#[config(ns = \"net\", default = 1, flag = \"queue\")] size: usize",
            "`net.size` and `pool.queue` have the same flag `--queue`; give one `flag = \"...\"`",
        ),
        (
            "",
            QUEUE,
            "#[config(ns = \"pool\", default = 1, env = \"APP_POOL_QUEUE\")] size: usize",
            "`pool.size` and `pool.queue` have the same variable `APP_POOL_QUEUE`; give one `env = \"...\"`",
        ),
        (
            "",
            "#[config(ns = \"pool\", default = true, flag = \"cache\")] a: bool",
            "#[config(ns = \"pool\", default = true, flag = \"no-cache\")] b: bool",
            "`--no-cache`, the flag of `pool.b`, switches `pool.a` off; give one `flag = \"...\"`",
        ),
        (
            "",
            QUEUE,
            "#[config(ns = \"pool\")] version: String",
            "every program has a flag `--version`; give this one `flag = \"...\"`",
        ),
        (
            "",
            QUEUE,
            "#[config(ns = \"pool\")] help: String",
            "every program has a flag `--help`; give this one `flag = \"...\"`",
        ),
        (
            "",
            QUEUE,
            "#[config(ns = \"include\")] name: String",
            "`include` has a meaning of its own in files; give the namespace another name",
        ),
        (
            "",
            QUEUE,
            "#[config(ns = \"pool\", env = \"APP_PROFILE\")] name: String",
            "every program has a variable `APP_PROFILE`; give this setting another one",
        ),
    ];
    for (attributes, one, other, message) in table {
        assert_eq!(of_two(attributes, one, other), [message], "{one}, {other}");
    }
    // A flag that begins so and switches nothing off, and one of what is no switch.
    assert_eq!(of_two("", QUEUE, "#[config(ns = \"pool\", flag = \"no-queue\")] none: usize"), [""; 0]);
    assert_eq!(
        of_two(
            "",
            "#[config(ns = \"pool\", default = true)] cache: bool",
            "#[config(ns = \"pool\", default = true)] no_disk: bool"
        ),
        [""; 0]
    );
    // A derived value has neither flag nor variable.
    let size = "#[config(ns = \"pool\", env = \"APP_NET_QUEUE\")] size: usize";
    let derived = "derived(net.queue: usize = f(pool.queue), net.rest: usize = f(pool.queue))";
    assert_eq!(of_two(derived, QUEUE, size), [""; 0]);
    assert_eq!(
        of_two("derived(net.queue: usize = f(pool.queue))", QUEUE, "#[config(ns = \"pool\")] size: usize"),
        [""; 0]
    );
}

#[test]
fn a_schema_a_choice_and_a_role_are_of_one_kind() {
    assert_eq!(of_schema("struct Args(usize);"), ["a schema is a struct with named fields"]);
    assert_eq!(
        of_schema("enum Args { A }"),
        ["a schema is a struct; for an enum that is the type of a setting derive `ConfigChoice`"]
    );
    assert_eq!(of_schema("struct Args<T> { a: T }"), ["a schema cannot be generic: its settings are read from text"]);
    let of_choice = |declaration: &str| said(choice::config_choice, declaration);
    assert_eq!(of_choice("struct Mode;"), ["choices are the variants of an enum"]);
    assert_eq!(of_choice("enum Mode {}"), ["a choice needs at least one variant"]);
    assert_eq!(of_choice("enum Mode { A(u8) }"), ["a choice has no data: it is read from its name alone"]);
    assert_eq!(of_choice("enum Mode { A, #[config(name = \"a\")] B }"), ["two choices are spelt `a`"]);
    assert_eq!(of_choice("enum Mode { A, B }"), [""; 0]);
    let of_role = |declaration: &str| said(role::config_role, declaration);
    assert_eq!(of_role("#[config(reads(PoolBag))] struct Worker<T>(T);"), ["a role cannot be generic"]);
    assert_eq!(
        of_role("struct Worker;"),
        [
            "role `Worker` does not say what it reads; write `#[config(reads(PoolBag, ...))]` with the bags of its namespaces"
        ]
    );
    assert_eq!(of_role("#[config(reads(PoolBag))] struct Worker;"), [""; 0]);
}

#[test]
fn a_secret_stays_one() {
    let table = [
        (
            "secret",
            "token: String",
            Some("a secret setting has the type `kitbag::Secret<String>`, which no output prints"),
        ),
        ("secret", "token: Token", None),
        (
            "default = \"x\"",
            "token: Secret<String>",
            Some("a secret has no default: it would stand in the program's text and help"),
        ),
        (
            "default = \"x\", secret",
            "token: Token",
            Some("a secret has no default: it would stand in the program's text and help"),
        ),
        ("default = \"x\"", "token: Token", None),
    ];
    for (attributes, field, message) in table {
        assert_eq!(
            of_field(&format!("ns = \"pool\", {attributes}"), field),
            Vec::from_iter(message),
            "{attributes} {field}"
        );
    }
    let derived = |ty: &str| {
        of_schema(&format!(
            "#[config(derived(pool.header: {ty} = header(pool.token)))] struct Args {{
                /// Token.
                #[config(ns = \"pool\")] token: Secret<String>,
            }}"
        ))
    };
    assert_eq!(
        derived("String"),
        ["`pool.header` is computed from the secret `pool.token`; give it a type `kitbag::Secret<..>`"]
    );
    assert_eq!(derived("Secret<String>"), [""; 0]);
    assert_eq!(
        of_schema(
            "#[config(derived(pool.size: usize = size(pool.queue)))] struct Args {
                /// Token.
                #[config(ns = \"pool\")] token: Secret<String>,
                /// Jobs.
                #[config(ns = \"pool\", default = 1)] queue: usize,
            }"
        ),
        [""; 0],
        "what follows from another setting may be shown"
    );
}
