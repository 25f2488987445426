#!/usr/bin/env bash
# @describe Return the arguments as they arrive, and the variables that describe the call.
# A living reference for the authors of tools; of no use to a model.
# @meta require-tools bash,env
# @env DEMO_GREETING=hello Reaches the tool from the worker's environment.
# @env DEMO_MOOD[calm|merry] One of two words, where it is set.

# @option -t --text! Any text; required.
# @option --maybe A text that may be left out.
# @option --default=plain A text with a default.
# @option --computed=`_computed_default` A text whose default a function prints.
# @option --count <INT> A whole number.
# @option --ratio <NUM> A number.
# @option --colour[red|green] One of two words.
# @option --size[=small|large] One of two words; the first is the default.
# @option --must-choose![yes|no] One of two words; required.
# @option --shape[`_shapes`] One of the words that a function prints.
# @option --idea[?`_shapes`] The same as a suggestion only.
# @option --words* Several texts.
# @option --some+ Several texts, one at least.
# @option --listed*, Several texts, or one with commas between.
# @option --joined+, The same, one at least.
# @option --tones*[low|high] Several of two words.
# @option --pair <FROM> <TO> Two texts.
# @option --many <FIRST> <REST+> Two texts or more.
# @flag -f --flag True or false.
# @flag -v --verbose* True or false; on a command line it counts.
# @arg place! A positional argument; required.
# @arg rest~ All that is left.

main() {
  {
    printf '{"arguments": {'
    _variables argc_
    printf '}, "positionals": '
    _list "$@"
    printf ', "environment": {'
    _variables LLM_
    [[ -z ${AUTO_CONFIRM+set} ]] || printf ', "AUTO_CONFIRM": %s' "$(_text "$AUTO_CONFIRM")"
    printf ', "DEMO_GREETING": %s' "$(_text "$DEMO_GREETING")"
    printf '}}\n'
  } >>"$LLM_OUTPUT"
}

_computed_default() { printf 'computed\n'; }
_shapes() { printf 'circle\nsquare\n'; }

# All variables with a prefix as members of an object; the arguments without it.
_variables() {
  local prefix=$1 name comma=''
  for name in $(compgen -v "$prefix"); do
    [[ $name != argc__* ]] || continue
    printf '%s%s: ' "$comma" "$(_text "${name#argc_}")"
    if [[ $(declare -p "$name") == 'declare -a'* ]]; then
      local -n _values=$name
      _list "${_values[@]}"
      unset -n _values
    else
      _text "${!name}"
    fi
    comma=', '
  done
}

# Texts as a list.
_list() {
  local value comma=''
  printf '['
  for value in "$@"; do
    printf '%s%s' "$comma" "$(_text "$value")"
    comma=', '
  done
  printf ']'
}

# A text as JSON: control characters but tab and newline are left out.
_text() {
  local text=$1 backslash=\\ quote='"'
  text=${text//"$backslash"/"$backslash$backslash"}
  text=${text//"$quote"/"$backslash$quote"}
  text=${text//$'\n'/"${backslash}n"}
  text=${text//$'\t'/"${backslash}t"}
  printf '"%s"' "${text//[[:cntrl:]]/}"
}
