// Posts and patches of runs for tests and trials, with their places in a trace.
import type { RunOperation } from '../../src/tracing/store/store.ts'

export const newId = (): string => crypto.randomUUID()

/** The segment of a run in a dotted order, from an ISO time. */
const segment = (time: string, id: string): string =>
  `${time.replace(/[-:]|\..*|Z/g, '')}${(/\.(\d+)/.exec(time)?.[1] ?? '').padEnd(6, '0')}Z${id}`

export type Place = { id: string; trace_id: string; dotted_order: string }
export const newRoot = (time: string, id = newId()): Place => ({ id, trace_id: id, dotted_order: segment(time, id) })
export const newChild = ({ trace_id, dotted_order }: Place, time: string, id = newId()): Place => ({
  id,
  trace_id,
  dotted_order: `${dotted_order}.${segment(time, id)}`,
})

export const post = (operation: Partial<RunOperation> & { id: string }): RunOperation => ({
  kind: 'post',
  name: 'step',
  run_type: 'chain',
  loc: ['body', `post.${operation.id}`],
  ...operation,
})
export const patch = (operation: Partial<RunOperation> & { id: string }): RunOperation => ({
  kind: 'patch',
  loc: ['body', `patch.${operation.id}`],
  ...operation,
})
