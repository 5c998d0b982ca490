// Signals for the processes of a terminal inside a container, which no API sends. Their environment has its id.

const MARK = 'SLIPWAY_TERMINAL_ID'
export const markOf = (id: string): string => `${MARK}=${id}`

const SCRIPT = `for p in /proc/[0-9]*; do
  case "$(tr '\\0' '\\n' <$p/environ 2>/dev/null)" in *${MARK}=$1*) kill -s $0 "\${p#/proc/}" ;; esac
done`

/** A command that signals all of them. `name` is such as SIGHUP. */
export const signalCommand = (name: string, id: string): string[] => ['sh', '-c', SCRIPT, name.replace('SIG', ''), id]
