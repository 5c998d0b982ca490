// The interface of the trace store. Postgres is the default, ClickHouse the second implementation.
import type { SQL } from 'drizzle-orm'
import type { Ctx } from '../../kernel/http/context.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { FEEDBACK_SOURCES } from '../feedback/feedback.schema.ts'
import type { RUN_TYPES } from '../runs/runs.schema.ts'
import type { RunPage, RunQuery, StatsAnswer, StatsQuery, ThreadPage, ThreadQuery } from './queries.ts'

declare module '../../kernel/http/context.ts' {
  interface Ports {
    traces: TraceStore
  }
}

export interface TraceStore {
  /**
   * Stores all operations and all feedback, or refuses all of them. Missing projects are created by their name. Repeats
   * change nothing, and the order of a post and its patches does not matter. `spans` are those that the runs were made
   * of: as soon as all ancestors of a span are known, its run is below them.
   */
  append(ctx: Ctx, operations: RunOperation[], feedback?: NewFeedback[], spans?: SpanPlace[]): Promise<void>
  query(ctx: Ctx, query: RunQuery): Promise<RunPage>
  /** Adds up all runs of the selection. Refuses a query, with advice, that would take longer than a request may. */
  stats(ctx: Ctx, query: StatsQuery): Promise<StatsAnswer>
  listThreads(ctx: Ctx, query: ThreadQuery): Promise<ThreadPage>
  /** The most frequent values of each key in the metadata of a project's latest runs. Null if there is no project. */
  listMetadata(ctx: Ctx, query: MetadataQuery): Promise<Record<string, string[]> | null>
  /**
   * A relation for statements of Postgres that has the runs with these ids: their tenant_id, session_id, id, trace_id,
   * start_time and name.
   */
  findRuns(ctx: Ctx, ids: string[]): Promise<SQL>
  /** A condition of statements of Postgres: the project has a trace of the thread. */
  findThread(ctx: Ctx, project: string, thread: string): Promise<SQL>
  /** A relation for statements of Postgres, with the columns of `session_minutes`. */
  countRuns(ctx: Ctx, query: CountQuery): Promise<SQL>
  /** Makes traces long-lived, also those whose runs are yet to come. */
  upgrade(ctx: Ctx, traceIds: string[]): Promise<void>
  /** Returns the traces that existed, and journals them. Their feedback, links and places in queues are deleted too. */
  remove(ctx: Ctx, traceIds: string[], project?: string): Promise<string[]>
  /** The scheduled work: deletes expired rows, and makes partitions. */
  expire(services: Services): Promise<void>
  /** The scheduled work: feedback and a run that were written at the same time do not see each other. */
  attachFeedback(services: Services): Promise<void>
}

/** Selects runs to count. Times of a minute may be given as that of its bin of `strideMs`, counted from `since`. */
export type CountQuery = {
  /** All projects of the workspace without. */
  projects?: string[] | undefined
  since?: string | undefined
  until?: string | undefined
  strideMs?: number | undefined
}

export type MetadataQuery = {
  session_id: string
  keys?: string[] | undefined
  since?: string | undefined
  roots_only: boolean
  values: number
}

export type RunType = (typeof RUN_TYPES)[number]

export type Attachment = { name: string; type: string; bytes: Uint8Array<ArrayBuffer> }

/** Creates a run, or sets members of one that is known already or comes later. */
export type RunOperation = RunPost | RunPatch
export type RunPost = RunMembers & { kind: 'post'; name: string; run_type: RunType }
export type RunPatch = RunMembers & { kind: 'patch'; name?: string | undefined; run_type?: RunType | undefined }

/** Members that hold JSON are texts as the client sent them, so numbers keep all their digits. */
type RunMembers = {
  id: string
  /** Both this and `dotted_order` or neither. A patch without them changes the run that has its id. */
  trace_id?: string | undefined
  dotted_order?: string | undefined
  parent_run_id?: string | undefined
  /** Wins over `session_name`. */
  session_id?: string | undefined
  /** A post without a project belongs to the project `default`, a patch to the project of its post. */
  session_name?: string | undefined
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
  /** The place in the request, for faults: `['body', 'post.<id>']`. */
  loc: (string | number)[]
}

/** Members of a run that hold JSON. The long ones are in the object store. */
export const PAYLOADS = ['extra', 'serialized', 'inputs', 'outputs', 'events'] as const
export type Payload = (typeof PAYLOADS)[number]
/** The characters of a text that its row still has. */
export const MAX_IN_ROW = 32 * 1024

/** The members that are stored apart from their row where they are long. */
export const LONG_MEMBERS = [...PAYLOADS, 'error'] as const
export type LongMember = (typeof LONG_MEMBERS)[number]

/** An object of the store, or base64 where there is no store. */
export type StoredObject = { bytes: number; type?: string } & ({ path: string } | { base64: string })
/** The column of a payload in it is empty text, and that of an error has its beginning, which filters compare. */
export type StoredObjects = { [Name in LongMember]?: StoredObject } & { attachments?: Record<string, StoredObject> }

/** The details that clients give in `usage_metadata`, and costs. */
export type UsageDetails = {
  input_token_details?: Record<string, number>
  output_token_details?: Record<string, number>
  input_cost_details?: Record<string, number>
  output_cost_details?: Record<string, number>
}

/** A span of OpenTelemetry, by ids of OpenTelemetry. It names its parent alone, which may come in another request. */
export type SpanPlace = {
  trace: string
  span: string
  parent: string | null
  run_id: string
  /** The start of the span. */
  order_time: string
  /** The order as far as this request knows it. */
  dotted_order: string
  /** Spans without a known parent hang under it. */
  is_root: boolean
  /** The client has placed the run itself. */
  is_fixed: boolean
  /** Known to a store that places the run before it registers the span. */
  session_id?: string
}

export type FeedbackConfig = {
  type: 'continuous' | 'categorical' | 'freeform'
  min?: number | null | undefined
  max?: number | null | undefined
  categories?: { value: number; label?: string | null | undefined }[] | null | undefined
}

/** Feedback on a run, or on a whole project without `run_id`. `NewFeedbackBody` makes it of a client's JSON. */
export type NewFeedback = {
  id: string
  run_id?: string | undefined
  /** The trace of the run. Without it, the run is looked up. */
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
  /** The config of the key from now on, if it has none. */
  config?: FeedbackConfig | undefined
  created_at?: string | undefined
  modified_at?: string | undefined
}
