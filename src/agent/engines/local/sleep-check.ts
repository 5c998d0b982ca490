// Asks an application whether it may sleep, by HTTP at each of its copies, and when it has to be awake again.
import { askCopy, type Copy, copiesAmong } from './copy-question.ts'
import type { Target } from './router.ts'

/** `wake_at`: null if only a request wakes it. `problem`: the reason why a copy did not say that it may. */
export type SleepAnswer = { may_sleep: true; wake_at: number | null } | { may_sleep: false; problem: string | null }

/** All copies must agree. The earliest time to wake counts. */
export async function askToSleep(targets: Target[], path: string, timeout: number): Promise<SleepAnswer> {
  const copies = copiesAmong(targets)
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
  const answer = await askCopy(copy, path, timeout, 'sleep')
  const problem = 'problem' in answer ? answer.problem : EXPECTED
  return (
    ('text' in answer ? readAnswer(answer.text) : undefined) ?? { may_sleep: false, problem: `GET ${path} ${problem}` }
  )
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
