#!/usr/bin/env bash
case "$GRAPH_STATE" in *wreck*) echo "not at a wreck" >&2; exit 3 ;; esac
echo '{"finding": "nobody knows"}'
