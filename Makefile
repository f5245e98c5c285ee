# What a person runs, and what CI runs. `make` or `make help` lists it.

# How long `make fuzz` runs each target.
FUZZ_SECONDS ?= 10
# More options for `make demo`, such as ARGS="--for 20s".
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test check bench fuzz cmake

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## /\1\t/p' Makefile

demo: cmake ## two simulated engines, a 90/10 split and a live table; ends by itself
	cargo run --locked --profile demo -- demo $(ARGS)

test: cmake ## all tests of all packages, and the examples in the documentation
	cargo test --locked --workspace

check: cmake ## formatting, lints and documentation, warnings denied
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

bench: ## the benches of the decisions and the meter; see BENCHMARKING.md
	cargo bench --locked --package greylag-filters --benches

fuzz: ## each fuzz target for FUZZ_SECONDS; needs nightly Rust and cargo-fuzz
	@.ci/fuzz $(FUZZ_SECONDS)

# A library that Pingora links is built with it.
cmake:
	@.ci/need cmake cmake
