// P12: the size of the built Worker, the parts of it, and how much of it is evaluated before the first answer.
import { gzipSync } from 'node:zlib'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { buildParts } from '../support/evaluated-code.ts'
import { formatNumber } from '../support/statistics.ts'

const TARGET_KB = 130
const LISTED_PACKAGES = 8

export default {
  id: 'P12',
  what: 'the built Worker, gzipped: all of it; what is evaluated before the first answer of a list',
  target: `argued; ≤ ${TARGET_KB} KB`,
  isCount: true,
  async run(context: BenchContext) {
    const { modules, inputs } = await context.worker()
    const all = Buffer.from(Object.values(modules).join('\n'))
    const packages = new Map<string, number>()
    for (const [file, { bytesInOutput }] of Object.entries(inputs)) {
      const name = findPackage(file)
      packages.set(name, (packages.get(name) ?? 0) + bytesInOutput)
    }
    const largest = [...packages].toSorted(([, a], [, b]) => b - a).slice(0, LISTED_PACKAGES)
    const part = ([name, bytes]: [string, number]) => `${name} ${formatNumber((100 * bytes) / all.length, 0)} %`
    context.progress('what is evaluated')
    const { bindings, tenant } = await context.database()
    const measureFirst = await buildParts(context)
    const headers = { 'X-Api-Key': tenant.api_key, 'X-Tenant-Id': tenant.tenant_id }
    const kilobytes = async (path: string) => (await measureFirst({ path, headers, env: bindings() })) / 1000
    const total = gzipSync(all).length / 1000
    const [list, health] = [await kilobytes('/v2/deployments'), await kilobytes('/healthz')]
    return {
      measured: `${formatNumber(total, 0)} KB; ${formatNumber(list, 0)} KB`,
      met: list <= TARGET_KB,
      notes: [
        `before the first answer of /healthz: ${formatNumber(health, 0)} KB`,
        `${formatNumber(all.length / 1000, 0)} KB minified, of which ${largest.map(part).join(', ')}`,
      ],
      figures: { gzip: total, list, health, minified: all.length / 1000, packages: Object.fromEntries(packages) },
    }
  },
} satisfies Bench

const findPackage = (file: string): string =>
  /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? /src(?:\/[\w-]+(?=\/))?/.exec(file)?.[0] ?? 'others'
