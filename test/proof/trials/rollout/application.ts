// An application whose revisions are good, or bad in one way, and clients that use it at a steady rate.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { requestRouter } from '../../../support/process-engine.ts'

/** `cold`: its first answers take longer, as those of each fresh copy do. */
export type Kind = { name: string; errors: number; factor: number; score: number }
export const GOOD: Kind = { name: 'good', errors: 0.005, factor: 1, score: 0.9 }
const [MEDIAN_MS, NOISE, COLD_ANSWERS, COLD_MS] = [40, 0.4, 15, 150]
/** The part of the answers that send a trace. */
const TRACED = 0.1

const CODE = `
const { createServer } = require('node:http')
const kind = require('./kind.json')
const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random())
let answers = 0
/** Sends a trace like a tracing client, which puts the revision into the metadata. */
function trace() {
  const { LANGSMITH_ENDPOINT: url, LANGSMITH_API_KEY: key, LANGCHAIN_REVISION_ID: revision_id } = process.env
  const now = new Date().toISOString()
  const run = { id: crypto.randomUUID(), name: 'answer', run_type: 'chain', start_time: now, end_time: now }
  const outputs = { answer: Math.random() < kind.score ? 'a good answer' : 'a wrong answer' }
  const body = JSON.stringify({ ...run, inputs: {}, outputs, extra: { metadata: { revision_id } } })
  const headers = { 'x-api-key': key, 'content-type': 'application/json' }
  fetch(url + '/runs', { method: 'POST', headers, body }).then(res => res.text(), () => {})
}
createServer((req, res) => {
  const ms = ${MEDIAN_MS} * Math.exp(${NOISE} * normal()) * kind.factor + (answers++ < ${COLD_ANSWERS} ? ${COLD_MS} : 0)
  setTimeout(() => {
    res.writeHead(Math.random() < kind.errors ? 500 : 200, { 'x-revision': kind.id })
    res.end(kind.name)
    if (Math.random() < ${TRACED}) trace()
  }, ms)
}).listen(process.env.PORT)
`

/** The folder of a revision. Each is another one, so that it is deployed. */
export function writeRevision(root: string, kind: Kind, id: string): string {
  const folder = join(root, `revision-${id}`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"scripts": {"start": "node server.js"}}')
  writeFileSync(join(folder, 'server.js'), CODE)
  writeFileSync(join(folder, 'kind.json'), JSON.stringify({ ...kind, id }))
  return folder
}

export type Seen = { sentAt: number; status: number; revision: string }

/** Sends so many requests a second until it is ended. */
export function startClients(url: string, rate: number) {
  const seen: Seen[] = []
  let isOn = true
  let failures = 0
  const running = (async () => {
    const start = performance.now()
    for (let sent = 0; isOn; await delay(5))
      for (const due = ((performance.now() - start) / 1000) * rate; sent < due; sent++) {
        const sentAt = Date.now()
        requestRouter(url).then(
          ({ status, headers }) => void seen.push({ sentAt, status, revision: String(headers['x-revision']) }),
          () => failures++,
        )
      }
  })()
  return {
    seen,
    /** The number of requests without an answer. */
    failures: () => failures,
    async end() {
      isOn = false
      await running
    },
  }
}
