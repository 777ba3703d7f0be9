//! Files that are refused, and what is said of them.

use crate::service::{Folder, faults, loader};

#[test]
fn files_that_cannot_be_read() {
    let folder = Folder::of(&[
        ("a.ini", "x"),
        ("noext", "x"),
        ("empty.toml", ""),
        ("blank.yaml", " \n\n"),
        ("comment.yaml", "# nothing\n"),
        ("comment.toml", "# nothing\n"),
        ("nothing.json", "{}"),
        ("folder.toml/x", ""),
    ]);
    folder.write("latin.toml", b"[http]\ngreeting = \"gr\xfc\xdfe\"\n");
    folder.write("utf16.json", &[0xff, 0xfe, b'{', 0, b'}', 0]);
    let format = "the format of a file is told by its name, which ends in `.toml`, `.yaml`, `.yml` or `.json`";
    let empty = "the file is empty, as if half written; one that is to set nothing holds a comment or `{}`";
    for (name, problem) in [
        ("a.ini", format),
        ("noext", format),
        ("none.toml", "cannot read: no such file"),
        ("folder.toml", "this is a folder, not a file"),
        ("empty.toml", empty),
        ("blank.yaml", empty),
        ("latin.toml", "the file is not UTF-8 (line 2, column 15)"),
        ("utf16.json", "the file is not UTF-8 (line 1, column 1)"),
    ] {
        // Nothing else is wrong: what the file may set is not reported as missing.
        assert_eq!(folder.faults(name), [format!("{name}: {problem}")]);
    }
    for name in ["comment.yaml", "comment.toml", "nothing.json"] {
        assert_eq!(loader().file(folder.path(name)).load().unwrap().pin().pool().queue(), 32);
    }
    let large = std::fs::File::create(folder.path("large.json")).unwrap();
    large.set_len((16 << 20) + 1).unwrap();
    assert_eq!(folder.faults("large.json"), ["large.json: the file is larger than 16 MiB"]);
    // Of the largest size it is read.
    folder.write("largest.json", format!("{{}}{}", " ".repeat((16 << 20) - 2)).as_bytes());
    loader().file(folder.path("largest.json")).load().unwrap();
}

#[cfg(unix)]
#[test]
fn a_device_is_no_file() {
    let folder = Folder::of(&[]);
    std::os::unix::fs::symlink("/dev/zero", folder.path("zero.toml")).unwrap();
    assert_eq!(folder.faults("zero.toml"), ["zero.toml: this is not a regular file"]);
}

