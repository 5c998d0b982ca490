// Asks an application for the number of tasks that wait in its queue, by HTTP at one of its copies.
import { askCopy, type Copy, copiesAmong } from './copy-question.ts'
import type { Target } from './router.ts'

/** `problem`: null if there is nothing to ask, as while it sleeps. */
export type QueueAnswer = { depth: number } | { problem: string | null }

/** Each copy knows the whole queue, so the first one that answers is enough. Takes no longer than `timeout`. */
export async function askQueueDepth(targets: Target[], path: string, timeout: number): Promise<QueueAnswer> {
  const [first, ...others] = copiesAmong(targets)
  if (!first) return { problem: null }
  const part = others.length > 0 ? timeout / 2 : timeout
  const answer = await askOne(first, path, part)
  if ('depth' in answer) return answer
  const later = others.map(async copy => {
    const other = await askOne(copy, path, part)
    return 'depth' in other ? other : Promise.reject(new Error(other.problem))
  })
  return Promise.any(later).catch(() => answer)
}

async function askOne(copy: Copy, path: string, timeout: number): Promise<{ depth: number } | { problem: string }> {
  const answer = await askCopy(copy, path, timeout, 'scale')
  const depth = 'text' in answer ? readDepth(answer.text) : undefined
  if (depth !== undefined) return { depth }
  return { problem: `GET ${path} ${'problem' in answer ? answer.problem : 'does not answer a number of 0 or more'}` }
}

const NUMBER = /^\d{1,15}(\.\d{1,15})?$/

/** Undefined for another text. */
function readDepth(text: string): number | undefined {
  const trimmed = text.trim()
  return NUMBER.test(trimmed) ? Number(trimmed) : undefined
}
