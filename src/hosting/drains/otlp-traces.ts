// Writes stored runs as spans of OTLP (pure). A run that came as a span has the same ids again.
import { otlpAttributes, signalUrl } from '../../protocol/drain-encoding.ts'
import type { Attributes } from '../../protocol/drain-records.ts'
import type { DetailColumn, StoredRun } from '../../tracing/store/queries.ts'

export const SPAN_COLUMNS = [
  'end_time',
  'error',
  'tags',
  'thread_id',
  'inputs',
  'outputs',
  'total_tokens',
  'prompt_tokens',
  'completion_tokens',
  'total_cost',
] as const satisfies DetailColumn[]

/** A receiver limits attributes, and a long payload is an object of the store. */
const MAX_ATTRIBUTE = 32 * 1024
const [INTERNAL, CLIENT] = [1, 3]
const [OK, ERROR] = [1, 2]

/** Ids of OpenTelemetry are the end of a UUID where they were shorter: see ingest/otlp/ids.ts. */
const hexOf = (uuid: string): string => uuid.replaceAll('-', '')
const spanIdOf = (run: string): string => hexOf(run).slice(-16)

const nanoseconds = (time: string): string => {
  const micros = /\.\d{3}(\d{3})Z$/.exec(time)?.[1] ?? '000'
  return `${Date.parse(time)}${micros}000`
}

const textOf = (text: string | null | undefined): string | undefined => text?.slice(0, MAX_ATTRIBUTE).toWellFormed()
const numberOf = (text: string | null | undefined): number | undefined => (text == null ? undefined : Number(text))

function attributesOf(run: StoredRun, service: string): Attributes {
  const known: Record<string, string | number | undefined> = {
    'slipway.project': service,
    'slipway.run_id': run.id,
    'slipway.run_type': run.run_type,
    'session.id': run.thread_id ?? undefined,
    'gen_ai.usage.input_tokens': numberOf(run.prompt_tokens),
    'gen_ai.usage.output_tokens': numberOf(run.completion_tokens),
    'slipway.total_cost': numberOf(run.total_cost),
    'input.value': textOf(run.inputs),
    'output.value': textOf(run.outputs),
  }
  return Object.fromEntries(
    Object.entries(known).filter(([, value]) => value !== undefined && value !== ''),
  ) as Attributes
}

function toSpan(run: StoredRun, project: string) {
  const start = run.start_time ?? run.order_time
  const isError = run.error != null
  return {
    traceId: hexOf(run.trace_id),
    spanId: spanIdOf(run.id),
    ...(run.parent_run_id !== null && { parentSpanId: spanIdOf(run.parent_run_id) }),
    name: run.name,
    kind: run.run_type === 'llm' ? CLIENT : INTERNAL,
    startTimeUnixNano: nanoseconds(start),
    endTimeUnixNano: nanoseconds(run.end_time ?? start),
    attributes: otlpAttributes(attributesOf(run, project)),
    status: isError ? { code: ERROR, message: textOf(run.error)?.slice(0, 1000) } : { code: OK },
  }
}

type Named = { run: StoredRun; project: string }

export const encodeSpans = (url: string, workspace: string, runs: Named[]) => ({
  url: signalUrl(url, 'traces'),
  contentType: 'application/json',
  body: JSON.stringify({
    resourceSpans: [...Map.groupBy(runs, ({ project }) => project)].map(([project, own]) => ({
      resource: { attributes: otlpAttributes({ 'service.name': project, 'slipway.workspace_id': workspace }) },
      scopeSpans: [{ scope: { name: 'slipway' }, spans: own.map(({ run }) => toSpan(run, project)) }],
    })),
  }),
})

/** A line for each run, for receivers of JSON. */
export const encodeRunLines = (url: string, workspace: string, runs: Named[]) => ({
  url,
  contentType: 'application/x-ndjson',
  body: runs
    .map(({ run, project }) => {
      const span = {
        trace_id: hexOf(run.trace_id),
        span_id: spanIdOf(run.id),
        name: run.name,
        error: run.error ?? null,
      }
      const times = { time: run.start_time ?? run.order_time, end_time: run.end_time ?? null }
      const resource = { 'service.name': project, 'slipway.workspace_id': workspace }
      const attributes = attributesOf(run, project)
      return `${JSON.stringify({ ...times, signal: 'traces', resource, ...span, attributes })}\n`
    })
    .join(''),
})
