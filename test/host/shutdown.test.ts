// Signals end a server. start.test.ts tests the process itself.
import { createServer } from 'node:http'
import { expect, test, vi } from 'vitest'
import { createShutdown, SIGNALS } from '../../src/host/shutdown.ts'

test('one Ctrl-C under npm, which sends the signal again, is not a second one', async () => {
  const exit = vi.spyOn(process, 'exit').mockReturnValue(undefined as never)
  const work = Promise.withResolvers<void>()
  const known = new Set(SIGNALS.flatMap(name => process.listeners(name)))
  createShutdown().onSignal(createServer(), { delayMs: 0, timeoutMs: 60_000 }, () => work.promise)
  const send = (name: (typeof SIGNALS)[number]) => {
    for (const listener of process.listeners(name)) if (!known.has(listener)) listener(name)
  }
  try {
    send('SIGINT')
    send('SIGINT')
    expect(exit).not.toHaveBeenCalled()
    send('SIGTERM')
    expect(exit).toHaveBeenLastCalledWith(143)
    work.resolve()
    await expect.poll(() => exit.mock.lastCall).toEqual([0])
  } finally {
    for (const name of SIGNALS)
      for (const listener of process.listeners(name)) if (!known.has(listener)) process.off(name, listener)
    exit.mockRestore()
  }
})
