// Runs every scenario of the protocol kit with an agent.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, vi } from 'vitest'
import { runKit } from '../proof/kit/run.ts'
import { scenarios } from '../proof/kit/scenarios.ts'
import { createMigratedDatabase } from './migrated-postgres.ts'

/** The arguments of `node` start the agent. Expects that it passes and leaves no process running. */
export async function expectKitPasses(...args: string[]): Promise<void> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-'))
  vi.stubEnv('TMPDIR', folder)
  const lines: string[] = []
  try {
    const failed = await runKit([process.execPath, ...args], {
      print: line => lines.push(line),
      output: 'ignore',
      parallel: 4,
      databaseUrl: await createMigratedDatabase(),
    })
    expect(failed.join('\n')).toBe('')
    expect(lines).toHaveLength(scenarios.length)
    // An exited process stays visible until its parent reads its status.
    await expect.poll(() => listProcessesIn(folder)).toEqual([])
  } finally {
    vi.unstubAllEnvs()
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

/** Works on Linux only. */
function listProcessesIn(folder: string): string[] {
  if (process.platform !== 'linux') return []
  return fs.readdirSync('/proc').filter(pid => {
    try {
      return /^\d+$/.test(pid) && fs.readlinkSync(`/proc/${pid}/cwd`).startsWith(folder)
    } catch {
      return false
    }
  })
}
