// The process that runs tests for mutants. It keeps the modules that no mutant changed.
import type { EvaluatedModules, ModuleRunner } from 'vite/module-runner'
import { init, runBaseTests, setupEnvironment } from 'vitest/worker'

declare global {
  var reached: ((scope: string) => void) | undefined
}

let modules: EvaluatedModules | undefined
const scopes = new Set<string>()
globalThis.reached = scope => void scopes.add(scope)

/** Modules that import a changed one hold on to what it exported. */
function forget(file: string): void {
  const ids = [...(modules?.getModulesByFile(file) ?? [])].map(({ id }) => id)
  const seen = new Set<string>()
  while (ids.length > 0) {
    const id = ids.pop()!
    const module = modules!.getModuleById(id)
    if (!module || seen.has(id)) continue
    seen.add(id)
    modules!.invalidateModule(module)
    ids.push(...module.importers)
  }
}

const send = process.send!.bind(process)
init({
  post: message => void send(message),
  on: callback => void process.on('message', callback),
  off: callback => void process.off('message', callback),
  setup: setupEnvironment,
  onModuleRunner: (runner: ModuleRunner) => {
    modules = runner.evaluatedModules
  },
  collectTests: (state, traces) => runBaseTests('collect', state, traces),
  runTests: async (state, traces) => {
    scopes.clear()
    for (const file of (state.ctx as { invalidates?: string[] }).invalidates ?? []) forget(file)
    await runBaseTests('run', state, traces)
    send({ isTally: true, reached: [...scopes], heap: process.memoryUsage().heapUsed })
  },
})
process.on('disconnect', () => process.exit(1))
