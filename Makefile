# The everyday commands, over all modules of go.work. "make help" lists them; "make" runs what a change should pass.

MODULES := $(shell go list -m -f '{{.Dir}}')
# Modules that hold no Go files yet are left out: the go command makes an error of them.
PACKAGES := $(patsubst %,%/...,$(foreach m,$(MODULES),$(if $(shell find $(m) -name '*.go' -print -quit),$(m))))

BIN := $(CURDIR)/.tmp/bin
STATICCHECK := $(BIN)/staticcheck-v0.8.2
GOLANGCI := $(BIN)/golangci-lint-v2.15.0
BENCHSTAT := $(BIN)/benchstat-v0.0.0-20260908200009-22c9c6c9d4da

FUZZTIME ?= 5s
COUNT ?= 6

.DEFAULT_GOAL := all
.PHONY: all fmt vet lint test race fuzz-short bench-smoke bench api docs examples ci help

all: fmt vet lint test race fuzz-short bench-smoke api docs ## everything a change should pass before it is shown

fmt: ## rewrite Go files in gofmt's form, and print their names
	@gofmt -l -w .

vet: ## go vet
	go vet $(PACKAGES)

lint: $(STATICCHECK) $(GOLANGCI) ## staticcheck, and golangci-lint by .golangci.yml
	$(STATICCHECK) $(PACKAGES)
	$(GOLANGCI) run $(PACKAGES)

test: ## all tests, quickly
	go test $(PACKAGES)

race: ## all tests under the race detector, in random order
	go test -race -shuffle=on $(PACKAGES)

fuzz-short: ## each fuzz target for FUZZTIME (5s)
	@FUZZTIME=$(FUZZTIME) .ci/fuzz $(PACKAGES)

bench-smoke: ## one iteration of each benchmark, to see that it runs
	go test -run '^$$' -bench . -benchtime 1x $(PACKAGES)

bench: $(BENCHSTAT) ## the benchmarks of module bench, COUNT (6) times, summed up by benchstat
	@mkdir -p .tmp
	go test -run '^$$' -bench . -count $(COUNT) $(CURDIR)/bench/... > .tmp/bench.txt
	$(BENCHSTAT) .tmp/bench.txt

api: ## rewrite the exported surface in internal/repocheck/api.txt, to be read in review
	go test ./internal/repocheck -run '^TestRepository$$/^api$$' -update
	@git diff --stat -- internal/repocheck/api.txt

docs: ## the rules about documentation, and every example in it
	go test ./internal/repocheck -run '^TestRepository$$/^(docs|prose|words)$$'
	go test -run '^Example' $(PACKAGES)

examples: ## build every program in module examples
	@mkdir -p .tmp/examples
	go build -o .tmp/examples/ $(CURDIR)/examples/...

ci: ## what a submission must pass, as on a clean machine
	.ci/run

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 14

$(STATICCHECK): PKG := honnef.co/go/tools/cmd/staticcheck
$(GOLANGCI): PKG := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BENCHSTAT): PKG := golang.org/x/perf/cmd/benchstat

# The version is the part of the file's name after the tool's, so that a new pin is a new file.
$(STATICCHECK) $(GOLANGCI) $(BENCHSTAT):
	GOBIN=$(BIN) GOWORK=off go install $(PKG)@$(patsubst $(notdir $(PKG))-%,%,$(notdir $@))
	@mv $(BIN)/$(notdir $(PKG)) $@
