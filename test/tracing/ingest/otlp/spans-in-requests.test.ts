// Runs of spans whose ancestors come in other requests, on a real Postgres.
import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../../src/kernel/db/db.ts'
import { createKeylessCaller } from '../../../../src/kernel/http/context.ts'
import { toOperations } from '../../../../src/tracing/ingest/otlp/span-operations.ts'
import { newSpan, type Span } from '../../../../src/tracing/ingest/otlp/spans.ts'
import { getApp, getServices, newTenant, type Tenant, withClockAhead } from '../../../support/app.ts'
import * as fc from '../../../support/seeded-fast-check.ts'
import { storedRuns } from '../../../support/stored-runs.ts'

let tenant: Tenant
beforeEach(async () => {
  tenant = await newTenant()
})

const hex = (number: number, length: number) => number.toString(16).padStart(length, '0')
type Link = { parent: number | null; isMarked?: boolean; order?: string }
const NOW = BigInt(Date.now()) * 1_000_000n
/** Clocks differ, so some children begin before their parents. */
const spanOf = (trace: number, number: number, { parent, isMarked = false, order }: Link): Span => ({
  ...newSpan(),
  trace_id: `a${hex(trace, 31)}`,
  span_id: hex(number, 16),
  parent_span_id: parent === null ? '' : hex(parent, 16),
  name: `span ${number}`,
  start: NOW + BigInt((number * 37) % 50) * 1_000n,
  attributes: new Map<string, string | boolean>([
    ['langsmith.is_root', isMarked],
    ...(order ? [['langsmith.span.dotted_order', order] as [string, string]] : []),
  ]),
})

async function send(...spans: Span[]) {
  const actor = { kind: 'cron' as const, id: null, organization: tenant.organization_id, tenant: tenant.tenant_id }
  const caller = createKeylessCaller(getServices(), actor, 'spans', 'http://slipway.test')
  const { operations, spans: places } = toOperations([{ resource: new Map(), spans }], 'otlp')
  await caller.traces.append({ ...caller, permission: 'runs:create' }, operations, [], places)
}

type StoredRun = [id: string, trace_id: string, parent: string | null, order: string, trace_time: string]
async function readRuns(): Promise<StoredRun[]> {
  const [rows] = await runAsSystem(
    getApp().database,
    sql`select id, trace_id, parent_run_id, dotted_order,
        to_char(trace_time at time zone 'utc', 'YYYYMMDD"T"HH24MISSUS"Z"')
      from ${await storedRuns(tenant)} r where tenant_id = ${tenant.tenant_id} order by id`,
  )
  return rows as StoredRun[]
}

/** The runs that one request with all spans would store. */
function expectedRuns(spans: Span[]): StoredRun[] {
  const { operations } = toOperations([{ resource: new Map(), spans }], 'otlp')
  return operations
    .map(
      ({ id, trace_id, parent_run_id, dotted_order }): StoredRun => [
        ...([id, trace_id!, parent_run_id ?? null, dotted_order!] as const),
        dotted_order!.slice(0, 22),
      ],
    )
    .sort(([a], [b]) => (a < b ? -1 : 1))
}

const chain = [spanOf(1, 1, { parent: null }), spanOf(1, 2, { parent: 1 }), spanOf(1, 3, { parent: 2 })] as const
const [root, child, grandchild] = chain

describe('spans that come in several requests', () => {
  it.each([
    ['first to last', [root, child, grandchild]],
    ['last to first', [grandchild, child, root]],
    ['the middle last', [grandchild, root, child]],
    ['the middle first', [child, root, grandchild]],
  ])('stand where they would from one request: %s', async (_, spans) => {
    for (const span of spans) await send(span)
    expect(await readRuns()).toEqual(expectedRuns([...chain]))
    for (const span of spans) await send(span)
    expect(await readRuns()).toEqual(expectedRuns([...chain]))
  })

  it('stand there also when they come at once', async () => {
    const spans = Array.from({ length: 12 }, (_, i) => spanOf(1, i + 1, { parent: i === 0 ? null : i }))
    await Promise.all(spans.toReversed().map(span => send(span)))
    expect(await readRuns()).toEqual(expectedRuns(spans))
  })

  it('follow their trace to its tier', async () => {
    await send(grandchild, child)
    const actor = { kind: 'cron' as const, id: null, organization: tenant.organization_id, tenant: tenant.tenant_id }
    const caller = createKeylessCaller(getServices(), actor, 'spans', 'http://slipway.test')
    const marked = spanOf(1, 9, { parent: 8, isMarked: true })
    const below = spanOf(1, 10, { parent: 9 })
    await send(below)
    const [, id] = expectedRuns([marked])[0]!
    await caller.traces.upgrade({ ...caller, permission: 'projects:update' }, [id])
    await send(marked)
    await send(below)
    expect(await readRuns()).toEqual(expectedRuns([child, grandchild, marked, below]))
    const [tiers] = await runAsSystem(
      getApp().database,
      sql`
        select trace_tier, count(*)::integer
        from ${await storedRuns(tenant)} r
        where tenant_id = ${tenant.tenant_id}
        group by 1
        order by 1`,
    )
    expect(tiers).toEqual([
      ['longlived', '2'],
      ['shortlived', '2'],
    ])
  })

  it('are stored also where they are each other’s parents', async () => {
    const spans = [spanOf(1, 1, { parent: 2 }), spanOf(1, 2, { parent: 3 }), spanOf(1, 3, { parent: 1 })]
    for (const span of spans) await send(span)
    expect((await readRuns()).map(([, trace_id]) => trace_id)).toEqual(Array(3).fill(expectedRuns([root])[0]![0]))
  })

  it('are no longer followed after a day, and then hang under the root that they expect', async () => {
    const countSpans = async () => {
      const [rows] = await runAsSystem(
        getApp().database,
        sql`select count(*)::integer from otlp_spans where tenant_id = ${tenant.tenant_id}`,
      )
      return Number((rows as [string][])[0]![0])
    }
    await send(root, child)
    await getApp().housekeep()
    expect(await countSpans()).toBe(2)
    await withClockAhead(25 * 60 * 60_000, () => getApp().housekeep())
    expect(await countSpans()).toBe(0)
    await send(grandchild)
    const [id, trace_id, parent] = (await readRuns()).find(([id]) => id === expectedRuns([grandchild])[0]![0])!
    expect([trace_id, parent]).toEqual([expectedRuns([root])[0]![0], expectedRuns([root])[0]![0]])
    expect(id).not.toBe(trace_id)
  })

  const links = fc.array(
    fc.record({
      trace: fc.integer({ min: 1, max: 2 }),
      parent: fc.nat(9),
      isMarked: fc.nat(6).map(n => n === 0),
      at: fc.nat(3),
    }),
    { minLength: 2, maxLength: 10 },
  )
  it('stand there however they are spread over requests', async () => {
    await fc.assert(
      fc.asyncProperty(links, async list => {
        tenant = await newTenant()
        const spans = list.map(({ trace, parent, isMarked }, i) =>
          spanOf(trace, 100 * trace + i + 1, { parent: i < 2 ? null : 100 * trace + (parent % i) + 1, isMarked }),
        )
        if (new Set(list.slice(0, 2).map(({ trace }) => trace)).size < 2) return
        for (const at of [0, 1, 2, 3]) {
          const request = spans.filter((_, i) => list[i]!.at === at)
          if (request.length > 0) await send(...request)
        }
        expect(await readRuns()).toEqual(expectedRuns(spans))
      }),
      { numRuns: 60 },
    )
  })
})
