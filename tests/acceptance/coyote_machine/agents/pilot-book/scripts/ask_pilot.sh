#!/usr/bin/env bash
case "$GRAPH_STATE" in
*'"question":"zzz fog'*) echo "the pilot is asleep" >&2; exit 3 ;;
esac
echo '{"answer": "ask the pilot"}'
