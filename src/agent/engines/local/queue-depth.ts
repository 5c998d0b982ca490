// Asks an application for the number of tasks that wait in its queue, by HTTP at one of its copies.
import { askCopy, copiesAmong } from './copy-question.ts'
import type { Target } from './router.ts'

/** `problem`: null if there is nothing to ask, as while it sleeps. */
export type QueueAnswer = { depth: number } | { problem: string | null }

/** Each copy knows the whole queue, so the first one that answers is enough. */
export async function askQueueDepth(targets: Target[], path: string, timeout: number): Promise<QueueAnswer> {
  let problem: string | null = null
  for (const copy of copiesAmong(targets)) {
    const answer = await askCopy(copy, path, timeout, 'scale')
    const depth = 'text' in answer ? readDepth(answer.text) : undefined
    if (depth !== undefined) return { depth }
    problem ??= `GET ${path} ${'problem' in answer ? answer.problem : 'does not answer a number of 0 or more'}`
  }
  return { problem }
}

const NUMBER = /^\d{1,15}(\.\d{1,15})?$/

/** Undefined for another text. */
function readDepth(text: string): number | undefined {
  const trimmed = text.trim()
  return NUMBER.test(trimmed) ? Number(trimmed) : undefined
}
