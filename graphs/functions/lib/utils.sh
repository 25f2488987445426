# What a bash tool finds at $LLM_PROMPT_UTILS_FILE: source it for these functions.
# A tool has no terminal; people are asked through the engine, before anything is changed.

_sleipnir_utils=${BASH_SOURCE[0]%/*}

# Ends the whole tool, also from within `$(…)`, where `exit` alone would let it go on.
_sleipnir_end() {
  [[ $BASHPID == "$$" ]] || kill -TERM "$$"
  exit "$1"
}

# guard_operation [QUESTION]: go on only with a person's consent. Without it the tool ends here;
# once the person agrees, the same call runs again from its start, and this returns.
guard_operation() {
  [[ -z ${AUTO_CONFIRM:-}${LLM_AGENT_VAR_AUTO_CONFIRM:-} ]] || return 0
  local question=${1:-May ${LLM_TOOL_NAME:-${LLM_AGENT_FUNC:-this tool}} go on?}
  if [[ -z ${LLM_GUARD_FILE:-} ]]; then
    error "confirmation is required, but no person is available: $question"
    error "set AUTO_CONFIRM=true to continue"
    _sleipnir_end 1
  fi
  local -a granted
  local grant backslash=\\ quote='"'
  mapfile -d '' -t granted <"$LLM_GUARD_GRANTS_FILE"
  for grant in "${granted[@]}"; do
    [[ $grant != "$question" ]] || return 0
  done
  question=${question//"$backslash"/"$backslash$backslash"}
  question=${question//"$quote"/"$backslash$quote"}
  printf '{"question": "%s"}' "$question" >"$LLM_GUARD_FILE"
  _sleipnir_end 75
}

# guard_path PATH QUESTION: the same, but only for a path outside the current directory.
guard_path() {
  local path here
  path=$(realpath -m -- "$1") && here=$(realpath -- .) || _sleipnir_end 1
  [[ $path/ == "${here%/}"/* ]] || guard_operation "${2:-May $1 be changed?}"
}

error() { printf 'error: %s\n' "$*" >&2; }
warn() { printf 'warning: %s\n' "$*" >&2; }
info() { printf 'info: %s\n' "$*" >&2; }
debug() { printf 'debug: %s\n' "$*" >&2; }
trace() { printf 'trace: %s\n' "$*" >&2; }

# The names of colours work, as functions and as variables; narration has no colours.
black() { printf '%s\n' "$*"; }
red() { printf '%s\n' "$*"; }
green() { printf '%s\n' "$*"; }
yellow() { printf '%s\n' "$*"; }
blue() { printf '%s\n' "$*"; }
magenta() { printf '%s\n' "$*"; }
cyan() { printf '%s\n' "$*"; }
white() { printf '%s\n' "$*"; }
black='' red='' green='' yellow='' blue='' magenta='' cyan='' white=''

# Prints linux, macos, windows, bsd or unknown.
detect_os() {
  case $OSTYPE in
    linux*) echo linux ;;
    darwin*) echo macos ;;
    msys* | cygwin* | win*) echo windows ;;
    *bsd*) echo bsd ;;
    *) echo unknown ;;
  esac
}

# patch_file FILE DIFF: print the file as the unified diff makes it; the file stays as it is.
patch_file() { python3 "$_sleipnir_utils/patch_file.py" "$1" "$2"; }

_sleipnir_no_terminal() {
  error "$1: a tool has no terminal; let the model ask with $2 and pass the answer as an argument"
  _sleipnir_end 1
}
input() { _sleipnir_no_terminal input user__input; }
password() { _sleipnir_no_terminal password user__input; }
editor() { _sleipnir_no_terminal editor user__input; }
list() { _sleipnir_no_terminal list user__ask; }
checkbox() { _sleipnir_no_terminal checkbox user__checkbox; }
confirm() { _sleipnir_no_terminal confirm "user__confirm (or use guard_operation)"; }
