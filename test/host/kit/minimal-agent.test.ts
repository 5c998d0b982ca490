// The smallest agent that keeps the protocol passes the kit, and one that does not is told why.
import { afterEach, expect, it, vi } from 'vitest'
import { runKit } from '../../../protocol-kit/run.ts'
import { expectKitPasses } from '../../support/protocol-kit.ts'

afterEach(() => vi.unstubAllEnvs())

it('passes', () => expectKitPasses('protocol-kit/fake-agent.ts'), 600_000)

it('fails where it does nothing', async () => {
  vi.stubEnv('KIT_TIMEOUT_MS', '2000')
  const idle = [process.execPath, '-e', 'setInterval(() => {}, 1000)']
  const failed = await runKit(idle, { only: 'takes work', print: () => {} })
  expect(failed).toHaveLength(1)
})
