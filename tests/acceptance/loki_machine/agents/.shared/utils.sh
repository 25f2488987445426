# What the tools of several agents share.

# as_json_list LINE…: the lines as a JSON list of strings.
as_json_list() {
    printf '%s\n' "$@" | jq --raw-input --slurp --compact-output 'split("\n") | map(select(. != ""))'
}
