// Merges the run operations of one request: one row for each run. `run-columns.ts` of each store merges that row into
// the stored one by the same rule.
import type { Fault } from '../../kernel/http/errors.ts'
import type { Attachment, Payload, RunOperation } from '../store/store.ts'
import { placeRoot, type RunPlace, readPlace } from './dotted-order.ts'
import { cleanText, firstTokenTime, previewOf, readMetadata, readUsage } from './run-contents.ts'

/**
 * The members that posts and patches set, each with its columns; the first column is not null once the member is set. A
 * patch wins over a post, whichever came first, and otherwise the later one wins. Positions are stored in
 * `runs.patched`, so new members are added at the end.
 */
export const MERGED_MEMBERS = [
  ['name'],
  ['run_type'],
  ['start_time'],
  ['end_time'],
  ['error'],
  ['tags'],
  ['reference_example_id'],
  ['extra', 'metadata', 'thread_id'],
  ['serialized'],
  ['inputs', 'inputs_preview'],
  ['outputs', 'outputs_preview'],
  ['events', 'first_token_time'],
  [
    'usage_details',
    'prompt_tokens',
    'completion_tokens',
    'total_tokens',
    'prompt_cost',
    'completion_cost',
    'total_cost',
  ],
] as const

type Column = (typeof MERGED_MEMBERS)[number][number]
type Values = { [Name in Column]?: Name extends Payload | 'start_time' | 'error' ? string | undefined : unknown }

/** A row of `runs`. One without a place is found by its id. One without a project stays in the project it has. */
export type MergedRun = Values & {
  id: string
  place: RunPlace | undefined
  session_id: string | undefined
  session_name: string | undefined
  /** A post among the operations creates the run. */
  is_posted: boolean
  patched: number
  attachments: Attachment[]
  loc: (string | number)[]
}

const DEFAULT_PROJECT = 'default'

/**
 * All faults at once. The runs are right only if there is none. Those that name no project stay without one where the
 * store gives them one: `isConfined`.
 */
export function mergeOperations(
  operations: RunOperation[],
  isConfined = false,
): { runs: MergedRun[]; faults: Fault[] } {
  const runs = new Map<string, MergedRun>()
  const faults: Fault[] = []
  for (const operation of operations) {
    const run = toRow(operation, faults)
    const earlier = runs.get(run.id)
    runs.set(run.id, earlier ? mergeRows(earlier, run, faults) : run)
  }
  for (const run of runs.values()) {
    if (run.is_posted && !run.place) placeWithoutOrder(run, faults)
    if (run.is_posted && !run.session_id && !isConfined) run.session_name ??= DEFAULT_PROJECT
  }
  // One order keeps two requests that write the same runs from a deadlock.
  return { runs: [...runs.values()].sort((a, b) => (a.id < b.id ? -1 : 1)), faults }
}

function toRow(operation: RunOperation, faults: Fault[]): MergedRun {
  const { kind, id, session_id, session_name, loc, dotted_order } = operation
  if ((operation.trace_id === undefined) !== (dotted_order === undefined)) {
    const [given, missing] = dotted_order ? ['dotted_order', 'trace_id'] : ['trace_id', 'dotted_order']
    faults.push({ type: 'custom', loc: [...loc, missing], msg: `is required with \`${given}\`` })
  }
  const values = readValues(operation)
  const patched = MERGED_MEMBERS.reduce(
    (mask, [first], bit) => (values[first] === undefined ? mask : mask | (1 << bit)),
    0,
  )
  return {
    ...values,
    id,
    place: dotted_order === undefined ? undefined : readPlace({ ...operation, dotted_order }, faults),
    session_id,
    session_name: session_id || !session_name ? undefined : cleanText(session_name) || undefined,
    is_posted: kind === 'post',
    patched: kind === 'patch' ? patched : 0,
    attachments: operation.attachments ?? [],
    loc,
  }
}

function readValues(operation: RunOperation): Values {
  const { name, run_type, start_time, end_time, error, tags, reference_example_id } = operation
  const { extra, serialized, inputs, outputs, events } = operation
  const { usage, columns } = readMetadata(extra)
  return {
    run_type,
    start_time,
    end_time,
    reference_example_id,
    extra,
    serialized,
    inputs,
    outputs,
    events,
    name: name && cleanText(name),
    error: error && cleanText(error),
    tags: tags?.map(cleanText),
    ...columns,
    inputs_preview: previewOf(inputs),
    outputs_preview: previewOf(outputs),
    first_token_time: firstTokenTime(events),
    ...readUsage(outputs, usage),
  }
}

function mergeRows(earlier: MergedRun, later: MergedRun, faults: Fault[]): MergedRun {
  const merged: MergedRun = { ...earlier, patched: earlier.patched | later.patched }
  for (const [bit, columns] of MERGED_MEMBERS.entries()) {
    const isKept = (earlier.patched & (1 << bit)) !== 0 && (later.patched & (1 << bit)) === 0
    if (later[columns[0]] === undefined || isKept) continue
    for (const column of columns) Object.assign(merged, { [column]: later[column] })
  }
  const attachments = new Map([...earlier.attachments, ...later.attachments].map(one => [one.name, one]))
  const refuse = (member: string) =>
    faults.push({
      type: 'custom',
      loc: [...later.loc, member],
      msg: 'differs from that of another operation on this run',
    })
  if (earlier.place && later.place && earlier.place.dotted_order !== later.place.dotted_order) refuse('dotted_order')
  if (earlier.session_id && later.session_id && earlier.session_id !== later.session_id) refuse('session_id')
  if (earlier.session_name && later.session_name && earlier.session_name !== later.session_name) refuse('session_name')
  return {
    ...merged,
    place: earlier.place ?? later.place,
    session_id: earlier.session_id ?? later.session_id,
    session_name: earlier.session_name ?? later.session_name,
    is_posted: earlier.is_posted || later.is_posted,
    attachments: [...attachments.values()],
  }
}

function placeWithoutOrder(run: MergedRun, faults: Fault[]): void {
  if (run.start_time !== undefined) run.place = placeRoot(run.id, run.start_time)
  else faults.push({ type: 'custom', loc: [...run.loc, 'start_time'], msg: 'is required without `dotted_order`' })
}
