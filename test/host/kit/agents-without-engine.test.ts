// The protocol kit with agents that run no applications: one that passes, and three that fail.
import { afterEach, expect, test, vi } from 'vitest'
import { runKit } from '../../proof/kit/run.ts'
import { createMigratedDatabase } from '../../support/migrated-postgres.ts'
import { expectKitPasses } from '../../support/protocol-kit.ts'

afterEach(() => vi.unstubAllEnvs())

/** One scenario is enough to fail. */
const runOneScenario = async (command: string[]) =>
  runKit(command, { only: 'takes work', print: () => {}, databaseUrl: await createMigratedDatabase() })

test(
  'the smallest agent that follows the protocol passes',
  () => expectKitPasses('test/proof/kit/fake-agent.ts'),
  600_000,
)

test('an agent that does nothing fails', async () => {
  vi.stubEnv('KIT_TIMEOUT_MS', '2000')
  expect(await runOneScenario([process.execPath, '-e', 'setInterval(() => {}, 1000)'])).toHaveLength(1)
})

// The test's timeout is shorter than the minute for which a scenario waits.
test.each([
  ['exits', [process.execPath, '-e', 'process.exit(3)'], 'code 3'],
  ['does not exist', ['slipway-no-such-agent'], 'spawn slipway-no-such-agent'],
])(
  'a command that %s fails at once, with the reason',
  async (_, command, reason) => {
    expect(await runOneScenario(command)).toEqual([expect.stringContaining(reason)])
  },
  55_000,
)
