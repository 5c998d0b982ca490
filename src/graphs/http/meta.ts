// Routes about the server itself.
import { HttpError } from '../errors.ts'
import type { Server } from '../server.ts'
import { askSleep } from '../sleep.ts'
import { makeDocument, renderDocument } from './openapi.ts'
import { type Route, route } from './route.ts'

const group = 'meta'
/** Needs no key for those who reach the copy itself. */
export const SLEEP_PATH = '/internal/sleep'

/** Figures in the text format of Prometheus. */
async function renderMetrics({ db, worker, waiters }: Server): Promise<string> {
  const [counts, [queue], [crons]] = await Promise.all([
    db.query(
      `select status, count(*)::int as count from graphs.runs where status in ('pending', 'running') group by 1`,
    ),
    db.query(
      `select coalesce(extract(epoch from now() - min(start_at)), 0)::float8 as seconds
      from graphs.runs
      where status = 'pending' and start_at <= now()`,
    ),
    db.query('select count(*)::int as count, min(next_run_date) as next from graphs.crons where enabled'),
  ])
  const countOf = (status: string) => counts.find(row => row.status === status)?.count ?? 0
  const figures: [name: string, help: string, value: number][] = [
    ['graphs_runs_pending', 'Runs that wait, also for a later start.', countOf('pending')],
    ['graphs_runs_running', 'Runs that are running, on all copies.', countOf('running')],
    ['graphs_runs_running_here', 'Runs that are running on this copy.', worker.activeCount],
    ['graphs_queue_oldest_seconds', 'The age of the oldest run that is due.', queue!.seconds],
    ['graphs_waiting_readers', 'Requests of this copy that wait for a run or a thread.', waiters.size],
    ['graphs_crons_enabled', 'Enabled crons.', crons!.count],
    ['graphs_process_resident_bytes', 'Memory of the server, without its executors.', process.memoryUsage.rss()],
  ]
  return figures
    .map(([name, help, value]) => `# HELP ${name} ${help}\n# TYPE ${name} gauge\n${name} ${value}\n`)
    .join('')
}

const respond = (body: string, type: string) => new Response(body, { headers: { 'Content-Type': type } })

export const createMetaRoutes = (all: () => Route[]): Route[] => [
  route({
    method: 'get',
    path: '/ok',
    access: null,
    group,
    summary: 'Whether the server can reach its database',
    async handle({ server }) {
      if (server.configuration.http?.disable_meta) return { ok: true }
      await server.db.query('select 1').catch(() => {
        throw new HttpError(503, 'The database does not answer.')
      })
      return { ok: true }
    },
  }),
  route({
    method: 'get',
    path: SLEEP_PATH,
    access: null,
    group,
    summary: 'Whether all copies may sleep, and when one has to be awake again',
    handle: ({ server }) => askSleep(server),
  }),
  route({
    method: 'get',
    path: '/info',
    access: null,
    group,
    summary: 'Versions, and what is served',
    handle: ({ server }) => ({
      version: server.version,
      flags: { assistants: true, crons: true, langsmith: isTracing(server), langsmith_tracing_replicas: false },
      metadata: { graphs: server.configuration.graphs.map(({ id, language }) => ({ id, language })) },
    }),
  }),
  route({
    method: 'get',
    path: '/metrics',
    access: null,
    group,
    summary: 'Figures for Prometheus',
    produces: 'text/plain',
    handle: async ({ server }) => respond(await renderMetrics(server), 'text/plain; version=0.0.4; charset=utf-8'),
  }),
  route({
    method: 'get',
    path: '/openapi.json',
    access: null,
    group,
    summary: 'The OpenAPI document',
    handle: ({ server }) => makeDocument(all(), server),
  }),
  route({
    method: 'get',
    path: '/docs',
    access: null,
    group,
    summary: 'This API as a page',
    produces: 'text/html',
    handle: ({ server }) => respond(renderDocument(all(), server), 'text/html; charset=utf-8'),
  }),
]

const isTracing = ({ environment }: Server) =>
  ['LANGSMITH_TRACING', 'LANGSMITH_TRACING_V2', 'LANGCHAIN_TRACING_V2'].some(name => environment[name] === 'true')
