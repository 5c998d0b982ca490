// The kit that holds agents against the protocol: an agent that keeps it passes, ours too, and one that does not is told why.
import * as fs from 'node:fs'
import { afterEach, expect, it } from 'vitest'
import { playKit } from '../../protocol-kit/run.ts'
import { scenarios } from '../../protocol-kit/scenarios.ts'

afterEach(() => {
  delete process.env.KIT_PATIENCE_MS
})

/** What an agent of the kit has started, and whatever that has. */
function left(): string[] {
  if (process.platform !== 'linux') return []
  return fs.readdirSync('/proc').filter(pid => {
    try {
      return /^\d+$/.test(pid) && fs.readlinkSync(`/proc/${pid}/cwd`).includes('slipway-kit-agent-')
    } catch {
      return false
    }
  })
}

it.each([
  ['the smallest agent that keeps the protocol', ['protocol-kit/fake-agent.ts']],
  ['our agent with an engine that runs nothing', ['protocol-kit/our-agent.ts']],
  ['our agent with the process engine', ['src/agent/main.ts', '--stop']],
])(
  'passes %s',
  async (_, command) => {
    const before = left()
    const said: string[] = []
    const failed = await playKit([process.execPath, ...command], { say: line => said.push(line), output: 'ignore' })
    expect(failed).toEqual([])
    expect(said).toHaveLength(scenarios.length)
    expect(left().filter(pid => !before.includes(pid))).toEqual([])
  },
  300_000,
)

it('fails one that does nothing', async () => {
  process.env.KIT_PATIENCE_MS = '2000'
  const idle = [process.execPath, '-e', 'setInterval(() => {}, 1000)']
  const failed = await playKit(idle, { only: 'takes work', say: () => {} })
  expect(failed).toHaveLength(1)
}, 60_000)
