//! Several files: includes, files that need not be there, profiles, and which of them wins.

use std::path::Path;

use kitbag::{ConfigNamespaces, Facts, Loader, Origin};

use crate::service::{Args, Folder, faults, lines, loader};

#[test]
fn an_optional_file_may_be_absent_and_nothing_else() {
    let folder = Folder::of(&[
        ("system.toml", "[pool]\nqueue = 1\nseed = 1"),
        ("user.yaml", "include: more.toml\npool: {queue: 2}\nprofile: {p: {pool: {seed: 3}}}"),
        ("more.toml", "pool.offset = 4"),
        ("broken.toml", "pool = "),
        ("wrong.toml", "pool.queu = 1"),
        ("empty.toml", ""),
        ("half.toml", "include = 'none.toml'"),
        ("folder.toml/x", ""),
    ]);
    let with = |name: &str| loader().file(folder.path("system.toml")).file_if_present(folder.path(name));
    let fault = |name: &str| folder.short(&with(name).load().map(|_| ()).unwrap_err().to_string());

    // Absent: as if it had not been asked for; and so is its folder.
    for name in ["none.toml", "none/none.toml"] {
        let record = with(name).record().unwrap();
        assert_eq!(record.files(), [folder.path("system.toml")]);
        let cfg = record.resolve(&Facts::for_test()).unwrap().publish();
        assert_eq!(cfg.explain("pool.queue").unwrap().steps().count(), 2);
    }
    // Present: a file like any other, in its rank.
    let cfg = with("user.yaml").profile("p").load().unwrap();
    let now = cfg.pin();
    assert_eq!((now.pool().queue(), now.pool().seed(), now.pool().offset()), (2, 3, 4));
    let chain = folder.short(&cfg.explain("pool.queue").unwrap().to_string());
    assert_eq!(chain, "pool.queue = 2\n  default: 32\n  system.toml:2:9: 1\n> user.yaml:2:15: 2\n");
    let below = loader().file_if_present(folder.path("user.yaml")).file(folder.path("system.toml")).load().unwrap();
    assert_eq!(below.pin().pool().queue(), 1);

    // There and not readable, or not valid.
    assert_eq!(fault("broken.toml").matches("broken.toml:1:").count(), 1);
    assert!(
        fault("wrong.toml").contains("wrong.toml:1:6: no setting is called `pool.queu`; did you mean `pool.queue`?")
    );
    assert!(fault("empty.toml").contains("empty.toml: the file is empty"));
    assert!(fault("half.toml").contains("half.toml:1:11: cannot read: no such file (half.toml -> none.toml)"));
    assert!(fault("folder.toml").contains("folder.toml: this is a folder, not a file"));
    // Its name says the format; a slip there is one although there is no such file yet.
    assert!(fault("none").contains("none: the format of a file is told by its name"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path("gone.toml"), folder.path("link.toml")).unwrap();
        assert!(fault("link.toml").contains("link.toml: cannot read: no such file"));
        // A file where its folder should be.
        assert!(fault("system.toml/user.toml").contains("system.toml/user.toml: cannot read: "));
    }
}

/// One file of the precedence matrix.
fn write(format: &str, include: Option<&str>, top: Option<u32>, profile: Option<u32>) -> String {
    // An unchosen profile in each, which must not win.
    match format {
        "toml" => {
            let include = include.map(|file| format!("include = '{file}'\n")).unwrap_or_default();
            let top = top.map(|queue| format!("[pool]\nqueue = {queue}\n")).unwrap_or_default();
            let profile = profile.map(|queue| format!("[profile.prod.pool]\nqueue = {queue}\n")).unwrap_or_default();
            format!("{include}{top}{profile}[profile.other.pool]\nqueue = 666\n")
        }
        "yaml" => {
            let include = include.map(|file| format!("include: [{file}]\n")).unwrap_or_default();
            let top = top.map(|queue| format!("pool:\n  queue: {queue}\n")).unwrap_or_default();
            let profile = profile.map(|queue| format!("  prod: {{pool: {{queue: {queue}}}}}\n")).unwrap_or_default();
            format!("{include}{top}profile:\n{profile}  other: {{pool: {{queue: 666}}}}\n")
        }
        _ => {
            let include = include.map(|file| format!("\"include\": \"{file}\", ")).unwrap_or_default();
            let top = top.map(|queue| format!("\"pool\": {{\"queue\": {queue}}}, ")).unwrap_or_default();
            let profile =
                profile.map(|queue| format!("\"prod\": {{\"pool\": {{\"queue\": {queue}}}}}, ")).unwrap_or_default();
            format!("{{{include}{top}\"profile\": {{{profile}\"other\": {{\"pool\": {{\"queue\": 666}}}}}}}}")
        }
    }
}

