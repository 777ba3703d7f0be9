//! Damaged files are refused or read in full; they never panic.

use crate::formats::{ALL_JSON, ALL_TOML, ALL_YAML};
use crate::service::{Folder, faults, loader};

/// The same numbers for the same seed, everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A valid file, one setting on a line, with no default among the values.
fn fixture(format: &str) -> Vec<(&'static str, Option<(&'static str, &'static str)>)> {
    let set = |leaf, value| Some((leaf, value));
    match format {
        "toml" => vec![
            ("[pool]", None),
            ("queue = 1234", set("pool.queue", "1234")),
            ("durable = true", set("pool.durable", "true")),
            ("offset = -55", set("pool.offset", "-55")),
            ("", None),
            ("[http]", None),
            ("greeting = 'guten tag'", set("http.greeting", "\"guten tag\"")),
            ("ports = [80, 443] # two", set("http.ports", "[80, 443]")),
            ("[http.client]", None),
            ("body = '2MiB'", set("http.client.body", "\"2MiB\"")),
            ("weights = { left = 1, right = 2 }", set("http.client.weights", "{ left = 1, right = 2 }")),
            ("[profile.p.pool]", None),
            ("seed = 99", set("pool.seed", "99")),
            ("share = 0.75", set("pool.share", "0.75")),
        ],
        "yaml" => vec![
            ("pool:", None),
            ("  queue: 1234", set("pool.queue", "1234")),
            ("  durable: true", set("pool.durable", "true")),
            ("  offset: -55", set("pool.offset", "-55")),
            ("", None),
            ("http:", None),
            ("  greeting: guten tag", set("http.greeting", "\"guten tag\"")),
            ("  ports: [80, 443] # two", set("http.ports", "[80, 443]")),
            ("  client:", None),
            ("    body: 2MiB", set("http.client.body", "\"2MiB\"")),
            ("    weights: {left: 1, right: 2}", set("http.client.weights", "{ left = 1, right = 2 }")),
            ("profile:", None),
            ("  p:", None),
            ("    pool:", None),
            ("      seed: 99", set("pool.seed", "99")),
            ("      share: 0.75", set("pool.share", "0.75")),
        ],
        _ => vec![
            ("{\"pool\": {", None),
            ("\"queue\": 1234,", set("pool.queue", "1234")),
            ("\"durable\": true,", set("pool.durable", "true")),
            ("\"offset\": -55", set("pool.offset", "-55")),
            ("}, \"http\": {", None),
            ("\"greeting\": \"guten tag\",", set("http.greeting", "\"guten tag\"")),
            ("\"ports\": [80, 443],", set("http.ports", "[80, 443]")),
            ("\"client\": {", None),
            ("\"body\": \"2MiB\",", set("http.client.body", "\"2MiB\"")),
            ("\"weights\": {\"left\": 1, \"right\": 2}", set("http.client.weights", "{ left = 1, right = 2 }")),
            ("}}, \"profile\": {\"p\": {\"pool\": {", None),
            ("\"seed\": 99,", set("pool.seed", "99")),
            ("\"share\": 0.75", set("pool.share", "0.75")),
            ("}}}}", None),
        ],
    }
}

/// Loads damaged text; if it is accepted, all settings on the lines that are `whole` must have been read.
fn accepts_damaged(format: &str, text: &str, whole: impl Fn(usize) -> bool) -> bool {
    let Ok(cfg) = loader().text(format!("a.{format}"), text).profile("p").load() else { return false };
    for (line, (_, setting)) in fixture(format).iter().enumerate() {
        if let (Some((leaf, value)), true) = (setting, whole(line)) {
            assert_eq!(cfg.explain(leaf).unwrap().value(), *value, "{leaf} got lost in {text:?}");
        }
    }
    true
}

#[test]
fn a_truncated_file_is_refused_or_read_up_to_its_end() {
    for format in ["toml", "yaml", "json"] {
        let lines = fixture(format);
        let text = lines.iter().flat_map(|(line, _)| [line, "\n"]).collect::<String>();
        assert!(accepts_damaged(format, &text, |_| true));
        for end in 0..text.len() {
            let cut = &text[..end];
            let complete = cut.matches('\n').count();
            let accepted = accepts_damaged(format, cut, |line| line < complete);
            assert!(!accepted || format != "json" || end >= text.trim_end().len(), "{cut:?}");
        }
    }
}

