// P27: what a fresh process on Node, Deno and Bun costs until it has answered, above Hono's hello on the same runtime.
// Node runs the bundle. The caches that a runtime keeps of compiled files are warm, as from its second start on. P13 is
// the same on workerd.
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { CPU_TIMES_MISSING, hasCpuTimes } from '../support/cpu.ts'
import { fetchFirst, type Instance, launchHello, launchInstance, RUNTIME_NAMES, RUNTIMES } from '../support/instance.ts'
import { runForOutput } from '../support/processes.ts'
import { formatNumber, measureSlices, median, medianRatio } from '../support/statistics.ts'
import { PROJECT_ROOT } from '../support/workerd.ts'

const [TARGET_MS, TARGET_MB] = [450, 120]

/** Since the start of the process. */
type Start = { cpu: number; ms: number; megabytes: number }
/** After the first answer of /healthz, then of the list. */
type Slice = { hello: Start; health: Start; list: Start }

export default {
  id: 'P27',
  what: 'CPU of a fresh process to its first answer ÷ of Hono’s hello, /healthz and then a list: Node; Deno; Bun',
  target: `/healthz on Node after ≤ ${TARGET_MS} ms, with ≤ ${TARGET_MB} MB; the rest argued`,
  async run(context: BenchContext) {
    if (!hasCpuTimes) return CPU_TIMES_MISSING
    await runForOutput(context, process.execPath, ['scripts/server-build.mjs'], { cwd: PROJECT_ROOT })
    const { url, tenant } = await context.database()
    const who = { 'X-Api-Key': tenant.api_key, 'X-Tenant-Id': tenant.tenant_id }
    const measure = async (launch: () => Promise<Instance>, work: (read: ReadStart) => Promise<void>) => {
      const start = performance.now()
      const instance = await launch()
      await work(async (path, headers) => {
        await fetchFirst(instance, path, headers)
        return { cpu: instance.cpuMs(), ms: performance.now() - start, megabytes: instance.memory().now }
      })
      await instance.end()
    }
    const candidates = Object.fromEntries(
      RUNTIMES.map(runtime => [
        runtime,
        async () => {
          const slice: Partial<Slice> = {}
          await measure(
            () => launchHello(context, runtime),
            async read => {
              slice.hello = await read('/healthz')
            },
          )
          await measure(
            () => launchInstance(context, url, runtime),
            async read => {
              slice.health = await read('/healthz')
              slice.list = await read('/v2/deployments', who)
            },
          )
          return slice as Slice
        },
      ]),
    ) as Record<(typeof RUNTIMES)[number], () => Promise<Slice>>
    context.progress('filling the caches')
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(candidates, context.progress)
    const rows = RUNTIMES.map(runtime => {
      const values = (what: keyof Slice, figure: keyof Start) => slices[runtime].map(slice => slice[what][figure])
      const ratio = (what: keyof Slice) => formatNumber(medianRatio(values(what, 'cpu'), values('hello', 'cpu')), 1)
      const describe = (what: keyof Slice) => {
        const [cpu, ms, megabytes] = (['cpu', 'ms', 'megabytes'] as const).map(figure => median(values(what, figure)))
        return `${formatNumber(cpu!, 0)} ms of CPU, after ${formatNumber(ms!, 0)} ms, ${formatNumber(megabytes!, 0)} MB`
      }
      const note =
        `${RUNTIME_NAMES[runtime]}: hello ${describe('hello')}; /healthz ${describe('health')}; ` +
        `list ${describe('list')}`
      return { measured: `${ratio('health')}, ${ratio('list')}`, note }
    })
    const onNode = (figure: keyof Start) => median(slices.node.map(({ health }) => health[figure]))
    return {
      measured: rows.map(({ measured }) => measured).join('; '),
      met: onNode('ms') <= TARGET_MS && onNode('megabytes') <= TARGET_MB,
      notes: rows.map(({ note }) => note),
      figures: { slices },
    }
  },
} satisfies Bench

type ReadStart = (path: string, headers?: Record<string, string>) => Promise<Start>