#[test]
fn syntax_errors_have_places() {
    for (name, text, wanted) in [
        ("a.toml", "[pool\nqueue = 1", "a.toml:1:6: unclosed table, expected `]`"),
        ("a.toml", "[pool]\nqueue =\n", "a.toml:2:8: string values must be quoted, expected literal string"),
        ("a.toml", "[http]\ngreeting = \"x\n", "a.toml:2:14: invalid basic string, expected `\"`"),
        ("a.yaml", "pool:\n\tqueue: 1", "a.yaml:2:2: tabs disallowed within this context (block indentation)"),
        ("a.yaml", "pool: {queue: 1", "a.yaml:2:1: while parsing a flow mapping, did not find expected ',' or '}'"),
        ("a.yaml", "http:\n  greeting: a: b", "a.yaml:2:14: mapping values are not allowed in this context"),
        ("a.yaml", "http: {greeting: *x}", "a.yaml:1:18: while parsing node, found unknown anchor"),
        ("a.yaml", "pool: {}\n---\nhttp: {}", "a.yaml:2:1: a second document begins; a configuration file holds one"),
        ("a.yaml", "? [a, b]\n: 1", "a.yaml:1:3: a key is a text, not a list, a table or an alias"),
        (
            "a.yaml",
            "pool: &p {queue: 1}\n<<: *p",
            "a.yaml:2:1: `<<` (merge) is not part of YAML 1.2; write the keys, or use `include`",
        ),
        (
            "a.yaml",
            "pool: !!int {}",
            "a.yaml:1:7: a tag (`!…`) means nothing here, except `!!str`; text that begins with `!` is written in quotes",
        ),
        (
            "a.yaml",
            "http: {greeting: !env X}",
            "a.yaml:1:18: a tag (`!…`) means nothing here, except `!!str`; text that begins with `!` is written in quotes",
        ),
        ("a.yaml", "http: &h {hosts: [*h]}", "a.yaml:1:19: an alias stands inside the value that it repeats"),
        ("a.yaml", "- 1\n- 2", "a.yaml:1:1: a file holds a table of settings, found a list"),
        ("a.yaml", "hello", "a.yaml:1:1: a file holds a table of settings, found text"),
        ("a.json", "", "a.json:1:1: expected a value, found the end of the file"),
        ("a.json", "[]", "a.json:1:1: a file holds a table of settings, found a list"),
        (
            "a.json",
            "{\"pool\": {\"queue\": 1,}}",
            "a.json:1:22: expected a key in double quotes, found `}`; JSON has no comma after the last entry",
        ),
        (
            "a.json",
            "{\"http\": {\"ports\": [1,]}}",
            "a.json:1:23: expected a value, found `]`; JSON has no comma after the last entry",
        ),
        (
            "a.json",
            "{\"http\": {\"ports\": [1 2]}}",
            "a.json:1:23: expected a comma or the end of the list or table, found `2`",
        ),
        ("a.json", "{\"pool\": {\"queue\" 1}}", "a.json:1:19: expected a colon, found `1`"),
        (
            "a.json",
            "{\"pool\": {\"queue\": 012}}",
            "a.json:1:21: expected a comma or the end of the list or table, found `1`",
        ),
        ("a.json", "{\"pool\": {\"share\": 1.}}", "a.json:1:22: expected a digit"),
        (
            "a.json",
            "{\"pool\": {\"durable\": yes}}",
            "a.json:1:22: a bare word is `true`, `false` or `null`; text is quoted",
        ),
        ("a.json", "{\"http\": {\"greeting\": \"x}}", "a.json:1:23: unterminated string"),
        ("a.json", "{\"http\": {\"greeting\": \"x\n\"}}", "a.json:1:25: invalid string control character"),
        ("a.json", "{} // comment", "a.json:1:4: expected the end of the file, found `/`; JSON has no comments"),
        ("a.json", "{} {}", "a.json:1:4: expected the end of the file, found `{`"),
        (
            "a.json",
            "{\"pool\": {\"queue\": 1",
            "a.json:1:21: expected a comma or the end of the list or table, found the end of the file",
        ),
    ] {
        assert_eq!(faults(name, text), [wanted], "{text:?}");
    }
}

#[test]
fn quotes_too_many_or_too_few_are_said() {
    for (name, text, advice) in [
        ("a.toml", "http.greeting = 5", "found the integer `5`; put it in quotes"),
        ("a.yaml", "http: {greeting: 1.10}", "found the float `1.1`; put it in quotes"),
        ("a.json", "{\"http\": {\"greeting\": true}}", "found the boolean `true`; put it in quotes"),
        ("a.toml", "pool.queue = '5'", "found the text \"5\"; write it without quotes"),
        ("a.json", "{\"pool\": {\"durable\": \"true\"}}", "found the text \"true\"; write it without quotes"),
        ("a.yaml", "pool: {share: '0.5'}", "found the text \"0.5\"; write it without quotes"),
        // Where that would not help it is not said.
        ("a.yaml", "pool: {durable: yes}", "found the text \"yes\""),
        ("a.toml", "pool.queue = '-5'", "found the text \"-5\""),
        ("a.toml", "http.client.patience = 5", "found the integer `5`"),
        // Case is no reason to find nothing.
        ("a.toml", "[POOL]\nqueue = 5", "`POOL`; did you mean `pool`?"),
        ("a.json", "{'pool': {}}", "found `'`; JSON has double quotes only"),
    ] {
        let found = faults(name, text);
        assert!(found.len() == 1 && found[0].ends_with(advice), "{text:?}: {found:?}");
    }
}

