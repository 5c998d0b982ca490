// Vitest in one process that stays for all mutants: Postgres, the transformed files and the modules are kept.
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { createVitest, type PoolOptions, type PoolWorker } from 'vitest/node'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const path = (name: string) => `${ROOT}${name}`
/** Modules that old mutants leave behind fill the memory. */
const MAX_HEAP = 1_200 * 1024 * 1024

export type TestRun = { isPassed: boolean; isTimeout: boolean; ms: number; reached: string[] }
type Tally = { isTally: true; reached: string[]; heap: number }
type Message = { type?: string; isTally?: true }

let child: ChildProcess | undefined
let tally: Tally | undefined

/** Vitest ends its worker after each run. This one keeps running, and only confirms that it has started or stopped. */
class WarmWorker implements PoolWorker {
  readonly name = 'warm'
  readonly #options: PoolOptions
  readonly #listeners: [event: string, listener: (...args: unknown[]) => void][] = []
  #isNew = false

  constructor(options: PoolOptions) {
    this.#options = options
  }

  async start() {
    this.#isNew = child === undefined
    if (child) return
    const { env, execArgv } = this.#options
    child = fork(path('test/proof/mutants/worker.ts'), [], {
      env: env as NodeJS.ProcessEnv,
      execArgv,
      serialization: 'advanced',
    })
    const started = child
    child.on('message', (message: Message) => {
      if (message?.isTally) tally = message as Tally
    })
    child.once('exit', () => {
      if (child === started) child = undefined
    })
  }

  send(message: Message) {
    if (message.type === 'start' && !this.#isNew) this.#answer('started')
    else if (message.type === 'stop') this.#answer('stopped')
    else if (child?.connected) child.send(message)
  }

  #answer(type: string) {
    setImmediate(() => {
      for (const [event, listener] of this.#listeners)
        if (event === 'message') listener({ type, __vitest_worker_response__: true })
    })
  }

  on(event: string, listener: (...args: unknown[]) => void) {
    this.#listeners.push([event, listener])
    child?.on(event, listener)
  }

  off(event: string, listener: (...args: unknown[]) => void) {
    child?.off(event, listener)
  }

  async stop() {
    for (const [event, listener] of this.#listeners) child?.off(event, listener)
  }

  deserialize(data: unknown) {
    return (data as Message | undefined)?.isTally ? {} : data
  }
}

export type WarmVitest = Awaited<ReturnType<typeof startVitest>>

export async function startVitest() {
  const sources = new Map<string, string>()
  const changed = new Set<string>()
  const vitest = await createVitest(
    'test',
    {
      root: ROOT,
      config: false,
      watch: false,
      bail: 1,
      reporters: [{}],
      silent: true,
      isolate: false,
      // It knows a module by the stored text of its file.
      fsModuleCache: false,
      fileParallelism: false,
      maxWorkers: 1,
      include: ['test/**/*.test.ts'],
      globalSetup: [path('test/support/setup.ts')],
      setupFiles: [path('test/support/reset-files.ts')],
      provide: { fuzz: { seed: 1, requests: 1000 } },
      testTimeout: 30_000,
      hookTimeout: 60_000,
      expect: { poll: { timeout: 15_000 } },
      server: { deps: { inline: ['drizzle-orm'] } },
      pool: { name: 'warm', createPoolWorker: (options: PoolOptions) => new WarmWorker(options) },
    },
    {
      resolve: { alias: { '#runtime': path('test/support/server-runtime.ts') } },
      plugins: [{ name: 'mutants', enforce: 'pre', load: id => sources.get(id) }],
    },
  )
  await vitest.standalone?.()

  async function run(test: string, limitMs: number): Promise<TestRun> {
    for (const file of changed) {
      vitest.invalidateFile(file)
      vitest.watcher.invalidates.add(file)
    }
    changed.clear()
    vitest.state.filesMap.clear()
    vitest.state.idMap.clear()
    tally = undefined
    let isTimeout = false
    const timer = setTimeout(() => {
      isTimeout = true
      child?.kill('SIGKILL')
    }, limitMs)
    const started = performance.now()
    const project = vitest.getRootProject()
    const { testModules, unhandledErrors } = await vitest.runTestSpecifications([
      project.createSpecification(path(`${test}.test.ts`)),
    ])
    clearTimeout(timer)
    const isPassed = unhandledErrors.length === 0 && testModules.length > 0 && testModules.every(module => module.ok())
    const { reached = [], heap = 0 } = (tally as Tally | undefined) ?? {}
    if (heap > MAX_HEAP) restart()
    return { isPassed, isTimeout, ms: performance.now() - started, reached }
  }

  /** The next test gets a process without anything of an earlier one. */
  function restart() {
    child?.kill('SIGKILL')
    child = undefined
  }

  return {
    run,
    restart,
    /** Replaces a file for the tests that follow. Without text, the file is as it is stored. */
    replace(file: string, text?: string) {
      if (text === undefined) sources.delete(path(file))
      else sources.set(path(file), text)
      changed.add(path(file))
    },
    close: async () => {
      restart()
      await vitest.close()
    },
  }
}
