// P12: the size of the built Worker, and the parts of it.
import { gzipSync } from 'node:zlib'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { formatNumber } from './support/statistics.ts'

const TARGET_KB = 150
const LISTED_PACKAGES = 5

export default {
  id: 'P12',
  what: 'size of the built Worker, gzipped',
  target: `≤ ${TARGET_KB} KB`,
  async run(context: BenchContext) {
    const { code, inputs } = await context.worker()
    const kilobytes = gzipSync(code).length / 1000
    const packages = new Map<string, number>()
    for (const [file, { bytesInOutput }] of Object.entries(inputs)) {
      const name = findPackage(file)
      packages.set(name, (packages.get(name) ?? 0) + bytesInOutput)
    }
    const largest = [...packages].toSorted(([, a], [, b]) => b - a).slice(0, LISTED_PACKAGES)
    const minified = Buffer.byteLength(code)
    const part = ([name, bytes]: [string, number]) => `${name} ${formatNumber((100 * bytes) / minified, 0)} %`
    return {
      measured: `${formatNumber(kilobytes, 1)} KB`,
      met: kilobytes <= TARGET_KB,
      notes: [`${formatNumber(minified / 1000, 0)} KB minified, of which ${largest.map(part).join(', ')}`],
      figures: { gzip: kilobytes, minified: minified / 1000, packages: Object.fromEntries(packages) },
    }
  },
} satisfies Bench

const findPackage = (file: string): string =>
  /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? /src(?:\/[\w-]+(?=\/))?/.exec(file)?.[0] ?? 'others'
