#!/usr/bin/env bash
set -euo pipefail
echo "surveying $LLM_AGENT_VAR_GARDEN for $GARDEN_LEDGER" >&2
jq --null-input --compact-output --arg garden "$LLM_AGENT_VAR_GARDEN" \
    '{beds: ["south wall", "by the pond"], place: $garden}'
