#!/usr/bin/env bash
set -e

# @meta version 0.3.0
# @meta require-tools jq,tr
# @env LLM_OUTPUT=/dev/stdout The output path
# @env GARDEN_LEDGER=orders.txt Where orders are written down
# @env LLM_AGENT_VAR_GARDEN! The garden
# @option --language[=en|de] The language of what is said.

source "$LLM_PROMPT_UTILS_FILE"
source "$LLM_ROOT_DIR/../.shared/utils.sh"

_seasons() {
    printf '%s\n' spring summer autumn
}

_this_season() {
    echo spring
}

# @cmd List the beds of the garden.
# One text a bed.
# @alias ls
# @option -k --kind[sun|shade] Only beds of this kind.
# @flag --lengths Say how long they are.
list-beds() {
    local beds=()
    [[ "$argc_kind" == shade ]] || beds+=("south wall${argc_lengths:+, 6 m}")
    [[ "$argc_kind" == sun ]] || beds+=("by the pond${argc_lengths:+, 3 m}")
    as_json_list "${beds[@]}" >> "$LLM_OUTPUT"
}

# @cmd Say how a crop is sown.
# @arg crop! The crop.
# @option --season=`_this_season` When it is sown.
# @option --next[`_seasons`] When it is sown again.
sowing_note() {
    info "noting $1"
    if [[ "$argc_language" == de ]]; then
        echo "$argc_crop: aussäen" >> "$LLM_OUTPUT"
    else
        echo "$argc_crop: sow in $argc_season${argc_next:+ and $argc_next}" >> "$LLM_OUTPUT"
    fi
}

# @cmd Order seed.
# @option --item! <NAME> What to order.
# @option --grams=10 <INT> How much.
# @option --most <NUM> What it may cost.
# @option --label* Labels to print.
# @option --days+, <DAY> The days on which somebody is there.
# @option --window <FROM> <TO> Between which hours.
# @flag --urgent Send it at once.
# @flag -v --verbose* Say more.
# @arg notes~ Anything else.
order_seed() {
    echo "ordering with code $LLM_AGENT_VAR_DELIVERY_CODE"
    echo "the shop knows $LLM_AGENT_VAR_DELIVERY_CODE" >&2
    local line="$argc_grams g $argc_item"
    line+=" labels=${argc_label[*]:-none} days=${argc_days[*]} window=${argc_window[*]:-any}"
    line+=" most=${argc_most:-any} urgent=${argc_urgent:-no} verbose=${argc_verbose:-0}"
    line+=" notes=${argc_notes[*]:-none} for $LLM_AGENT_VAR_GARDEN"
    echo "$line" >> "$GARDEN_LEDGER"
    echo "$line, code $LLM_AGENT_VAR_DELIVERY_CODE" >> "$LLM_OUTPUT"
}

# @cmd Clear a bed of all that grows in it.
# @option --bed! The bed.
clear_bed() {
    guard_operation "Clear the bed $argc_bed?"
    echo "cleared $argc_bed" >> "$GARDEN_LEDGER"
    echo "cleared" >> "$LLM_OUTPUT"
}

eval "$(argc --argc-eval "$0" "$@")"
