// P28: the memory of a process on each runtime: after its first answer, at most in 20,000 lists, and after a rest. The
// same of Hono's hello, which is what the runtime itself takes.
import { setTimeout as delay } from 'node:timers/promises'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { CPU_TIMES_MISSING, hasCpuTimes } from '../support/cpu.ts'
import { fetchFirst, type Instance, launchHello, launchInstance, RUNTIME_NAMES, RUNTIMES } from '../support/instance.ts'
import { sendRequests } from '../support/load.ts'
import { type Memory, readMemory } from '../support/memory.ts'
import { runForOutput } from '../support/processes.ts'
import { formatNumber } from '../support/statistics.ts'
import { buildWorker, PROJECT_ROOT, serveWorkers, type WorkerDefinition } from '../support/workerd.ts'

const [REQUESTS, REST_SECONDS] = [20_000, 10]
/** The most of each, and what Node has after the lists. */
const [TARGET_MB, NODE_TARGET_MB] = [512, 260]

type Process = Pick<Instance, 'url' | 'broken'> & { memory(): Memory }
type Figures = { idle: Memory; loaded: Memory; rested: Memory }

export default {
  id: 'P28',
  what: `peak memory of a process in ${REQUESTS.toLocaleString('en')} lists: workerd; Node; Deno; Bun`,
  target: `≤ ${TARGET_MB} MB each; Node then ≤ ${NODE_TARGET_MB} MB`,
  async run(context: BenchContext) {
    if (!hasCpuTimes) return CPU_TIMES_MISSING
    await runForOutput(context, process.execPath, ['scripts/server-build.mjs'], { cwd: PROJECT_ROOT })
    const { url, api_key, bindings } = await context.fewDeployments()
    const { modules } = await context.worker()
    const hello = await buildWorker(context, 'test/proof/bench/workers/hello.ts')
    const kinds = {
      app: {
        path: '/v2/deployments',
        workerd: () => launchWorker(context, { modules, bindings: bindings() }),
        launch: (runtime: (typeof RUNTIMES)[number]) => launchInstance(context, url, runtime),
      },
      hello: {
        path: '/healthz',
        workerd: () => launchWorker(context, hello),
        launch: (runtime: (typeof RUNTIMES)[number]) => launchHello(context, runtime),
      },
    }
    const headers = { 'X-Api-Key': api_key }
    const load = { requests: REQUESTS, connections: 8, headers }
    const measured: { name: string; app: Figures; hello: Figures }[] = []
    const rests: Promise<unknown>[] = []
    // A process rests while the next one works.
    for (const runtime of ['workerd', ...RUNTIMES] as const) {
      const name = runtime === 'workerd' ? runtime : RUNTIME_NAMES[runtime]
      const figures: Record<string, Partial<Figures>> = { app: {}, hello: {} }
      for (const [kind, { path, workerd, launch }] of Object.entries(kinds)) {
        context.progress(`${name}, ${kind}`)
        const server: Process = await (runtime === 'workerd' ? workerd() : launch(runtime))
        await fetchFirst(server, path, headers)
        const own = figures[kind]!
        own.idle = server.memory()
        await sendRequests(context, { ...load, url: server.url + path })
        own.loaded = server.memory()
        rests.push(
          delay(REST_SECONDS * 1000).then(() => {
            own.rested = server.memory()
          }),
        )
      }
      measured.push({ name, ...(figures as { app: Figures; hello: Figures }) })
    }
    context.progress('resting')
    await Promise.all(rests)
    const megabytes = (value: number) => formatNumber(value, 0)
    const describe = ({ idle, loaded, rested }: Figures) =>
      `${megabytes(idle.now)} MB after its first answer (${megabytes(idle.own)} without files), ` +
      `peak ${megabytes(loaded.peak)}, then ${megabytes(rested.now)} (${megabytes(rested.own)})`
    return {
      measured: `${measured.map(({ app }) => megabytes(app.loaded.peak)).join('; ')} MB`,
      met: measured.every(
        ({ name, app: { loaded } }) =>
          loaded.peak <= TARGET_MB && (name !== RUNTIME_NAMES.node || loaded.now <= NODE_TARGET_MB),
      ),
      notes: [
        ...measured.flatMap(({ name, app, hello }) => [
          `${name}: ${describe(app)}`,
          `${name}, Hono’s hello: ${describe(hello)}`,
        ]),
        `at 8 connections; then: after ${REST_SECONDS} s without requests; workerd’s gateway is another process`,
      ],
      figures: Object.fromEntries(measured.map(({ name, ...figures }) => [name, figures])),
    }
  },
} satisfies Bench

async function launchWorker(context: BenchContext, worker: WorkerDefinition): Promise<Process> {
  const { urls, pid, broken } = await serveWorkers(context, { worker })
  return { url: urls.worker, memory: () => readMemory(pid), broken }
}
