// Has the EventSource of a real browser follow the stream of events, while a proxy cuts it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeClient } from '../support/retrying-client.ts'
import { openTestbed } from '../support/testbed.ts'
import { check, findMissing, hasProgram, runTrial, skipped } from '../support/trial.ts'

const [CUTS, WRITES, BYTES_BETWEEN_CUTS, TIMEOUT_MS] = [8, 100, 4000, 180_000]

const browser = hasProgram('google-chrome') ? 'google-chrome' : 'chromium'

async function followStream(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const defer = (end: () => unknown) => cleanup.defer(async () => void (await end()))
  const testbed = await openTestbed({ defer, seed: 1, share: 1, progress: () => {} })
  const { api_key } = await testbed.tenant()
  const client = makeClient(testbed.app.fetch, api_key)

  let cuts = 0
  let resumed = 0
  const seen = Promise.withResolvers<number[]>()

  /** The page of the trial. EventSource sends no key, so the proxy adds it. */
  const PAGE = `<!doctype html><title>EventSource</title><script>
  const seen = []
  new EventSource('/stream?after=0').onmessage = ({ lastEventId }) => {
    seen.push(Number(lastEventId))
    if (seen.at(-1) >= ${WRITES + 2}) fetch('/seen', { method: 'POST', body: JSON.stringify(seen) })
  }
</script>`

  async function proxyStream(lastEventId: string | undefined, response: ServerResponse): Promise<void> {
    if (lastEventId !== undefined) resumed++
    const headers = { 'X-Api-Key': api_key, ...(lastEventId !== undefined && { 'Last-Event-ID': lastEventId }) }
    const stream = await testbed.app.fetch(new Request('http://slipway.test/v2/events/stream?after=0', { headers }))
    response.writeHead(stream.status, Object.fromEntries(stream.headers))
    let left = cuts < CUTS ? BYTES_BETWEEN_CUTS : Number.POSITIVE_INFINITY
    for await (const chunk of stream.body!) {
      await new Promise(flushed => response.write(chunk.subarray(0, left), flushed))
      left -= chunk.byteLength
      if (left > 0 && !response.destroyed) continue
      cuts++
      break
    }
    response.destroy()
  }

  const server = createServer(async (request, response) => {
    if (request.url?.startsWith('/stream')) return proxyStream(request.headers['last-event-id'] as string, response)
    if (request.method === 'POST') {
      let text = ''
      for await (const chunk of request) text += chunk
      seen.resolve(JSON.parse(text))
      return response.end()
    }
    response.setHeader('Content-Type', 'text/html').end(PAGE)
  })
  cleanup.defer(async () => {
    server.close()
    server.closeAllConnections()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')

  const profile = mkdtempSync(join(tmpdir(), 'slipway-event-source-'))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const flags = [
    '--headless=new',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-dev-shm-usage',
    `--user-data-dir=${profile}`,
  ]
  const child = spawn(browser, [...flags, url], { stdio: 'ignore' })
  defer(() => child.kill())

  const { body } = await client.send('POST', '/v2/tag-keys', { key: 'trial' })
  for (let i = 0; i < WRITES; i++)
    await client.send('PATCH', `/v2/tag-keys/${body.id}`, { key: `trial-${i % 2}` }, { 'If-Match': '*' })
  const timer = setTimeout(() => seen.reject(new Error('The browser did not see the last event in time.')), TIMEOUT_MS)
  const numbers = await seen.promise.finally(() => clearTimeout(timer))
  const isComplete = numbers.length === WRITES + 2 && numbers.every((number, i) => number === i + 1)
  const resumptions = `${cuts} cuts, resumed ${resumed} times by Last-Event-ID`
  const outcome = `EventSource of ${browser}: ${numbers.length} events, ${resumptions}`
  check(outcome, isComplete && resumed >= CUTS)
}

await runTrial(async () => {
  const missing = findMissing(browser)
  if (missing) skipped(`EventSource: ${missing}`)
  else await followStream()
})
