//! Golden files: one a record, never changed. `SEMEL_BLESS=1` writes those that are missing.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Holds a folder of golden files against the records that they mean. `bless` is the command that writes
/// what is missing.
pub(crate) fn check<R: Debug + PartialEq, E: Debug + PartialEq>(
    folder: &str,
    bless: &str,
    records: &[(&str, R)],
    encode: impl Fn(&R) -> bytes::Bytes,
    decode: impl Fn(&[u8]) -> Result<R, E>,
) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(folder);
    let mut known = BTreeSet::new();
    for (name, record) in records {
        let path = folder.join(format!("{name}.hex"));
        if !path.exists() {
            write_missing(&path, &encode(record), bless);
        }
        let bytes = read(&path);
        assert_eq!(decode(&bytes).as_ref(), Ok(record), "{name} is read as something else");
        assert_eq!(encode(record), bytes, "{name} is written otherwise: that needs a new version");
        known.insert(path);
    }
    let there: BTreeSet<PathBuf> = fs::read_dir(&folder)
        .expect("the golden folder")
        .map(|entry| entry.expect("an entry of the golden folder").path())
        .collect();
    let strange: Vec<_> = there.difference(&known).collect();
    assert!(strange.is_empty(), "no record of this test says what these mean: {strange:?}");
}

fn write_missing(path: &Path, bytes: &[u8], bless: &str) {
    assert!(
        std::env::var_os("SEMEL_BLESS").is_some_and(|value| value == "1"),
        "{} is missing. If its record is new, look at it well and write it with: {bless}",
        path.display(),
    );
    let mut file = fs::File::create_new(path).expect("a new golden file");
    for line in hex::encode(bytes).as_bytes().chunks(64) {
        file.write_all(line).and_then(|()| file.write_all(b"\n")).expect("written");
    }
}

fn read(path: &Path) -> Vec<u8> {
    let text = fs::read_to_string(path).expect("a golden file");
    hex::decode(text.split_whitespace().collect::<String>()).expect("hexadecimal digits")
}
