// The entry of a worker on Deno or Bun: see runtime-pool.ts.
import { init, runBaseTests, setupEnvironment } from 'vitest/worker'
import { decodeMessage, encodeMessage } from './runtime-messages.ts'

// Tests replace some of these.
const exit = process.exit.bind(process)
const send = process.send!.bind(process)
// The parent, Vitest, has died.
process.on('disconnect', () => exit(1))

const listeners = new Map<(message: unknown) => void, (text: string) => void>()
init({
  post: message => send(message),
  on(listener) {
    const receive = (text: string) => listener(text)
    listeners.set(listener, receive)
    process.on('message', receive)
  },
  off(listener) {
    process.off('message', listeners.get(listener)!)
  },
  serialize: encodeMessage,
  deserialize: decodeMessage as (text: unknown) => unknown,
  runTests: (state, traces) => runBaseTests('run', state, traces),
  collectTests: (state, traces) => runBaseTests('collect', state, traces),
  setup: setupEnvironment,
})
