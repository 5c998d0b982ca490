// Owns Debian's pgbench: what the database reaches by itself. Where it is not installed, its benches say so and are skipped.
import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Measurement } from './bench-context.ts'
import { type Cleanup, runForOutput } from './processes.ts'
import { makeTempFolder } from './workerd.ts'

export const hasPgbench = (() => {
  try {
    execFileSync('pgbench', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

export const PGBENCH_MISSING: Measurement = {
  measured: 'skipped',
  met: false,
  skipped: true,
  notes: ['needs pgbench: apt-get install postgresql-contrib'],
}

/** Runs of the script per second; its statements end with semicolons. */
export async function preparePgbench(ending: Cleanup, url: string, script: string) {
  const file = join(await makeTempFolder(ending), 'script.sql')
  await writeFile(file, script)
  return async (seconds: number, clients = 8): Promise<number> => {
    // Only the simple protocol leaves a colon within a text alone.
    const flags = ['-n', '-M', 'simple', '-f', file, '-c', String(clients), '-T', String(seconds)]
    const text = await runForOutput(ending, 'pgbench', [...flags, url])
    const [, tps] = /^tps = ([\d.]+)/m.exec(text) ?? []
    if (!tps || /aborted/.test(text)) throw new Error(`pgbench says: ${text.slice(-500)}`)
    return Number(tps)
  }
}
