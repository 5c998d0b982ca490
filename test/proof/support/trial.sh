# The trials in shell share this: results and their count, the cache folder, programs that `--install` installs, what is
# cleaned up at the end.
# shellcheck shell=bash
#
#   #!/usr/bin/env bash
#   # Shows this and that. It needs caddy.
#   . "$(dirname "$0")/../support/trial.sh"
#   need caddy || skip_all "everything: $missing"
#   expect 'two and two' $((2 + 2)) 4
#
# The last line is `N passed, N failed, N skipped`. The status is 1 if anything failed.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

TRIAL=$(basename "$0")
TRIAL=${TRIAL%.*}
# Programs and downloads that survive the trial. Never a folder of the repository.
CACHE=${SLIPWAY_TRIALS:-$HOME/.cache/slipway-trials}
mkdir -p "$CACHE/bin"
export PATH=$CACHE/bin:$PWD/node_modules/.bin:$PATH:/usr/local/go/bin:/usr/lib/go/bin:/usr/sbin:/lib/systemd
NODE=$(node -p process.execPath)

install=false
for argument in "$@"; do [[ $argument == --install ]] && install=true; done

# ---- results

passed_count=0 failed_count=0 skipped_count=0
say() { printf '%s\n' "$*"; }
note() { printf '        %s\n' "$*"; }
passed() {
  passed_count=$((passed_count + 1))
  say "passed  $*"
}
# The trial goes on, and ends with status 1.
failed() {
  failed_count=$((failed_count + 1))
  say "FAILED  $*"
}
skipped() {
  skipped_count=$((skipped_count + 1))
  say "skipped $*"
}
# Ends the trial: the rest makes no sense without it.
fail() {
  failed "$*"
  exit 1
}
skip_all() {
  skipped "$*"
  exit 0
}
# expect NAME ACTUAL EXPECTED
expect() { if [[ $2 == "$3" ]]; then passed "$1"; else failed "$1: expected $3, got $2"; fi; }
# check NAME COMMAND…: passes if the command succeeds. Otherwise its output is shown.
check() {
  local output
  if output=$("${@:2}" 2>&1); then passed "$1"; else
    failed "$1"
    sed 's/^/        /' <<<"$output" | tail -20
  fi
}
# refuse NAME COMMAND…: passes if the command fails.
refuse() { if "${@:2}" >/dev/null 2>&1; then failed "$1: it succeeded"; else passed "$1"; fi; }

# ---- programs of a trial

# need PROGRAM…: succeeds if all are there. With `--install`, first installs each that is missing. Otherwise $missing
# says why.
need() {
  missing=$("$NODE" --input-type=module -e '
    import { findMissing } from "./test/proof/support/trial.ts"
    const reason = findMissing(...process.argv.slice(1).filter(name => name !== "--install"))
    if (reason) console.log(reason)
    process.exitCode = reason ? 1 : 0' -- "$@" $($install && echo --install))
}
until_true() { # SECONDS COMMAND…
  local end=$((SECONDS + $1))
  until "${@:2}" >/dev/null 2>&1; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}
free_port() {
  node -e '
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      console.log(server.address().port)
      server.close()
    })'
}

# page_block PAGE LANGUAGE NUMBER: a block of a page of docs/, such as `operate/installation sh 1`.
page_block() {
  node -e '
    const [page, kind, number] = process.argv.slice(1)
    const text = fs.readFileSync(`docs/${page}.md`, "utf8")
    const block = [...text.matchAll(new RegExp("```" + kind + "\\n(.*?)```", "gs"))][number - 1]
    if (!block) throw new Error(`docs/${page}.md has no block ${number} of ${kind}`)
    process.stdout.write(block[1])' "$@"
}

# ---- the end

work=$(mktemp -d "/tmp/slipway-$TRIAL-XXXXXX")
chmod 755 "$work"
cleanups=()
# at_end COMMAND…: the last one runs first.
at_end() { cleanups=("$(printf '%q ' "$@")" "${cleanups[@]}"); }
has_ended() { [[ ! -e /proc/$1/status ]] || grep -q '^State:.*Z' "/proc/$1/status"; }
stop_process() { # PID
  kill "$1" 2>/dev/null || return 0
  until_true 15 has_ended "$1" || kill -KILL "$1" 2>/dev/null || true
}
stop_at_end() { at_end stop_process "$1"; }

finish_trial() {
  local status=$?
  trap - EXIT
  set +e
  for cleanup in "${cleanups[@]}"; do eval "$cleanup"; done
  rm -rf "$work"
  if ((status != 0 && failed_count == 0)); then failed "$TRIAL: a command ended with status $status"; fi
  say "$passed_count passed, $failed_count failed, $skipped_count skipped"
  exit $((failed_count > 0))
}
trap finish_trial EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
