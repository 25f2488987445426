# Calls one function of a bash tool file: bash call.sh FILE FUNCTION
#
# The runner has checked the arguments and laid them beside $LLM_TOOL_DATA_FILE, in files of
# NUL-separated fields:
#   values     VARIABLE COUNT VALUE…     a list; COUNT `-`: a string, with its one VALUE
#   questions  WORD VARIABLE FUNCTION    what only a function of the file can tell
#   tool.sh    if there: the file as it is to be read
# No value is ever part of a command, so none of them can be one. No subshell is started unless
# the file asks for it: each costs a millisecond.

_sleipnir_file=$1 _sleipnir_function=$2 _sleipnir_call=${LLM_TOOL_DATA_FILE%/*}

_sleipnir_assign_values() {
  local -a fields
  local at=0 count
  mapfile -d '' -t fields <"$_sleipnir_call/values"
  while ((at < ${#fields[@]})); do
    count=${fields[at + 1]}
    if [[ $count == - ]]; then
      printf -v "${fields[at]}" '%s' "${fields[at + 2]}"
      count=1
    else
      local -n list=${fields[at]}
      list=("${fields[@]:at+2:count}")
      unset -n list
    fi
    at=$((at + 2 + count))
  done
}

_sleipnir_ask_functions() {
  local -a fields
  local at=0
  mapfile -d '' -t fields <"$_sleipnir_call/questions"
  while ((at < ${#fields[@]})); do
    "_sleipnir_${fields[at]}" "${fields[at + 1]}" "${fields[at + 2]}"
    at=$((at + 3))
  done
}

_sleipnir_default() { printf -v "$1" '%s' "$("$2")"; }

_sleipnir_default_list() {
  local -n list=$1
  local value=$("$2") # declared as it is assigned: or a failure would count for `set -e`
  list=("$value")
}

_sleipnir_default_env() {
  _sleipnir_default "$1" "$2"
  export "${1?}"
}

_sleipnir_choice() {
  local -n given=$1
  [[ -v given ]] || return 0
  local allowed=$'\n'$("$2")$'\n' value # again one command
  for value in "${given[@]}"; do
    if [[ $value == *$'\n'* || $allowed != *$'\n'"$value"$'\n'* ]]; then
      allowed=${allowed#$'\n'} allowed=${allowed%$'\n'}
      printf "error: '%s' must be one of %s; got '%s'\n" \
        "${1#argc_}" "${allowed//$'\n'/, }" "$value" >&2
      exit 2
    fi
  done
}

_sleipnir_assign_values
set -- "${argc__positionals[@]}"

# Files end with `eval "$(argc --argc-eval "$0" "$@")"`: that program's part is done here.
argc() { :; }
# Beside the file, for `dirname "$0"`; yet not its name, or `[[ $0 == "$BASH_SOURCE" ]]` would
# run the tool while it is only being read.
BASH_ARGV0=${_sleipnir_file%/*}/./${_sleipnir_file##*/}

# Not `source … ||`: bash would ignore the file's `set -e`.
if [[ -e $_sleipnir_call/tool.sh ]]; then
  source "$_sleipnir_call/tool.sh"
else
  source "$_sleipnir_file"
fi
unset -f argc

if ! declare -F "$_sleipnir_function" >/dev/null; then
  printf "error: %s has no function '%s'\n" "$_sleipnir_file" "$_sleipnir_function" >&2
  exit 127
fi
if [[ -s $_sleipnir_call/questions ]]; then
  _sleipnir_ask_functions
fi
"$_sleipnir_function" "$@"
