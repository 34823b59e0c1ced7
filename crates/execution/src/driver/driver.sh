# Runs the setup script in this shell and tells the reader outside, statement by statement, through two FIFOs beside
# this file: `mark` carries records that end in a NUL, `ack` the tokens of the marks that may go on. Everything here is
# a builtin and goes by path, so that a script which closes descriptors, empties PATH or sets IFS changes nothing.
# Records: KIND \t TOKEN-OR-STATUS \t PID \t LAST-BACKGROUND-PID \t DEPTH \t FLAGS \t LINE \t FILE \t COMMAND \0
declare -r __gw_dir=${BASH_SOURCE[0]%/*}
declare -r __gw_src=$__gw_dir/script
# Lines inside subshells that the script's shell waits for: their statements are marked too.
declare -ar __gw_plain=(@PLAIN@)
declare -i __gw_line=0 __gw_n=0
declare -a __gw_seen=()
__gw_last=

# Sends a record and waits until the reader lets the shell go on (everything written before it has been read then).
# Tokens of marks that were given up on after a minute are passed over.
__gw_wait() {
  local __gw_a __gw_t=$BASHPID.$__gw_n
  builtin printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\0' "$1" "$__gw_t" "$BASHPID" "${!-}" "$BASH_SUBSHELL" "$-" "$2" "$3" "$4" >"$__gw_dir/mark"
  while IFS= builtin read -r -t 60 __gw_a <"$__gw_dir/ack"; do
    [[ $__gw_a != "$__gw_t" ]] || break
  done
  return 0
} 2>/dev/null

# M: a statement is about to run. m: the same for a line that was marked often enough; nothing waits for it.
__gw_mark() {
  __gw_line=$1
  if (( ${__gw_seen[$1]:-0} >= 20 )); then
    builtin printf 'm\t0\t%s\t%s\t%s\t%s\t%s\t%s\t%s\0' "$BASHPID" "${!-}" "$BASH_SUBSHELL" "$-" "$1" "$__gw_src" "${2:0:200}" >"$__gw_dir/mark"
    return 0
  fi
  __gw_seen[$1]=$(( ${__gw_seen[$1]:-0} + 1 ))
  __gw_n+=1
  __gw_wait M "$1" "$__gw_src" "${2:0:200}"
} 2>/dev/null

# E: a command failed. Never waits.
__gw_fail() {
  builtin printf 'E\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\0' "$1" "$BASHPID" "${!-}" "$BASH_SUBSHELL" "$-" "$2" "${3:0:400}" "${4:0:400}" >"$__gw_dir/mark"
  return 0
} 2>/dev/null

# N: the script does not parse; nothing of it has run. Patterns such as !(x) parse only once the script has turned them on.
if ! __gw_a=$(LC_ALL=C "$BASH" -n "$__gw_src" 2>&1) && ! LC_ALL=C "$BASH" -O extglob -n "$__gw_src" 2>/dev/null; then
  __gw_b=0
  [[ $__gw_a =~ :\ line\ ([0-9]+): ]] && __gw_b=${BASH_REMATCH[1]}
  builtin printf '%s\n' "$__gw_a" >&2
  __gw_wait N "$__gw_b" "$__gw_src" ''
  exit 2
fi

# What a login shell reads. Not `bash -l` itself: in a login shell `exit 3` also runs ~/.bash_logout under errexit, whose
# own failure would then be the exit code.
if [[ -r /etc/profile ]]; then . /etc/profile || :; fi
for __gw_a in ~/.bash_profile ~/.bash_login ~/.profile; do
  if [[ -r $__gw_a ]]; then . "$__gw_a" || :; break; fi
done
BASH_ARGV0=$__gw_src
set -eETo pipefail

# S: the script starts; the command field holds what a reader of the log wants to know once.
__gw_a='\u' __gw_b="${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}"
__gw_n+=1
__gw_wait S 0 "${PWD:0:400}" "$__gw_b"$'\t'"${__gw_a@P}"$'\t'"${HOME-}"$'\t'"$SHELLOPTS"
unset __gw_a __gw_b

# With `set -x` the traps would trace themselves: their standard error is discarded.
trap '{ __gw_fail "$?" "$LINENO" "${BASH_SOURCE[0]-}" "$BASH_COMMAND"; } 2>/dev/null' ERR
# `: "$__gw_last"` gives the script back its own $_.
trap '{ __gw_last=$_; [[ $LINENO -ne $__gw_line && ${BASH_SOURCE[0]-} == "$__gw_src" && ( $BASH_SUBSHELL -eq 0 || ( $BASH_SUBSHELL -eq 1 && -n ${__gw_plain[LINENO]-} ) ) ]] && __gw_mark "$LINENO" "$BASH_COMMAND"; : "$__gw_last"; } 2>/dev/null' DEBUG
source "$__gw_src"