#[test]
fn a_syntax_error_does_not_hide_the_rest() {
    for (name, text, place) in [
        ("a.toml", "[pool]\nqueue = 'x'\nseed = = 3\noffset = 'y'", "a.toml:3:"),
        ("a.yaml", "pool:\n  queue: x\n  durable: no\n  seed: [", "a.yaml:"),
        ("a.json", "{\"pool\": {\"queue\": \"x\",\n\"offset\": \"y\",\n \"seed\": }}", "a.json:3:10: expected a value"),
    ] {
        let found = faults(name, text);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().any(|line| line.starts_with(place)), "{found:?}");
        let wrong = found.iter().filter(|line| line.contains(": pool.queue: ") || line.contains(": pool.")).count();
        assert_eq!(wrong, 2, "{found:?}");
    }
    // What is cut off is not reported as wrong or missing.
    for (name, text) in [
        ("a.toml", "[http]\nports = [1, \"x"),
        ("a.yaml", "http:\n  ports: [1, \"x"),
        ("a.json", "{\"http\": {\"ports\": [1, \"x"),
        ("a.json", "{\"http\": {\"client\": {\"weights\": {\"a\": 1,"),
        ("a.yaml", "http: {client: {weights: {a: 1, b"),
    ] {
        let found = faults(name, text);
        assert!(found.iter().all(|line| !line.contains("http")), "{found:?}");
    }
}

#[test]
fn what_was_meant_for_a_secret_is_not_shown() {
    let digits = "7".repeat(50);
    for text in [
        format!("door.pin = {digits}"),
        "door.pin = 77777777777".to_owned(),
        "door.pin = '777'".to_owned(),
        "door = 777".to_owned(),
        format!("[profile.p]\ndoor.pin = {digits}"),
    ] {
        let found = faults("a.toml", &text);
        assert!(found.len() == 1 && !found[0].contains("777"), "{found:?}");
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = |name: &str, text: String| {
        let found = faults(name, &text);
        assert!(found.len() <= 100, "{} errors", found.len());
        let bounded = ["nested more than 64 deep", "recursion"];
        assert!(found.iter().any(|line| bounded.iter().any(|words| line.contains(words))), "{name}: {found:?}");
    };
    for depth in [70, 1000, 100_000] {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        deep("a.toml", format!("[http]\nhosts = {open}{close}"));
        deep("a.toml", format!("[{}]", vec!["a"; depth + 20].join(".")));
        deep("a.toml", format!("{} = 1", vec!["a"; depth + 20].join(".")));
        deep("a.json", format!("{{\"http\": {{\"hosts\": {open}{close}}}}}"));
        deep("a.json", "{\"a\":".repeat(depth));
        deep("a.yaml", format!("http: {{hosts: {open}{close}}}"));
        deep("a.yaml", format!("http:\n  hosts:\n  {}", "- ".repeat(depth)));
    }
    // The table at the top and that of the namespace count too.
    for (lists, is_refused) in [(62, false), (63, true)] {
        let (open, close) = ("[".repeat(lists), "]".repeat(lists));
        let texts = [
            ("a.toml", format!("[http]\nhosts = {open}{close}")),
            ("a.json", format!("{{\"http\": {{\"hosts\": {open}{close}}}}}")),
            ("a.yaml", format!("http: {{hosts: {open}{close}}}")),
        ];
        for (name, text) in texts {
            let found = faults(name, &text);
            let says = found.iter().any(|line| line.contains("nested more than 64 deep"));
            assert_eq!(says, is_refused, "{name}: {lists} lists: {found:?}");
        }
    }
    // An alias brings the depth of what it repeats along.
    let chain: Vec<_> = (1..200).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
    deep("a.yaml", format!("a0: &a0 []\n{}", chain.concat()));
}

#[test]
fn a_file_full_of_faults_is_reported_in_part() {
    let found = faults("a.toml", &"= = =\n".repeat(10_000));
    assert!((1..=25).contains(&found.len()), "{}", found.len());
}