const NASTY: [char; 40] = [
    '"', '\'', '[', ']', '{', '}', ':', ',', '=', '#', '-', '+', '.', '\n', '\r', '\t', ' ', '\\', '|', '>', '&', '*',
    '!', '%', '@', '`', '?', '~', '0', '9', 'e', 'x', '_', '/', '<', '\0', 'é', '\u{feff}', '\u{2028}', '\u{85}',
];

#[test]
fn mutated_files_are_refused_or_read_in_full() {
    let seed = 0x5eed_cafe;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for format in ["toml", "yaml", "json"] {
        for _ in 0..2500 {
            let mut lines: Vec<Vec<char>> = fixture(format).iter().map(|(line, _)| line.chars().collect()).collect();
            let mut touched = Vec::new();
            for _ in 0..=random.below(3) {
                let line = random.below(lines.len());
                let place = random.below(lines[line].len() + 1);
                let nasty = NASTY[random.below(NASTY.len())];
                match random.below(4) {
                    0 if place < lines[line].len() => lines[line][place] = nasty,
                    1 if place < lines[line].len() => drop(lines[line].remove(place)),
                    2 => lines[line].truncate(place),
                    _ => lines[line].insert(place, nasty),
                }
                touched.push(line);
            }
            let text: String = lines.iter().map(|line| line.iter().collect::<String>() + "\n").collect();
            let accepted = accepts_damaged(format, &text, |line| !touched.contains(&line));
            // Nor is anything accepted that another parser of the format refuses.
            let text = text.trim_start_matches('\u{feff}');
            match format {
                "toml" if accepted => assert!(text.parse::<toml::Table>().is_ok(), "{text:?}"),
                "json" if accepted => assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text:?}"),
                _ => {}
            }
        }
    }
}

#[test]
fn mutated_bytes_never_panic() {
    let seed = 0xb17e_5eed;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let folder = Folder::of(&[]);
    for (format, text) in [("toml", ALL_TOML), ("yaml", ALL_YAML), ("json", ALL_JSON)] {
        let name = format!("a.{format}");
        for _ in 0..500 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..=random.below(8) {
                let place = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes[place] = random.next() as u8,
                    1 => bytes.insert(place, random.next() as u8),
                    2 => bytes.truncate(place + 1),
                    // A piece of the file again, as after a broken write.
                    _ => {
                        let piece = bytes[place..].to_vec();
                        bytes.extend(piece);
                    }
                }
            }
            folder.write(&name, &bytes);
            if loader().file(folder.path(&name)).load().is_ok() {
                assert!(std::str::from_utf8(&bytes).is_ok());
            }
        }
    }
}

#[test]
fn where_a_text_breaks_off_the_last_scalar_may_be_half_of_one() {
    let table = [
        // More digits may have been there, so of the number itself nothing is said.
        ("a.json", r#"{"pool": {"queue": 99999"#, 1),
        ("a.json", "12 x", 1),
        // What something follows is whole.
        ("a.json", r#"{"pool": {"queue": 99999, "seed": "#, 2),
        ("a.json", r#"{"pool": {"queue": 99999}, "http": {"ports": ["#, 2),
        ("a.json", r#"{"pool": {"queue": 99999}, "http": {"#, 2),
        ("a.yaml", "pool:\n  queue: 99999\n  seed: [", 2),
    ];
    for (name, text, count) in table {
        let faults = faults(name, text);
        assert_eq!(faults.len(), count, "{text}: {faults:?}");
    }
}

#[test]
fn a_name_is_a_namespace_or_a_setting_as_a_whole() {
    let said = faults("a.toml", "[poo]\nqueue = 1\n[pool]\ntotl = 1\n");
    assert!(said[0].contains("no setting is called `poo") && !said[0].contains("is a namespace"), "{said:?}");
    assert!(!said[1].contains("pool.total"), "what is derived cannot be meant: {said:?}");
}
