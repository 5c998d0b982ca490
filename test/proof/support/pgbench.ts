// Runs pgbench: what the database reaches by itself. Benches that need it are skipped where it is not installed.
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
  notes: ['pgbench is not installed: apt-get install postgresql-contrib'],
}

/** A function that measures runs of the script per second. Its statements end with semicolons. */
export async function preparePgbench(cleanup: Cleanup, url: string, script: string) {
  const file = join(await makeTempFolder(cleanup), 'script.sql')
  await writeFile(file, script)
  return async (seconds: number, { clients = 8, protocol = 'simple' } = {}): Promise<number> => {
    const time = Math.max(1, Math.round(seconds))
    const flags = ['-n', '-M', protocol, '-f', file, '-c', String(clients), '-T', String(time)]
    const text = await runForOutput(cleanup, 'pgbench', [...flags, url])
    const [, tps] = /^tps = ([\d.]+)/m.exec(text) ?? []
    if (!tps || /aborted/.test(text)) throw new Error(`pgbench failed: ${text.slice(-500)}`)
    return Number(tps)
  }
}
