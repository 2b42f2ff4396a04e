use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Parser;
use semel_store_postgres::{OpenError, PostgresOptions, status};

use super::check::check;
use super::file::read;
use super::kind::{Kind, Number, Unit};
use super::settings::Place;
use super::table::{SETTINGS, Setting, of};
use super::*;
use crate::target::DEFAULT_TARGET;

/// Settings that have no default that could be written down.
const UNSET: [&str; 11] = [
    "advertise",
    "store",
    "store_file",
    "workers",
    "tls_certificate_file",
    "tls_key_file",
    "tls_password_file",
    "tls_ca_file",
    "tls_verify_peers",
    "external_client_directory",
    "trace_directory",
];

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    given: Given<AllSettings>,
}

fn load(words: &[&str]) -> Result<Loaded, Failure> {
    Line::parse_from([&["serve"], words].concat()).given.load()
}

fn problems(text: &str) -> Vec<Problem> {
    read(text, &mut Settings::defaults().unwrap()).1
}

fn shown(settings: &mut Settings) -> Vec<String> {
    SETTINGS
        .iter()
        .map(|setting| format!("{}.{} {}", setting.table, setting.key, setting.kind.show(settings)))
        .collect()
}

fn numbers() -> impl Iterator<Item = (&'static Setting, Number, u64, u64)> {
    SETTINGS.iter().filter_map(|setting| match setting.kind {
        Kind::Number { part, least, most, .. } => Some((setting, part, least, most)),
        _ => None,
    })
}

#[test]
fn the_example_has_every_setting_at_its_default() {
    let (mut defaults, mut settings) =
        (Settings::defaults().unwrap(), Settings::defaults().unwrap());
    // Were a default not written down, it would stay at this.
    settings.node.listen.set_port(1);
    for setting in &SETTINGS {
        match setting.kind {
            Kind::Number { part, least, .. } if setting.key != "workers" => {
                part.put(&mut settings, least + 7);
            }
            Kind::Switch(part) => *part(&mut settings) ^= true,
            Kind::Word { part, .. } => part(&mut settings).push('x'),
            _ => {}
        }
    }
    let (assigned, problems) = read(EXAMPLE, &mut settings);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(shown(&mut settings), shown(&mut defaults));
    assert_eq!(format!("{settings:?}"), format!("{defaults:?}"));

    let written: BTreeSet<(&str, &str)> =
        assigned.iter().map(|it| (it.setting.table, it.setting.key)).collect();
    for Setting { table, key, .. } in &SETTINGS {
        let commented = EXAMPLE.lines().any(|line| line.starts_with(&format!("#{key} = ")));
        assert_eq!(commented, UNSET.contains(key), "{table}.{key}");
        assert_eq!(written.contains(&(table, key)), !commented, "{table}.{key}");
    }
}

#[test]
fn what_the_example_only_mentions_can_be_said_so() {
    let mentioned = EXAMPLE.lines().filter_map(|line| {
        let line = line.strip_prefix('#')?;
        line.starts_with(|letter: char| letter.is_ascii_lowercase()).then_some(line)
    });
    let mut count = 0;
    for line in mentioned {
        let key = line.split(' ').next().unwrap();
        let setting = SETTINGS.iter().find(|setting| setting.key == key).unwrap();
        let table = setting.table;
        assert!(problems(&format!("[{table}]\n{line}")).is_empty(), "{line}");
        count += 1;
    }
    assert_eq!(count, UNSET.len());
}

#[test]
fn without_a_word_it_is_the_default_node() {
    let (ours, defaults) = (load(&[]).unwrap().settings, semel_server::NodeOptions::default());
    assert_eq!(format!("{:?}", ours.node), format!("{defaults:?}"));
    assert_eq!(DEFAULT_TARGET, format!("http://{}", ours.node.listen));
}

#[test]
fn what_is_shown_can_be_said_again() {
    let mut settings = Settings::defaults().unwrap();
    for (_, part, least, most) in numbers() {
        for number in [least, most] {
            part.put(&mut settings, number);
            for setting in SETTINGS.iter().filter(|it| !matches!(it.kind, Kind::Place(_))) {
                let shown = setting.kind.show(&mut settings);
                let mut again = Settings::defaults().unwrap();
                setting.kind.set(&mut again, &shown).unwrap();
                assert_eq!(setting.kind.show(&mut again), shown, "{}", setting.key);
            }
        }
    }
}

#[test]
fn every_setting_has_a_part_of_its_own() {
    for (setting, part, least, _) in numbers() {
        let mut settings = Settings::defaults().unwrap();
        let before = shown(&mut settings);
        part.put(&mut settings, least + 7);
        let changed = before.iter().zip(shown(&mut settings)).filter(|(a, b)| *a != b).count();
        assert_eq!(changed, 1, "{}.{}", setting.table, setting.key);
    }
}

