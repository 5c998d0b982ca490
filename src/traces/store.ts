// What the trace store takes and answers. Postgres is the default, ClickHouse the second implementation.

export const RUN_TYPES = ['tool', 'chain', 'llm', 'retriever', 'embedding', 'prompt', 'parser'] as const
export type RunType = (typeof RUN_TYPES)[number]

export type Attachment = { name: string; type: string; bytes: Uint8Array<ArrayBuffer> }

/**
 * A post or a patch of one run. An absent member is undefined. Members that hold JSON are texts as the client sent them,
 * so numbers keep all their digits.
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
