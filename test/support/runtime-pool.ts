// Runs files of tests, and with them the app, inside Deno or Bun: a pool of Vitest whose workers are processes of that
// runtime, so that `fetch`, streams, cryptography and compression are its own.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { PoolOptions, PoolRunnerInitializer, PoolWorker, WorkerRequest } from 'vitest/node'
import { decodeMessage, encodeMessage } from './runtime-messages.ts'

const atRoot = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))

const COMMANDS = {
  deno: ['run', '--allow-all', '--no-lock', '--node-modules-dir=manual'],
  bun: ['--no-install'],
}

/** Milliseconds until a worker that does not end is killed. */
const END_MS = 2_000

export const runtimePool = (runtime: keyof typeof COMMANDS): PoolRunnerInitializer => ({
  name: runtime,
  createPoolWorker: options => new RuntimeWorker(runtime, options),
})

class RuntimeWorker implements PoolWorker {
  readonly name: string
  /** Vitest stores transformed modules in files and sends their paths. */
  readonly cacheFs = true
  readonly #command: string[]
  readonly #options: PoolOptions
  #child: ChildProcess | undefined

  constructor(runtime: keyof typeof COMMANDS, options: PoolOptions) {
    this.name = runtime
    this.#command = [...COMMANDS[runtime], atRoot('test/support/runtime-worker.ts')]
    this.#options = options
  }

  async start() {
    const { env, project } = this.#options
    const { outputStream, errorStream } = project.vitest.logger
    const program = atRoot(`node_modules/.bin/${this.name}`)
    const child = spawn(program, this.#command, { env, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
    this.#child = child
    child.stdout!.pipe(outputStream, { end: false })
    child.stderr!.pipe(errorStream, { end: false })
    await once(child, 'spawn')
  }

  async stop() {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const killing = setTimeout(() => child.kill('SIGKILL'), END_MS)
    const closed = once(child, 'close')
    child.kill()
    await closed
    clearTimeout(killing)
  }

  send(message: WorkerRequest) {
    this.#child?.send(encodeMessage(message))
  }
  on(event: string, listener: (...args: unknown[]) => void) {
    this.#child?.on(event, listener)
  }
  off(event: string, listener: (...args: unknown[]) => void) {
    this.#child?.off(event, listener)
  }
  deserialize(message: unknown) {
    return decodeMessage(message as string)
  }
}
