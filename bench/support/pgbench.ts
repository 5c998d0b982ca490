// Owns Debian's pgbench: what the database reaches by itself. Where it is not installed, its benches say so and are skipped.
import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Measured } from './lab.ts'
import { type Ending, output } from './processes.ts'
import { temporary } from './workerd.ts'

export const installed = (() => {
  try {
    execFileSync('pgbench', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

export const withoutPgbench: Measured = {
  measured: 'skipped',
  met: false,
  skipped: true,
  notes: ['needs pgbench: apt-get install postgresql-contrib'],
}

/** Runs of the script per second; its statements end with semicolons. */
export async function pgbench(ending: Ending, url: string, script: string) {
  const file = join(await temporary(ending), 'script.sql')
  await writeFile(file, script)
  return async (seconds: number, clients = 8): Promise<number> => {
    // Only the simple protocol leaves a colon within a text alone.
    const flags = ['-n', '-M', 'simple', '-f', file, '-c', String(clients), '-T', String(seconds)]
    const text = await output(ending, 'pgbench', [...flags, url])
    const [, tps] = /^tps = ([\d.]+)/m.exec(text) ?? []
    if (!tps || /aborted/.test(text)) throw new Error(`pgbench says: ${text.slice(-500)}`)
    return Number(tps)
  }
}
