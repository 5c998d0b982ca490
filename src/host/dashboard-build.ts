// Builds the dashboard for `npm run dev`, in a child process that takes no time from the start of the rest.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants, setPriority } from 'node:os'
import { join } from 'node:path'
import { PROJECT_ROOT } from './home-folder.ts'

/** Until it has finished, /ui shows a page that reloads. `onProblem` gets why the build failed. */
export function buildStaleDashboard(onProblem: (text: string) => void): { stop(): Promise<void> } {
  const command = [join(PROJECT_ROOT, 'scripts/dashboard-build.ts'), '--if-stale']
  const child = spawn(process.execPath, command, { cwd: PROJECT_ROOT, stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text))
  const closed = once(child, 'close').catch(({ message }: Error) => {
    output ||= message
    return [1, null]
  })
  if (child.pid) setPriority(child.pid, constants.priority.PRIORITY_LOW)
  closed.then(([code]) => code && onProblem(`The dashboard was not built. ${output.trim()}`))
  return {
    async stop() {
      child.kill()
      await closed
    },
  }
}
