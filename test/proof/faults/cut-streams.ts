// R17: a stream of events that is cut at random places, also within an event, while others write.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { createHttpServer } from '../../../src/host/http-server.ts'
import { makeRandom } from '../support/random.ts'
import { makeClient } from '../support/retrying-client.ts'
import { openTestbed, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

const [WRITERS, MAX_BYTES_BETWEEN_CUTS, MAX_AHEAD] = [4, 6000, 100]

export default {
  id: 'R17',
  what: 'a stream of events, cut 1,000 times while 4 writers write',
  target: 'every event once, in order',
  async run(context: TrialContext) {
    const random = makeRandom(context.seed)
    const liveStreams = {
      seconds: 60,
      trips: 1e9,
      perKey: 100,
      lookMs: [5, 20] as [number, number],
      keyCheckMs: 15_000,
    }
    const testbed = await openTestbed(context, { overrides: { liveStreams } })
    const { api_key } = await testbed.tenant()
    const client = makeClient(testbed.app.fetch, api_key)
    const server = createHttpServer(testbed.app.fetch)
    context.defer(() => server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v2/events/stream`

    let isWriting = true
    const write = async (writer: number) => {
      const { body } = await client.send('POST', '/v2/tag-keys', { key: `writer-${writer}` })
      for (let i = 0; isWriting; i++) {
        // The reader is cut so often that it would never catch up with writers that do not wait.
        while (isWriting && i * WRITERS > seen.length + MAX_AHEAD) await delay(1)
        await client.send('PATCH', `/v2/tag-keys/${body.id}`, { key: `writer-${writer}-${i % 2}` }, { 'If-Match': '*' })
      }
    }
    const writing = Promise.all(Array.from({ length: WRITERS }, (_, i) => write(i)))

    const seen: number[] = []
    /** Returns whether the stream was cut. Without a limit, it reads until it has seen the event with that number. */
    async function follow(bytes: number, last = Infinity): Promise<void> {
      const aborter = new AbortController()
      const headers = { 'X-Api-Key': api_key, 'Last-Event-ID': String(seen.at(-1) ?? 0) }
      const response = await fetch(url, { headers, signal: aborter.signal })
      let text = ''
      const decoder = new TextDecoder()
      for await (const chunk of response.body!) {
        text += decoder.decode(chunk.subarray(0, bytes), { stream: true })
        bytes -= chunk.byteLength
        const blocks = text.split('\n\n')
        text = blocks.pop()!
        for (const block of blocks) {
          const id = /^id: (\d+)\nevent: message$/m.exec(block)?.[1]
          if (id) seen.push(Number(id))
        }
        if (bytes <= 0 || seen.at(-1)! >= last) break
      }
      aborter.abort()
    }

    const cuts = scaleCount(context, 1000)
    for (let cut = 1; cut <= cuts; cut++) {
      context.progress(`cut ${cut} of ${cuts}, ${seen.length} events`)
      await follow(1 + Math.floor(random() * MAX_BYTES_BETWEEN_CUTS))
    }
    isWriting = false
    await writing
    const { body } = await client.send('GET', '/v2/events?order=desc&limit=1')
    const newest = (body.resources as { number: number }[])[0]!.number
    if (seen.at(-1) !== newest) await follow(Infinity, newest)
    const isComplete = seen.length === newest && seen.every((number, i) => number === i + 1)
    return {
      measured: `${cuts} cuts: ${seen.length} of ${newest} events${isComplete ? ', in order' : ''}`,
      met: isComplete && newest > cuts,
      notes: [`answers of the writers: ${client.tally}`],
      figures: { cuts, events: newest, seen: seen.length },
    }
  },
} satisfies Trial
