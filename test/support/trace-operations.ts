// Posts and patches of runs for tests and trials, with their places in a trace.
import type { RunOperation, RunPatch, RunPost } from '../../src/tracing/store/store.ts'

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

/** JSON members are texts, as the store takes them. */
export type RunInput = Partial<Omit<RunPatch, 'kind'>> & { id: string }

export const post = ({ name = 'step', run_type = 'chain', ...operation }: RunInput): RunPost => ({
  kind: 'post',
  name,
  run_type,
  loc: ['body', `post.${operation.id}`],
  ...operation,
})
export const patch = (operation: RunInput): RunPatch => ({
  kind: 'patch',
  loc: ['body', `patch.${operation.id}`],
  ...operation,
})
export const toOperation = ({ kind = 'post', ...run }: RunInput & { kind?: RunOperation['kind'] }): RunOperation =>
  kind === 'post' ? post(run) : patch(run)
