// Asks an application whether it may sleep, by HTTP at each of its copies, and when it has to be awake again.
import * as http from 'node:http'
import { describeError } from '../../redaction/error-messages.ts'
import type { Target } from './router.ts'

type Copy = Extract<Target, { port: number }>

/** `wake_at`: null if only a request wakes it. `problem`: the reason why a copy did not say that it may. */
export type SleepAnswer = { may_sleep: true; wake_at: number | null } | { may_sleep: false; problem: string | null }

const MAX_BYTES = 16_384

/** All copies must agree. The earliest time to wake counts. */
export async function askToSleep(targets: Target[], path: string, timeout: number): Promise<SleepAnswer> {
  const copies = targets.filter(target => 'port' in target)
  if (copies.length === 0) return { may_sleep: false, problem: 'no copy can be asked' }
  const answers = await Promise.all(copies.map(copy => askOne(copy, path, timeout)))
  let wake_at: number | null = null
  for (const answer of answers) {
    if (!answer.may_sleep) return answer
    if (answer.wake_at !== null) wake_at = Math.min(answer.wake_at, wake_at ?? Number.POSITIVE_INFINITY)
  }
  return { may_sleep: true, wake_at }
}

async function askOne(copy: Copy, path: string, timeout: number): Promise<SleepAnswer> {
  const refuse = (problem: string): SleepAnswer => ({ may_sleep: false, problem: `GET ${path} ${problem}` })
  const signal = AbortSignal.timeout(timeout)
  try {
    const { status, text } = await get(copy, path, signal)
    return status === 200 ? (readAnswer(text) ?? refuse(EXPECTED)) : refuse(`answers ${status}`)
  } catch (error) {
    return refuse(signal.aborted ? `does not answer within ${timeout / 1000} s` : describeError(error))
  }
}

const EXPECTED = 'does not answer {"may_sleep": true or false, "wake_at": a time or null}'

/** Undefined for another text. */
function readAnswer(text: string): SleepAnswer | undefined {
  try {
    const { may_sleep, wake_at } = Object(JSON.parse(text))
    if (may_sleep === false) return { may_sleep, problem: null }
    if (may_sleep !== true) return undefined
    if (wake_at == null) return { may_sleep, wake_at: null }
    const at = typeof wake_at === 'string' ? Date.parse(wake_at) : Number.NaN
    return Number.isNaN(at) ? undefined : { may_sleep, wake_at: at }
  } catch {
    return undefined
  }
}

function get({ host, port }: Copy, path: string, signal: AbortSignal): Promise<{ status: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
  const headers = { 'User-Agent': 'slipway-sleep' }
  const request = http.get({ host, port, path, agent: false, signal, headers }, async answer => {
    try {
      let text = ''
      for await (const chunk of answer.setEncoding('utf8')) {
        text += chunk
        if (text.length > MAX_BYTES) throw new Error('answers more than 16 KB')
      }
      resolve({ status: answer.statusCode!, text })
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
