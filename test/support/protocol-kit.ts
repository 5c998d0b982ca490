// The kit that holds agents against the protocol, played whole on an agent of ours.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, vi } from 'vitest'
import { runKit } from '../../protocol-kit/run.ts'
import { scenarios } from '../../protocol-kit/scenarios.ts'

/** Every scenario; and nothing of it is left running. */
export async function expectKitPasses(...command: string[]): Promise<void> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-'))
  vi.stubEnv('TMPDIR', folder)
  const said: string[] = []
  try {
    const failed = await runKit([process.execPath, ...command], { say: line => said.push(line), output: 'ignore' })
    expect(failed.join('\n')).toBe('')
    expect(said).toHaveLength(scenarios.length)
    // A process that has ended may be seen for a moment more.
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
