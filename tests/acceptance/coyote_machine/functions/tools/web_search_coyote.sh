#!/usr/bin/env bash
set -e

# @describe Search the web, and answer from what is found.
# @meta require-tools coyote
# @option --query! What to look for
# @env LLM_OUTPUT=/dev/stdout The output path

main() {
    coyote -m harbour:searcher "$argc_query" >> "$LLM_OUTPUT"
}
