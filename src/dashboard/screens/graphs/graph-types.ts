// Threads, runs and states of a graph in words, and the reading of what a person types (pure).
import type { State } from '../../format/state.ts'

export type Assistant = { assistant_id: string; graph_id: string; name: string; description?: string | null }
export type ThreadStatus = 'idle' | 'busy' | 'interrupted' | 'error'
export type Thread = {
  thread_id: string
  status: ThreadStatus
  metadata: Record<string, unknown>
  created_at: string
  updated_at: string
  error?: unknown
}
export type GraphRun = { run_id: string; assistant_id: string; status: string; created_at: string; updated_at: string }
export type Interrupt = { id?: string | null; value: unknown }
export type ThreadState = {
  values: unknown
  next: string[]
  tasks: { id: string; name: string; error?: unknown; interrupts?: Interrupt[] }[]
  metadata: Record<string, unknown> | null
  created_at: string | null
  checkpoint: { checkpoint_id: string } | null
}
/** The part of the answer, in JSON Schema, that forms read. */
export type GraphSchemas = { input_schema?: { properties?: Record<string, unknown> } | null }

/** An address may have anything, which must not become a part of a request. */
export const isThreadId = (text: string): boolean => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

const THREAD_STATES: Record<ThreadStatus, State> = {
  idle: { word: 'Idle', tone: 'idle', shape: 'ring' },
  busy: { word: 'Running', tone: 'busy', shape: 'arc' },
  interrupted: { word: 'Interrupted', tone: 'warn', shape: 'held' },
  error: { word: 'Failed', tone: 'bad', shape: 'octagon' },
}
export const THREAD_STATUSES = Object.keys(THREAD_STATES) as ThreadStatus[]

const RUN_STATES: Record<string, State> = {
  pending: { word: 'Queued', tone: 'busy', shape: 'queued' },
  running: { word: 'Running', tone: 'busy', shape: 'arc' },
  success: { word: 'Ended', tone: 'ok', shape: 'check' },
  error: { word: 'Failed', tone: 'bad', shape: 'octagon' },
  timeout: { word: 'Timed out', tone: 'bad', shape: 'octagon' },
  interrupted: { word: 'Cancelled', tone: 'idle', shape: 'minus' },
}
const UNKNOWN: State = { word: 'State unknown', tone: 'warn', shape: 'diamond' }

export const stateOfThread = ({ status }: Pick<Thread, 'status'>): State => THREAD_STATES[status] ?? UNKNOWN
export const stateOfRun = ({ status }: Pick<GraphRun, 'status'>): State => RUN_STATES[status] ?? UNKNOWN
export const isOpen = (run: Pick<GraphRun, 'status'>): boolean => stateOfRun(run).tone === 'busy'

export const listInterrupts = ({ tasks }: Pick<ThreadState, 'tasks'>): (Interrupt & { task: string })[] =>
  tasks.flatMap(({ name, interrupts = [] }) => interrupts.map(one => ({ ...one, task: name })))

/** JSON if it is JSON, and text otherwise. */
export function readAnswer(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** One answer for the only interrupt, and one for each by its id. */
export const toResume = (interrupts: Interrupt[], answers: string[]): unknown =>
  interrupts.length === 1
    ? readAnswer(answers[0] ?? '')
    : Object.fromEntries(interrupts.map(({ id }, i) => [String(id), readAnswer(answers[i] ?? '')]))

/** An unknown schema may have messages. */
export const takesMessages = (schemas: GraphSchemas | undefined): boolean => {
  const { properties } = schemas?.input_schema ?? {}
  return properties === undefined || 'messages' in properties
}
