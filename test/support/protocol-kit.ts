// Runs the whole protocol kit with an agent of ours.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, vi } from 'vitest'
import { runKit } from '../../protocol-kit/run.ts'
import { scenarios } from '../../protocol-kit/scenarios.ts'

/** Every scenario passes, and no process is left. */
export async function expectKitPasses(...command: string[]): Promise<void> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-'))
  vi.stubEnv('TMPDIR', folder)
  const printed: string[] = []
  try {
    const failed = await runKit([process.execPath, ...command], { print: line => printed.push(line), output: 'ignore' })
    expect(failed.join('\n')).toBe('')
    expect(printed).toHaveLength(scenarios.length)
    // A process that has just ended may still be listed.
    await expect.poll(() => listProcessesIn(folder)).toEqual([])
  } finally {
    vi.unstubAllEnvs()
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

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
