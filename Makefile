# Everything a developer or a newcomer runs. Each target installs what it lacks (scripts/setup) before it builds.
.DEFAULT_GOAL := help
.PHONY: help build demo test lab-vm bench pins cluster convergence differential failures lint doc clean

export CARGO_TARGET_DIR ?= $(CURDIR)/target
# The router that demo and tests of whole routers start.
export ROUTEBRICKS ?= $(abspath $(CARGO_TARGET_DIR))/release/routebricks
KEEP ?=
export KEEP
# Words in the names of tests that `make lab-vm` is to run; all if there are none.
LAB_VM ?=
# What `make bench` is to measure, and how; see `make bench BENCH=--help`.
BENCH ?=
# Namespaces need root; the build does not.
comma := ,
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -E)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## the routebricks command with DPDK ports: target/release/routebricks
	@scripts/setup build
	cargo build --release --package router --features dpdk

demo: build ## a router with a million routes, one that FRR drives, four nodes that are one (KEEP=1 leaves the first up)
	@scripts/setup lab
	cargo build --package lab --bin demo
	$(AS_ROOT) $(CARGO_TARGET_DIR)/debug/demo

test: ## every test; what needs root or DPDK and has it not says "skipped"
	@scripts/setup build lab vm
	@cargo xtask test

lab-vm: ## tests of whole routers under a full kernel (VLANs, VRFs, bonds, NICs), in a virtual machine: half an hour
	@scripts/setup build lab vm
	@cargo xtask lab-vm $(LAB_VM)

bench: ## cycles per packet next to dpdk-testpmd, against the targets, as a page with plots (BENCH='io ip' for less)
	@scripts/setup bench
	@$(MAKE) --no-print-directory build
	cargo run --release --package bench -- $(BENCH)

pins: build ## write down what paths cost in instructions per packet, for tests to hold them to: bench/pins.json
	@scripts/setup lab
	cargo run --package bench -- pins --update

cluster: ## what docs/cluster.md says of throughput and order, in full size: some minutes
	CLUSTER_MIXTURES=1000 cargo test --release --package cluster --test throughput -- --nocapture
	CLUSTER_PACKETS=100000000 cargo test --release --package cluster --test order strict_order_is -- --nocapture
	CLUSTER_SEEDS=100000 cargo test --release --package cluster --lib resequence -- --nocapture

convergence: build ## figures of full tables by BGP, failover, events and dumps (docs/linux-control-plane.md): some minutes
	@scripts/setup lab
	cargo test --release --package lab --test convergence \
		$(if $(AS_ROOT),--config 'target."cfg(unix)".runner=["sudo"$(comma)"-E"]') -- \
		--ignored --nocapture --test-threads 1

differential: build ## 10,000 random operations on our control plane and on a plain Linux's, 1,000,000 packets: half an hour
	@scripts/setup lab
	cargo test --release --package lab --test control_like_linux \
		$(if $(AS_ROOT),--config 'target."cfg(unix)".runner=["sudo"$(comma)"-E"]') -- \
		--ignored --nocapture --test-threads 1

failures: build ## what a node or link that fails costs the others, and whether any fails by itself: some minutes
	@scripts/setup lab
	cargo test --release --package lab --test cluster \
		$(if $(AS_ROOT),--config 'target."cfg(unix)".runner=["sudo"$(comma)"-E"]') -- \
		--ignored --nocapture --test-threads 1

lint: ## format, clippy with and without DPDK, doc links, licences, crate arrows, the manual
	@scripts/setup build
	@cargo xtask lint

doc: ## the manual as a book in docs/book, the crates' reference in target/doc
	@scripts/setup build
	cargo doc --workspace --no-deps --features router/dpdk
	@if command -v mdbook >/dev/null; then mdbook build docs; \
	else echo "docs/*.md can be read as they are; for the book: cargo install --locked mdbook"; fi

clean: ## remove what was built
	cargo clean
	rm -rf docs/book
