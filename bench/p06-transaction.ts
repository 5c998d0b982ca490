// P6: a patch in one trip against the same work as an ordinary transaction makes it, eight trips, over a network.
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { fixed, inTurn, median, p50, ratio } from './support/figures.ts'
import type { Bench, Lab } from './support/lab.ts'
import { farther } from './support/latency.ts'
import { asked, type SeededDatabase } from './support/seeded.ts'
import { serve } from './support/workerd.ts'

const ROUND_TRIP = 5
const SLICES = 7
const REQUESTS = 20
const TARGET = 5

export default {
  id: 'P6',
  what: `an 8-trip patch ÷ ours, p50 at a ${ROUND_TRIP} ms round trip`,
  target: `≥ ${TARGET}`,
  async run(lab: Lab) {
    const seeded = await lab.seeded()
    const { code } = await lab.worker()
    const distant = seeded.bindings(await farther(lab, seeded.gateway, ROUND_TRIP))
    const { urls } = await serve(lab, { slipway: { code, bindings: distant } })
    const { rows } = await asked(seeded.url, client =>
      client.query('select id from deployments where tenant_id = $1 and deleting_at is null limit 2', [
        seeded.tenant_id,
      ]),
    )
    const headers = { 'X-Api-Key': seeded.api_key, 'Content-Type': 'application/json' }
    let values = 0
    const patch = () => {
      const body = JSON.stringify({ secrets: [{ name: 'TOKEN', value: `value ${values++}` }] })
      return fetch(`${urls.slipway}/v2/deployments/${rows[0].id}`, { method: 'PATCH', headers, body })
    }
    const transact = await ordinary(lab, seeded, rows[1].id)
    const things = { slipway: () => p50(REQUESTS, patch), ordinary: () => p50(REQUESTS, transact) }
    lab.progress('warming up')
    for (const thing of Object.values(things)) await thing()
    const slices = await inTurn(SLICES, things, lab.progress)
    const figure = ratio(slices.ordinary, slices.slipway)
    return {
      measured: fixed(figure),
      met: figure >= TARGET,
      notes: [`ours takes ${fixed(median(slices.slipway), 1)} ms, theirs ${fixed(median(slices.ordinary), 1)} ms`],
      figures: { ratio: figure, p50: slices },
    }
  },
} satisfies Bench

/** A statement at a time, as it is written with a pool and a transaction; without a server before it. */
async function ordinary(lab: Lab, { url, tenant_id, organization_id }: SeededDatabase, id: string) {
  const { port } = new URL(await farther(lab, url, ROUND_TRIP))
  const client = new pg.Client(Object.assign(new URL(url), { port }).toString())
  await client.connect()
  lab.defer(() => client.end())
  return async () => {
    const revision = randomUUID()
    await client.query('begin')
    await client.query(
      'select k.*, r.permissions from api_keys k join roles r on r.id = k.role_id where k.tenant_id = $1',
      [tenant_id],
    )
    await client.query('select * from workspaces where id = $1', [tenant_id])
    const { rows } = await client.query('select * from deployments where id = $1 and tenant_id = $2 for update', [
      id,
      tenant_id,
    ])
    const number = rows[0].revisions + 1
    await client.query(
      `update deployments set revisions = $2, latest_revision_id = $3, version = version + 1, updated_at = now() where id = $1`,
      [id, number, revision],
    )
    await client.query(
      `insert into revisions (id, organization_id, tenant_id, deployment_id, number, source, source_config, source_revision_config,
        secrets, status, reasons, actor_kind) select $2, organization_id, tenant_id, id, $3, source, source_config,
        source_revision_config, secrets, 'QUEUED', '{secrets}', 'key' from deployments where id = $1`,
      [id, revision, number],
    )
    await client.query(
      `insert into events (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data)
        values ($1, $2, $3, $4, 'deployment.patched', $5, 'key', 'bench', '{}')`,
      [id, number, organization_id, tenant_id, id],
    )
    await client.query('commit')
    return new Response()
  }
}
