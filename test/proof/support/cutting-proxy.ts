// A proxy before the gateway that cuts connections: after the gateway's answer, within it, or before anything is sent.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Cleanup } from './processes.ts'
import { makeRandom } from './random.ts'

export async function openCuttingProxy(cleanup: Cleanup, gateway: string) {
  /** `ambiguous` counts those of `answered` whose transaction was committed. */
  const cuts = { answered: 0, ambiguous: 0, unsent: 0 }
  let random: (() => number) | undefined

  async function relay(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const chance = random?.() ?? 1
    if (chance < 0.05) {
      cuts.unsent++
      return void response.destroy()
    }
    const headers = Object.entries(request.headers).filter(([name]) => !/^(host|connection|content-length)$/.test(name))
    const answer = await fetch(new URL(request.url!, gateway), {
      method: 'POST',
      headers: Object.fromEntries(headers) as Record<string, string>,
      body: Buffer.concat(chunks),
    })
    const text = Buffer.from(await answer.arrayBuffer())
    if (chance < 0.55) {
      cuts.answered++
      if (answer.status === 200) cuts.ambiguous++
      if (chance < 0.3) return void response.destroy()
      response.writeHead(answer.status, { 'content-type': 'application/json', 'content-length': text.length })
      response.write(text.subarray(0, text.length >> 1), () => response.destroy())
      return
    }
    response.writeHead(answer.status, { 'content-type': 'application/json', 'content-length': text.length }).end(text)
  }

  const server = createServer((request, response) => void relay(request, response).catch(() => response.destroy()))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  cleanup.defer(() => {
    server.close()
    server.closeAllConnections()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cuts,
    begin(seed: number) {
      random = makeRandom(seed)
    },
    end() {
      random = undefined
    },
  }
}