#[test]
fn precedence_over_formats_includes_and_profiles() {
    let names = ["base", "base prod", "app", "app prod", "late", "late prod", "APP_POOL_QUEUE", "--queue"];
    for formats in [["toml", "yaml", "json"], ["yaml", "json", "toml"], ["json", "toml", "yaml"]] {
        let [base, app, late] = [("base", formats[0]), ("app", formats[1]), ("late", formats[2])]
            .map(|(name, format)| format!("{name}.{format}"));
        for subset in 0..1 << names.len() {
            let given = |bit: u32| (subset & (1 << bit) != 0).then_some(bit + 1);
            let folder = Folder::of(&[
                (&base, &write(formats[0], None, given(0), given(1))),
                (&app, &write(formats[1], Some(&base), given(2), given(3))),
                (&late, &write(formats[2], None, given(4), given(5))),
            ]);
            let mut loader = loader().file(folder.path(&app)).file(folder.path(&late));
            if [1, 3, 5].into_iter().any(|bit| given(bit).is_some()) {
                loader = loader.profile("prod");
            }
            if let Some(queue) = given(6) {
                loader = loader.env([("APP_POOL_QUEUE", queue.to_string())]);
            }
            if let Some(queue) = given(7) {
                loader = loader.args(["app", "--queue", &queue.to_string()]);
            }
            let cfg = loader.load().unwrap();
            let explanation = cfg.explain("pool.queue").unwrap();
            let steps: Vec<_> = explanation
                .steps()
                .map(|(origin, value)| {
                    let origin = folder.short(origin);
                    let file = origin.split('.').next().unwrap().to_owned();
                    let profile = if origin.ends_with(" (profile prod)") { " prod" } else { "" };
                    (format!("{file}{profile}"), value.to_owned())
                })
                .collect();
            let wanted =
                (0..8).filter_map(given).map(|queue| (names[queue as usize - 1].to_owned(), queue.to_string()));
            let wanted: Vec<_> = std::iter::once(("default".to_owned(), "32".to_owned())).chain(wanted).collect();
            assert_eq!(steps, wanted, "{formats:?}, subset {subset:b}");
            assert_eq!(cfg.pin().pool().queue().to_string(), wanted.last().unwrap().1);
        }
    }
}

#[test]
fn explain_shows_file_and_profile() {
    let text = "[pool]\nqueue = 1\n\n[profile.prod]\n[profile.prod.pool]\nseed = 1\nqueue = 2\n";
    let loader = loader().text("app.toml", text).args(["app", "--profile", "prod"]);
    let wanted = "pool.queue = 2\n  default: 32\n  app.toml:2:9: 1\n> app.toml:7:9 (profile prod): 2\n";
    assert_eq!(loader.load().unwrap().explain("pool.queue").unwrap().to_string(), wanted);
}

#[test]
fn the_profile_is_named_by_flag_variable_or_program() {
    let text = "[profile]\na.pool.queue = 1\nb.pool.queue = 2\nc.pool.queue = 3\n";
    let queue = |loader: Loader<Args>| loader.text("app.toml", text).load().unwrap().pin().pool().queue();
    let (program, variable) = (loader().profile("a"), [("APP_PROFILE", "b")]);
    assert_eq!(queue(loader()), 32);
    assert_eq!(queue(program.clone()), 1);
    assert_eq!(queue(program.clone().env(variable)), 2);
    assert_eq!(queue(program.clone().env(variable).args(["app", "--profile=c"])), 3);
    assert_eq!(queue(program.clone().env([("APP_PROFILE", "")])), 1);
    let command = Args::augment(kitbag::clap::Command::new("app"));
    assert_eq!(queue(program.matches(&command.get_matches_from(["app", "--profile", "c"]))), 3);
}

