// Two workspaces with journals: one of BENCH_EVENTS events and one of a thousand.
import type { BootstrapResult } from '../../../src/people/access/bootstrap.ts'
import { makeTenant } from './database.ts'
import { type DatasetOptions, openDataset } from './dataset.ts'
import type { Cleanup } from './processes.ts'
import { withClient } from './seeded-database.ts'

export const EVENTS = Number(process.env.BENCH_EVENTS || 1_000_000)
export const EVENTS_TEXT = EVENTS.toLocaleString('en')
export const FEW_EVENTS = 1000
const SUBJECTS = 2000
/** Events of one subject and of one type that each journal has, the type rarely. */
export const [SOME_SUBJECT, RARE_TYPE] = ['7', 'deployment.deleted']

export type SeededEvents = { url: string; large: BootstrapResult; small: BootstrapResult }

/** Every subject has its events throughout the journal. One type in 5,000 is rare. */
const INSERT_EVENTS = `
  insert into events
    (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data, changes)
  select $1, n, $2, $1,
    case when n % 5000 = 0 then '${RARE_TYPE}' else 'deployment.patched' end,
    md5((n % $4)::text)::uuid, 'key', md5(n::text), '{"generation": 7}',
    '[{"path": "source_config.replicas", "before": 1, "after": 2}]'
  from generate_series(2, $3) n`

export async function openEvents(cleanup: Cleanup, options: DatasetOptions): Promise<SeededEvents> {
  const { url, info } = await openDataset(
    cleanup,
    {
      name: 'events',
      what: `${EVENTS_TEXT} events`,
      size: { events: EVENTS },
      sources: ['test/proof/support/seeded-events.ts'],
      async make({ url }, progress) {
        progress('inserting')
        return { large: await fill(url, 'Large', EVENTS), small: await fill(url, 'Small', FEW_EVENTS) }
      },
    },
    options,
  )
  return { url, ...info }
}

async function fill(url: string, workspace: string, events: number): Promise<BootstrapResult> {
  const tenant = await makeTenant(url, { organization: 'Bench', workspace })
  await withClient(url, async client => {
    await client.query(INSERT_EVENTS, [tenant.tenant_id, tenant.organization_id, events, SUBJECTS])
    await client.query('update journals set seq = $2 where scope_id = $1', [tenant.tenant_id, events])
  })
  return tenant
}
