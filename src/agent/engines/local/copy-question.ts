// Asks a copy of an application by HTTP, at its own port, in the protocol that it speaks there.
import { once } from 'node:events'
import * as http from 'node:http'
import * as http2 from 'node:http2'
import type { Readable } from 'node:stream'
import { describeError } from '../../redaction/error-messages.ts'
import { originOf } from './copy-connections.ts'
import type { Target } from './router.ts'

export type Copy = Extract<Target, { port: number }>
export const copiesAmong = (targets: Target[]): Copy[] => targets.filter(target => 'port' in target)

const MAX_BYTES = 16_384

/** `problem`: the reason why there is no answer with the status 200, as the rest of a sentence. */
export async function askCopy(
  copy: Copy,
  path: string,
  timeout: number,
  about: string,
): Promise<{ text: string } | { problem: string }> {
  const signal = AbortSignal.timeout(timeout)
  try {
    const { status, text } = await (copy.h2c ? getByHttp2 : get)(copy, path, signal, about)
    return status === 200 ? { text } : { problem: `answers ${status}` }
  } catch (error) {
    return { problem: signal.aborted ? `does not answer within ${timeout / 1000} s` : describeError(error) }
  }
}

function get({ host, port }: Copy, path: string, signal: AbortSignal, about: string) {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
  const headers = { 'User-Agent': `slipway-${about}` }
  const request = http.get({ host, port, path, agent: false, signal, headers }, async answer => {
    try {
      resolve({ status: answer.statusCode!, text: await readText(answer) })
    } catch (error) {
      reject(error)
    } finally {
      answer.destroy()
    }
  })
  request.on('error', reject)
  // Without a listener, such an answer would settle nothing, and what waits for it would wait for ever.
  request.on('upgrade', (_, socket) => {
    socket.destroy()
    reject(new Error('changes the protocol'))
  })
  return promise
}

async function getByHttp2(copy: Copy, path: string, signal: AbortSignal, about: string) {
  const session = http2.connect(originOf(copy), { settings: { enablePush: false } })
  // The stream has it, too.
  session.on('error', () => {})
  try {
    const stream = session.request({ ':path': path, 'user-agent': `slipway-${about}` }, { signal })
    const [headers] = (await once(stream, 'response', { signal })) as [http2.IncomingHttpHeaders]
    return { status: Number(headers[':status']), text: await readText(stream) }
  } finally {
    session.destroy()
  }
}

async function readText(answer: Readable): Promise<string> {
  let text = ''
  for await (const chunk of answer.setEncoding('utf8')) {
    text += chunk
    if (text.length > MAX_BYTES) throw new Error('answers more than 16 KB')
  }
  return text
}