#[test]
fn the_bounds_are_those_of_the_node() {
    // These the node does not bound.
    let ours = ["grace", "replay_cache"];
    for (setting, part, least, most) in
        numbers().filter(|(it, ..)| !["postgres", "foundationdb"].contains(&it.table))
    {
        let fits = |number: u64| {
            let mut settings = Settings::defaults().unwrap();
            part.put(&mut settings, number);
            settings.node.check().is_ok()
        };
        let name = setting.key;
        assert!(fits(least) && fits(most), "{name}");
        assert!(ours.contains(&name) || !fits(most + 1), "{name} may be more");
        assert!(least == 0 || !fits(least - 1), "{name} may be less");
    }
}

#[tokio::test]
async fn the_bounds_are_those_of_the_database_engine() {
    async fn fits(settings: &mut Settings) -> bool {
        let nobody = PostgresOptions::parse("postgres://127.0.0.1:1/x").unwrap();
        let mut there = Settings { postgres: nobody, ..Settings::defaults().unwrap() };
        of("postgres").for_each(|setting| setting.kind.copy(settings, &mut there));
        // It looks at the options before it finds that nobody is there.
        match status(&there.postgres).await.unwrap_err() {
            OpenError::Option { .. } => false,
            OpenError::Unreachable(_) => true,
            other => panic!("{other}"),
        }
    }
    for (setting, part, least, most) in numbers().filter(|(it, ..)| it.table == "postgres") {
        let mut settings = Settings::defaults().unwrap();
        for (number, expected) in [(least, true), (most, true), (most + 1, false)] {
            part.put(&mut settings, number);
            assert_eq!(fits(&mut settings).await, expected, "{} = {number}", setting.key);
        }
        if let Some(less) = least.checked_sub(1) {
            part.put(&mut settings, less);
            assert!(!fits(&mut settings).await, "{} = {less}", setting.key);
        }
    }
    for schema in ["semel", "_1", "", "1a", "Semel", "a-b", &"a".repeat(48), &"a".repeat(49)] {
        let mut settings = Settings::defaults().unwrap();
        settings.postgres.schema = schema.to_owned();
        let theirs = fits(&mut settings).await;
        let schema = format!("[postgres]\nschema = {schema:?}");
        assert_eq!(problems(&schema).is_empty(), theirs, "{schema}");
    }
}

#[test]
fn the_bounds_are_those_of_the_engine_of_clusters() {
    for (setting, part, least, most) in numbers().filter(|(it, ..)| it.table == "foundationdb") {
        let fits = |number: u64| {
            let mut settings = Settings::defaults().unwrap();
            part.put(&mut settings, number);
            settings.foundationdb.store.check().is_ok()
        };
        let name = setting.key;
        assert!(fits(least) && fits(most) && !fits(most + 1), "{name}");
        assert!(least == 0 || !fits(least - 1), "{name} may be less");
    }
    for name in ["semel", "_1", "", "a b", "Semel", "a-b", &"a".repeat(48), &"a".repeat(49)] {
        let mut settings = Settings::defaults().unwrap();
        settings.foundationdb.store.name = name.to_owned();
        let theirs = settings.foundationdb.store.check().is_ok();
        let name = format!("[foundationdb]\nname = {name:?}");
        assert_eq!(problems(&name).is_empty(), theirs, "{name}");
    }
}

#[cfg(feature = "foundationdb")]
#[test]
fn the_options_of_a_cluster_reach_its_engine() {
    let mut settings = Settings::defaults().unwrap();
    let text = "[serve]\nstore = 'fdb:/etc/fdb.cluster'\n\
                [foundationdb]\nname = 'other'\nwatches = 9\ntls_ca_file = '/etc/ca.pem'";
    assert!(read(text, &mut settings).1.is_empty());
    let crate::engine::Engine::Fdb(fdb) = settings.engine().unwrap() else { panic!("no cluster") };
    assert_eq!((fdb.store.name.as_str(), fdb.store.watches), ("other", 9));
    assert_eq!(fdb.store.cluster_file, std::path::Path::new("/etc/fdb.cluster"));
    assert_eq!(fdb.network.tls_ca_file.as_deref(), Some("/etc/ca.pem"));
}

#[test]
fn the_options_of_a_database_reach_its_engine() {
    let mut settings = Settings::defaults().unwrap();
    let text = "[serve]\nstore = 'postgres://ann@db.example/app'\n\
                [postgres]\nschema = 'other'\nmigrate = false\npoll = '2s'\nconnections = 9";
    assert!(read(text, &mut settings).1.is_empty());
    let crate::engine::Engine::Postgres(options) = settings.engine().unwrap() else {
        panic!("no database")
    };
    assert_eq!((options.schema.as_str(), options.migrate), ("other", false));
    assert_eq!((options.poll_ms, options.connections), (2_000, 9));
    assert!(format!("{options:?}").contains("db.example"), "the address is the one that was given");
}

