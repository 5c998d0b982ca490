// The time of `runs.wait` over a trivial graph. Prints a line of JSON.
import { Client } from '@langchain/langgraph-sdk'

const client = new Client({ apiUrl: process.argv[2] })
const RUNS = 200

async function measure(createThread) {
  const times = []
  for (let i = 0; i < RUNS; i++) {
    const thread = createThread ? (await client.threads.create()).thread_id : null
    const start = performance.now()
    await client.runs.wait(thread, 'trivial', { input: { value: 1 } })
    times.push(performance.now() - start)
  }
  times.sort((a, b) => a - b)
  const at = share => Number(times[Math.floor(RUNS * share)].toFixed(1))
  return { p50: at(0.5), p95: at(0.95) }
}
// The first runs compile.
await measure(false)
console.log(JSON.stringify({ stateless: await measure(false), thread: await measure(true) }))
