// Runs as a client sends them: traces of five runs, each posted and patched.

import { createHost } from '../../../src/host/host.ts'
import { createSealer } from '../../../src/kernel/crypto/crypto.ts'
import { sha256Hex } from '../../../src/kernel/crypto/digest.ts'
import { type Ctx, createKeylessCaller } from '../../../src/kernel/http/context.ts'
import type { BootstrapResult } from '../../../src/people/access/bootstrap.ts'
import { createClock } from '../../../src/platform.ts'
import type { RunOperation } from '../../../src/tracing/store/store.ts'
import { newChild, newId, newRoot, patch, post } from '../../support/trace-operations.ts'
import { SETTINGS } from './database.ts'

const RUNS_PER_TRACE = 5

/** Operations of as many runs, each with about as many bytes of JSON. `idOf` chooses the id of each run. */
export function makeOperations(runs: number, bytes: number, idOf: (place: number) => string = newId): RunOperation[] {
  const started = Date.now()
  const text = (share: number) => `some "words" of a chat, `.repeat(Math.ceil(bytes / 24)).slice(0, bytes * share)
  const iso = (ms: number) => new Date(started + ms).toISOString()
  let root = newRoot(iso(0))
  return Array.from({ length: runs }, (_, i) => {
    const isRoot = i % RUNS_PER_TRACE === 0
    if (isRoot) root = newRoot(iso(i), idOf(i))
    const place = isRoot ? root : newChild(root, iso(i), idOf(i))
    const metadata = { thread_id: root.id, environment: 'production', revision_id: '1f0c' }
    return [
      post({
        ...place,
        session_name: 'bench',
        name: isRoot ? 'agent' : 'model',
        run_type: isRoot ? 'chain' : 'llm',
        start_time: iso(i),
        tags: ['bench'],
        extra: JSON.stringify({ metadata, runtime: { sdk: 'js' } }),
        inputs: JSON.stringify({ messages: [{ role: 'user', content: text(0.5) }] }),
      }),
      patch({
        ...place,
        session_name: 'bench',
        end_time: iso(i + 800),
        outputs: JSON.stringify({ content: text(0.4), usage_metadata: { input_tokens: 120, output_tokens: 40 } }),
      }),
    ]
  }).flat()
}

type Statements = { query: string; params: unknown[] }[]

type StoreOptions = {
  onTrip?: (statements: Statements) => void
  /** Its address. */
  clickHouse?: string
  settings?: Record<string, string>
  /** For runs that are kept between benches: it is the time then, so that none is past its retention. */
  madeAt?: number
}

/** A context of a key whose trips go to Postgres from this process. */
export function openTraceStore(
  url: string,
  tenant: BootstrapResult,
  { onTrip = () => {}, clickHouse, settings, madeAt }: StoreOptions = {},
) {
  const ahead = madeAt === undefined ? 0 : madeAt - Date.now()
  const { app, close } = createHost(
    { ...SETTINGS, ...settings, DATABASE_URL: url, ...(clickHouse && { TRACES_CLICKHOUSE_URL: clickHouse }) },
    { log: () => {}, clock: createClock(() => ahead) },
    { onTrip: ({ queries }) => onTrip(queries) },
  )
  const { config, platform, database, traces, logs, shareGroups } = app
  const services = { config, platform, database, sealer: createSealer(config.sealingKeys), traces, logs, shareGroups }
  const { organization_id, tenant_id, api_key } = tenant
  const keyless = { kind: 'cron', id: null, organization: organization_id, tenant: tenant_id } as const
  const caller = createKeylessCaller(services, keyless, 'bench', 'http://slipway.test')
  const ctx: Ctx = { ...caller, actor: { kind: 'key', hash: sha256Hex(api_key) }, permission: 'runs:create' }
  return { ctx, close }
}

type Ingestion = { connections: number; bytes: number; batch: number; seconds: number }

/** Runs a second. */
export async function measureIngestion(ctx: Ctx, { connections, bytes, batch, seconds }: Ingestion): Promise<number> {
  const start = performance.now()
  let stored = 0
  const work = async () => {
    while (performance.now() < start + seconds * 1000) {
      await ctx.traces.append(ctx, makeOperations(batch, bytes))
      stored += batch
    }
  }
  await Promise.all(Array.from({ length: connections }, work))
  return (stored * 1000) / (performance.now() - start)
}
