// Log lines of `npm start`: those of a short while are written at once, in order, and none is lost at the end.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it, onTestFinished, vi } from 'vitest'
import { createLogWriter } from '../../src/host/log-writer.ts'

const MODULE = join(import.meta.dirname, '../../src/host/log-writer.ts')

it('writes the lines of a short while at once, in order', () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const write = vi.fn(() => true)
  const log = createLogWriter({ write, fd: 1 })
  for (const n of [1, 2, 3]) log({ n })
  vi.advanceTimersByTime(100)
  log({ n: 4 })
  vi.advanceTimersByTime(100)
  expect(write.mock.calls).toEqual([['{"n":1}\n{"n":2}\n{"n":3}\n'], ['{"n":4}\n']])
})

it.each(['process.exit(3)', 'throw new Error("broken")', ''])(
  'loses no line when the process ends by %j',
  async end => {
    const program = `
    const { createLogWriter } = await import(${JSON.stringify(MODULE)})
    const log = createLogWriter(process.stdout)
    for (let n = 0; n < 2000; n++) log({ n, text: 'x'.repeat(100) })
    ${end}`
    const ended = promisify(execFile)(process.execPath, ['--input-type=module', '-e', program])
    const { stdout } = await ended.catch((error: { stdout: string }) => error)
    expect(stdout.trim().split('\n')).toHaveLength(2000)
  },
)