#[test]
fn each_mistake_is_explained_where_it_is() {
    // The text, line and column, the setting, words of the message, and what was meant.
    type Case<'a> = (&'a str, (usize, usize), Option<&'a str>, &'a str, Option<&'a str>);
    let cases: [Case<'_>; 21] = [
        ("[serve]\nlisen = 'x'", (2, 1), Some("serve.lisen"), "no such setting", Some("listen")),
        (
            "[serve]\nlog-format = 'x'",
            (2, 1),
            Some("serve.log-format"),
            "no such",
            Some("log_format"),
        ),
        ("[serve]\n  retention = '1h'", (2, 3), Some("serve.retention"), "below [keys]", None),
        ("[serve]\nfrobnicate = 1", (2, 1), Some("serve.frobnicate"), "no such setting", None),
        ("[sevre]\ndata = 'x'", (1, 2), Some("sevre"), "no such table", Some("serve")),
        ("data = 'x'", (1, 1), Some("data"), "below [serve]", None),
        ("serve = 3", (1, 1), Some("serve"), "write [serve]", None),
        ("[serve]\nlisten = 'here'", (2, 10), Some("serve.listen"), "an address with a port", None),
        ("[serve]\nlisten = 7450", (2, 10), Some("serve.listen"), "in quotes", None),
        ("[serve]\nworkers = '4'", (2, 11), Some("serve.workers"), "without quotes", None),
        ("[serve]\nworkers = 0", (2, 11), Some("serve.workers"), "it is 0, but", None),
        ("[serve]\nworkers = -1", (2, 11), Some("serve.workers"), "from 1 to 256", None),
        ("[serve]\ninsecure = 'no'", (2, 12), Some("serve.insecure"), "true or false", None),
        ("[serve]\ngrace = 10", (2, 9), Some("serve.grace"), "such as 30s", None),
        ("[serve]\ngrace = '10'", (2, 9), Some("serve.grace"), "such as 500ms", None),
        ("[serve]\ngrace = '1us'", (2, 9), Some("serve.grace"), "whole milliseconds", None),
        ("[serve]\nlog_format = 'xml'", (2, 14), Some("serve.log_format"), "text or json", None),
        ("[serve]\nlog = 'a=b=c'", (2, 7), Some("serve.log"), "a log filter", None),
        ("[keys]\nretention = '30s'", (2, 13), Some("keys.retention"), "it is '30s', but", None),
        ("[keys]\nbody_limit = '5MiB'", (2, 14), Some("keys.body_limit"), "from 0 to 4MiB", None),
        ("[postgres]\nschema = 'A b'", (2, 10), Some("postgres.schema"), "of a-z", None),
    ];
    for (text, place, key, message, meant) in cases {
        let found = problems(text);
        let [problem] = found.as_slice() else { panic!("{text}: {found:?}") };
        assert_eq!((problem.line, problem.column), place, "{text}");
        assert_eq!(problem.key.as_deref(), key, "{text}");
        assert!(problem.message.contains(message), "{text}: {problem}");
        assert_eq!(problem.did_you_mean.as_deref(), meant, "{text}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_and_in_order() {
    let text =
        "[serve]\nlisten = 7450\ngrace = 10s\nworker = 3\n\n[keys]\nwaiters = 0\nretention = \n";
    let lines: Vec<usize> = problems(text).iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 3, 4, 7, 8], "{:?}", problems(text));
    let twice = problems("[keys]\nwaiters = 5\nwaiters = 6");
    assert_eq!(twice.len(), 1);
    assert!(twice[0].to_string().contains("duplicate"), "{}", twice[0]);
}

#[test]
fn a_store_is_in_one_place() {
    let found = problems("[serve]\ndata = 'x'\nstore = 'embedded:y'\nstore_file = 'z'");
    let keys: Vec<_> = found.iter().filter_map(|problem| problem.key.as_deref()).collect();
    assert_eq!(keys, ["serve.store", "serve.store_file"]);
    assert!(found.iter().all(|problem| problem.message.contains("data says already")));
}

#[test]
fn no_mistake_gives_a_secret_away() {
    let url = "postgres://semel:hunter2@db.internal:port/semel";
    let cases = [
        format!("[serve]\nstore = '{url}'"),
        format!("[serve]\nstore = {url}"),
        format!("[serve]\nstore_file = '{url}'"),
        format!("[serve]\nstore = '{url}"),
        format!("[serve]\nstore = ['{url}']"),
        format!("[serve]\nstor = '{url}'"),
        format!("[serve]\n'{url}' = 1"),
        format!("'{url}' = 1"),
        format!("['{url}']\nx = 1"),
        format!(
            "[serve]\ndata = '{url}'\nlisten = '{url}'\nworkers = '{url}'\ngrace = '{url}'\n\
             log = '{url}'\nlog_format = '{url}'\n[keys]\nbody_limit = '{url}'\n[postgres]\n\
             schema = '{url}'"
        ),
        format!("[serve]\n{url}"),
        url.to_owned(),
    ];
    for text in cases {
        let found = problems(&text);
        assert!(!found.is_empty(), "{text}");
        let failure = file::refuse(&PathBuf::from("x"), found);
        let json = serde_json::to_string(&failure).unwrap();
        for told in [format!("{failure:?}"), json] {
            assert!(!told.contains("hunter2"), "{text}: {told}");
        }
    }
}

