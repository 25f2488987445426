#!/usr/bin/env bash
set -e

# @describe Look up how much seed of a kind is left in the shed.
# Names are those on the packets.
# @meta require-tools sed
# @option --kind! <NAME> The kind of seed.
# @option --unit[=grams|packets] What to count in.
# @flag --with-shop Say where more can be bought.

# @env LLM_OUTPUT=/dev/stdout The output path
# @env SEED_SHOP! The shop to buy from.

source "$LLM_ROOT_DIR/../utils/format.sh"

main() {
    echo "counting $argc_kind"
    {
        echo "$argc_kind: 40 $argc_unit"
        if [[ -n "$argc_with_shop" ]]; then
            echo "more at $SEED_SHOP"
        fi
    } | as_bullets >> "$LLM_OUTPUT"
}

eval "$(argc --argc-eval "$0" "$@")"
