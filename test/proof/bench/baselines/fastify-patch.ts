// A patch as a Node team would write it: Fastify and node-postgres, with a transaction of eight statements, each a
// round trip. It checks the same body, seals the same value and writes the same rows as ours.
import { createCipheriv, createHash, randomBytes, randomUUID } from 'node:crypto'
import Fastify from 'fastify'
import pg from 'pg'
import { deploymentToWire } from '../../../../src/hosting/deployments/rows.ts'
import { DeploymentPatch, DeploymentRef } from '../../../../src/hosting/deployments/schema.ts'

const { port, url, sealingKey } = JSON.parse(process.argv[2]!)
// Like Drizzle, leave times as Postgres writes them.
pg.types.setTypeParser(pg.types.builtins.TIMESTAMPTZ, text => text)
const pool = new pg.Pool({ connectionString: url, max: 10 })
const app = Fastify()

const SELECT_KEY = `select k.id, k.organization_id, k.tenant_id, r.permissions, w.require_if_match
  from api_keys k join roles r on r.id = k.role_id join workspaces w on w.id = k.tenant_id
  where k.key_hash = $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())`
const LOCK_DEPLOYMENT = 'select * from deployments where id = $1 and tenant_id = $2 for update'
const INSERT_SECRETS = `
  insert into deployment_secrets (organization_id, tenant_id, deployment_id, name, version, sealed)
  select $1, $2, $3, s.name, $4, s.sealed
  from jsonb_to_recordset($5) s(name text, sealed text)`
const INSERT_REVISION = `
  with superseded as (update revisions set status = 'SKIPPED', updated_at = now() where id = $9)
  insert into revisions (id, organization_id, tenant_id, deployment_id, number, source, source_config,
    source_revision_config, secrets, status, reasons, actor_kind, actor_id)
  select $1, organization_id, tenant_id, id, $3, source, source_config,
    source_revision_config, $4, $5, $6, 'key', $7
  from deployments
  where id = $2 and tenant_id = $8`
const UPDATE_DEPLOYMENT = `
  update deployments set secrets = $3, revisions = $4, latest_revision_id = $5,
    in_flight_revision_id = coalesce(in_flight_revision_id, $5),
    waiting_revision_id = case when in_flight_revision_id is not null then $5::uuid end,
    generation = generation + 1, remote_reconciled = false, version = version + 1, updated_at = now()
  where id = $1 and tenant_id = $2
  returning *`
const INSERT_EVENT = `
  with numbered as (
    insert into journals (scope_id, organization_id, seq) values ($2, $1, 1)
    on conflict (scope_id) do update set seq = journals.seq + 1
    returning seq)
  insert into events (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, request_id,
    data)
  select $2, seq, $1, $2, 'deployment.patched', $3, 'key', $4, $5, $6
  from numbered`

app.patch('/v2/deployments/:deployment_id', async (request, reply) => {
  const { deployment_id } = DeploymentRef.parse(request.params)
  const { secrets } = DeploymentPatch.parse(request.body)
  const hash = createHash('sha256').update(String(request.headers['x-api-key'])).digest('hex')
  const sealed = secrets!.map(({ name, value }) => ({ name, sealed: seal(value) }))
  const client = await pool.connect()
  try {
    await client.query('begin')
    const [key] = (await client.query(SELECT_KEY, [hash])).rows
    if (!key?.permissions.includes('deployments:update'))
      throw Object.assign(new Error('Forbidden'), { statusCode: 403 })
    const { organization_id: organization, tenant_id: tenant } = key
    const [row] = (await client.query(LOCK_DEPLOYMENT, [deployment_id, tenant])).rows
    if (!row) throw Object.assign(new Error('Not found'), { statusCode: 404 })
    if (row.deleting_at) throw Object.assign(new Error('Being deleted'), { statusCode: 409 })
    const [revision, number] = [randomUUID(), row.revisions + 1]
    const secretVersions = JSON.stringify(sealed.map(({ name }) => ({ name, version: number })))
    const status = row.in_flight_revision_id ? 'QUEUED' : 'AWAITING_DEPLOY'
    const superseded = row.waiting_revision_id
    await client.query(INSERT_SECRETS, [organization, tenant, deployment_id, number, JSON.stringify(sealed)])
    const values = [revision, deployment_id, number, secretVersions, status, ['secrets'], key.id, tenant, superseded]
    await client.query(INSERT_REVISION, values)
    const updated = await client.query(UPDATE_DEPLOYMENT, [deployment_id, tenant, secretVersions, number, revision])
    await client.query(INSERT_EVENT, [
      organization,
      tenant,
      deployment_id,
      key.id,
      request.id,
      { supplied: ['secrets'] },
    ])
    await client.query('commit')
    const { version: _, ...wire } = deploymentToWire(updated.rows[0]) as ReturnType<typeof deploymentToWire> & {
      version: never
    }
    reply.header('ETag', `"${updated.rows[0].version}"`)
    return wire
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
})
app.get('/healthz', async () => ({ status: 'ok' }))
await app.listen({ port, host: '127.0.0.1' })

function seal(value: string): string {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', Buffer.from(sealingKey, 'base64url'), iv)
  return Buffer.concat([iv, cipher.update(value), cipher.final(), cipher.getAuthTag()]).toString('base64url')
}