#[test]
fn an_unknown_profile_is_an_error() {
    let text = "[profile.prod]\n[profile.dev.pool]\nqueue = 1\n";
    let fault = |loader: Loader<Args>| lines(&loader.load().unwrap_err());
    assert_eq!(
        fault(loader().text("a.toml", text).args(["app", "--profile", "prdo"])),
        ["--profile: no file has a profile `prdo`; did you mean `prod`?"]
    );
    assert_eq!(
        fault(loader().text("a.toml", text).env([("APP_PROFILE", "staging")])),
        ["APP_PROFILE: no file has a profile `staging`; there are `prod`, `dev`"]
    );
    assert_eq!(fault(loader().profile("prod")), ["Loader::profile: no file has a profile `prod`"]);
    // A file that cannot be read may have it.
    assert_eq!(fault(loader().profile("prod").file("none.toml")), ["none.toml: cannot read: no such file"]);
    // A profile without settings is one.
    loader().text("a.toml", text).profile("prod").load().unwrap();
}

#[test]
fn profiles_that_are_not_chosen_are_checked() {
    let text = "[profile.prod.pool]\nqueue = 10000\nqueu = 1\ntotal = 1\n[profile.prod]\ninclude = 'x.toml'\n";
    let wanted = [
        "a.toml:2:9 (profile prod): pool.queue: 10000 is outside 0..=9999",
        "a.toml:3:1 (profile prod): no setting is called `pool.queu`; did you mean `pool.queue`?",
        "a.toml:4:1 (profile prod): pool.total: this value is derived from others and cannot be set",
        "a.toml:6:1 (profile prod): no setting is called `include`",
    ];
    assert_eq!(faults("a.toml", text), wanted);
    assert_eq!(
        faults("a.yaml", "profile:\n  prod: 3\n"),
        ["a.yaml:2:3: `profile.prod` is a table of settings, found an integer"]
    );
    assert_eq!(
        faults("a.json", r#"{"profile": "prod"}"#),
        ["a.json:1:2: `profile` holds one table per profile, found text"]
    );
}

#[test]
fn an_origin_names_its_profile() {
    let text = "[profile.p.pool]\nqueue = 100000";
    let error = loader().text("a.toml", text).load().unwrap_err();
    assert_eq!(error.iter().next().unwrap().place(), Some("a.toml:2:9 (profile p)"));
    // Patterns over a file's origin stay valid when it learns more.
    let is_file = |origin: &Origin| matches!(origin, Origin::File { path, line: 1, .. } if path == Path::new("x"));
    assert!(!is_file(&Origin::Default));
}

#[test]
fn includes_mix_formats_and_rank_below() {
    let folder = Folder::of(&[
        ("conf/app.yaml", "include:\n- ../base.toml\n- more/extra.json\npool: {seed: 3}\n"),
        ("base.toml", "include = 'root.json'\n[pool]\nqueue = 2\nseed = 2\noffset = 2\n"),
        ("root.json", r#"{"pool": {"queue": 1, "seed": 1, "offset": 1, "share": 0.125}}"#),
        ("conf/more/extra.json", r#"{"include": "../../root.json", "pool": {"offset": 4}}"#),
    ]);
    let record = loader().file(folder.path("conf/app.yaml")).record().unwrap();
    let files: Vec<_> = record.files().iter().map(|path| folder.short(&path.display().to_string())).collect();
    // `root.json` is included twice and ranks below both that include it.
    assert_eq!(files, ["conf/../root.json", "conf/../base.toml", "conf/more/extra.json", "conf/app.yaml"]);
    let cfg = record.resolve(&Facts::for_test()).unwrap().publish();
    let now = cfg.pin();
    let pool = now.pool();
    assert_eq!((pool.queue(), pool.seed(), pool.offset(), pool.share().to_string().as_str()), (2, 3, 4, "0.125"));
    let origin = folder.short(cfg.explain("pool.share").unwrap().steps().last().unwrap().0);
    assert_eq!(origin, "conf/../root.json:1:56");
}

#[test]
fn faults_of_includes_show_the_chain() {
    let folder = Folder::of(&[
        ("a.toml", "include = 'b.yaml'"),
        ("b.yaml", "include: [c.json]"),
        ("c.json", r#"{"include": ["a.toml", "none.toml", "d.ini", 3, ""]}"#),
        ("self.toml", "include = 'self.toml'"),
        ("folder.toml", "include = ['conf.d', '.', 'more.toml', '../']"),
        ("conf.d/x.toml", ""),
        ("more.toml/x.toml", ""),
        ("bad.toml", "include = 'worse.toml'\n[pool]\nqueue = 'x'"),
        ("worse.toml", "[pool]\nseed = 'y'\noffset = = 3"),
    ]);
    let format = "the format of a file is told by its name, which ends in `.toml`, `.yaml`, `.yml` or `.json`";
    assert_eq!(
        folder.faults("a.toml"),
        [
            "c.json:1:14: a file cannot include itself (a.toml -> b.yaml -> c.json -> a.toml)".to_owned(),
            "c.json:1:24: cannot read: no such file (a.toml -> b.yaml -> c.json -> none.toml)".to_owned(),
            format!("c.json:1:37: {format} (a.toml -> b.yaml -> c.json -> d.ini)"),
            "c.json:1:46: `include` names a file or a list of files, found the integer `3`".to_owned(),
            "c.json:1:49: `include` names a file or a list of files, found the text \"\"".to_owned(),
        ]
    );
    assert_eq!(folder.faults("self.toml"), ["self.toml:1:11: a file cannot include itself (self.toml -> self.toml)"]);
    let folders: Vec<_> = folder.faults("folder.toml");
    assert!(
        folders.len() == 4
            && folders.iter().all(|line| line.contains(": this is a folder, not a file (folder.toml -> "))
    );
    assert!(folders[1].starts_with("folder.toml:1:22: "), "{folders:?}");
    // What is wrong in the included file is said of that file, together with what is wrong in the including one.
    let found = folder.faults("bad.toml");
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("worse.toml:3:"), "{found:?}");
    assert_eq!(found[1], "worse.toml:2:8: pool.seed: expected an integer, 0 or more, found the text \"y\"");
    assert_eq!(found[2], "bad.toml:3:9: pool.queue: expected an integer, 0 or more, found the text \"x\"");
}

#[test]
fn includes_are_bounded() {
    let folder = Folder::of(&[]);
    for depth in 0..20 {
        let next = if depth == 19 { "[pool]\nqueue = 5".to_owned() } else { format!("include = '{}.toml'", depth + 1) };
        folder.write(&format!("{depth}.toml"), next.as_bytes());
    }
    // 3 includes 4, and so on to 19: 16 includes.
    let cfg = loader().file(folder.path("3.toml")).load().unwrap();
    assert_eq!(cfg.pin().pool().queue(), 5);
    let found = folder.faults("2.toml");
    assert_eq!(found.len(), 1, "{found:?}");
    let wanted = "18.toml:1:11: files include one another more than 16 deep (2.toml -> 3.toml -> ";
    assert!(found[0].starts_with(wanted) && found[0].ends_with(" -> 18.toml -> 19.toml)"), "{found:?}");
}

#[test]
fn a_text_includes_files_beside_its_name() {
    let folder = Folder::of(&[("base.toml", "[pool]\nqueue = 5")]);
    let record = loader().text(folder.path("app.json"), r#"{"include": "base.toml"}"#).record().unwrap();
    assert_eq!(record.files(), [folder.path("base.toml")]);
}

#[test]
fn a_loader_reads_files_anew() {
    let folder = Folder::of(&[("a.toml", "include = 'b.toml'"), ("b.toml", "[pool]\nqueue = 1")]);
    let loader = loader().env([("APP_CONFIG", folder.path("a.toml"))]);
    let again = loader.clone();
    assert_eq!(loader.load().unwrap().pin().pool().queue(), 1);
    folder.write("b.toml", b"[pool]\nqueue = 2");
    assert_eq!(loader.load().unwrap().pin().pool().queue(), 2);
    assert_eq!(again.record().unwrap().files(), [folder.path("b.toml"), folder.path("a.toml")]);
    std::fs::remove_file(folder.path("b.toml")).unwrap();
    let error = folder.short(&loader.load().unwrap_err().to_string());
    assert_eq!(error, "configuration error: a.toml:1:11: cannot read: no such file (a.toml -> b.toml)");
    folder.write("b.toml", b"");
    assert!(again.load().is_err());
}

/// Each format's own way to write an `include` with one file that may be absent between two that may not.
const INCLUDES: [(&str, &str); 3] = [
    ("a.toml", "include = ['low.toml', { if_present = 'local.yaml' }, 'high.toml']\n"),
    ("a.yaml", "include:\n  - low.toml\n  - if_present: local.yaml\n  - high.toml\n"),
    ("a.json", r#"{"include": ["low.toml", {"if_present": "local.yaml"}, "high.toml"]}"#),
];

#[test]
fn an_included_file_that_may_be_absent_ranks_where_it_stands() {
    for (name, text) in INCLUDES {
        let folder = Folder::of(&[
            (name, text),
            ("low.toml", "[pool]\nqueue = 1\nseed = 1\noffset = 1"),
            ("high.toml", "pool.offset = 3"),
        ]);
        let loader = || loader().file(folder.path(name));
        let read = || {
            let pin = loader().load().unwrap().pin();
            (pin.pool().queue(), pin.pool().seed(), pin.pool().offset())
        };
        assert_eq!(read(), (1, 1, 3), "{name}");
        folder.write("local.yaml", b"pool: {queue: 2, offset: 2}");
        assert_eq!(read(), (2, 1, 3), "{name}");
    }
}

#[test]
fn an_included_file_that_is_there_is_like_any_other() {
    let fault = |files: &[(&str, &str)]| Folder::of(files).faults("a.toml");
    let main = ("a.toml", "include = { if_present = 'local.toml' }");
    assert_eq!(
        fault(&[main, ("local.toml", "pool.queu = 1")]),
        ["local.toml:1:6: no setting is called `pool.queu`; did you mean `pool.queue`?"]
    );
    assert_eq!(
        fault(&[main, ("local.toml/x", "")]),
        ["a.toml:1:11: this is a folder, not a file (a.toml -> local.toml)"]
    );
    let half = ("local.toml", "include = 'none.toml'");
    assert_eq!(
        fault(&[main, half]),
        ["local.toml:1:11: cannot read: no such file (a.toml -> local.toml -> none.toml)"]
    );
    // A name that no format has is seen before there is such a file.
    assert!(fault(&[("a.toml", "include = { if_present = 'local.ini' }")])[0].contains("the format of a file"));
    for wrong in ["{ if_presnt = 'b.toml' }", "{ if_present = '' }", "{ if_present = 'b.toml', x = 1 }", "{}"] {
        assert_eq!(
            fault(&[("a.toml", &format!("include = [{wrong}]"))]),
            ["a.toml:1:12: a table in `include` has one key, `if_present`, that names a file which need not be there"]
        );
    }
}

#[test]
fn an_included_file_that_had_set_something_may_not_go() {
    let folder = Folder::of(&[("a.toml", "include = { if_present = 'b.toml' }"), ("b.toml", "http.greeting = 'hi'")]);
    let loader = loader().file(folder.path("a.toml"));
    let cfg = loader.load().unwrap();
    std::fs::remove_file(folder.path("b.toml")).unwrap();
    let errors = cfg.reload(&loader).unwrap_err();
    assert!(errors.to_string().contains("b.toml"), "{errors}");
    assert_eq!(cfg.pin().http().greeting(), "hi");
}
