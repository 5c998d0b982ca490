// A small load generator, for machines without wrk: so many connections, each with one request at a time, for so long.
import { Agent, get } from 'node:http'
import type { Generated } from './load.ts'

const { url, seconds, connections, headers } = JSON.parse(process.argv[2]!)
const agent = new Agent({ keepAlive: true, maxSockets: connections })
const start = performance.now()
const deadline = start + seconds * 1000
let requests = 0
let refused = 0

const request = () =>
  new Promise<number>((resolve, reject) => {
    const asked = get(url, { agent, headers }, response => {
      response.on('end', () => resolve(response.statusCode ?? 0)).on('error', reject)
      response.resume()
    })
    asked.on('error', reject)
  })

async function connection(): Promise<void> {
  while (performance.now() < deadline) {
    const status = await request().catch(() => 0)
    requests++
    if (status < 200 || status > 399) refused++
  }
}

await Promise.all(Array.from({ length: connections }, connection))
const generated: Generated = { requests, seconds: (performance.now() - start) / 1000, refused }
console.log(JSON.stringify(generated))
agent.destroy()
