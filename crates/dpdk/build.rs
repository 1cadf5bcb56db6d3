//! Finds the installed DPDK, compiles the C shim against its headers, and makes the bindings.
//!
//! DPDK is linked dynamically: then EAL loads every driver that the distribution installed (its plugin directory is
//! compiled into librte_eal). Linking statically would need the static libraries of everything that any driver uses.

use std::path::PathBuf;
use std::process::{Command, exit};

const FLOOR: &str = "22.11";

fn main() {
    println!("cargo:rerun-if-changed=src/shim.c");
    println!("cargo:rerun-if-changed=src/rss.c");
    println!("cargo:rerun-if-changed=src/shim.h");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let cflags = pkg_config(&["--cflags", &format!("libdpdk >= {FLOOR}")]);
    let libs = pkg_config(&["--libs", "libdpdk"]);

    let mut shim = cc::Build::new();
    shim.files(["src/shim.c", "src/rss.c"]).std("gnu11").opt_level(3).warnings(true);
    for flag in &cflags {
        shim.flag(flag);
    }
    shim.compile("routebricks_dpdk_shim");
    for lib in &libs {
        if let Some(dir) = lib.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={dir}");
        } else if let Some(name) = lib.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={name}");
        }
    }
    bindings(&cflags);
    rivals(&cflags);
}

/// DPDK's own lookup tables, for the benches and nothing else.
fn rivals(cflags: &[String]) {
    let mut rivals = cc::Build::new();
    // No link line for the library: its users must not get these tables.
    rivals.std("gnu11").opt_level(3).warnings(true).cargo_metadata(false);
    for source in ["benches/lookups/rivals.c", "benches/fib6.c"] {
        println!("cargo:rerun-if-changed={source}");
        println!("cargo:rerun-if-changed={}", source.replace(".c", ".h"));
        rivals.file(source);
    }
    for flag in cflags {
        rivals.flag(flag);
    }
    rivals.compile("routebricks_rivals");
    let archive =
        PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("libroutebricks_rivals.a");
    println!("cargo:rustc-link-arg-benches={}", archive.display());
    for library in ["rte_fib", "rte_lpm", "rte_eal"] {
        println!("cargo:rustc-link-arg-benches=-l{library}");
    }
}

/// Asks pkg-config, or ends the build with what to install.
fn pkg_config(args: &[&str]) -> Vec<String> {
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    match Command::new(&program).args(args).output() {
        Ok(out) if out.status.success() => {
            String::from_utf8_lossy(&out.stdout).split_whitespace().map(str::to_owned).collect()
        }
        Ok(out) => fail(&format!(
            "DPDK {FLOOR} or newer was not found ({program}: {})\n\
             Debian, Ubuntu: apt-get install libdpdk-dev pkg-config gcc libclang-dev\n\
             A DPDK of your own: set PKG_CONFIG_PATH to the directory of its libdpdk.pc.",
            String::from_utf8_lossy(&out.stderr).trim()
        )),
        Err(error) => {
            fail(&format!("{program}: {error}\nDebian, Ubuntu: apt-get install pkg-config libdpdk-dev"))
        }
    }
}

fn bindings(cflags: &[String]) {
    let made = bindgen::Builder::default()
        .header("src/shim.h")
        .clang_args(cflags)
        .allowlist_function("rb_.*")
        .allowlist_function("rte_(eal_init|eal_cleanup|version)")
        .allowlist_function("rte_(thread_register|thread_unregister)")
        .allowlist_function("rte_(mempool_free|mempool_in_use_count|mempool_avail_count)")
        .allowlist_function("rte_(dev_probe|eal_hotplug_remove|strerror)")
        .allowlist_function(
            "rte_eth_dev_(get_port_by_name|get_name_by_port|is_valid_port|adjust_nb_rx_tx_desc)",
        )
        .allowlist_function("rte_eth_dev_(start|stop|close|get_mtu|set_mtu)")
        .allowlist_function("rte_eth_(find_next|promiscuous_enable|promiscuous_disable|promiscuous_get)")
        .allowlist_function("rte_eth_(macaddr_get|stats_get|stats_reset|xstats_get|xstats_get_names)")
        .allowlist_var("RB_.*")
        .allowlist_type("rb_layout")
        .prepend_enum_name(false)
        .allowlist_var("RTE_(ETH_NAME_MAX_LEN|MAX_ETHPORTS)")
        // Never looked into from Rust: their layout is checked by the constants RB_*.
        .opaque_type("rte_mbuf|rte_mempool")
        // Packed structures with aligned members, which bindgen cannot express.
        .opaque_type("rte_l2tpv2_.*|rte_arp_.*")
        .derive_debug(false)
        .layout_tests(true)
        .generate_comments(false)
        .rust_target(bindgen::RustTarget::stable(85, 0).unwrap_or_default())
        .rust_edition(bindgen::RustEdition::Edition2024)
        .generate();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("bindings.rs");
    match made {
        Ok(bindings) => {
            if let Err(error) = bindings.write_to_file(&out) {
                fail(&format!("{}: {error}", out.display()));
            }
        }
        Err(error) => fail(&format!("bindgen: {error}\nDebian, Ubuntu: apt-get install libclang-dev")),
    }
}

fn fail(text: &str) -> ! {
    eprintln!("\n{text}\n");
    exit(1);
}
