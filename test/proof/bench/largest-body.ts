// P24: what the largest bodies of runs cost a Node instance: memory and CPU time of one, and memory of several at once.
import { gzipSync } from 'node:zlib'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { CPU_TIMES_MISSING, hasCpuTimes } from '../support/cpu.ts'
import { makeTenant } from '../support/database.ts'
import { startInstance } from '../support/instance.ts'
import { formatNumber } from '../support/statistics.ts'

const MIB = 1024 * 1024
const [PLAIN_BYTES, UNPACKED_BYTES, AT_ONCE] = [23.9 * MIB, 63.9 * MIB, 8]
const TARGET_MB = 1024
const BOUNDARY = 'bench'

type Body = { bytes: Uint8Array<ArrayBuffer>; encoding?: string }

/** One run with a part of this size. */
function multipart(unit: string, size: number): Uint8Array<ArrayBuffer> {
  const id = crypto.randomUUID()
  const now = new Date().toISOString()
  const order = `${now.replace(/[-:.]/g, '').replace('Z', '000Z')}${id}`
  const run = { id, trace_id: id, dotted_order: order, name: 'large', run_type: 'llm', start_time: now }
  const inputs = `{"all":[${unit.repeat(Math.floor((size - 2000) / unit.length))}0]}`
  const part = (name: string, json: string) =>
    [
      `--${BOUNDARY}`,
      `Content-Disposition: form-data; name="${name}"`,
      `Content-Type: application/json; length=${Buffer.byteLength(json)}`,
      '',
      json,
      '',
    ].join('\r\n')
  const text = `${part(`post.${id}`, JSON.stringify(run))}${part(`post.${id}.inputs`, inputs)}--${BOUNDARY}--\r\n`
  return Uint8Array.from(Buffer.from(text))
}
const packed = (unit: string): Body => ({
  bytes: Uint8Array.from(gzipSync(multipart(unit, UNPACKED_BYTES))),
  encoding: 'gzip',
})
const TEXT = `"${'words of a chat '.repeat(60)}",`
const BODIES: Record<string, () => Body> = {
  '24 MiB of text': () => ({ bytes: multipart(TEXT, PLAIN_BYTES) }),
  '24 MiB of brackets': () => ({ bytes: multipart('[],', PLAIN_BYTES) }),
  '64 MiB of text, gzip': () => packed(TEXT),
  '64 MiB of brackets, gzip': () => packed('[],'),
}

export default {
  id: 'P24',
  what: `a Node instance and the largest bodies: peak memory of one, of ${AT_ONCE} at once; most CPU of one`,
  target: `≤ ${TARGET_MB} MB`,
  async run(context: BenchContext) {
    if (!hasCpuTimes) return CPU_TIMES_MISSING
    const { url } = await context.database()
    const { api_key } = await makeTenant(url, { organization: 'Bench', workspace: 'Traces' })
    const figures: Record<string, object> = {}
    const notes: string[] = []
    let [peakOfOne, peakOfMany, mostCpu] = [0, 0, 0]
    for (const [name, make] of Object.entries(BODIES)) {
      context.progress(name)
      // A process of its own for each, because its peak is of its whole life.
      const instance = await startInstance(context, url)
      /** 0 where the connection ends with the answer, before all of the body was sent. */
      const send = async () => {
        const { bytes, encoding } = make()
        const headers = { 'X-Api-Key': api_key, 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` }
        const response = await fetch(`${instance.url}/runs/multipart`, {
          method: 'POST',
          headers: { ...headers, ...(encoding && { 'Content-Encoding': encoding }) },
          body: bytes,
        }).catch(() => undefined)
        await response?.arrayBuffer()
        return response?.status ?? 0
      }
      const idle = instance.memory().now
      const cpu = instance.cpuMs()
      const status = await send()
      const cpuMs = instance.cpuMs() - cpu
      const { peak } = instance.memory()
      const statuses = await Promise.all(Array.from({ length: AT_ONCE }, send))
      const { peak: peakTogether } = instance.memory()
      await instance.end()
      const taken = statuses.filter(one => one === 202).length
      figures[name] = { idle, peak, cpuMs, status, peakTogether, statuses }
      peakOfOne = Math.max(peakOfOne, peak)
      peakOfMany = Math.max(peakOfMany, peakTogether)
      mostCpu = Math.max(mostCpu, cpuMs)
      notes.push(
        `${name}: ${status}, ${Math.round(peak)} MB (idle ${Math.round(idle)}), ${Math.round(cpuMs)} ms of CPU; ` +
          `${AT_ONCE} at once: ${taken} taken, the others told to retry, ${Math.round(peakTogether)} MB`,
      )
    }
    return {
      measured: `${Math.round(peakOfOne)} MB, ${Math.round(peakOfMany)} MB; ${formatNumber(mostCpu / 1000, 1)} s`,
      met: Math.max(peakOfOne, peakOfMany) <= TARGET_MB,
      notes,
      figures,
    }
  },
} satisfies Bench
