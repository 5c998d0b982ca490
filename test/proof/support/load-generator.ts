// A small load generator for machines without wrk: each connection sends one request at a time, for a time or
// until there were enough.
import { Agent, get } from 'node:http'
import type { LoadResult } from './load.ts'

const {
  url,
  seconds = Number.POSITIVE_INFINITY,
  requests = Number.POSITIVE_INFINITY,
  connections,
  headers,
} = JSON.parse(process.argv[2]!)
const agent = new Agent({ keepAlive: true, maxSockets: connections })
const start = performance.now()
const deadline = start + seconds * 1000
let requestCount = 0
let refusedCount = 0

const sendRequest = () =>
  new Promise<number>((resolve, reject) => {
    const request = get(url, { agent, headers }, response => {
      response.on('end', () => resolve(response.statusCode ?? 0)).on('error', reject)
      response.resume()
    })
    request.on('error', reject)
  })

async function runConnection(): Promise<void> {
  while (performance.now() < deadline && requestCount < requests) {
    requestCount++
    const status = await sendRequest().catch(() => 0)
    if (status < 200 || status > 399) refusedCount++
  }
}

await Promise.all(Array.from({ length: connections }, runConnection))
const loadResult: LoadResult = {
  requests: requestCount,
  seconds: (performance.now() - start) / 1000,
  refused: refusedCount,
}
console.log(JSON.stringify(loadResult))
agent.destroy()
