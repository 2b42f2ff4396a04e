//! The only code generation of the workspace: client and server stubs and the descriptor set, from
//! `proto/`, in pure Rust.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;

const CONTRACT: [&str; 5] = [
    "semel/v1/keys.proto",
    "semel/v1/retries.proto",
    "semel/v1/breakers.proto",
    "semel/v1/admin.proto",
    // What errors carry: reflection describes it, so that a generic client can read them.
    "google/rpc/error_details.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::Compiler::new(["proto"])?
        .include_source_info(true)
        .include_imports(true)
        .open_files(CONTRACT)?
        .file_descriptor_set();
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .extern_path(".google.rpc.Status", "::tonic_types::Status")
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
