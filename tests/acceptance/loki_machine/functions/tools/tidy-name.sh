#!/usr/bin/env bash
# @describe Put the name of a plant into the form used on labels.
# @arg words+ The words of the name.
# @env LLM_OUTPUT=/dev/stdout The output path

main() {
    local name="${argc_words[*]}"
    printf '%s' "${name^}" >> "$LLM_OUTPUT"
}

# ARGC-BUILD {
# What a compiler of the annotations above once put here. It must not be run.
_argc_run() {
    echo "the compiled part was run" >&2
    exit 99
}
_argc_run "$@"
# ARGC-BUILD }
