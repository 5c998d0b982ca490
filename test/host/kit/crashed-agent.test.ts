// An agent that ends by itself is told at once, and not when the kit's patience is over.
import { expect, test } from 'vitest'
import { runKit } from '../../../protocol-kit/run.ts'

test.each([
  ['ends', [process.execPath, '-e', 'process.exit(3)'], 'code 3'],
  ['is not there', ['slipway-no-such-agent'], 'spawn slipway-no-such-agent'],
])(
  'a command that %s',
  async (_, command, why) => {
    const failed = await runKit(command, { only: 'takes work', print: () => {} })
    expect(failed).toEqual([expect.stringContaining(why)])
  },
  55_000,
)
