# Groundwork. `make help` lists what there is; README.md says more.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

.PHONY: help
help: ## what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: run
run: ## install what is missing, build, prepare the runner image, start on http://127.0.0.1:3000
	@scripts/run.sh

.PHONY: test
test: ## everything that CI checks
	@scripts/test.sh

.PHONY: build
build: ## the release binary and its site files, in $${CARGO_TARGET_DIR:-target}/release
	@scripts/deps.sh build
	@scripts/build.sh

.PHONY: deps
deps: ## install what building, running and testing need
	@scripts/deps.sh build run test

.PHONY: dev
dev: ## rebuild and restart on every change (debug build)
	@scripts/deps.sh build run
	@. scripts/lib.sh; cargo leptos watch -- serve

.PHONY: bench
bench: ## measure what docs/benchmarks.md lists
	@scripts/bench.sh

.PHONY: test-load
test-load: ## 64 clients at once for two minutes on both databases, and the rules checked against what they saw
	@scripts/deps.sh build run test
	@GROUNDWORK_LOAD_SECONDS=120 cargo test -q -p server --test conformance load:: -- --test-threads 1

.PHONY: fmt
fmt: ## format
	@cargo fmt --all

.PHONY: e2e
e2e: ## the end-to-end suite alone (ARGS goes to Playwright)
	@scripts/deps.sh build run test
	@scripts/build.sh
	@scripts/e2e.sh $(ARGS)