#[test]
fn a_checked_file_is_told_without_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let url = "postgres://semel:hunter2@localhost/semel";
    let secret = at("secret", &format!("{url}\n"));
    for store in
        [format!("store = '{url}'"), format!("store_file = {:?}", secret.to_str().unwrap())]
    {
        let text = format!("[serve]\n{store}\nworkers = 3\n[keys]\nreplay_cache = 1024");
        let told = serde_json::to_value(check(&at("good.toml", &text)).unwrap()).unwrap();
        assert!(!told.to_string().contains("hunter2"), "{told}");
        assert_eq!(told["settings"]["serve.workers"], 3);
        assert_eq!(told["settings"]["keys.replay_cache"], "1KiB");
    }

    let missing = at("missing.toml", "[serve]\nstore_file = '/no/such/file'");
    let open = at("open.toml", "[serve]\n\nlisten = '0.0.0.0:1'");
    for (path, key, line) in [(missing, "serve.store_file", 2), (open, "serve.listen", 3)] {
        let failure = check(&path).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(failure.problems[0].key.as_deref(), Some(key));
        assert_eq!(failure.problems[0].line, line);
    }
}

#[test]
fn an_option_outranks_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("semel.toml");
    let file = path.to_str().unwrap();
    let text = "[serve]\nstore = 'postgres://semel@localhost/x'\ninsecure = true\n[keys]\nwaiters = 7\n\
                waiters_per_key = 7";
    std::fs::write(&path, text).unwrap();
    let from_file = load(&["--config", file]).unwrap().settings;
    assert!(matches!(from_file.place, Place::Address(_)) && from_file.insecure);

    let words = ["--config", file, "--data", "here", "--waiters", "8", "--insecure=false"];
    let Loaded { settings, config } = load(&words).unwrap();
    assert!(matches!(settings.place, Place::Directory(path) if path.to_str() == Some("here")));
    assert!(!settings.insecure);
    assert_eq!((settings.node.keys.waiters_max, settings.node.keys.waiters_per_key_max), (8, 7));
    assert_eq!(config.as_deref(), Some(path.as_path()));

    // Of two options, the one that names a store that may be shared.
    let both = load(&["--config", file, "--store", "embedded:there", "--data", "here"]).unwrap();
    assert!(matches!(both.settings.place, Place::Address(_)));
}

#[test]
fn a_wrong_option_is_refused_and_a_wrong_store_not_shown() {
    let parse = |words: &[&str]| Line::try_parse_from([&["serve"], words].concat());
    for wrong in
        [["--workers", "0"], ["--grace", "10"], ["--listen", "here"], ["--retention", "30s"]]
    {
        let Err(error) = parse(&wrong) else { panic!("{wrong:?}") };
        assert!(error.to_string().contains("it must be"), "{error}");
    }
    for option in ["--store", "--store-file", "--data"] {
        let line = parse(&[option, "postgres://semel:hunter2@localhost:port/semel"]);
        let line = line.unwrap_or_else(|error| panic!("a store is looked at later: {error}"));
        let failure = line.given.load().unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(!format!("{failure:?}{:?}", line.given).contains("hunter2"));
    }
}

#[test]
fn only_this_machine_is_served_unless_told_otherwise() {
    let refuse = |words: &[&str]| load(words).unwrap().settings.refuse_strangers();
    for loopback in ["127.0.0.1:0", "127.8.8.8:1", "[::1]:0"] {
        assert!(refuse(&["--listen", loopback]).is_ok(), "{loopback}");
    }
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7450"] {
        let refusal = refuse(&["--listen", open]).unwrap_err();
        assert_eq!(refusal.exit, Exit::Usage, "{open}");
        assert!(refuse(&["--listen", open, "--insecure"]).is_ok());
    }
}

#[test]
fn durations_in_the_table_are_in_milliseconds() {
    let retention = of("keys").find(|setting| setting.key == "retention").unwrap();
    let Kind::Number { unit: Unit::Ms, least: 60_000, .. } = retention.kind else {
        panic!("{}", retention.kind.allowed())
    };
    assert_eq!(retention.kind.allowed(), "a duration such as 30s, from 1m to 720h");
}
