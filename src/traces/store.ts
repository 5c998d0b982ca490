// What the trace store takes and answers. Postgres is the default, ClickHouse the second implementation.
import type { FEEDBACK_SOURCES } from './feedback.schema.ts'

export const RUN_TYPES = ['tool', 'chain', 'llm', 'retriever', 'embedding', 'prompt', 'parser'] as const
export type RunType = (typeof RUN_TYPES)[number]

export type Attachment = { name: string; type: string; bytes: Uint8Array<ArrayBuffer> }

/**
 * A post or a patch of one run. An absent member is undefined. Members that hold JSON are texts as the client sent
 * them, so numbers keep all their digits.
 */
export type RunOperation = {
  kind: 'post' | 'patch'
  id: string
  /** With `dotted_order`: both or neither. */
  trace_id?: string | undefined
  dotted_order?: string | undefined
  parent_run_id?: string | undefined
  session_id?: string | undefined
  /** Without a session, the run belongs to the project `default`. */
  session_name?: string | undefined
  name?: string | undefined
  run_type?: RunType | undefined
  start_time?: string | undefined
  end_time?: string | undefined
  error?: string | undefined
  tags?: string[] | undefined
  reference_example_id?: string | undefined
  extra?: string | undefined
  serialized?: string | undefined
  inputs?: string | undefined
  outputs?: string | undefined
  events?: string | undefined
  attachments?: Attachment[] | undefined
  /** Where it stands in the request, for faults: `['body', 'post.<id>']`. */
  loc: (string | number)[]
}

export type FeedbackConfig = {
  type: 'continuous' | 'categorical' | 'freeform'
  min?: number | null | undefined
  max?: number | null | undefined
  categories?: { value: number; label?: string | null | undefined }[] | null | undefined
}

/** What is said of a run, or of a whole project without `run_id`. `NewFeedbackBody` makes it of a client's JSON. */
export type NewFeedback = {
  id: string
  run_id?: string | undefined
  /** Of the run. Without it, the run is looked up. */
  trace_id?: string | undefined
  session_id?: string | undefined
  start_time?: string | undefined
  key: string
  score?: number | undefined
  /** JSON texts, like `correction` and `source_metadata`. */
  value?: string | undefined
  /** `value` if it is a short text. */
  category?: string | undefined
  comment?: string | undefined
  correction?: string | undefined
  source_type: (typeof FEEDBACK_SOURCES)[number]
  source_metadata?: string | undefined
  feedback_group_id?: string | undefined
  comparative_experiment_id?: string | undefined
  is_error: boolean
  extends_retention: boolean
  /** What the key may say from now on, if nothing else was said before. */
  config?: FeedbackConfig | undefined
  created_at?: string | undefined
  modified_at?: string | undefined
}
