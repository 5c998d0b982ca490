// The kit that holds agents against the protocol: an agent that keeps it passes, and one that does not is told why.
import { afterEach, expect, it } from 'vitest'
import { playKit } from '../../protocol-kit/run.ts'
import { scenarios } from '../../protocol-kit/scenarios.ts'

afterEach(() => {
  delete process.env.KIT_PATIENCE_MS
})

it('passes the smallest agent that keeps the protocol', async () => {
  const said: string[] = []
  const failed = await playKit([process.execPath, 'protocol-kit/fake-agent.ts'], { say: line => said.push(line) })
  expect(failed).toEqual([])
  expect(said).toHaveLength(scenarios.length)
}, 300_000)

it('fails one that does nothing', async () => {
  process.env.KIT_PATIENCE_MS = '2000'
  const idle = [process.execPath, '-e', 'setInterval(() => {}, 1000)']
  const failed = await playKit(idle, { only: 'takes work', say: () => {} })
  expect(failed).toHaveLength(1)
}, 60_000)
