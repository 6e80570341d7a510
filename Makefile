# The commands to remember; `make help` lists them. GNU make.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
NEED := integration-tests/need.sh
MARIADB := mariadbd=mariadb-server-core mariadb-install-db=mariadb-server-core \
           mariadb-binlog=mariadb-client mariadb=mariadb-client
# What the tests play a server's part with.
TOOLS := openssl=openssl
# Authentication plugins that the core packages lack.
export SPILLWAY_PLUGIN_DIR := $(CURDIR)/.servers/plugins
# Further servers: unpacked beside the installed one, not installed.
export SPILLWAY_SERVERS_DIR ?= $(CURDIR)/.servers
# The series the tests are written for.
SERIES := 10.11

.PHONY: help demo test soak bench lint need-mariadb need-series plugins newer-series

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: need-mariadb ## primary, Spillway and replica on this machine until Ctrl-C; ARGS=--once checks them and ends
	$(CARGO) build --release -p spillway --bin spillway
	$(TARGET_DIR)/release/spillway demo $(ARGS)

test: need-series plugins newer-series ## all tests: units, documentation, real servers
	$(NEED) $(TOOLS)
	$(CARGO) build --workspace --bins --tests --examples
	$(CARGO) test --workspace

soak: need-series plugins newer-series ## the log against its model and the tests with real servers, with the counts of a long run (over an hour, and up to 80 GB of disk for the servers of a test)
	$(NEED) $(TOOLS)
	$(CARGO) build --workspace --bins --tests --examples
	SPILLWAY_SEEDS=$${SPILLWAY_SEEDS:-10000} $(CARGO) test -p spillway-binlog --lib model
	SPILLWAY_FUZZ=$${SPILLWAY_FUZZ:-50000000} $(CARGO) test -p spillway-binlog --test fuzz_targets
	SPILLWAY_RENAMES=$${SPILLWAY_RENAMES:-1000} $(CARGO) test -p spillway-binlog --test renames
	SPILLWAY_CUT_EVERY=$${SPILLWAY_CUT_EVERY:-1} $(CARGO) test -p spillway --test capture any_kind
	SPILLWAY_HISTORIES=$${SPILLWAY_HISTORIES:-1000} $(CARGO) test -p spillway --test capture any_history
	SPILLWAY_KILLS=$${SPILLWAY_KILLS:-200} SPILLWAY_RESTARTS=$${SPILLWAY_RESTARTS:-1300} SPILLWAY_LOAD_STEPS=$${SPILLWAY_LOAD_STEPS:-600} \
	SPILLWAY_PACKETS=$${SPILLWAY_PACKETS:-3} SPILLWAY_LARGE_ROW_MIB=$${SPILLWAY_LARGE_ROW_MIB:-900} \
	SPILLWAY_LARGE_MIB=$${SPILLWAY_LARGE_MIB:-5120} SPILLWAY_LARGE_KILLS=$${SPILLWAY_LARGE_KILLS:-20} \
	  $(CARGO) test -p spillway-integration-tests --test main -- --nocapture $(ARGS)

bench: ## relay, capture and log measured; ARGS="relay", "capture" or "log" for one of them ("log stall" for a part of it)
ifneq ($(firstword $(ARGS)),log)
	$(MAKE) --no-print-directory need-series
	$(NEED) haproxy=haproxy sysbench=sysbench
	$(CARGO) build --release -p spillway -p spillway-integration-tests --bins
	$(TARGET_DIR)/release/bench $(ARGS)
endif
ifneq ($(if $(ARGS),$(filter log,$(firstword $(ARGS))),log),)
	$(CARGO) build --release -p spillway-binlog --examples
	$(TARGET_DIR)/release/examples/log_bench $(wordlist 2,99,$(ARGS))
	$(if $(wordlist 2,99,$(ARGS)),,$(TARGET_DIR)/release/examples/packing_bench)
endif

lint: ## rustfmt and clippy, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

need-mariadb:
	@$(NEED) $(MARIADB)

need-series: need-mariadb
	@version=$$(PATH="$$PATH:/usr/sbin" mariadbd --version); \
	if [[ $$version != *" $(SERIES)."* ]]; then \
	  echo "The tests need MariaDB $(SERIES) (Debian 12 has it); found: $$version" >&2; exit 1; \
	fi

plugins: need-series
	@integration-tests/plugins.sh $(SPILLWAY_PLUGIN_DIR)

newer-series:
	@integration-tests/series.sh mariadb-11.8 $(SPILLWAY_SERVERS_DIR)/11.8
	@integration-tests/series.sh mysql-9.7 $(SPILLWAY_SERVERS_DIR)/mysql-9.7
