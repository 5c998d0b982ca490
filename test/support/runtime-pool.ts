// Runs files of tests, and with them the app, inside Deno or Bun: a pool of Vitest whose workers are processes of that
// runtime, so that `fetch`, streams, cryptography and compression are its own.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { ForksPoolWorker, type PoolOptions, type PoolRunnerInitializer, type WorkerRequest } from 'vitest/node'
import { decodeMessage, encodeMessage } from './runtime-messages.ts'

const ENTRY = fileURLToPath(new URL('runtime-worker.ts', import.meta.url))
const PROGRAMS = fileURLToPath(new URL('../../node_modules/.bin', import.meta.url))

const OPTIONS = {
  deno: ['run', '--allow-all', '--no-lock', '--node-modules-dir=manual'],
  bun: ['--no-install'],
}
type Runtime = keyof typeof OPTIONS

export const runtimePool = (runtime: Runtime): PoolRunnerInitializer => ({
  name: runtime,
  createPoolWorker: options => new RuntimeWorker(runtime, options),
})

/** Vitest's own worker in a child process (its output, its end, what kills it when Vitest dies), on another runtime. */
class RuntimeWorker extends ForksPoolWorker {
  override readonly name: Runtime

  constructor(runtime: Runtime, options: PoolOptions) {
    super(options)
    this.name = runtime
  }

  override start() {
    const { name, env } = this
    const child = spawn(`${PROGRAMS}/${name}`, [...OPTIONS[name], ENTRY], {
      env,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    // The base class forks Node unless it has a process. Vitest has no option for the program.
    Object.assign(this, { _fork: child })
    return super.start()
  }

  override send(message: WorkerRequest) {
    super.send(encodeMessage(message) as never)
  }

  override deserialize(message: unknown) {
    return decodeMessage(message as string)
  }
}
